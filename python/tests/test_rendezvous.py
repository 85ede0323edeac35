"""How ranks find one another for what the job does not carry."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest
import strata
from strata import _rendezvous

LAUNCH = """record {
  job_id: 1
  view {
    nodes {
      node: 1
    }
  }
}
node: 3
run_dir: "/runs/a-1"
listen {
  host: "0.0.0.0"
  advertise: "%s"
}
"""


@pytest.fixture(autouse=True)
def job(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> pathlib.Path:
    """A job of four ranks, two on this node, whose nodes reach one another over a network."""
    path = tmp_path / "launch"
    path.write_text(LAUNCH % "10.0.0.7")
    monkeypatch.setenv("STRATA_LAUNCH", str(path))
    monkeypatch.setenv("WORLD_SIZE", "4")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    monkeypatch.delenv("MASTER_ADDR", raising=False)
    monkeypatch.delenv("MASTER_PORT", raising=False)
    return path


def test_ranks_on_several_hosts_need_an_address() -> None:
    with pytest.raises(strata.InvalidArgument, match="set MASTER_ADDR to rank 0's host"):
        _rendezvous.find()


def test_ranks_on_several_hosts_meet_at_the_environments_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MASTER_ADDR", "head")
    monkeypatch.setenv("MASTER_PORT", "29500")
    assert _rendezvous.find() == _rendezvous.Meeting(master="head:29500")


def test_ranks_of_one_node_meet_in_the_run_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    # No process there serves the others, whose end would take them with it.
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    monkeypatch.setenv("MASTER_PORT", "29500")
    assert _rendezvous.find() == _rendezvous.Meeting(folder="/runs/a-1")


def test_nodes_that_talk_over_loopback_are_on_one_host(job: pathlib.Path) -> None:
    job.write_text(LAUNCH % "127.0.0.1")
    assert _rendezvous.find() == _rendezvous.Meeting(folder="/runs/a-1")


def test_a_rank_alone_meets_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert _rendezvous.find() == _rendezvous.Meeting()


def test_without_a_job_the_command_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STRATA_LAUNCH")
    with pytest.raises(strata.OutOfOrder, match="strata run -n 4"):
        _rendezvous.find()


def test_the_nodes_number_is_the_launch_files_own() -> None:
    assert _rendezvous.node() == 3


def test_a_program_that_a_rank_starts_is_told_that_it_has_no_part_in_the_job() -> None:
    """The rank has its launch file by a number that other programs do not inherit."""
    code = "import strata"
    code += "\ntry: strata.Session({'w': [0.0]}, strata.SGD(0.1))"
    code += "\nexcept strata.OutOfOrder as error: print(error)"
    code += "\nfrom strata import _rendezvous"
    code += "\ntry: _rendezvous.find()"
    code += "\nexcept strata.OutOfOrder as error: print(error)"
    environment = {**os.environ, "STRATA_LAUNCH": "/proc/self/fd/77", "RANK": "1"}
    words = [sys.executable, "-c", code]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 2, lines
    assert all("only the rank itself takes part in the job" in line for line in lines), lines
