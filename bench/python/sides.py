"""The sides of a comparison: how Strata and a peer train a model with rank.py, here or in the lab.

A side's result is what rank 0 has printed, and the most memory that was held meanwhile.
"""

import glob
import json
import os
import socket
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.dirname(HERE))
from cases import RATIO_OF_BYTES  # noqa: E402
from cluster import Cluster, children_of, command_of, fail, resident  # noqa: E402

RANK = os.path.join(HERE, "rank.py")
DEADLINE_S = 900
SWITCH = "10.78.0.254"  # of netlab.sh, on no shaped link
QUIET = ("--log-level", "warning")


def set_environment():
    """Gives all that this process starts what ranks want: this tree's package, and one thread."""
    path = [os.path.join(os.path.dirname(os.path.dirname(HERE)), "python")]
    path += [os.environ[name] for name in ("PYTHONPATH",) if os.environ.get(name)]
    os.environ.update(PYTHONPATH=os.pathsep.join(path), OMP_NUM_THREADS="1")


def read(path):
    with open(path, encoding="utf-8") as text:
        return text.read()


def family(pid):
    """Ids of a process and of those below it."""
    return [pid, *(one for child in children_of(pid) for one in family(child))]


class Peak:
    """The most memory that some processes and those below them have held at one time, in bytes.

    Shared pages count in proportion, so that sums count them once. Strata's coordinator and command
    are left out.
    """

    def __init__(self):
        self.ever = 0
        self.training = 0  # while rank 0 makes the timed steps
        self.training_without_servers = 0  # which may be another host's

    def read(self, processes, is_training):
        total = servers = 0
        for pid in (one for process in processes for one in family(process.pid)):
            role = (command_of(pid) + ["", ""])[1]
            if role not in ("coordinator", "run"):
                held = resident(pid, "Pss")
                total += held
                servers += held if role == "server" else 0
        self.ever = max(self.ever, total)
        if is_training:
            self.training = max(self.training, total)
            self.training_without_servers = max(self.training_without_servers, total - servers)


class Started:
    """Processes of a side, whose output goes to files of a folder."""

    def __init__(self, folder):
        self._folder = folder
        self._processes = []

    def start(self, command, **more):
        path = self._path(len(self._processes))
        with open(path, "w", encoding="utf-8") as out:
            self._processes.append(
                subprocess.Popen(
                    command,
                    stdout=out,
                    stderr=subprocess.STDOUT,
                    cwd=self._folder,
                    env={**os.environ, **more},
                )
            )

    def result(self, mark, log=""):
        """Waits for all, and returns what rank 0 has said: in a log, else by the first of these.

        Memory is read where `mark` has words of rank.py. `log` is a pattern that fits one file.
        """
        peak, failed = Peak(), None
        deadline = time.monotonic() + DEADLINE_S
        try:
            while not failed and any([process.poll() is None for process in self._processes]):
                if time.monotonic() > deadline:
                    fail(f"no end after {DEADLINE_S} s:\n{self._text(0)}")
                if mark:
                    peak.read(self._processes, os.path.exists(mark[-1]))
                failed = next((one for one in self._processes if one.poll()), None)
                time.sleep(0.05)
        finally:
            for process in self._processes:
                if process.poll() is None:
                    process.kill()
                process.wait()
        failed = failed or next((one for one in self._processes if one.returncode), None)
        if failed:
            fail(f"{' '.join(failed.args)}:\n{self._text(self._processes.index(failed))}")
        if mark and not peak.training:
            fail("the steps were too fast to read memory: more of them (--steps)")
        text = read(glob.glob(log)[0]) if log else self._text(0)
        for line in text.splitlines():
            if line.startswith('{"seconds"'):
                return {**json.loads(line), **vars(peak)}
        return fail(f"rank 0 printed no result:\n{text}")

    def _path(self, number):
        return os.path.join(self._folder, f"output-{number}")

    def _text(self, number):
        return read(self._path(number))


class Here:
    """All on this host."""

    def __init__(self, options, folder):
        self.options, self.folder = options, folder

    def _mark(self, case):
        """Words of rank.py where memory is compared."""
        if case.figure != RATIO_OF_BYTES:
            return []
        return ["--mark", os.path.join(self.folder, "training")]

    def strata(self, case, words):
        return self._strata(case, words, [])

    def _strata(self, case, words, where, log=""):
        started, mark = Started(self.folder), self._mark(case)
        started.start(
            [self.options.strata, "run", "-n", str(case.ranks), "--python", self.options.python]
            + [*case.run, *where, *self.options.options]
            + [RANK, "strata", *words, *case.ours, *mark]
        )
        return started.result(mark, log)

    def peer(self, case, words):
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
        return self._peers(case, words, [[]] * case.ranks, "127.0.0.1", port)

    def _peers(self, case, words, hosts, address, port, **more):
        started, mark = Started(self.folder), self._mark(case)
        for rank, host in enumerate(hosts):
            started.start(
                [*host, self.options.python, RANK, case.peer, *words, *case.theirs, *mark],
                MASTER_ADDR=address,
                MASTER_PORT=str(port),
                RANK=str(rank),
                WORLD_SIZE=str(case.ranks),
                **more,
            )
        return started.result(mark)


class Lab(Here):
    """Ranks on hosts of their own, which netlab.sh has made, and Strata's servers on the next."""

    def __init__(self, options, folder):
        super().__init__(options, folder)
        with open(options.hosts_file, encoding="utf-8") as lines:
            fields = [line.split() for line in lines]
        self._addresses = [field[1] for field in fields]
        self._hosts = [field[2:] for field in fields]  # what is put before a command there
        self._port = 29500

    def strata(self, case, words):
        scratch = tempfile.mkdtemp(dir=self.folder)
        with Cluster(self.options.strata, scratch) as cluster:
            state = os.path.join(scratch, "state")
            _, ready = cluster.start(
                "coordinator", "--listen", SWITCH + ":0", "--insecure", "--state", state, *QUIET
            )
            where = ["--coordinator", ready["address"], "--insecure"]
            for number in range(case.ranks):
                host = self._hosts[case.ranks + number]
                cluster.start("server", *where, *QUIET, "--name", f"s{number}", host=host)
            for number in range(case.ranks):
                name = ["--name", f"n{number}", "--slots", "1", "--runs", cluster.runs]
                cluster.start("worker", *where, *QUIET, *name, host=self._hosts[number])
            # On a running cluster the ranks' output is only in the job's folder.
            log = os.path.join(cluster.runs, "*", "logs", "rank0.log")
            where += ["--nodes", str(case.ranks)]
            return self._strata(case, words, where, log)

    def peer(self, case, words):
        self._port += 1
        return self._peers(
            case,
            words,
            self._hosts[: case.ranks],
            self._addresses[0],
            self._port,
            GLOO_SOCKET_IFNAME="eth0",
        )
