"""The benchmarks that take a lab of hosts, at a tiny size: each kind of case runs, and values are
verified. No figure is judged."""

import json
import math
import os
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).absolute().parent
sys.path.append(str(HERE))
import against_ddp  # noqa: E402
import cases  # noqa: E402

# Others differ from one of these in ranks, in the model or in how DDP keeps gradients.
TINY = ("exchange", "transformer", "shaped-fp16", "memory-views")
if "STRATA_WHOLE" in os.environ:  # tests/soak.sh
    TINY += ("alone", "resnet18-2", "per-tensor", "shaped")


@pytest.mark.parametrize("name", TINY)
def test_a_case_runs_and_both_sides_train_alike(name):
    command = [sys.executable, str(HERE / "against_ddp.py"), os.environ["STRATA_COMMAND"]]
    command += [sys.executable, "--pairs", "1", "--tiny", "--cases", name]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = done.stdout.splitlines()[2:]
    if rows == [f"skipped, as the lab takes root: {name}"]:
        pytest.skip("no network namespaces here")
    assert len(rows) == (3 if name == "memory-views" else 1), done.stdout
    for row in rows:
        cells = [cell.strip() for cell in row.strip("|").split("|")]
        assert cells[0].startswith(name)
        assert math.isfinite(float(cells[5].split()[0]))


def test_what_prefetching_rows_hides_is_measured():
    words = "--rows 100 --ids 1000 --steps 4 --rounds 1 --no-goals --json"
    command = [sys.executable, str(HERE / "rows_prefetch.py"), os.environ["STRATA_COMMAND"]]
    done = subprocess.run([*command, *words.split()], capture_output=True, text=True, timeout=120)
    if done.returncode == 77:
        pytest.skip("no network namespaces here")
    assert done.returncode == 0, done.stdout + done.stderr
    assert math.isfinite(json.loads(done.stdout)["exchange_ms"])


@pytest.mark.parametrize("ours", ([1.0, 2.5], [-1.0, -2.0], [math.nan, 2.0], [0.0, 0.0]))
def test_weights_that_changed_otherwise_end_it(ours):
    case = cases.CASES["lenet"]
    against_ddp.check_alike("lenet", case, {"sketch": [1.0, 2.001]}, {"sketch": [1.0, 2.0]})
    with pytest.raises(SystemExit, match="lenet: the weights' changes are"):
        against_ddp.check_alike("lenet", case, {"sketch": ours}, {"sketch": [1.0, 2.0]})


def test_sides_that_have_not_trained_end_it():
    still = {"sketch": [0.0, 0.0]}
    with pytest.raises(SystemExit, match="lenet: the weights' changes are"):
        against_ddp.check_alike("lenet", cases.CASES["lenet"], still, still)
