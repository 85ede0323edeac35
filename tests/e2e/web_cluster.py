"""`strata web` beside a cluster of real processes, for tests that ask it."""

import http.client
import json
import os
import re
import signal
import ssl
import subprocess
import tempfile
import time
import unittest
import urllib.parse

STRATA = os.path.abspath("cli/strata")
DEADLINE_S = 120
# From SIGSTOP of a rank until it is named. That takes 2 to 3 s, which bench/web.py
# measures; here is only what no busy machine makes of it, and what a user would not wait for.
NAMED_WITHIN_S = 15
JOB = """
name: "watched"
model { zoo: "lenet5" }
data { synthetic { train_samples: 512 test_samples: 64 } batch_per_rank: 8 }
ranks: 2
ranks_per_node: 1
epochs: 1000000
metrics { every_steps: 5 }
"""


class Daemon:
    """A process of ours that says when it is ready."""

    def __init__(self, *args, env=None):
        self.args = args
        self.process = subprocess.Popen([STRATA, *args], stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True,
                                        env={**os.environ, **(env or {})})
        self.ready = self.process.stdout.readline()
        if " ready " not in self.ready:
            raise AssertionError(f"{args}: {self.ready} {self.process.stderr.read()}")

    def field(self, name):
        return re.search(rf" {name}=(\S+)", self.ready).group(1)

    def end(self, how=signal.SIGTERM):
        """Its exit status."""
        if self.process.poll() is None:
            self.process.send_signal(how)
        status = self.process.wait(timeout=DEADLINE_S)
        self.process.stdout.close()
        self.process.stderr.close()
        return status


class Reader:
    """What a reader keeps of one page: its address, its cookie, and whose certificate it trusts."""

    def __init__(self, url, certificate=None):
        self.url = urllib.parse.urlparse(url)
        self.cookie = ""
        self.tls = certificate and ssl.create_default_context(cafile=certificate)

    def ask(self, path, method="GET", body=None, **headers):
        """The answer and its body."""
        place = (self.url.hostname, self.url.port)
        line = (http.client.HTTPSConnection(*place, timeout=DEADLINE_S, context=self.tls)
                if self.tls else http.client.HTTPConnection(*place, timeout=DEADLINE_S))
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        if self.cookie:
            headers["Cookie"] = self.cookie
        try:
            line.request(method, path, body, headers)
            answer = line.getresponse()
            return answer, answer.read()
        finally:
            line.close()

    def log_in(self, token=None):
        token = token or self.url.fragment.removeprefix("token=")
        answer, _ = self.ask("/login", "POST", token)
        if answer.status == 200:
            self.cookie = answer.getheader("Set-Cookie").split(";")[0]
        return answer

    def json(self, path):
        answer, body = self.ask(path)
        assert answer.status == 200, (path, answer.status, body)
        return json.loads(body)


class WebCluster(unittest.TestCase):
    """A coordinator, a server, two workers with room for two jobs, a page without a login, and a
    job of two ranks.
    """

    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.TemporaryDirectory(prefix="web", dir="/tmp")
        cls.addClassCleanup(cls.dir.cleanup)
        cls.address = f"unix:{cls.dir.name}/c"
        cls.daemons = []
        cls.addClassCleanup(cls.end_all)
        cls.coordinator = cls.start_coordinator()
        way = ("--coordinator", cls.address, "--log-level", "error")
        cls.start("server", *way, "--name", "s0")
        for name in ("w0", "w1"):
            cls.start("worker", *way, "--name", name, "--slots", "2", "--gpus", "none", "--runs",
                      os.path.join(cls.dir.name, "runs"))
        cls.open = cls.start("web", "--coordinator", cls.address, "--listen", "127.0.0.1:0",
                             "--no-login")
        cls.submit("watched")
        reader, deadline = Reader(cls.open.field("url")), time.monotonic() + DEADLINE_S
        while not any(job["progress"]["step"] > 5 for job in reader.json("/api/cluster")["jobs"]):
            assert time.monotonic() < deadline
            time.sleep(0.1)

    @classmethod
    def start(cls, *args):
        daemon = Daemon(*args)
        cls.daemons.append(daemon)
        return daemon

    @classmethod
    def start_coordinator(cls):
        return cls.start("coordinator", "--listen", cls.address, "--state",
                         os.path.join(cls.dir.name, "state"), "--log-level", "error")

    @classmethod
    def end_all(cls):
        for daemon in reversed(cls.daemons):
            daemon.end()

    @classmethod
    def submit(cls, name):
        path = os.path.join(cls.dir.name, "job.textproto")
        with open(path, "w", encoding="utf-8") as file:
            file.write(JOB.replace("watched", name))
        subprocess.run([STRATA, "submit", path, "--coordinator", cls.address], check=True,
                       capture_output=True, timeout=DEADLINE_S)

    def say(self, rank, line):
        """As if a rank of job 1 had written this."""
        with open(os.path.join(self.dir.name, f"runs/watched-1/logs/rank{rank}.log"), "a",
                  encoding="utf-8") as file:  # fmt: skip
            file.write(line + "\n")

    def reader(self):
        return Reader(self.open.field("url"))

    def await_json(self, reader, path, wanted, within_s=DEADLINE_S):
        """What it says once that is as wanted."""
        deadline = time.monotonic() + within_s
        while True:
            seen = reader.json(path)
            if wanted(seen):
                return seen
            self.assertLess(time.monotonic(), deadline, seen)
            time.sleep(0.1)

    def rank_pids(self):
        """Ids of the ranks of the job "watched", by their number."""
        found = {}
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline", encoding="utf-8", errors="replace") as file:
                    words = file.read().split("\0")
                log = os.readlink(f"/proc/{pid}/fd/1")
            except OSError:
                continue
            rank = re.search(r"/logs/rank(\d+)\.log$", log)
            if rank and log.startswith(f"{self.dir.name}/runs/watched-") and "rank" in words:
                found[int(rank.group(1))] = int(pid)
        return found
