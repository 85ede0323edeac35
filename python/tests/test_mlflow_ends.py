"""MLflow's runs end as the jobs do: of jobs that run, and of run directories that are left."""

from __future__ import annotations

import fcntl
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import pytest
from mlflow_runs import JOB as LEFT
from mlflow_runs import MlflowClient, Runs, await_that, line, running
from strata import mlflow_export
from support import STRATA, execute, must_finish

JOB = """
name: "digits"
model { zoo: "lenet5" }
data { synthetic { train_samples: 512 test_samples: 128 } batch_per_rank: 16 }
optimizer { sgd {} }
schedule { base_lr: 0.02 }
ranks: 2
max_steps: 20
epochs: 100000
seed: 1
metrics { every_steps: 5 }
consistency { sync {} }
"""
# Slowly: MLflow is to have some of the machine.
LONG = JOB.replace("max_steps: 20", "max_steps: 1000000 debug { delays { delay_ms: 40 } }")


@dataclass
class Cluster:
    """A cluster of this machine, and a store of MLflow's."""

    top: pathlib.Path
    address: str

    def submit(self, job: str) -> pathlib.Path:
        """Submits a job. Returns its run directory, once it has metrics."""
        (self.top / "job.textproto").write_text(job)
        words = [STRATA, "submit", "job.textproto", "--coordinator", self.address]
        number = must_finish(execute(words, self.top)).out.split()[1]
        folder = self.top / "runs" / f"digits-{number}"
        deadline = time.monotonic() + 60
        while not (folder / "metrics.jsonl").exists():
            assert time.monotonic() < deadline, f"no metrics in {folder}"
            time.sleep(0.1)
        return folder

    def words(self, folder: pathlib.Path, *more: str) -> list[str]:
        return [str(folder), "--tracking-uri", (self.top / "store").as_uri(), *more]

    def export(self, folder: pathlib.Path, *more: str) -> int:
        """The command, in this process."""
        return mlflow_export.main(self.words(folder, *more))

    def follow(self, folder: pathlib.Path) -> AbstractContextManager[subprocess.Popen[str]]:
        """The command, in another one."""
        words = [sys.executable, "-m", "strata.mlflow_export", *self.words(folder, "--follow")]
        words += ["--coordinator", self.address]
        return running(words, self.top)

    def runs(self, folder: pathlib.Path) -> list[Any]:
        """MLflow's runs of a run directory, the newest first."""
        client = MlflowClient(tracking_uri=(self.top / "store").as_uri())
        experiment = client.get_experiment_by_name("strata")
        found = client.search_runs([experiment.experiment_id]) if experiment else []
        return [run for run in found if run.info.run_name == folder.name]

    def await_run(self, folder: pathlib.Path) -> None:
        await_that(lambda: any("train/loss" in run.data.metrics for run in self.runs(folder)))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    top = tmp_path_factory.mktemp("cluster")
    # A socket of this user alone needs no keys; a short path, as its length is bounded.
    with tempfile.TemporaryDirectory(prefix="mlflow-", dir="/tmp") as short:
        address = f"unix:{short}/socket"
        words = [STRATA, "local", "--slots", "2", "--runs", "runs", "--listen", address]
        with running(words, top) as local:
            assert local.stdout is not None
            assert " ready " in local.stdout.readline()
            yield Cluster(top, address)
            local.send_signal(signal.SIGINT)
            local.communicate(timeout=60)


def rank_of(folder: pathlib.Path) -> int:
    """A process that logs to the job's first rank's file."""
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if os.readlink(entry / "fd/2") == str(folder / "logs/rank0.log"):
                    return int(entry.name)
            except OSError:
                continue
    raise AssertionError(f"no rank of {folder}")


def state_of(run: Any) -> tuple[str, str]:
    return run.info.status, run.data.tags["strata.state"]


def test_a_job_that_finishes_is_logged_as_it_was(cluster: Cluster) -> None:
    folder = cluster.submit(JOB)
    with cluster.follow(folder) as follower:
        out, _ = follower.communicate(timeout=60)
    assert follower.returncode == 0 and out.endswith(" numbers, FINISHED\n")
    (run,) = cluster.runs(folder)
    assert state_of(run) == ("FINISHED", "finished")
    assert run.data.params["model.zoo"] == "lenet5"
    assert run.data.params["data.synthetic.train_samples"] == "512"
    assert run.data.params["consistency.sync"] == "{}"
    assert run.data.params["metrics.every_steps"] == "5"
    assert run.data.tags["strata.mode"] == "sync"
    assert run.data.metrics["train/samples"] == 20 * 2 * 16
    assert "test/accuracy" in run.data.metrics
    # The directory alone says it, too.
    assert cluster.export(folder) == 0
    assert [state_of(run) for run in cluster.runs(folder)] == [("FINISHED", "finished")] * 2


def test_a_job_that_fails_is_a_run_that_failed(cluster: Cluster) -> None:
    folder = cluster.submit(LONG)
    with cluster.follow(folder) as follower:
        cluster.await_run(folder)
        os.kill(rank_of(folder), signal.SIGKILL)
        out, _ = follower.communicate(timeout=60)
    assert follower.returncode == 0 and out.endswith(" numbers, FAILED\n")
    (run,) = cluster.runs(folder)
    assert state_of(run) == ("FAILED", "failed")
    assert "killed by signal 9" in run.data.tags["strata.reason"]
    assert cluster.export(folder) == 0
    assert [state_of(run) for run in cluster.runs(folder)] == [("FAILED", "failed")] * 2


def test_a_job_that_is_cancelled_is_a_run_that_was_killed(cluster: Cluster) -> None:
    folder = cluster.submit(LONG)
    with cluster.follow(folder) as follower:
        cluster.await_run(folder)
        # Logged once while it runs, with the lock that the worker has.
        assert cluster.export(folder) == 0
        number = folder.name.removeprefix("digits-")
        words = [STRATA, "cancel", number, "--coordinator", cluster.address]
        must_finish(execute(words, cluster.top))
        follower.communicate(timeout=60)
    assert sorted(state_of(run) for run in cluster.runs(folder)) == [
        ("KILLED", "cancelled"),
        ("KILLED", "running"),
    ]


def test_a_coordinator_that_does_not_know_the_job_is_named(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = cluster.top / "other" / "digits-1"
    folder.mkdir(parents=True)
    (folder / "metrics.jsonl").write_text('{"step":5,"test_accuracy":0.5}\n')
    (folder / "job.textproto").write_text('name: "digits"\n')

    def why(line: str, address: str = cluster.address) -> str:
        (folder / ".lock").write_text(line)
        assert cluster.export(folder, "--coordinator", address) == 2
        return capsys.readouterr().err

    assert why('job 77 "digits" of cluster 00\n') == (
        f"strata: error: --coordinator {cluster.address}: no job 77\n"
    )
    assert why("") == (
        f"strata: error: {folder}: no .lock that names a job to ask a coordinator for\n"
    )
    assert " cannot be reached " in why('job 1 "digits" of cluster 00\n', "unix:/none")
    # An earlier cluster, which started its jobs earlier.
    hour_ago = time.time() - 3600
    os.utime(folder / "job.textproto", (hour_ago, hour_ago))
    assert f"{folder}: the coordinator's job 1 is another one: digits, " in why(
        'job 1 "digits" of cluster 00\n'
    )


@pytest.fixture
def runs(tmp_path: pathlib.Path) -> Runs:
    return Runs(tmp_path)


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_a_follower_that_is_interrupted_says_what_it_has_logged(
    runs: Runs, sign: signal.Signals
) -> None:
    runs.add(line(10))
    with running(runs.words("--follow"), runs.top) as follower:
        runs.await_losses(1)
        follower.send_signal(sign)
        out, _ = follower.communicate(timeout=60)
    assert follower.returncode == 0
    assert ": 1 lines" in out
    (run,) = runs.runs()
    assert (run.info.status, run.data.tags["strata.state"]) == ("KILLED", "running")


def test_a_call_of_mlflows_is_not_interrupted_half_way(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = MlflowClient.log_batch

    def log_interrupted(client: MlflowClient, run_id: str, **entries: Any) -> None:
        if "metrics" in entries:
            os.kill(os.getpid(), signal.SIGTERM)
        log(client, run_id, **entries)

    monkeypatch.setattr(MlflowClient, "log_batch", log_interrupted)
    runs.add(line(10))
    assert runs.export("--follow") == 0
    (run,) = runs.runs()
    assert runs.history(run, "train/loss") == [(10, 1 / 10.1)]
    assert state_of(run) == ("KILLED", "running")


def left(job: str, runs: Runs, held: bool) -> tuple[str, str]:
    """Status and state of a run of such a job, which has no line about the final model."""
    (runs.folder / "job.textproto").write_text(job, encoding="utf-8")
    runs.add(line(10))
    runs.claim()
    with open(runs.folder / ".lock", encoding="ascii") as lock:
        if held:
            fcntl.flock(lock, fcntl.LOCK_SH)
        assert runs.export() == 0
    (run,) = runs.runs()
    return state_of(run)


def test_a_job_that_let_go_without_a_final_model_has_failed(runs: Runs) -> None:
    assert left(LEFT, runs, held=False) == ("FAILED", "failed")


def test_a_job_that_still_runs_has_not_finished(runs: Runs) -> None:
    assert left(LEFT, runs, held=True) == ("KILLED", "running")


def test_of_a_program_nothing_says_how_it_has_ended(runs: Runs) -> None:
    job = 'name: "lenet"\nprogram {\n  command: "x"\n}\n'
    assert left(job, runs, held=False) == ("FINISHED", "unknown")


def test_a_folder_that_another_job_takes_over_is_not_followed(
    runs: Runs, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    runs.claim(3)
    runs.add(line(10))
    monkeypatch.setattr(mlflow_export.time, "sleep", lambda seconds: runs.claim(4))
    assert runs.export("--follow") == 2
    (run,) = runs.runs()
    assert capsys.readouterr().err == (
        f"strata: error: {runs.folder}: belongs to another job now: "
        f'job 4 "lenet" of cluster 165936085aa3fa21; run {run.info.run_id} has ended as FAILED\n'
    )
    assert run.info.status == "FAILED"


@pytest.mark.parametrize("is_gone", [False, True])
def test_a_run_that_mlflow_cannot_log_to_its_end_has_failed(
    runs: Runs,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    is_gone: bool,
) -> None:
    runs.add(line(10), line(20))
    log = MlflowClient.log_batch

    def fail(client: MlflowClient, run_id: str, **entries: Any) -> None:
        if "metrics" in entries:
            raise OSError("no more\nof this")
        log(client, run_id, **entries)

    def be_gone(*words: Any, **more: Any) -> None:
        raise OSError("gone, too")

    with monkeypatch.context() as patch:
        patch.setattr(MlflowClient, "log_batch", fail)
        if is_gone:
            patch.setattr(MlflowClient, "set_terminated", be_gone)
        assert runs.export() == 1
    (run,) = runs.runs()
    left = "stays RUNNING" if is_gone else "has ended as FAILED"
    assert capsys.readouterr().err == (
        f"strata: error: mlflow: no more; run {run.info.run_id} {left}\n"
    )
    assert run.info.status == ("RUNNING" if is_gone else "FAILED")


def test_an_export_that_is_interrupted_says_so(
    runs: Runs, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    runs.add(line(10))

    def interrupt(*words: Any, **more: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(MlflowClient, "log_batch", interrupt)
        assert runs.export() == 130
    (run,) = runs.runs()
    assert capsys.readouterr().err == (
        f"strata: error: interrupted; run {run.info.run_id} has ended as KILLED\n"
    )
    assert run.info.status == "KILLED"
