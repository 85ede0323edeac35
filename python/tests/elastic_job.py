"""A rank of a job whose nodes come and go, in the process of a test: the client library of a rank
alone, but for what it says of the job's nodes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from strata import _client, _library, _rank


class FakeLibrary:
    """The client library as rank `rank` sees it, where from some steps on these ranks make steps.

    Steps from `unknown_from` on have not been agreed upon.
    """

    def __init__(
        self,
        ranks_from: dict[int, list[int]],
        rank: int,
        first_step: int = 0,
        unknown_from: int = 1 << 40,
        **job: Any,
    ) -> None:
        self._real = _library.lib
        self._from = ranks_from
        self._rank = rank
        self._first_step = first_step
        self._unknown_from = unknown_from
        self._job = job
        self._error = b""
        self._step = first_step
        self.started: list[tuple[bool, bool]] = []  # can_resume, keeps_state
        self.windows: list[tuple[int, int]] = []  # that were reported
        self.measured: list[float] = []
        self.finished = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def strata_rank(self, handle: Any) -> int:
        return self._rank

    def strata_ranks(self, handle: Any) -> int:
        return len(self._from[0])

    def strata_job_json(self, handle: Any) -> bytes:
        job = json.loads(self._real.strata_job_json(handle))
        return json.dumps({**job, "ranks_min": 1, "ranks_max": 8, **self._job}).encode()

    def strata_start(self, handle: Any, facts: Any) -> int:
        self.started.append((bool(facts._obj.can_resume), bool(facts._obj.keeps_state)))
        return int(self._real.strata_start(handle, facts))

    def strata_first_step(self, handle: Any) -> int:
        return self._first_step

    def strata_ranks_at(self, handle: Any, step: int, found: Any) -> int:
        makers = self._makers(step)
        to = found._obj
        to.makes_it = self._rank in makers
        to.rank = makers.index(self._rank) if to.makes_it else 0
        to.ranks = len(makers)
        to.rank_steps_before = sum(len(self._makers(other)) for other in range(step))
        return 0

    def strata_ranks_at_if_known(self, handle: Any, step: int, known: Any, found: Any) -> int:
        known._obj.value = step < self._unknown_from
        return self.strata_ranks_at(handle, step, found) if step < self._unknown_from else 0

    def strata_begin_step(self, handle: Any, samples: int) -> int:
        return self._begin() or int(self._real.strata_begin_step(handle, samples))

    def strata_begin_step_at(self, handle: Any, samples: int, rate: float) -> int:
        return self._begin() or int(self._real.strata_begin_step_at(handle, samples, rate))

    def strata_finish_step(self, handle: Any) -> int:
        self._step += 1
        return int(self._real.strata_finish_step(handle))

    def strata_finish(self, handle: Any) -> int:
        self.finished += 1
        return int(self._real.strata_finish(handle))

    def strata_send_report(self, handle: Any, report: Any) -> int:
        sent = report._obj
        if sent.has_test:
            self.measured.append(sent.test_accuracy)
        else:
            self.windows.append((sent.first_step, sent.end_step))
        return 0

    def strata_error_text(self) -> bytes:
        text, self._error = self._error, b""
        return text or bytes(self._real.strata_error_text())

    def _begin(self) -> int:
        if self._rank in self._makers(self._step):
            return 0
        self._error = b"rank %d leaves the job before step %d: and more" % (self._rank, self._step)
        return _library.NO_MORE_STEPS

    def _makers(self, step: int) -> list[int]:
        return self._from[max(first for first in self._from if first <= step)]


class Ranks:
    """Makes this process a rank of such a job, once in a test."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._patch = patch
        process = _rank.process
        before: list[tuple[str, Any]] = [("client", None), ("reporter", None), ("kept", {})]
        for name, value in [*before, ("before_finish", []), ("after_finish", [])]:
            patch.setattr(process, name, value)

    def join(self, ranks_from: dict[int, list[int]], rank: int, **how: Any) -> FakeLibrary:
        library = FakeLibrary(ranks_from, rank, **how)
        self._patch.setattr(_library, "lib", library)
        self._patch.setattr(_client, "lib", library)
        return library


@pytest.fixture
def ranks(monkeypatch: pytest.MonkeyPatch) -> Ranks:
    return Ranks(monkeypatch)
