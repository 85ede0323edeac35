"""How the job of a run directory has ended, as far as the directory or its coordinator reports
it."""

from __future__ import annotations

import json
import pathlib
import re
import subprocess
import time
from dataclasses import dataclass

from strata import errors, launching
from strata._run_directory import UsageError, open_file

ASK_TIMEOUT_S = 10
# Clocks of hosts may differ by so much.
SKEW_S = 60.0


@dataclass(frozen=True)
class State:
    """The state of a job."""

    name: str
    """finished, failed, cancelled, running (also where it waits) or unknown"""
    reason: str = ""
    """why it has failed, where that is known"""

    @property
    def ended(self) -> bool:
        """Whether it is known to have ended."""
        return self.name in ("finished", "failed", "cancelled")


def _holds(path: pathlib.Path) -> bool:
    """Returns whether a process on this host has a lock on the file, as a job has while it runs."""
    try:
        inode = path.stat().st_ino
        locks = pathlib.Path("/proc/locks").read_text(encoding="ascii")
    except OSError:
        return False
    return re.search(rf":{inode}\s", locks) is not None


class Job:
    """The job that has, or last had, a run directory.

    `access`: the options of `strata status` that name its coordinator; none: nobody is asked.
    """

    def __init__(self, folder: pathlib.Path, access: list[str]) -> None:
        self._folder, self._access = folder, access
        self._line = self._read_line()
        self._state: State | None = None  # as the coordinator said last
        self._asked_s = time.monotonic()
        if access:
            self._state = self._ask()

    @property
    def is_asked(self) -> bool:
        """Whether there is a coordinator to ask."""
        return bool(self._access)

    def holds(self) -> bool:
        """Returns whether it still writes there, on this host. Raises UsageError if another job has
        the folder now."""
        line = self._read_line()
        if line not in ("", self._line):  # Empty for a moment, while a job takes it.
            raise UsageError(f"{self._folder}: belongs to another job now: {line}")
        return _holds(self._folder / ".lock")

    @property
    def goes_on(self) -> bool:
        """Whether its coordinator said in its last answer that it continues."""
        return self._state is not None and not self._state.ended

    def has_ended(self, every_s: float) -> bool:
        """Returns whether its coordinator says that it has ended; asks at most this often."""
        if self.is_asked and not self._has_said() and time.monotonic() - self._asked_s >= every_s:
            self._refresh()
        return self._has_said()

    def state(self, is_final: bool, is_cut_off: bool, is_program: bool) -> State:
        """How it has ended. Where no coordinator says so, the final model's line does. Where that
        is missing, and nobody has cut the reading off, a job that has let go of its folder has
        failed, but that a program may do without the line."""
        if self.is_asked and not self._has_said():
            self._refresh()
        if self._state is not None and self._state.ended:
            return self._state
        if is_final:
            return State("finished")
        if is_cut_off or self._state is not None or _holds(self._folder / ".lock"):
            return State("running")
        return State("unknown" if is_program or not self._line else "failed")

    def _has_said(self) -> bool:
        return self._state is not None and self._state.ended

    def _read_line(self) -> str:
        try:
            with open_file(self._folder / ".lock") as file:
                return file.readline(4096).decode(errors="replace").strip()
        except OSError:
            return ""

    def _refresh(self) -> None:
        """Asks again. A coordinator that is gone, or has restarted without the job, gives no
        answer."""
        try:
            self._state = self._ask()
        except UsageError:
            self._state = None
        self._asked_s = time.monotonic()

    def _ask(self) -> State:
        found = re.match(r'job (\d+) "(.*)" of cluster ', self._line)
        if not found:
            raise UsageError(f"{self._folder}: no .lock that names a job to ask a coordinator for")
        try:
            words = [launching.command(), "status", found[1], "--json", *self._access]
            # Ctrl-C is for this process alone.
            said = subprocess.run(
                [*words, "--timeout", str(ASK_TIMEOUT_S)],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                start_new_session=True,
            )
            if said.returncode != 0:
                lines = said.stderr.strip().splitlines() or ["strata status has failed"]
                raise ValueError(lines[-1].removeprefix("strata: error: "))
            status = json.loads(said.stdout)
        except (errors.StrataError, OSError, ValueError) as error:
            raise UsageError(f"{' '.join(self._access[:2])}: {error}") from None
        self._check_is_ours(found[1], found[2], status)
        is_over = State(status["state"]).ended
        return State(status["state"] if is_over else "running", status["reason"] if is_over else "")

    def _check_is_ours(self, number: str, name: str, status: dict[str, object]) -> None:
        """Detects that another cluster's job of this number began after the folder's, or is
        elsewhere."""
        run_dir, submitted_ms = str(status["run_dir"]), float(str(status["submitted_ms"]))
        try:
            began_s = (self._folder / "job.textproto").stat().st_mtime
        except OSError:
            began_s = float("inf")
        is_ours = status["name"] == name and submitted_ms / 1000 <= began_s + SKEW_S
        if not is_ours or (run_dir and pathlib.Path(run_dir).name != self._folder.name):
            raise UsageError(
                f"{self._folder}: the coordinator's job {number} is another one:"
                f" {status['name']}, {run_dir or 'which has not begun'}"
            )
