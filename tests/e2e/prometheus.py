"""Debian's Prometheus as a process of a test, with the configuration that we ship."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time
import unittest
import urllib.error
import urllib.parse
import urllib.request

SHIPPED = "deploy/monitoring"
DASHBOARD = os.path.join(SHIPPED, "grafana-dashboard.json")
# Grafana's values of its variables.
VARIABLES = {"$__rate_interval": "30s", "$job": ".*"}


def skip_without_prometheus():
    """Skips the test where Debian's Prometheus is not installed."""
    if shutil.which("prometheus") is None:
        raise unittest.SkipTest("prometheus is not installed (deploy/install_packages.sh --tests)")


def dashboard_expressions():
    """Every panel's title with an expression of it, as Grafana would ask."""
    with open(DASHBOARD, encoding="utf-8") as file:
        panels = json.load(file)["panels"]
    found = []
    for panel in panels:
        for target in panel.get("targets", []):
            expression = target["expr"]
            for name, value in VARIABLES.items():
                expression = expression.replace(name, value)
            found.append((panel["title"], expression))
    return found


def free_port():
    with socket.socket() as line:
        line.bind(("127.0.0.1", 0))
        return line.getsockname()[1]


class Prometheus:
    """Scrapes `target` each second. `hold` takes the place of the alerts' own `for`, and `wait_s`
    that of the seconds after which a wait counts as being stuck, where they are given."""

    def __init__(self, folder, target, token="", hold=None, wait_s=None):
        os.makedirs(folder)
        self.folder = folder
        with open(os.path.join(folder, "token"), "w", encoding="utf-8") as file:
            file.write(token)
        self._write("prometheus.yml", [
            (r"_interval: \d+s", "_interval: 1s"),
            (r"'127\.0\.0\.1:8265'", f"'{target}'"),
            (r"credentials_file: \S+", "credentials_file: token"),
        ])
        changes = [(r"for: \w+", f"for: {hold}")] if hold else []
        if wait_s is not None:
            changes.append((r"(?<=wait_seconds > )\d+", str(wait_s)))
        self._write("strata-alerts.yml", changes)
        self.process = None
        for _ in range(5):  # another program may take the port first
            if self._start():
                return
        raise AssertionError(f"prometheus does not start: {self._log()}")

    def _write(self, name, changes):
        with open(os.path.join(SHIPPED, name), encoding="utf-8") as file:
            text = file.read()
        for pattern, value in changes:
            text, count = re.subn(pattern, value, text)
            if count == 0:
                raise AssertionError(f"{name} lacks {pattern}")
        with open(os.path.join(self.folder, name), "w", encoding="utf-8") as file:
            file.write(text)

    def _start(self):
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        with open(os.path.join(self.folder, "log"), "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                ["prometheus", f"--config.file={self.folder}/prometheus.yml",
                 f"--storage.tsdb.path={self.folder}/data", "--log.level=warn",
                 f"--web.listen-address=127.0.0.1:{port}"], stdout=log, stderr=log)
        deadline = time.monotonic() + 20
        while self.process.poll() is None and time.monotonic() < deadline:
            try:
                with urllib.request.urlopen(self.url + "/-/ready", timeout=5):
                    return True
            except OSError:
                time.sleep(0.1)
        self.end()
        return False

    def _log(self):
        with open(os.path.join(self.folder, "log"), encoding="utf-8") as file:
            return file.read()

    def ask(self, path, **parameters):
        """`data` of an answer; an answer that is an error fails the test with its words."""
        url = f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                seen = json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                raise AssertionError(f"{parameters}: {error.read().decode()}") from None
        if seen["status"] != "success":
            raise AssertionError(f"{parameters}: {seen}")
        return seen["data"]

    def query(self, expression):
        """The series that it has now."""
        return self.ask("query", query=expression)["result"]

    def rules(self):
        return [rule for group in self.ask("rules")["groups"] for rule in group["rules"]]

    def firing(self, name):
        """Labels of the alerts of this name that fire."""
        return [alert["labels"] for alert in self.ask("alerts")["alerts"]
                if alert["labels"]["alertname"] == name and alert["state"] == "firing"]

    def end(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def await_true(case, seconds, wanted, what):
    """What `wanted` returns once that is true."""
    deadline = time.monotonic() + seconds
    while not (seen := wanted()):
        case.assertLess(time.monotonic(), deadline, f"not within {seconds} s: {what()}")
        time.sleep(0.2)
    return seen
