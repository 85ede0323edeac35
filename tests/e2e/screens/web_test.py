"""`strata web` on a cluster of real processes: what it answers, to whom, and when all goes wrong."""

import base64
import hashlib
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import tempfile
import time
import unittest
import urllib.parse

STRATA = os.path.abspath("cli/strata")
DEADLINE_S = 120
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

    def __init__(self, *args):
        self.args = args
        self.process = subprocess.Popen([STRATA, *args], stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)
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


class Browser:
    """What a browser keeps of one page: its address and its cookie."""

    def __init__(self, url):
        self.url = urllib.parse.urlparse(url)
        self.cookie = ""

    def ask(self, path, method="GET", body=None, **headers):
        """The answer and its body."""
        line = http.client.HTTPConnection(self.url.hostname, self.url.port, timeout=DEADLINE_S)
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


class WebTest(unittest.TestCase):
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
            cls.start("worker", *way, "--name", name, "--slots", "1", "--gpus", "none", "--runs",
                      os.path.join(cls.dir.name, "runs"))
        cls.open = cls.start("web", "--coordinator", cls.address, "--listen", "127.0.0.1:0",
                             "--no-login")
        cls.submit("watched")
        browser, deadline = Browser(cls.open.field("url")), time.monotonic() + DEADLINE_S
        while not any(job["progress"]["step"] > 5 for job in browser.json("/api/cluster")["jobs"]):
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

    def await_json(self, browser, path, wanted):
        """What it says once that is as wanted."""
        deadline = time.monotonic() + DEADLINE_S
        while True:
            seen = browser.json(path)
            if wanted(seen):
                return seen
            self.assertLess(time.monotonic(), deadline, seen)
            time.sleep(0.1)

    def rank_pids(self):
        """Ids of the job's ranks, by their number."""
        found = {}
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline", encoding="utf-8", errors="replace") as file:
                    words = file.read().split("\0")
                log = os.readlink(f"/proc/{pid}/fd/1")
            except OSError:
                continue
            rank = re.search(r"/logs/rank(\d+)\.log$", log)
            if rank and log.startswith(self.dir.name) and "rank" in words:
                found[int(rank.group(1))] = int(pid)
        return found

    # ---- what it shows ----

    def test_a_running_job_has_its_course_and_its_daemons(self):
        browser = Browser(self.open.field("url"))
        job = self.await_json(browser, "/api/jobs/1",
                              lambda seen: len(seen["course"]["step"]) > 3 and seen["rank_windows"])
        self.assertEqual(job["status"]["name"], "watched")
        lengths = {name: len(values) for name, values in job["course"].items()}
        self.assertEqual(len(set(lengths.values())), 1, lengths)
        self.assertEqual([one["rank"] for one in job["rank_windows"]], [0, 1])
        cluster = browser.json("/api/cluster")
        self.assertEqual([one["name"] for one in cluster["daemons"]], ["s0", "w0", "w1"])
        self.assertEqual(cluster["problem"], "")
        self.assertLess(cluster["now_ms"] - cluster["taken_ms"], 10000)
        self.assertEqual(browser.json("/api/daemons/w1")["daemon"]["slots"], 1)

    def test_a_rank_that_is_stopped_is_named(self):
        browser = Browser(self.open.field("url"))
        pid = self.rank_pids()[1]
        os.kill(pid, signal.SIGSTOP)
        try:
            seen = self.await_json(browser, "/api/cluster", lambda seen: seen["jobs"][0]["waits"])
        finally:
            os.kill(pid, signal.SIGCONT)
        self.assertIn("rank 1", seen["jobs"][0]["waits"][0]["text"])
        self.await_json(browser, "/api/cluster", lambda seen: not seen["jobs"][0]["waits"])

    def test_events_come_by_themselves(self):
        url = Browser(self.open.field("url")).url
        with socket.create_connection((url.hostname, url.port), timeout=DEADLINE_S) as line:
            line.sendall(b"GET /api/events?job=1 HTTP/1.1\r\nHost: localhost\r\n\r\n")
            text, deadline = "", time.monotonic() + DEADLINE_S
            while text.count("event: cluster") < 3 or text.count("event: job") < 3:
                self.assertLess(time.monotonic(), deadline)
                text += line.recv(65536).decode("utf-8", "replace")
        self.assertIn("text/event-stream", text)
        documents = re.findall(r"data: (\{.*\})\n", text)
        self.assertGreaterEqual(len(documents), 5)
        json.loads(documents[0])

    def test_the_page_runs_its_own_scripts_only_and_asks_nobody_else(self):
        browser = Browser(self.open.field("url"))
        answer, body = browser.ask("/")
        page = body.decode()
        policy = answer.getheader("Content-Security-Policy")
        for kind in ("style", "script"):
            text = re.findall(rf"<{kind}>(.*?)</{kind}>", page, re.S)[0]
            digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
            self.assertIn(f"'sha256-{digest}'", policy)
        self.assertNotRegex(page, r"(src|href)=\"?(https?:)?//")
        self.assertNotIn("unsafe", policy)
        answer, chart = browser.ask("/chart.js")
        self.assertLess(len(body) + len(chart), 300 * 1000)
        again, nothing = browser.ask("/chart.js", If_None_Match=answer.getheader("ETag"))
        self.assertEqual((again.status, nothing), (304, b""))

    # ---- who may look ----

    def test_a_link_opens_the_page_once_and_the_next_one_is_printed(self):
        web = Daemon("web", "--coordinator", self.address, "--listen", "127.0.0.1:0")
        self.addCleanup(web.end)
        browser, other = Browser(web.field("url")), Browser(web.field("url"))
        self.assertEqual(browser.ask("/")[0].status, 200)
        self.assertEqual(browser.ask("/api/cluster")[0].status, 401)
        self.assertEqual(browser.ask("/metrics")[0].status, 401)
        self.assertEqual(browser.log_in("wrong").status, 401)
        answer = browser.log_in()
        self.assertEqual(answer.status, 200)
        for word in ("HttpOnly", "SameSite=Strict"):
            self.assertIn(word, answer.getheader("Set-Cookie"))
        self.assertEqual(browser.json("/api/cluster")["problem"], "")
        self.assertEqual(other.log_in().status, 401)
        self.assertEqual(other.ask("/api/cluster")[0].status, 401)
        line = web.process.stdout.readline()
        self.assertRegex(line, r"^strata web link url=http://127\.0\.0\.1:\d+/#token=\S+$")
        again = Browser(line.split("url=")[1].strip())
        self.assertEqual(again.log_in().status, 200)

    def test_what_is_not_for_here_is_refused(self):
        browser = Browser(self.open.field("url"))
        self.assertEqual(browser.ask("/", Host="evil.example:80")[0].status, 421)
        self.assertEqual(browser.ask("/api/cluster", "DELETE")[0].status, 405)
        self.assertEqual(browser.ask("/api/jobs/7")[0].status, 404)
        self.assertIn(b"there is no job 7", browser.ask("/api/jobs/7")[1])
        self.assertEqual(browser.ask("/etc/passwd")[0].status, 404)
        self.assertEqual(browser.ask("/" + "x" * 20000)[0].status, 431)

    def refuse(self, *args, status, says):
        done = subprocess.run([STRATA, "web", *args], capture_output=True, text=True,
                              timeout=DEADLINE_S, check=False)
        self.assertEqual(done.returncode, status, done)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertIn(says, done.stderr)

    def test_bad_options_end_with_one_line(self):
        port = Browser(self.open.field("url")).url.port
        self.refuse("--listen", f"127.0.0.1:{port}", status=1, says="Address already in use")
        self.refuse("--listen", "0.0.0.0:0", status=2, says="--tls-certificate")
        self.refuse("--listen", "0.0.0.0:0", "--no-login", status=2, says="--no-login")
        self.refuse("--listen", "nonsense", status=2, says="expected HOST:PORT")
        self.refuse("--metrics-token-file", "/nowhere", status=2, says="/nowhere")

    # ---- when the coordinator is away ----

    def test_without_a_coordinator_the_page_stays_and_says_why(self):
        browser = Browser(self.open.field("url"))
        self.await_json(browser, "/api/cluster", lambda seen: seen["daemons"])
        self.coordinator.end(signal.SIGKILL)
        try:
            seen = self.await_json(browser, "/api/cluster", lambda seen: seen["problem"])
            self.assertIn(self.address, seen["problem"])
            self.assertTrue(seen["daemons"])
            self.assertEqual(browser.ask("/")[0].status, 200)
        finally:
            type(self).coordinator = self.start_coordinator()
        self.await_json(browser, "/api/cluster", lambda seen: not seen["problem"])

    def test_a_coordinator_that_was_never_there_is_named(self):
        nowhere = f"unix:{self.dir.name}/nobody"
        web = Daemon("web", "--coordinator", nowhere, "--listen", "127.0.0.1:0", "--no-login")
        self.addCleanup(web.end)
        seen = self.await_json(Browser(web.field("url")), "/api/cluster",
                               lambda seen: seen["problem"] != "not asked yet")
        self.assertIn(nowhere, seen["problem"])
        self.assertIsNone(seen["taken_ms"])

    def test_it_ends_at_once(self):
        web = Daemon("web", "--coordinator", self.address, "--listen", "127.0.0.1:0")
        self.assertEqual(web.end(), 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
