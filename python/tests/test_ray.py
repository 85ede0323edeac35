"""Jobs on a Ray of this machine."""

from __future__ import annotations

import importlib
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import strata
import strata.ray
from strata import _ray_host

from support import STRATA, environment, execute, must_finish, processes_of

ray = pytest.importorskip("ray", reason="ray is not there: deploy/python_env.sh launch makes it")
cluster_utils = pytest.importorskip("ray.cluster_utils")

JOB = """
name: "digits"
model { zoo: "lenet5" }
data { synthetic { train_samples: 512 test_samples: 128 } batch_per_rank: 16 }
optimizer { sgd {} }
schedule { base_lr: 0.02 }
ranks: 4
ranks_per_node: 2
max_steps: 20
epochs: 100
seed: 1
consistency { sync {} }
"""
LONG = JOB.replace("max_steps: 20", "max_steps: 3000")


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[Any]:
    """A Ray of one host that says it has 8 CPUs, whatever the machine has; others can be added."""
    os.environ.update(environment())
    # Idle processes for all CPUs take longer than the tests.
    os.environ.update(RAY_enable_worker_prestart="0", RAY_prestart_worker_first_driver="0")
    # A short path, as sockets are in it.
    with tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp") as folder:
        os.environ["RAY_TMPDIR"] = folder
        hosts = cluster_utils.Cluster(
            initialize_head=True,
            head_node_args={
                "num_cpus": 8,
                "include_dashboard": False,
                "object_store_memory": 80 << 20,
            },
        )
        ray.init(address=hosts.address, configure_logging=False, log_to_driver=False)
        yield hosts
        ray.shutdown()
        hosts.shutdown()


@pytest.fixture
def small_host(cluster: Any) -> Iterator[str]:
    """The node of a second host, of 2 CPUs."""
    host = cluster.add_node(num_cpus=2, object_store_memory=80 << 20)
    cluster.wait_for_nodes()
    yield host.node_id
    cluster.remove_node(host)


def programs(folder: pathlib.Path) -> dict[int, list[str]]:
    """The words of each `strata` that runs with its log in a folder."""
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_text().split("\0")
                log = os.readlink(entry / "fd/2")
            except OSError:
                continue
            if os.path.basename(words[0]) == "strata" and log.startswith(str(folder)):
                found[int(entry.name)] = words
    return found


def process_of(folder: pathlib.Path, role: str, name: str) -> int:
    """The process of a run's daemon, by a word of its command where there are several."""
    running = programs(folder).items()
    (pid,) = [pid for pid, words in running if words[1] == role and (not name or name in words)]
    return pid


def parent_of(pid: int) -> int:
    stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
    return int(stat.rpartition(")")[2].split()[1])


def must_be_over(folder: pathlib.Path, cpus: int = 8) -> None:
    """All processes of a run have ended, and Ray has all its CPUs back."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        if not programs(folder) and ray.available_resources().get("CPU") == cpus:
            return
        time.sleep(0.1)
    raise AssertionError(f"left: {programs(folder)}, {ray.available_resources()}")


def test_a_job_on_two_nodes_has_the_bits_of_strata_local(tmp_path: pathlib.Path) -> None:
    lines: list[str] = []
    runs = str(tmp_path / "runs")
    result = strata.ray.launch(JOB, nodes=2, slots=2, runs=runs, show=lines.append)
    assert result.state == "finished"
    assert result.metrics["step"] == 20 and result.metrics["test_accuracy"] > 0.2
    assert result.host == os.uname().nodename
    assert any(", 4 ranks on node-0, node-1" in line for line in lines)
    assert any(line.startswith("step 20/20") for line in lines)
    job = tmp_path / "job.textproto"
    job.write_text(JOB)
    words = [STRATA, "local", "--job", str(job), "--servers", "2", "--nodes", "2", "--slots", "2"]
    must_finish(execute([*words, "--runs", str(tmp_path / "local")], tmp_path))
    (local,) = (tmp_path / "local").glob("*/model.safetensors")
    model = pathlib.Path(result.run_dir) / "model.safetensors"
    assert model.read_bytes() == local.read_bytes()
    must_be_over(tmp_path)


def test_options_go_to_submit(tmp_path: pathlib.Path) -> None:
    lines: list[str] = []
    strata.ray.launch(
        JOB,
        slots=4,
        options=["--mode", "ssp(3)", "--set", "ranks_per_node=4"],
        runs=str(tmp_path),
        show=lines.append,
    )
    assert any("mode ssp(3), 4 ranks on node-0" in line for line in lines)


def places() -> list[str]:
    """The nodes of Ray's that the one placement group has its bundles on."""
    groups = ray.util.placement_group_table().values()
    (group,) = [each for each in groups if each["state"] == "CREATED"]
    return list(group["bundles_to_node_id"].values())


def test_a_job_on_hosts_that_each_have_room_has_a_node_on_each(
    small_host: str, tmp_path: pathlib.Path
) -> None:
    seen: list[list[str]] = []
    result = strata.ray.launch(
        JOB, nodes=2, slots=2, runs=str(tmp_path), show=lambda line: seen.append(places())
    )
    assert result.state == "finished" and result.metrics["step"] == 20
    assert len(set(seen[0])) == 2 and small_host in seen[0]
    must_be_over(tmp_path, cpus=10)


def reserved(nodes: int, slots: int, tmp_path: pathlib.Path, timeout_s: float) -> list[str]:
    """Where such a reservation lies."""
    run = strata.ray._Run(ray, str(tmp_path), timeout_s)
    try:
        run.reserve(nodes, slots, 0)
        return places()
    finally:
        run.close()


def test_a_host_that_is_too_small_is_no_host_to_spread_to(
    small_host: str, tmp_path: pathlib.Path
) -> None:
    began = time.monotonic()
    found = reserved(2, 4, tmp_path, 60)
    assert len(found) == 2 and len(set(found)) == 1 and small_host not in found
    assert time.monotonic() - began < 30


def test_where_a_host_stays_busy_nodes_share_one(small_host: str, tmp_path: pathlib.Path) -> None:
    here = importlib.import_module("ray.util.scheduling_strategies")
    strategy = here.NodeAffinitySchedulingStrategy(small_host, soft=False)
    busy = ray.remote(Busy).options(num_cpus=2, scheduling_strategy=strategy).remote()
    ray.get(busy.wait.remote())
    found = reserved(2, 2, tmp_path, 5)
    ray.kill(busy)
    assert len(found) == 2 and len(set(found)) == 1 and small_host not in found


class Busy:
    """An actor that has a place."""

    def wait(self) -> None:
        """Returns once it is there."""


def reason(kind: type[strata.StrataError], job: str, **how: object) -> str:
    """Returns the text of the exception, which must be of a kind and one line."""
    with pytest.raises(kind) as raised:
        strata.ray.launch(job, show=lambda line: None, **how)  # type: ignore[arg-type]
    assert type(raised.value) is kind and "\n" not in str(raised.value)
    return str(raised.value)


def test_what_cannot_be_is_one_line(tmp_path: pathlib.Path) -> None:
    runs = str(tmp_path)
    assert "ray: nowhere.textproto: No such file" in reason(
        strata.InvalidArgument, "nowhere.textproto", runs=runs
    )
    assert "ray: no room for 3 x 4 CPUs after 1 s: the cluster has 8 CPUs on 1 host(s)" == reason(
        strata.InvalidArgument, JOB, nodes=3, slots=4, timeout_s=1, runs=runs
    )
    assert "no field named" in reason(
        strata.InvalidArgument, JOB.replace("max_steps", "steps_max"), runs=runs
    )
    why = reason(strata.JobStopped, JOB, runs=runs)
    assert "can never fit: needs 2 workers (ranks_per_node: 2); there is 1" in why
    must_be_over(tmp_path)


def dies(
    tmp_path: pathlib.Path, role: str, whose: Callable[[int], int], name: str = ""
) -> str:
    """Kills a process once a job trains; returns the reason that the launch gives."""
    killed: list[int] = []

    def kill(line: str) -> None:
        if line.startswith("step ") and not killed:
            killed.append(whose(process_of(tmp_path, role, name)))
            os.kill(killed[0], signal.SIGKILL)

    with pytest.raises(strata.JobStopped) as raised:
        strata.ray.launch(LONG, nodes=2, runs=str(tmp_path), show=kill)
    must_be_over(tmp_path)
    return str(raised.value)


def test_an_actor_that_dies_ends_all(tmp_path: pathlib.Path) -> None:
    text = dies(tmp_path, "worker", parent_of, "node-1")
    assert text.startswith("ray: The actor died unexpectedly") and "\n" not in text


def test_a_daemon_that_dies_is_named(tmp_path: pathlib.Path) -> None:
    text = dies(tmp_path, "coordinator", lambda pid: pid)
    assert text.startswith(f"ray: coordinator on {os.uname().nodename} has ended"), text


def test_a_job_that_loses_a_worker_fails_with_its_reason(tmp_path: pathlib.Path) -> None:
    text = dies(tmp_path, "worker", lambda pid: pid, "node-1")
    assert text.startswith("ray: worker-node-1 on ") or "node-1" in text, text


def test_ctrl_c_ends_all(tmp_path: pathlib.Path) -> None:
    script = textwrap.dedent(
        f"""
        import strata.ray
        try:
            strata.ray.launch({LONG!r}, nodes=2, runs={str(tmp_path)!r})
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        """
    )
    address = ray.get_runtime_context().gcs_address
    env = environment(PYTHONUNBUFFERED="1", RAY_ADDRESS=address)
    with subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=env,
        start_new_session=True,
    ) as running:
        assert running.stdout is not None
        said = []
        for line in running.stdout:
            said.append(line)
            if line.startswith("step "):
                running.send_signal(signal.SIGINT)
                break
        said += list(running.stdout)
        assert running.wait(60) == 0, "".join(said)
    assert "interrupted\n" in said
    must_be_over(tmp_path)
    assert processes_of(tmp_path) == []


def test_keys_of_actors_that_were_killed_go(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for name in ("strata-ray-4194305-a", f"strata-ray-{os.getpid()}-b", "other-4194305-c"):
        (tmp_path / name).mkdir()
    _ray_host.clear_left_keys()
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == ["other-4194305-c", f"strata-ray-{os.getpid()}-b"]


def test_daemons_end_with_an_actor_that_is_killed(tmp_path: pathlib.Path) -> None:
    words = ["coordinator", "--listen", "127.0.0.1:0", "--insecure", "--state", str(tmp_path / "s")]
    script = f"""
        import time
        from strata._ray_host import Host
        host = Host({str(tmp_path)!r})
        print(host.start("coordinator", {words!r}, 60), flush=True)
        time.sleep(60)
        """
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)],
        stdout=subprocess.PIPE,
        text=True,
        env=environment(TMPDIR=str(tmp_path)),
    ) as running:
        assert running.stdout is not None
        assert " ready " in running.stdout.readline()
        assert len(programs(tmp_path)) == 1
        running.kill()
    deadline = time.monotonic() + 20
    while programs(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert programs(tmp_path) == {}


def test_without_ray_it_says_so(tmp_path: pathlib.Path) -> None:
    script = """
        import sys
        sys.modules["ray"] = None
        import strata, strata.ray
        try:
            strata.ray.launch("job.textproto")
        except strata.InvalidArgument as error:
            print(error)
        """
    result = execute([sys.executable, "-c", textwrap.dedent(script)], tmp_path)
    assert result.out == "ray: the package ray is not there: pip install ray\n", result.err
