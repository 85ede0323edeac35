"""The examples of examples/python learn, in every mode about as well as one process."""

from __future__ import annotations

import functools
import json
import os
import pathlib
import re
import sys
import tempfile
from collections.abc import Callable
from typing import Any

import forks
import pytest
import support
from support import HERE, Result, execute, must_finish

EXAMPLES = HERE.parents[1] / "examples" / "python"
MODES = ["sync", "ssp(2)", "diloco(8)", "async", "ring"]
EXACT = ["sync", "ring"]  # whose steps are those of one process

CNN = ("--limit", "2000", "--epochs", "2", "--batch", "16")
RESNET = ("--limit", "320", "--epochs", "2", "--lr", "0.005")
TRANSFORMER = (
    "--layers",
    "1",
    "--width",
    "64",
    "--heads",
    "2",
    "--context",
    "32",
    "--steps",
    "50",
    "--lr",
    "3e-3",
)
RECOMMENDER = (
    "--tables",
    "6",
    "--largest",
    "20000",
    "--batch",
    "128",
    "--steps",
    "150",
    "--test",
    "4000",
    "--every",
    "75",
)


def printed(result: Result, what: str) -> list[float]:
    """The numbers that follow a word in what rank 0 prints."""
    lines = [
        line for line in result.out.splitlines() if re.match(r"(\[0\] )?(epoch|step) \d+: ", line)
    ]
    return [float(number) for line in lines for number in re.findall(what + r" (\d+\.\d+)", line)]


@pytest.fixture(scope="module", autouse=True)
def imported() -> None:
    forks.start("torchvision")


def run_example(
    folder: pathlib.Path,
    example: str,
    *arguments: str,
    run: Callable[..., Result] = forks.run_job,
    **how: Any,
) -> Result:
    """Runs an example as a job of few steps, whose windows are short."""
    options = ("--set", "metrics.every_steps=10", *how.pop("options", ()))
    return must_finish(run(folder, EXAMPLES / example, *arguments, options=options, **how))


def recorded(result: Result, what: str) -> list[Any]:
    """What the records of the job's metrics.jsonl have under a name: those of windows have losses,
    those of measurements have what was measured."""
    (file,) = result.folder.glob("strata-runs/*/*/metrics.jsonl")
    records = [json.loads(line) for line in file.read_text().splitlines()]
    return [record[what] for record in records if what in record]


def must_fall(result: Result) -> None:
    losses = recorded(result, "loss")
    assert len(losses) > 1 and losses[-1] < 0.95 * losses[0], losses


@functools.lru_cache(maxsize=None)
def one_process(example: str, *arguments: str) -> tuple[list[float], list[float]]:
    """The losses, and what is printed last, of one process whose steps use what two ranks' do."""
    with tempfile.TemporaryDirectory() as folder:
        words = (*arguments, "--batch", "16")
        result = run_example(pathlib.Path(folder), example, *words, ranks=1, servers=None)
        return recorded(result, "loss"), printed(result, "(?:perplexity|test accuracy)")


def furthest(losses: list[float], of_one: list[float]) -> float:
    """How far losses of windows are from one process's, as a share of that one's first."""
    assert len(losses) == len(of_one) >= 4, (losses, of_one)
    return max(abs(a - b) for a, b in zip(losses, of_one)) / of_one[0]


def test_the_cnn_learns_fashion_mnist_and_saves_its_model(tmp_path: pathlib.Path) -> None:
    """Where ranks are started as a user's are."""
    result = run_example(tmp_path, "cnn.py", *CNN, "--save", "model.pt", run=support.run_job)
    must_fall(result)
    assert recorded(result, "test_accuracy")[-1] > 0.6
    assert sum(tensor.numel() for tensor in result.load("model.pt").values()) == 215370


@pytest.mark.parametrize("mode", MODES)
def test_resnet18_learns_as_with_one_process(tmp_path: pathlib.Path, mode: str) -> None:
    result = run_example(tmp_path, "resnet18.py", *RESNET, "--batch", "8", nodes=2, mode=mode)
    losses, accuracies = one_process("resnet18.py", *RESNET)
    # Batch normalisation sees 8 images, not 16. Losses fall to less than a tenth.
    assert furthest(recorded(result, "loss"), losses) < 0.4
    assert recorded(result, "loss")[-1] < 0.1 * losses[0]
    # Outer momentum moves weights away from what BatchNorm's statistics were measured with.
    if not mode.startswith("diloco"):
        assert recorded(result, "test_accuracy")[-1] > min(0.5, 0.7 * accuracies[-1])


@pytest.mark.parametrize("mode", MODES)
def test_the_transformer_learns_as_with_one_process(tmp_path: pathlib.Path, mode: str) -> None:
    result = run_example(tmp_path, "transformer.py", *TRANSFORMER, nodes=2, mode=mode)
    losses, perplexities = one_process("transformer.py", *TRANSFORMER)
    # Their losses start at 4.05 and fall by a quarter.
    assert furthest(recorded(result, "loss"), losses) < (1e-5 if mode in EXACT else 0.1)
    reached = printed(result, "perplexity")
    # By chance it would be the number of characters, 98.
    assert reached[-1] < min(40, 1.3 * perplexities[-1])
    assert recorded(result, "values")[-1]["perplexity"] == pytest.approx(reached[-1], abs=0.01)


def test_the_transformer_has_ten_million_parameters(tmp_path: pathlib.Path) -> None:
    program = f"""import sys; sys.path.insert(0, {str(EXAMPLES)!r})
from transformer import Transformer
print(sum(p.numel() for p in Transformer(98, 6, 384, 6, 128).parameters()))"""
    (tmp_path / "count.py").write_text(program)
    assert int(must_finish(forks.run_script(tmp_path, tmp_path / "count.py")).out) > 10_000_000


@pytest.mark.parametrize("mode", ["sync", "hybrid"])
def test_the_recommender_tells_clicks_from_others(tmp_path: pathlib.Path, mode: str) -> None:
    """Also with the dense part in sync and rows in async, which are fetched two steps ahead."""
    hybrid = ("--set", "rows.consistency.preset=async", "--set", "rows.lookahead=2")
    how: dict[str, Any] = {"options": hybrid} if mode == "hybrid" else {}
    result = run_example(tmp_path, "recommender.py", *RECOMMENDER, nodes=2, **how)
    must_fall(result)
    (hidden,) = re.findall(r"hidden model's auc is (\d+\.\d+)", result.out)
    reached = printed(result, "auc")
    assert len(reached) == 2 and 0.65 < reached[-1] < float(hidden) < 1
    values = [one["auc"] for one in recorded(result, "values") if "auc" in one]
    assert values == pytest.approx(reached, abs=1e-4)


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_the_elastic_example_tells_spirals_apart(tmp_path: pathlib.Path, mode: str) -> None:
    words = ("--samples", "4000", "--epochs", "5", "--save", "model.pt")
    result = run_example(tmp_path, "elastic.py", *words, nodes=2, mode=mode)
    must_fall(result)
    assert recorded(result, "test_accuracy")[-1] > 0.9
    reached = pytest.approx(recorded(result, "test_accuracy"), abs=1e-4)
    assert printed(result, "test accuracy") == reached
    model = result.load("model.pt")
    # The values of all ranks, which were averaged.
    assert float(model["1.running_mean"].abs().max()) > 0


def test_the_notebook_runs_cell_by_cell(tmp_path: pathlib.Path) -> None:
    pytest.importorskip("cloudpickle", reason="the functions of notebooks need it")
    runner = tmp_path / "runner.py"
    # As a kernel does: all cells in one namespace, whose name is __main__.
    runner.write_text(
        "import json, sys\n"
        "for cell in json.load(open(sys.argv[1]))['cells']:\n"
        "    if cell['cell_type'] == 'code':\n"
        "        exec(compile(''.join(cell['source']), cell['id'], 'exec'))\n"
    )
    words = [sys.executable, str(runner), str(EXAMPLES / "launch.ipynb")]
    result = must_finish(execute(words, tmp_path))
    of_ranks = re.findall(r"rank \d: loss \d\.\d+ to \d\.\d+, accuracy (\d\.\d+)", result.out)
    assert len(of_ranks) == 2 and of_ranks[0] == of_ranks[1] and float(of_ranks[0]) > 0.85


def test_the_notebook_is_kept_without_outputs() -> None:
    notebook = json.loads((EXAMPLES / "launch.ipynb").read_text())
    assert notebook["nbformat"] == 4
    for cell in notebook["cells"]:
        assert cell["cell_type"] == "markdown" or (cell["outputs"], cell["execution_count"]) == (
            [],
            None,
        )


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_an_example_says_how_to_run_it(path: pathlib.Path) -> None:
    text = path.read_text()
    assert f"strata run -n 4 {path.name}" in text
    assert f"`{path.name}`" in (EXAMPLES / "README.md").read_text()
    assert len(text.splitlines()) <= 135 and os.access(path, os.X_OK)
