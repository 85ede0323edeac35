"""`strata web` on a cluster of real processes: what it answers, to whom, when all goes wrong."""

import base64
import hashlib
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import time
import unittest

sys.path.insert(0, "tests/e2e")
from web_cluster import (DEADLINE_S, NAMED_WITHIN_S, STRATA, Daemon, Reader,  # noqa: E402
                         WebCluster)


# The settings of a host with lax TLS: only strata web's own restrictions apply.
CARELESS = """
openssl_conf = all
[all]
ssl_conf = for_tls
[for_tls]
system_default = careless
[careless]
MinProtocol = TLSv1
CipherString = ALL:@SECLEVEL=0
"""


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
        self.assertEqual(reader.json("/api/daemons/w1")["daemon"]["slots"], 2)

    def test_logs_are_for_who_has_a_link_or_for_all_where_that_is_wanted(self):
        way = ("web", "--coordinator", self.address, "--listen", "127.0.0.1:0")
        for options, has_logs in (
            ((), True),
            (("--no-login",), False),
            (("--no-login", "--logs"), True),
        ):
            with self.subTest(options=options):
                web = Daemon(*way, *options)
                self.addCleanup(web.end)
                reader = Reader(web.field("url"))
                reader.log_in()
                self.assertEqual(reader.json("/api/cluster")["has_logs"], has_logs)

    def test_a_rank_that_is_stopped_is_named(self):
        reader = Reader(self.open.field("url"))
        pid = self.rank_pids()[1]
        os.kill(pid, signal.SIGSTOP)
        try:
            self.await_json(reader, "/api/cluster", lambda seen: any(
                "rank 1" in wait["text"] for wait in seen["jobs"][0]["waits"][:1]), NAMED_WITHIN_S)
        finally:
            os.kill(pid, signal.SIGCONT)
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

    # ---- over TLS ----

    def path(self, name, text=None):
        """A file of the test's folder; with a text: it has that from now on."""
        path = os.path.join(self.dir.name, name)
        if text is not None:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        return path

    def certificate(self, name, *protection):
        """Files with a certificate for 127.0.0.1 and its key; that one is in clear text unless told
        otherwise.
        """
        files = self.path(f"{name}.pem"), self.path(f"{name}.key")
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                        "ec_paramgen_curve:prime256v1", "-days", "2", "-subj", f"/CN={name}",
                        "-addext", "subjectAltName=IP:127.0.0.1", "-out", files[0], "-keyout",
                        files[1], *(protection or ["-nodes"])],
                       check=True, capture_output=True, timeout=DEADLINE_S)
        return files

    def start_tls(self):
        """A page at every address of this host, and its certificate."""
        certificate, key = self.certificate("web")
        web = Daemon("web", "--coordinator", self.address, "--listen", "0.0.0.0:0",
                     "--tls-certificate", certificate, "--tls-key", key,
                     env={"OPENSSL_CONF": self.path("careless.cnf", CARELESS)})
        self.addCleanup(web.end)
        host = socket.gethostname()
        self.assertRegex(web.field("url"), rf"^https://{re.escape(host)}:\d+/#token=\S+$")
        return Reader(web.field("url").replace(f"//{host}:", "//127.0.0.1:"), certificate)

    def test_over_tls_the_link_opens_it_for_a_cookie_that_never_goes_in_plain_text(self):
        reader = self.start_tls()
        self.assertEqual(reader.ask("/")[0].status, 200)
        self.assertEqual(reader.ask("/", Host=socket.gethostname())[0].status, 200)
        self.assertEqual(reader.ask("/", Host="other.example.org")[0].status, 421)
        self.assertEqual(reader.ask("/api/cluster")[0].status, 401)
        answer = reader.log_in()
        self.assertEqual(answer.status, 200)
        self.assertIn("; Secure", answer.getheader("Set-Cookie"))
        self.assertEqual(reader.json("/api/cluster")["problem"], "")
        self.assertFalse(reader.json("/api/cluster")["has_logs"], "others than this host reach it")
        with (socket.create_connection((reader.url.hostname, reader.url.port),
                                       timeout=DEADLINE_S) as line,
              reader.tls.wrap_socket(line, server_hostname=reader.url.hostname) as stream):
            stream.sendall(f"GET /api/events HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                           f"Cookie: {reader.cookie}\r\n\r\n".encode())
            text = ""
            while text.count("\n\n") < 2:  # the second one has come by itself
                part = stream.recv(65536)
                self.assertTrue(part, text)
                text += part.decode("utf-8", "replace")
        document = re.search(r"event: cluster\ndata: (\{.*\})\n", text).group(1)
        self.assertEqual(json.loads(document)["jobs"][0]["name"], "watched")

    def test_where_there_is_tls_plain_text_is_not_answered_and_harms_nobody(self):
        reader = self.start_tls()
        place = (reader.url.hostname, reader.url.port)
        for _ in range(3):
            with socket.create_connection(place, timeout=DEADLINE_S) as line:
                line.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
                heard = b""
                try:
                    while part := line.recv(65536):
                        heard += part
                except ConnectionResetError:
                    pass
            # At most TLS's own word for it.
            self.assertNotIn(b"HTTP/", heard)
            self.assertLess(len(heard), 20)
        self.assertEqual(reader.ask("/healthz")[0].status, 200)

    def test_tls_before_1_2_is_refused(self):
        reader = self.start_tls()
        place = (reader.url.hostname, reader.url.port)

        def version_of(version):
            reader.tls.minimum_version = reader.tls.maximum_version = version
            with (socket.create_connection(place, timeout=DEADLINE_S) as line,
                  reader.tls.wrap_socket(line, server_hostname=place[0]) as stream):
                return stream.version()

        reader.tls.set_ciphers("ALL:@SECLEVEL=0")
        self.assertEqual(version_of(ssl.TLSVersion.TLSv1_3), "TLSv1.3")
        self.assertEqual(version_of(ssl.TLSVersion.TLSv1_2), "TLSv1.2")
        with self.assertRaises(ssl.SSLError) as refused:
            version_of(ssl.TLSVersion.TLSv1_1)
        self.assertEqual(refused.exception.reason, "TLSV1_ALERT_PROTOCOL_VERSION")

    def test_a_certificate_or_key_that_cannot_be_used_ends_with_one_line(self):
        (certificate, key), (_, other) = self.certificate("web"), self.certificate("other")
        _, hidden = self.certificate("hidden", "-passout", "pass:secret")
        nowhere, rubbish = self.path("nowhere"), self.path("rubbish", "rubbish")
        for certificate_file, key_file, says in (
                (certificate, other, f"{other}: not the key of {certificate}: "),
                (certificate, hidden, f"{hidden}: has a pass phrase: "),
                (certificate, rubbish, f"{rubbish}: no private key in PEM form: "),
                (certificate, nowhere, f"{nowhere}: No such file or directory"),
                (nowhere, key, f"{nowhere}: No such file or directory"),
                (rubbish, key, f"{rubbish}: no certificate in PEM form: ")):
            self.refuse("--listen", "0.0.0.0:0", "--tls-certificate", certificate_file, "--tls-key",
                        key_file, status=2, says=says)
        self.refuse("--tls-certificate", certificate, status=2, says="--tls-key")

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
