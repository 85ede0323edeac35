"""A job on the hosts of a Ray cluster: actors start a coordinator, servers and workers."""

from __future__ import annotations

import importlib
import json
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from strata import errors
from strata._ray_host import Host

__all__ = ["Result", "launch"]

_POLL_S = 0.2
_CLOSE_S = 60.0
_BEGIN_S = 60.0  # for an actor that has its place, whatever the wait for room
_PACK_S = 5.0  # for a place that is free, once there was no room on hosts of their own
_JOB = "job"  # the name of the command that follows the job


@dataclass
class Result:
    """How a job ended, and what it left."""

    state: str = "finished"
    """always that: a job that ends otherwise is a `strata.JobStopped`"""
    metrics: dict[str, Any] = field(default_factory=dict)
    """the last step, loss, test accuracy and so on, by name"""
    run_dir: str = ""
    """the run directory, on `host`"""
    host: str = ""
    """the host that the job's first node ran on"""


def launch(
    job: str | os.PathLike[str],
    *,
    nodes: int = 1,
    slots: int = 2,
    servers: int | None = None,
    shards: int = 1,
    gpus: int = 0,
    options: Sequence[str] = (),
    runs: str | None = None,
    timeout_s: float = 60,
    show: Callable[[str], None] = print,
) -> Result:
    """Runs a job on `nodes` hosts of the Ray cluster, and returns how it ended.

    `job` is a job file, or its text; `options` are further ones of `strata submit`, such as
    ["--mode", "ssp(3)"]. Each node has a worker of `slots` ranks, for which Ray gives it as many
    CPUs, and `gpus` GPUs. `servers` (default: one a node) go to the nodes in turn, with `shards`
    each. Nodes go to hosts of their own (STRICT_SPREAD) where Ray has as many that are large
    enough, and they get free within `timeout_s`; else where there is room (PACK). Every host has
    this package. `runs` is the folder of run directories and logs, by the same path on each host
    (default: strata-runs/ray-TIME here). `show` gets each line of progress. Waits up to `timeout_s`
    for room, and for each daemon to be ready.

    Raises `errors.InvalidArgument`: ray is not there, has no room, or options do not hold;
    `errors.JobStopped` with the reason where the job failed, or a daemon or an actor died. However
    it ends, also by Ctrl-C, all that it started ends.
    """
    ray = _ray()
    if nodes < 1 or slots < 1 or shards < 1 or gpus < 0:
        raise errors.InvalidArgument("ray: nodes, slots and shards are at least 1, gpus at least 0")
    content = _content(job)
    folder = os.path.abspath(runs or time.strftime("strata-runs/ray-%Y%m%d-%H%M%S"))
    if not ray.is_initialized():
        ray.init()
    run = _Run(ray, folder, timeout_s)
    try:
        run.reserve(nodes, slots, gpus)
        run.start(slots, nodes if servers is None else servers, shards)
        return run.follow(content, list(options), show)
    except (ray.exceptions.RayActorError, ray.exceptions.GetTimeoutError) as error:
        raise errors.JobStopped(f"ray: {_one_line(error)}") from None
    except ray.exceptions.RayTaskError as error:
        raise errors.JobStopped(f"ray: {_one_line(error.cause)}") from None
    finally:
        run.close()


def _ray() -> Any:
    try:
        return importlib.import_module("ray")
    except ImportError:
        raise errors.InvalidArgument(
            "ray: the package ray is not there: pip install ray"
        ) from None


def _content(job: str | os.PathLike[str]) -> bytes:
    if isinstance(job, str) and "{" in job:
        return job.encode()
    try:
        with open(job, "rb") as file:
            return file.read()
    except OSError as error:
        raise errors.InvalidArgument(f"ray: {os.fspath(job)}: {error.strerror}") from None


def _one_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


class _Run:
    """A cluster of actors; ends with `close`."""

    def __init__(self, ray: Any, runs: str, timeout_s: float) -> None:
        self._ray, self._runs, self._timeout_s = ray, runs, timeout_s
        self._group: Any = None
        self._actors: list[Any] = []
        self._hosts: list[str] = []
        self._addresses: list[str] = []
        # Actor and name of each daemon, in the order in which they were started.
        self._daemons: list[tuple[int, str]] = []
        self._access: list[str] = []

    def _get(self, call: Any, timeout_s: float | None = None) -> Any:
        return self._ray.get(call, timeout=self._timeout_s if timeout_s is None else timeout_s)

    def reserve(self, nodes: int, slots: int, gpus: int) -> None:
        """Creates a placement group, and an actor in each of its bundles."""
        ray = self._ray
        alive = [each for each in ray.nodes() if each["Alive"]]
        need = {"CPU": float(slots), **({"GPU": float(gpus)} if gpus else {})}
        if not self._place([need] * nodes, alive):
            raise errors.InvalidArgument(
                f"ray: no room for {nodes} x {slots} CPUs" + (f" and {gpus} GPUs" if gpus else "")
                + f" after {self._timeout_s:g} s: the cluster has"
                f" {ray.cluster_resources().get('CPU', 0):g} CPUs on {len(alive)} host(s)"
            )
        scheduling = importlib.import_module("ray.util.scheduling_strategies")
        actor = ray.remote(Host)
        for number in range(nodes):
            place = scheduling.PlacementGroupSchedulingStrategy(
                self._group, placement_group_bundle_index=number
            )
            self._actors.append(
                actor.options(
                    num_cpus=slots, num_gpus=gpus, scheduling_strategy=place, max_restarts=0
                ).remote(self._runs)
            )
        told = self._get(
            [each.describe.remote() for each in self._actors], max(self._timeout_s, _BEGIN_S)
        )
        versions = {version for version, _, _ in told}
        if len(versions) > 1:
            raise errors.InvalidArgument(f"ray: hosts have other versions: {sorted(versions)}")
        self._hosts = [host for _, host, _ in told]
        addresses = {each["NodeID"]: each["NodeManagerAddress"] for each in alive}
        places = ray.util.placement_group_table(self._group)["bundles_to_node_id"]
        self._addresses = [addresses[places[number]] for number in range(nodes)]

    def _place(self, bundles: list[dict[str, float]], alive: list[Any]) -> bool:
        """Creates the placement group. Hosts that are too small are not counted for spreading, and
        busy hosts are not waited for if the others have room."""
        fit = [
            host
            for host in alive
            if all(host["Resources"].get(name, 0) >= need for name, need in bundles[0].items())
        ]
        waits_s = {"PACK": self._timeout_s}
        if 1 < len(bundles) <= len(fit):
            waits_s = {"STRICT_SPREAD": self._timeout_s, "PACK": min(_PACK_S, self._timeout_s)}
        for strategy, wait_s in waits_s.items():
            if self._group is not None:
                self._ray.util.remove_placement_group(self._group)
            self._group = self._ray.util.placement_group(bundles, strategy=strategy)
            if self._group.wait(wait_s):
                return True
        return False

    def start(self, slots: int, servers: int, shards: int) -> None:
        """Starts the daemons, with keys of this run only, one after another, so that node 0 of the
        job is the first worker."""
        workers = [f"node-{number}" for number in range(len(self._actors))]
        members = ["coordinator/head", "user/ray", *[f"worker/{name}" for name in workers]]
        members += [f"server/s{number}" for number in range(servers)]
        keys = self._get(self._actors[0].make_keys.remote(members))

        def give(actor: int, name: str) -> list[str]:
            return ["--keys", self._keep(actor, name, keys[name])]

        words = ["coordinator", "--listen", "0.0.0.0:0", "--state", f"{self._runs}/state"]
        line = self._start(0, "coordinator", [*words, *give(0, "coordinator-head.pem")])
        port = line.split("address=")[1].split()[0].rpartition(":")[2]
        coordinator = ["--coordinator", f"{self._addresses[0]}:{port}"]
        for number in range(servers):
            actor, name = number % len(self._actors), f"s{number}"
            words = ["server", *coordinator, "--name", name, "--listen", "0.0.0.0"]
            words += ["--advertise", self._addresses[actor], "--shards", str(shards)]
            self._start(actor, f"server-{name}", words + give(actor, f"server-{name}.pem"))
        for actor, name in enumerate(workers):
            words = ["worker", *coordinator, "--name", name, "--slots", str(slots)]
            words += ["--advertise", self._addresses[actor], "--runs", self._runs]
            self._start(actor, f"worker-{name}", words + give(actor, f"worker-{name}.pem"))
        self._access = [*coordinator, *give(0, "user-ray.pem")]

    def _keep(self, actor: int, name: str, content: bytes) -> str:
        return str(self._get(self._actors[actor].keep.remote(name, content)))

    def _start(self, actor: int, name: str, words: list[str]) -> str:
        self._daemons.append((actor, name))
        call = self._actors[actor].start.remote(name, words, self._timeout_s)
        return str(self._get(call, self._timeout_s + _CLOSE_S))

    def follow(
        self, content: bytes, options: list[str], show: Callable[[str], None]
    ) -> Result:
        """Submits the job, and waits for its end while all actors and daemons are alive."""
        first = self._actors[0]
        path = self._keep(0, "job.textproto", content)
        words = ["submit", path, *options, *self._access, "--follow"]
        self._get(first.start.remote(_JOB, words))
        seen, status, number = 0, None, ""
        while status is None:
            lines, status = self._get(first.said.remote(_JOB, seen))
            for line in lines:
                number = number or line.split()[1]  # "job 1 (digits) submitted"
                show(line)
            seen += len(lines)
            if status is None:
                self._check_all_live()
                time.sleep(_POLL_S)
        ended = self._get(first.ended.remote())
        if status != 0:
            reason = ended[_JOB].removeprefix("strata: error: ")
            raise (errors.InvalidArgument if status == 2 else errors.JobStopped)(f"ray: {reason}")
        said = json.loads(self._get(first.ask.remote(["status", number, "--json", *self._access])))
        host = self._hosts[int(said["nodes"][0]["daemon"].rpartition("-")[2])]
        return Result(said["state"], said["progress"], said["run_dir"], host)

    def _check_all_live(self) -> None:
        for actor, found in enumerate(self._get([each.ended.remote() for each in self._actors])):
            for name, last_words in found.items():
                if name != _JOB:
                    raise errors.JobStopped(
                        f"ray: {name} on {self._hosts[actor]} has ended: {last_words}"
                    )

    def close(self) -> None:
        """Ends everything in the order in which a cluster stops, even if some parts are gone."""
        stops = [(0, _JOB), *reversed(self._daemons)] if self._daemons else []
        for actor, name in stops:
            with suppress(self._ray.exceptions.RayError):
                self._get(self._actors[actor].stop.remote(name), _CLOSE_S)
        for each in self._actors:
            with suppress(self._ray.exceptions.RayError):
                self._get(each.close.remote(), _CLOSE_S)
            self._ray.kill(each)
        if self._group is not None:
            self._ray.util.remove_placement_group(self._group)
