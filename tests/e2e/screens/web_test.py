"""`strata web` on a cluster of real processes: what it answers, to whom, when all goes wrong."""

import base64
import hashlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import unittest

sys.path.insert(0, "tests/e2e/screens")
from web_cluster import DEADLINE_S, STRATA, Daemon, Reader, WebCluster  # noqa: E402


class WebTest(WebCluster):
    # ---- what it shows ----

    def test_a_running_job_has_its_course_and_its_daemons(self):
        reader = Reader(self.open.field("url"))
        job = self.await_json(reader, "/api/jobs/1",
                              lambda seen: len(seen["course"]["step"]) > 3 and seen["rank_windows"])
        self.assertEqual(job["status"]["name"], "watched")
        lengths = {name: len(values) for name, values in job["course"].items()}
        self.assertEqual(len(set(lengths.values())), 1, lengths)
        self.assertEqual([one["rank"] for one in job["rank_windows"]], [0, 1])
        cluster = reader.json("/api/cluster")
        self.assertEqual([one["name"] for one in cluster["daemons"]], ["s0", "w0", "w1"])
        self.assertEqual(cluster["problem"], "")
        self.assertLess(cluster["now_ms"] - cluster["taken_ms"], 10000)
        self.assertEqual(reader.json("/api/daemons/w1")["daemon"]["slots"], 1)

    def test_a_rank_that_is_stopped_is_named(self):
        reader = Reader(self.open.field("url"))
        pid = self.rank_pids()[1]
        os.kill(pid, signal.SIGSTOP)
        try:
            seen = self.await_json(reader, "/api/cluster", lambda seen: seen["jobs"][0]["waits"])
        finally:
            os.kill(pid, signal.SIGCONT)
        self.assertIn("rank 1", seen["jobs"][0]["waits"][0]["text"])
        self.await_json(reader, "/api/cluster", lambda seen: not seen["jobs"][0]["waits"])

    def test_events_come_by_themselves(self):
        url = Reader(self.open.field("url")).url
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
        reader = Reader(self.open.field("url"))
        answer, body = reader.ask("/")
        page = body.decode()
        policy = answer.getheader("Content-Security-Policy")
        for kind in ("style", "script"):
            text = re.findall(rf"<{kind}>(.*?)</{kind}>", page, re.S)[0]
            digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
            self.assertIn(f"'sha256-{digest}'", policy)
        self.assertNotRegex(page, r"(src|href)=\"?(https?:)?//")
        self.assertNotIn("unsafe", policy)
        answer, chart = reader.ask("/chart.js")
        self.assertLess(len(body) + len(chart), 300 * 1000)
        again, nothing = reader.ask("/chart.js", If_None_Match=answer.getheader("ETag"))
        self.assertEqual((again.status, nothing), (304, b""))

    # ---- who may look ----

    def test_a_link_opens_the_page_once_and_the_next_one_is_printed(self):
        web = Daemon("web", "--coordinator", self.address, "--listen", "127.0.0.1:0")
        self.addCleanup(web.end)
        reader, other = Reader(web.field("url")), Reader(web.field("url"))
        self.assertEqual(reader.ask("/")[0].status, 200)
        self.assertEqual(reader.ask("/api/cluster")[0].status, 401)
        self.assertEqual(reader.ask("/metrics")[0].status, 401)
        self.assertEqual(reader.log_in("wrong").status, 401)
        answer = reader.log_in()
        self.assertEqual(answer.status, 200)
        for word in ("HttpOnly", "SameSite=Strict"):
            self.assertIn(word, answer.getheader("Set-Cookie"))
        self.assertEqual(reader.json("/api/cluster")["problem"], "")
        self.assertEqual(other.log_in().status, 401)
        self.assertEqual(other.ask("/api/cluster")[0].status, 401)
        line = web.process.stdout.readline()
        self.assertRegex(line, r"^strata web link url=http://127\.0\.0\.1:\d+/#token=\S+$")
        again = Reader(line.split("url=")[1].strip())
        self.assertEqual(again.log_in().status, 200)

    def test_what_is_not_for_here_is_refused(self):
        reader = Reader(self.open.field("url"))
        self.assertEqual(reader.ask("/", Host="evil.example:80")[0].status, 421)
        self.assertEqual(reader.ask("/api/cluster", "DELETE")[0].status, 405)
        self.assertEqual(reader.ask("/api/jobs/7")[0].status, 404)
        self.assertIn(b"there is no job 7", reader.ask("/api/jobs/7")[1])
        self.assertEqual(reader.ask("/etc/passwd")[0].status, 404)
        self.assertEqual(reader.ask("/" + "x" * 20000)[0].status, 431)

    def refuse(self, *args, status, says):
        done = subprocess.run([STRATA, "web", *args], capture_output=True, text=True,
                              timeout=DEADLINE_S, check=False)
        self.assertEqual(done.returncode, status, done)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertIn(says, done.stderr)

    def test_bad_options_end_with_one_line(self):
        port = Reader(self.open.field("url")).url.port
        self.refuse("--listen", f"127.0.0.1:{port}", status=1, says="Address already in use")
        self.refuse("--listen", "0.0.0.0:0", status=2, says="--tls-certificate")
        self.refuse("--listen", "0.0.0.0:0", "--no-login", status=2, says="--no-login")
        self.refuse("--listen", "nonsense", status=2, says="expected HOST:PORT")
        self.refuse("--metrics-token-file", "/nowhere", status=2, says="/nowhere")

    # ---- when the coordinator is away ----

    def test_without_a_coordinator_the_page_stays_and_says_why(self):
        reader = Reader(self.open.field("url"))
        self.await_json(reader, "/api/cluster", lambda seen: seen["daemons"])
        self.coordinator.end(signal.SIGKILL)
        try:
            seen = self.await_json(reader, "/api/cluster", lambda seen: seen["problem"])
            self.assertIn(self.address, seen["problem"])
            self.assertTrue(seen["daemons"])
            self.assertEqual(reader.ask("/")[0].status, 200)
        finally:
            type(self).coordinator = self.start_coordinator()
        self.await_json(reader, "/api/cluster", lambda seen: not seen["problem"])

    def test_a_coordinator_that_was_never_there_is_named(self):
        nowhere = f"unix:{self.dir.name}/nobody"
        web = Daemon("web", "--coordinator", nowhere, "--listen", "127.0.0.1:0", "--no-login")
        self.addCleanup(web.end)
        seen = self.await_json(Reader(web.field("url")), "/api/cluster",
                               lambda seen: seen["problem"] != "not asked yet")
        self.assertIn(nowhere, seen["problem"])
        self.assertIsNone(seen["taken_ms"])

    def test_it_ends_at_once(self):
        web = Daemon("web", "--coordinator", self.address, "--listen", "127.0.0.1:0")
        self.assertEqual(web.end(), 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
