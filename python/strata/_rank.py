"""This process as a rank: everything that the package keeps while the process lives."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any, Callable, NoReturn

if TYPE_CHECKING:
    from strata._client import Client
    from strata.reporting import Reporter


@dataclass
class Hooks:
    """The interpreter's original hooks, before this package replaced them: those called when an
    exception ends a process or a thread, and sys.exit."""

    exception: Callable[[type[BaseException], BaseException, TracebackType | None], Any]
    thread_exception: Callable[[Any], Any]
    exit: Callable[[Any], NoReturn]


@dataclass
class Rank:
    """State of this process and its rank."""

    client: Client | None = None
    hooks: Hooks | None = None
    has_failed: bool = False
    exit_status: Any = None
    """The status of sys.exit. Training that goes on after it was caught takes it back."""
    before_finish: list[Callable[[], None]] = field(default_factory=list)
    after_finish: list[Callable[[], None]] = field(default_factory=list)
    """Called when the final weights are in the arena."""
    loop_of: str = ""
    """The name of what owns the script's loop, and cannot begin it at a later step."""
    thread_error: BaseException | None = None
    """The exception that ended the thread which had made the last step."""
    thread_steps: int = 0
    """The steps that had been made when it ended."""
    forked_from: int = 0
    """The process that has the client; 0: this one."""
    serves: bool = False
    """Whether this process serves a script's task to virtual time, and is no rank."""
    interruption: BaseException | None = None
    """The exception that a signal handler raised within a blocking call."""
    reporter: Reporter | None = None
    """None before a session has started."""
    kept: dict[str, Any] = field(default_factory=dict)
    """Objects that checkpoints keep as well (strata.torch.keep), by name."""
    on_keep: Callable[[str], None] = lambda name: None
    """Called with the name of what is kept from now on."""
    first_state: str = ""
    """The file with the optimizer's first state, which this rank removes; empty: none."""


process = Rank()
