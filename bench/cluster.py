"""Daemons on this machine for the programs of this folder, and what they ask of them."""

import errno
import glob
import hashlib
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time


def fail(text):
    """Ends the program with one line that names it."""
    sys.exit(f"{os.path.splitext(os.path.basename(sys.argv[0]))[0]}: {text}")


def free_port():
    """Returns a port that nobody listens on, from below those that the kernel gives out itself."""
    for _ in range(100):
        port = random.SystemRandom().randrange(10_000, 30_000)
        try:
            with socket.create_server(("127.0.0.1", port)):
                return port
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
    raise OSError("no free port among 100")


class Cluster:
    """Daemons that a program starts one by one; all are stopped where the context ends."""

    def __init__(self, strata, scratch):
        self.strata = os.path.abspath(strata)
        self.scratch = scratch
        self.runs = os.path.join(scratch, "runs")
        self.address = None
        self.keys = []  # what a command has besides the address
        self.daemons = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for daemon in reversed(self.daemons):
            daemon.send_signal(signal.SIGTERM)
            try:
                daemon.wait(timeout=60)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()

    def launch(self, *arguments, host=(), log=None):
        """A daemon's process. `host`: what is put before a command so that it runs there; `log`:
        the file that its standard error is added to.
        """
        # Its memory and open files are measured, for which only root has the right otherwise.
        daemon = subprocess.Popen([*host, self.strata, *arguments], stdout=subprocess.PIPE,
                                  stderr=log, text=True,
                                  env={**os.environ, "STRATA_DUMPABLE": "1"})
        self.daemons.append(daemon)
        return daemon

    def await_ready(self, daemon):
        """Returns the fields of the daemon's line that it is ready."""
        line = daemon.stdout.readline()
        if " ready " not in line:
            fail(f"{' '.join(daemon.args)}: {line}")
        return dict(word.split("=", 1) for word in line.split() if "=" in word)

    def start(self, *arguments, host=()):
        """Returns the daemon's process and the fields of its line that it is ready."""
        daemon = self.launch(*arguments, host=host)
        return daemon, self.await_ready(daemon)

    def start_local(self, nodes, listen="127.0.0.1:0"):
        """A whole cluster with 1 server and nodes of 1 slot; returns the process above them.

        At a port it has keys, at a Unix socket none.
        """
        local, ready = self.start("local", "--servers", "1", "--nodes", str(nodes), "--slots", "1",
                                  "--listen", listen, "--runs", self.runs)
        self.address = ready["coordinator"]
        self.keys = ["--keys", ready["keys"]] if "keys" in ready else []
        return local

    def start_small(self):
        """A server and a worker with 2 slots, and a coordinator at a Unix socket; returns the
        processes of coordinator and worker.
        """
        self.address = f"unix:{self.scratch}/c"
        coordinator, _ = self.start("coordinator", "--listen", self.address, "--state",
                                    os.path.join(self.scratch, "state"), "--log-level", "error")
        way = ("--coordinator", self.address, "--log-level", "error")
        self.start("server", *way, "--name", "s0")
        worker, _ = self.start("worker", *way, "--name", "w0", "--slots", "2", "--gpus", "none",
                               "--runs", self.runs)
        return coordinator, worker

    def call(self, *arguments):
        """Returns the output of a command on the cluster."""
        return self.call_alone(*arguments, "--coordinator", self.address, *self.keys)

    def call_alone(self, *arguments):
        """The same of a command that asks no coordinator."""
        done = self._run(*arguments)
        if done.returncode != 0:
            fail(f"strata {' '.join(arguments)}: {done.stderr}")
        return done.stdout

    def refusal(self, *arguments):
        """Why a command on the cluster is refused; empty: it was done."""
        done = self._run(*arguments, "--coordinator", self.address, *self.keys)
        return done.stderr.strip() or "refused" if done.returncode != 0 else ""

    def _run(self, *arguments):
        return subprocess.run([self.strata, *arguments], capture_output=True, text=True,
                              timeout=300, check=False)

    def submit(self, name, job):
        """`job`: text of the job, without its run directory, which is returned."""
        path = os.path.join(self.scratch, name + ".textproto")
        run_dir = os.path.join(self.runs, name)
        with open(path, "w", encoding="utf-8") as out:
            out.write(f'{job}\nrun_dir: "{run_dir}"\n')
        self.call("submit", path)
        return run_dir

    def status(self, name):
        return json.loads(self.call("status", name, "--json"))

    def nodes(self):
        return json.loads(self.call("nodes", "--json"))["daemons"]

    def watch(self, name, every_s, limit_s):
        """Yields the job's status until it has finished; its last one too."""
        deadline = time.time() + limit_s
        while True:
            status = self.status(name)
            yield status
            if status["state"] not in ("queued", "running"):
                break
            if time.time() > deadline:
                fail(f"{name} does not end: {status}")
            time.sleep(every_s)
        if status["state"] != "finished":
            fail(f"{name}: {status['reason']}")

    def await_end(self, name):
        for _ in self.watch(name, 0.1, 600):
            pass


def logs_of_node(run_dir, node):
    """The logs of a node with one rank: those of its aggregator and its rank."""
    return [os.path.join(run_dir, "logs", name)
            for name in (f"aggregator-node{node}.log", f"rank{node}.log")]


def writing_to(logs):
    """Ids of the processes whose standard output is one of these files."""
    found = []
    for link in glob.glob("/proc/[0-9]*/fd/1"):
        try:
            if os.readlink(link) in logs:
                found.append(int(link.split("/")[2]))
        except OSError:
            pass
    return found


def resident(pid, field):
    """Bytes of a line of smaps_rollup; 0 when the process is gone."""
    try:
        with open(f"/proc/{pid}/smaps_rollup", encoding="utf-8") as lines:
            for line in lines:
                if line.startswith(field + ":"):
                    return int(line.split()[1]) * 1024
    except (OSError, ProcessLookupError):
        pass
    return 0


def children_of(pid):
    """Ids of the processes that any thread of a process has started; none when it is gone."""
    found = []
    for path in glob.glob(f"/proc/{pid}/task/*/children"):
        try:
            with open(path, encoding="utf-8") as text:
                found += [int(word) for word in text.read().split()]
        except OSError:
            pass
    return found


def command_of(pid):
    """The words that a process was started with; none when it is gone."""
    try:
        with open(f"/proc/{pid}/cmdline", encoding="utf-8", errors="replace") as text:
            return text.read().split("\0")[:-1]
    except OSError:
        return []


def weights(run_dir):
    """Hash of the final weights: what follows the header, which has the job's name."""
    with open(os.path.join(run_dir, "model.safetensors"), "rb") as saved:
        header = int.from_bytes(saved.read(8), "little")
        saved.seek(8 + header)
        return hashlib.sha256(saved.read()).hexdigest()


def keep_logs(scratch, logs):
    """Copies what tells of a run."""
    os.makedirs(logs, exist_ok=True)
    for name in os.listdir(scratch):
        if name.endswith((".log", ".textproto")):
            shutil.copy(os.path.join(scratch, name), logs)
    runs = os.path.join(scratch, "runs")
    if os.path.isdir(runs):
        shutil.copytree(runs, os.path.join(logs, "runs"), dirs_exist_ok=True,
                        ignore=shutil.ignore_patterns("*.safetensors"))
