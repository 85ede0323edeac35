"""Prometheus takes what /metrics says, and answers all that the dashboard and the alerts ask."""

import http.server
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import prometheus  # noqa: E402

SAMPLE = "cli/web/print_sample"
TOKEN = "a-token-of-the-test"


class Target:
    """Serves one text at /metrics, and keeps what it was asked with."""

    def __init__(self, text):
        asked = self.asked = []

        class Answer(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                asked.append((self.path, self.headers.get("Authorization")))
                self.send_response(200)
                self.send_header("Content-Type",
                                 "application/openmetrics-text; version=1.0.0; charset=utf-8")
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer)
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()

    def end(self):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


class ScrapeTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        prometheus.skip_without_prometheus()
        cls.text = subprocess.run([SAMPLE], check=True, capture_output=True, timeout=20).stdout
        folder = tempfile.TemporaryDirectory(prefix="mon", dir="/tmp")
        cls.addClassCleanup(folder.cleanup)
        cls.target = Target(cls.text)
        cls.addClassCleanup(cls.target.end)
        cls.prometheus = prometheus.Prometheus(
            os.path.join(folder.name, "p"), f"127.0.0.1:{cls.target.server.server_port}", TOKEN)
        cls.addClassCleanup(cls.prometheus.end)
        deadline = time.monotonic() + 20
        while not (cls.prometheus.query("up == 1") and len(cls.target.asked) > 3):
            if time.monotonic() > deadline:
                raise AssertionError(cls.prometheus.ask("targets"))
            time.sleep(0.2)

    def test_every_series_arrives_with_its_labels_and_its_value(self):
        sent = {}
        for line in self.text.decode().splitlines():
            if not line.startswith("#"):
                series, value = line.rsplit(" ", 1)
                sent[series] = float(value)
        seen = {}
        for one in self.prometheus.query('{__name__=~"strata_.+"}'):
            labels = {name: value for name, value in one["metric"].items() if name != "instance"}
            name = labels.pop("__name__")
            # Ours have a `job` of their own where it is a job's number.
            if labels.get("job") == "strata":
                del labels["job"]
            seen[name, frozenset(labels.items())] = float(one["value"][1])
        wanted = {(re.match(r"\w+", series).group(),
                   frozenset(re.findall(r'(\w+)="([^"]*)"', series))): value
                  for series, value in sent.items()}
        self.assertGreater(len(wanted), 50)
        self.assertEqual(seen, wanted)

    def test_the_token_is_shown(self):
        self.assertEqual(set(self.target.asked), {("/metrics", f"Bearer {TOKEN}")})

    def test_every_panel_of_the_dashboard_has_something_to_show(self):
        expressions = prometheus.dashboard_expressions()
        self.assertGreater(len(expressions), 20)
        for title, expression in expressions:
            with self.subTest(title):
                self.assertNotIn("$", expression)
                prometheus.await_true(self, 10, lambda e=expression: self.prometheus.query(e),
                                      lambda e=expression: e)

    def test_every_alert_is_evaluated_without_an_error(self):
        def evaluated():
            return all(rule["health"] != "unknown" for rule in self.prometheus.rules())

        prometheus.await_true(self, 20, evaluated, self.prometheus.rules)
        rules = self.prometheus.rules()
        with open(os.path.join(prometheus.SHIPPED, "strata-alerts.yml"), encoding="utf-8") as file:
            self.assertEqual(len(rules), file.read().count("- alert:"))
        for rule in rules:
            self.assertEqual((rule["health"], rule.get("lastError", "")), ("ok", ""), rule["name"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
