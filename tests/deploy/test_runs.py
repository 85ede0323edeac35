"""The containers of deploy/kubernetes train, in pods of network namespaces.

Not Kubernetes: what reads the manifests here is pod.py and cluster.py.
"""

from __future__ import annotations

import json
import os
import pathlib
import time
from collections.abc import Iterator

import pytest

import kustomize
import network
from cluster import Cluster, run, wait

STRATA = os.path.realpath(os.environ.get("STRATA_COMMAND", "strata"))
FOLDER = pathlib.Path("deploy/kubernetes").resolve()
JOB = """
name: "digits"
model { zoo: "lenet5" }
data { synthetic { train_samples: 1024 test_samples: 128 } batch_per_rank: 16 }
optimizer { sgd {} }
schedule { base_lr: 0.02 }
ranks: 4
ranks_per_node: 2
max_steps: 60
epochs: 100
seed: 1
consistency { sync {} }
"""
ELASTIC = JOB.replace("max_steps: 60", "max_steps: 300 ranks_min: 2 ranks_max: 4")
# So that it does not end before a pod is back, whichever node was there.
SLOWLY = ("--straggler", "node=0,delay=40ms", "--straggler", "node=1,delay=40ms")


@pytest.fixture(scope="session", autouse=True)
def own_network() -> None:
    try:
        network.enter_own()
    except network.NoNamespaces as reason:
        pytest.skip(str(reason))


def started(name: str) -> Iterator[Cluster]:
    made = Cluster(kustomize.build(FOLDER / name), STRATA)
    try:
        yield made
    except BaseException:
        print(made.logs())
        raise
    finally:
        made.end()


@pytest.fixture(scope="module")
def standing() -> Iterator[Cluster]:
    """A cluster whose pods have joined as docs/kubernetes.md says."""
    for cluster in started("cluster"):
        cluster.start_set("coordinator")
        cluster.wait_ready(30)
        words = ["strata", "keys", "token", "server", "worker", "--uses", "16"]
        made = cluster.pods["coordinator-0"].container("coordinator").exec(words)
        assert made.returncode == 0, made.stderr
        cluster.add_secret("join", {"token": made.stdout.encode()})
        cluster.start_set("server")
        cluster.start_set("worker")
        cluster.wait_ready(30)
        wait_alive(cluster, "server-0", "server-1", "worker-0", "worker-1")
        yield cluster


def strata(cluster: Cluster, *words: str, stdin: str = "") -> str:
    """Runs a command in the coordinator's pod, as docs/kubernetes.md says."""
    pod = cluster.pods["coordinator-0"].container("coordinator")
    done = pod.exec(["strata", *words], stdin=stdin)
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout


def wait_alive(cluster: Cluster, *names: str) -> None:
    def are_alive() -> bool:
        listed = json.loads(strata(cluster, "nodes", "--json"))["daemons"]
        usable = {each["name"] for each in listed if each["alive"] and not each["draining"]}
        return usable >= set(names)

    wait(f"{names} are alive", are_alive, 30)


def model_of_local(folder: pathlib.Path, job: str) -> bytes:
    path = folder / "job.textproto"
    path.write_text(job)
    words = [STRATA, "local", "--servers", "2", "--shards", "2", "--nodes", "2", "--slots", "2"]
    run([*words, "--job", str(path), "--runs", str(folder / "runs")])
    return model_in(folder / "runs")


def model_in(folder: pathlib.Path) -> bytes:
    (found,) = folder.glob("**/model.safetensors")
    return found.read_bytes()


def test_a_standing_cluster_trains_with_the_bits_of_strata_local(
    standing: Cluster, tmp_path: pathlib.Path
) -> None:
    said = strata(standing, "submit", "/dev/stdin", "--follow", stdin=JOB)
    assert "finished" in said
    # Whichever worker has joined first has rank 0.
    assert model_in(standing.site.folder / "claims") == model_of_local(tmp_path, JOB)
    assert standing.refused == set(), "connections that no NetworkPolicy lets in"
    seen = {(source, to) for source, to, _ in standing.connections}
    wanted = {("server", "coordinator"), ("worker", "coordinator"), ("worker", "server")}
    assert wanted <= seen
    unsteady = {
        name: [(each.name, each.starts, each.unready) for each in pod.main]
        for name, pod in standing.pods.items()
        if any(each.starts != 1 or each.unready for each in pod.main)
    }
    assert unsteady == {}


def test_a_worker_that_is_deleted_leaves_its_job_and_comes_back(standing: Cluster) -> None:
    job = strata(standing, "submit", "/dev/stdin", *SLOWLY, stdin=ELASTIC).split()[1]
    status = lambda: json.loads(strata(standing, "status", job, "--json"))
    wait("the job trains", lambda: status()["progress"]["step"] >= 20, 30)
    gone = next(each["node"] for each in status()["nodes"] if each["daemon"] == "worker-1")
    pod = standing.pods["worker-1"]
    took_s = standing.delete("worker-1")
    assert (pod.killed, pod.main[0].status) == ([], 0)
    assert took_s < 60
    assert f"node {gone} leaves with step" in strata(standing, "status", job)
    # The same name and claim in a new pod, whose token is of no more use.
    standing.add_secret("join", {})
    standing.start_pod_of_set("worker", 1)
    wait_alive(standing, "worker-1")
    joins = f"node {gone} joins with step"
    wait(joins, lambda: joins in strata(standing, "status", job), 30)
    assert "finished" in strata(standing, "status", job, "--follow")


def test_a_coordinator_that_moves_keeps_its_cluster(standing: Cluster) -> None:
    standing.delete("coordinator-0")
    standing.start_pod_of_set("coordinator", 0)
    standing.wait_ready(30, "coordinator-0")
    wait_alive(standing, "server-0", "server-1", "worker-0", "worker-1")
    assert [pod.restarts() for pod in standing.pods.values()] == [0] * 5
    assert "finished" in strata(standing, "submit", "/dev/stdin", "--follow", stdin=JOB)


def test_all_end_in_order(standing: Cluster) -> None:
    for name in ("worker-0", "worker-1", "server-0", "server-1", "coordinator-0"):
        pod = standing.pods[name]
        took_s = standing.delete(name)
        assert (pod.killed, [each.status for each in pod.main]) == ([], [0]), name
        assert took_s < 30, name


def test_a_jobset_runs_its_job_and_ends(tmp_path: pathlib.Path) -> None:
    keys = tmp_path / "keys"
    members = ["coordinator/head", "user/job", "server/head-server", "worker/head"]
    members += ["server/node-0-server", "worker/node-0"]
    run([STRATA, "keys", "for-run", "--out", str(keys), *members])
    for cluster in started("job"):
        cluster.site.config_maps["job"] = {"job.textproto": JOB}
        cluster.add_secret("job-keys", {each.name: each.read_bytes() for each in keys.iterdir()})
        for name in ("head", "nodes", "submit"):
            cluster.start_jobs("job", name)
        head, node = cluster.pods["job-head-0-0"], cluster.pods["job-nodes-0-0"]
        followed = cluster.pods["job-submit-0-0"]
        followed.join(90)
        said = followed.container("submit").text()
        assert followed.container("submit").status == 0, said
        assert "on head, node-0" in said
        assert (head.restarts(), node.restarts()) == (0, 0)
        # The set has succeeded: its controller deletes what is left.
        for name, pod in [("job-head-0-0", head), ("job-nodes-0-0", node)]:
            took_s = cluster.delete(name)
            assert (pod.killed, [each.status for each in pod.main]) == ([], [0] * 2), name
            assert took_s < 30, name
        assert head.container("coordinator").status == 0
        assert model_in(cluster.site.claim("runs")) == model_of_local(tmp_path, JOB)
        assert cluster.refused == set(), "connections that no NetworkPolicy lets in"
        seen = {(source, to) for source, to, _ in cluster.connections}
        assert {("node", "head"), ("submit", "head")} <= seen
