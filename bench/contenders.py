"""Contenders for an exchange: each function runs one contender once, on this host or on hosts
of bench/netlab.sh, and returns a Run. All of them do the same work: every node brings the same
values, and afterwards holds their sum or the weights made of it; every value of every step is
verified.
"""

import functools
import glob
import json
import os
import pwd
import shutil
import socket
import struct
import subprocess
import tempfile
import threading
from dataclasses import dataclass, field

from cluster import free_port

DEADLINE_S = 600
SKIPPED = 77  # exit status of who cannot run here
HERE = os.path.dirname(os.path.abspath(__file__))


class Skipped(Exception):
    """The contender cannot run here; the text says why."""


@dataclass
class Work:
    """The work of every step."""
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
    """Where the processes of a peer meet before a step; the protocol of cli/bench/gate.h."""

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
    """Returns the result of `strata bench WHAT` as a Run."""
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


def curve_keys(program, options):
    """A key pair of this run for all servers; the texts of its public and its secret key."""
    done = subprocess.run([program, *options, "--role", "keys"], capture_output=True, text=True,
                          timeout=DEADLINE_S, check=False)
    if done.returncode == SKIPPED:
        raise Skipped(done.stderr.strip())
    if done.returncode != 0:
        raise RuntimeError(f"push_pull: {done.stderr.strip()[-500:]}")
    return done.stdout.split()


def push_pull(work, folder, pipelined=False, curve=False, message_bytes=1 << 20,
              way_to=lambda address: address):
    """`way_to`: where workers connect to reach an address, such as a relay before it."""
    program = binary(folder, "bench/push_pull")

    def commands(options):
        addresses, of_server, of_worker = [], [], []
        if curve:
            public, secret = curve_keys(program, options)
            of_server, of_worker = ["--curve-secret", secret], ["--curve-public", public]
        for k in range(work.servers):
            address, enter = host(work, work.nodes + k)
            port = free_port() if not work.hosts else 7400
            addresses.append(f"tcp://{way_to(f'{address}:{port}')}")
            yield [*enter, program, *options, "--role", "server", "--listen",
                   f"tcp://{address}:{port}", "--message-bytes", str(message_bytes), *of_server]
        for rank in range(work.nodes):
            yield [*host(work, rank)[1], program, *options, "--role", "worker", "--rank", str(rank),
                   "--servers", ",".join(addresses), "--message-bytes", str(message_bytes),
                   *(["--pipelined"] if pipelined else []), *of_worker]

    return peer(work, "push_pull", commands)


def gloo(work, folder):
    program = binary(folder, "bench/gloo_allreduce")
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


@functools.cache
def torch_pythons():
    """Interpreters that have PyTorch, with its version: deploy/python_env.sh's, then Debian's."""
    user_home = pwd.getpwuid(os.getuid()).pw_dir  # not $HOME: tests have another one
    home = os.environ.get("STRATA_PYTHON_HOME", f"{user_home}/.cache/strata-python")
    found = {}
    for python in [*sorted(glob.glob(f"{home}/torch-*/bin/python")), "/usr/bin/python3"]:
        done = subprocess.run([python, "-c", "import torch; print(torch.__version__)"],
                              capture_output=True, text=True, check=False)
        if done.returncode == 0:
            found[python] = done.stdout.strip()
    return found


def make_certificate(folder):
    """An authority of its own and a certificate for all ranks, as Gloo wants them in files."""
    os.makedirs(folder)
    new_key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    for words in (
            ["req", "-x509", *new_key, "-keyout", "ca.key", "-out", "ca.pem", "-days", "2",
             "-subj", "/CN=strata bench authority"],
            ["req", *new_key, "-keyout", "key.pem", "-out", "request.pem",
             "-subj", "/CN=strata bench"],
            ["x509", "-req", "-in", "request.pem", "-CA", "ca.pem", "-CAkey", "ca.key",
             "-CAcreateserial", "-days", "2", "-out", "cert.pem"]):
        done = subprocess.run(["openssl", *words], cwd=folder, capture_output=True, text=True,
                              check=False)
        if done.returncode != 0:
            raise RuntimeError(f"openssl: {done.stderr.strip()[-500:]}")
    return folder


def run_torch(work, python, tls_of=None):
    """`tls_of`: from a rank to the folder of its keys; none: plain TCP."""
    scratch = tempfile.mkdtemp(prefix="strata-torch-gloo-")

    def commands(options):
        for rank in range(work.nodes):
            address, enter = host(work, rank)
            yield [*enter, python, os.path.join(HERE, "peers", "torch_allreduce.py"), *options,
                   "--rank", str(rank), "--store", os.path.join(scratch, "store"), "--address",
                   address, *(["--tls", tls_of(rank)] if tls_of else [])]

    try:
        return peer(work, "torch_allreduce", commands)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


@functools.cache
def why_no_tls(python):
    """Empty where ranks with keys exchange, and those whose authorities differ make no handshake.

    The latter is how plain text shows: PyTorch 2.11 takes the keys, but its Gloo makes connections
    by a function that its TLS does not override.
    """
    if not shutil.which("openssl"):
        return "openssl is not installed"
    tiny = Work(nodes=2, servers=0, size=4096, steps=1, warmup=0)
    with tempfile.TemporaryDirectory(prefix="strata-tls-") as scratch:
        keys = [make_certificate(os.path.join(scratch, str(one))) for one in range(2)]
        try:
            run_torch(tiny, python, lambda rank: keys[0])
        except RuntimeError as failed:
            return str(failed).splitlines()[-1]
        try:
            run_torch(tiny, python, lambda rank: keys[rank])
        except RuntimeError as failed:
            return "" if "handshake" in str(failed) else str(failed).splitlines()[-1]
    return "takes the keys but sends plain text: ranks whose authorities differ exchange"


def torch_gloo(work, _, tls=False):
    """All-reduce by PyTorch's own Gloo: with and without TLS by the first that really encrypts."""
    pythons = torch_pythons()
    if not pythons:
        raise Skipped("PyTorch is not installed")
    usable = [python for python in pythons if not why_no_tls(python)]
    if not tls:
        return run_torch(work, [*usable, *pythons][0])
    if not usable:
        raise Skipped("; ".join(f"PyTorch {version}: {why_no_tls(python)}"
                                for python, version in pythons.items()))
    with tempfile.TemporaryDirectory(prefix="strata-tls-") as scratch:
        keys = make_certificate(os.path.join(scratch, "keys"))
        return run_torch(work, usable[0], lambda rank: keys)


def mpi(work, folder, carrier, nonblocking=False):
    """`carrier`: OpenMPI's name of what carries the bytes, vader (shared memory) or tcp."""
    program = binary(folder, "bench/mpi_allreduce")
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
    program = binary(folder, "bench/zmq_mover")

    def commands(options):
        at, _ = host(work, 1)
        address = f"tcp://{at}:{free_port() if not work.hosts else 7500}"
        for rank in (1, 0):
            yield [*host(work, rank)[1], program, *options, "--rank", str(rank),
                   "--address", address]

    return peer(work, "zmq_mover", commands, participants=2)
