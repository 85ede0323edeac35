"""Who can do a step of an exchange: each function runs one contender once, on this host or on hosts
of bench/netlab.sh, and returns a Run. All of them do the same work: every node brings the same
values, and afterwards holds their sum or the weights made of it; every value of every step is
verified.
"""

import json
import os
import shutil
import socket
import struct
import subprocess
import tempfile
import threading
from dataclasses import dataclass, field

DEADLINE_S = 600


class Skipped(Exception):
    """The contender cannot run here; the text says why."""


@dataclass
class Work:
    """What is to be done in every step."""
    nodes: int
    servers: int
    size: int  # bytes that every node brings
    steps: int
    warmup: int
    # (address, what is put before a command to run it there); nodes first; empty: this host
    hosts: list = field(default_factory=list)


@dataclass
class Run:
    steps_ms: list
    verified: bool
    facts: dict = field(default_factory=dict)


class Gate:
    """Where the processes of a peer meet before a step; the protocol of measure/exchange/gate.h."""

    ARRIVAL = struct.Struct("<dII")

    def __init__(self, participants):
        self.listening = socket.create_server(("0.0.0.0", 0))
        self.port = self.listening.getsockname()[1]
        self.participants = participants
        self.steps_ms, self.right = [], True
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        connections = []
        try:
            for _ in range(self.participants):
                connection, _ = self.listening.accept()
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                connections.append(connection)
            while self.meet(connections):
                pass
        except OSError:
            pass
        for connection in connections:
            connection.close()

    def meet(self, connections):
        slowest = -1.0
        for connection in connections:
            said = connection.recv(self.ARRIVAL.size, socket.MSG_WAITALL)
            if len(said) < self.ARRIVAL.size:
                return False
            step_ms, wrong, _ = self.ARRIVAL.unpack(said)
            slowest = max(slowest, step_ms)
            self.right = self.right and wrong == 0
        if slowest >= 0:
            self.steps_ms.append(slowest)
        for connection in connections:
            connection.sendall(b"1")
        return True

    def close(self):
        self.listening.close()


def binary(folder, path):
    full = os.path.join(folder, path)
    if not os.access(full, os.X_OK):
        raise Skipped(f"{path} is not built: its library is not installed")
    return full


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


def own_address(work):
    """Under which the hosts reach this process."""
    if not work.hosts:
        return "127.0.0.1"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((work.hosts[0][0], 9))
        return probe.getsockname()[0]


def host(work, number):
    return work.hosts[number] if work.hosts else ("127.0.0.1", [])


def finish(processes, who):
    """Waits for all of them; none is left behind."""
    failure = None
    try:
        for process in processes:
            _, err = process.communicate(timeout=DEADLINE_S)
            if process.returncode != 0 and failure is None:
                failure = f"{who}: exit status {process.returncode}: {err.strip()[-500:]}"
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
                process.wait()
    if failure:
        raise RuntimeError(failure)


def start(command):
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                            stderr=subprocess.PIPE, text=True)


def peer(work, who, commands, participants=None):
    """Runs the processes that `commands(options)` names, `options` being every peer's."""
    gate = Gate(participants or work.nodes)
    options = ["--nodes", str(work.nodes), "--bytes", str(work.size), "--steps", str(work.steps),
               "--warmup", str(work.warmup), "--gate", f"{own_address(work)}:{gate.port}"]
    try:
        finish([start(command) for command in commands(options)], who)
    finally:
        gate.close()
    gate.thread.join(timeout=10)
    steps_ms = gate.steps_ms[work.warmup:]
    return Run(steps_ms, gate.right and len(steps_ms) == work.steps)


def bench(work, folder, what, more):
    """What `strata bench WHAT` finds out, as a Run."""
    command = [binary(folder, "cli/strata"), "bench", what, "--json", "--bytes", str(work.size),
               "--steps", str(work.steps), "--warmup", str(work.warmup), *more]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S,
                          check=False)
    if done.returncode == 2:
        raise Skipped(done.stderr.strip())
    if done.returncode != 0:
        raise RuntimeError(f"strata: {done.stderr.strip()[-500:]}")
    facts = json.loads(done.stdout)
    return Run(facts["steps_ms"], facts["verified"], facts)


def strata(work, folder, more=(), hosts_file="", measure_s=0):
    return bench(work, folder, "exchange",
                 ["--nodes", str(work.nodes), "--servers", str(work.servers),
                  "--measure-s", str(measure_s),
                  *(["--hosts-file", hosts_file] if hosts_file else []), *more])


def strata_node(work, folder, more=()):
    """The node level: `work.nodes` is how many ranks the one node has."""
    return bench(work, folder, "aggregate", ["--ranks", str(work.nodes), *more])


def push_pull(work, folder, pipelined=False, message_bytes=1 << 20):
    program = binary(folder, "bench/peers/push_pull")

    def commands(options):
        addresses = []
        for k in range(work.servers):
            address, enter = host(work, work.nodes + k)
            port = free_port() if not work.hosts else 7400
            addresses.append(f"tcp://{address}:{port}")
            yield [*enter, program, *options, "--role", "server", "--listen", addresses[-1],
                   "--message-bytes", str(message_bytes)]
        for rank in range(work.nodes):
            yield [*host(work, rank)[1], program, *options, "--role", "worker", "--rank", str(rank),
                   "--servers", ",".join(addresses), "--message-bytes", str(message_bytes),
                   *(["--pipelined"] if pipelined else [])]

    return peer(work, "push_pull", commands)


def gloo(work, folder):
    program = binary(folder, "bench/peers/gloo_allreduce")
    store = tempfile.mkdtemp(prefix="strata-gloo-")

    def commands(options):
        for rank in range(work.nodes):
            address, enter = host(work, rank)
            yield [*enter, program, *options, "--rank", str(rank), "--store", store,
                   "--address", address]

    try:
        return peer(work, "gloo", commands)
    finally:
        shutil.rmtree(store, ignore_errors=True)


def mpi(work, folder, carrier, nonblocking=False):
    """`carrier`: OpenMPI's name of what carries the bytes, vader (shared memory) or tcp."""
    program = binary(folder, "bench/peers/mpi_allreduce")
    if not shutil.which("mpirun"):
        raise Skipped("mpirun is not installed")
    if work.hosts:
        raise Skipped("OpenMPI is measured on one host only")

    def commands(options):
        yield ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none",
               "--mca", "pml", "ob1", "--mca", "btl", f"{carrier},self",
               "--mca", "btl_tcp_if_include", "lo", "-n", str(work.nodes),
               program, *options, *(["--nonblocking"] if nonblocking else [])]

    return peer(work, "mpi", commands)


def zmq_mover(work, folder):
    """One way only, and no sum: what ZeroMQ moves at best."""
    program = binary(folder, "bench/peers/zmq_mover")

    def commands(options):
        at, _ = host(work, 1)
        address = f"tcp://{at}:{free_port() if not work.hosts else 7500}"
        for rank in (1, 0):
            yield [*host(work, rank)[1], program, *options, "--rank", str(rank),
                   "--address", address]

    return peer(work, "zmq_mover", commands, participants=2)
