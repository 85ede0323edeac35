"""`strata compare` of a PyTorch script: what all modes have alike."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import forks
from support import SCRIPTS, STRATA, execute, must_finish

MODES = ["sync", "ssp(2)", "diloco(4)", "async", "ring"]


def compared(folder: pathlib.Path, *more: str) -> dict[str, Any]:
    """Makes the runs that are missing, and returns the report."""
    forks.start()
    words = [STRATA, "compare", str(SCRIPTS / "compared.py"), "-n", "2", "--nodes", "2"]
    words += ["--servers", "1", "--python", forks.PYTHON, "--modes", ",".join(MODES)]
    must_finish(execute([*words, "--seeds", "1", "--out", "comparison", *more], folder))
    report: dict[str, Any] = json.loads((folder / "comparison/report.json").read_text())
    assert [mode["mode"] for mode in report["modes"]] == MODES
    return report


def of_modes(report: dict[str, Any]) -> list[float]:
    return [mode["final_accuracy"]["mean"] for mode in report["modes"]]


def test_all_modes_begin_with_the_same_weights_and_have_their_data_in_the_same_order(
    tmp_path: pathlib.Path,
) -> None:
    """Of a script with DistributedOptimizer, whose ranks begin with weights of their own."""
    assert all(0.5 < accuracy <= 1 for accuracy in of_modes(compared(tmp_path)))
    for metric in ("weights", "order"):
        checksums = set(of_modes(compared(tmp_path, "--metric", metric)))
        assert len(checksums) == 1, (metric, checksums)
        (checksum,) = checksums
        assert checksum > 0 and checksum == int(checksum)
