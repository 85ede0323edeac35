"""`strata local --web` on real processes, and what the quickstart says of the page's address."""

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, "tests/e2e")
from web_cluster import DEADLINE_S, STRATA, Daemon, Reader  # noqa: E402

# Where the page is unless told otherwise, as users know it; tests of pages listen elsewhere.
HOST, PORT = "127.0.0.1", 8265
PAGES = ("README.md", "docs/web.md")


def run(*command, **more):
    return subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, check=False,
                          stdin=subprocess.DEVNULL, **more)


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


class LocalWebTest(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.TemporaryDirectory(prefix="web", dir="/tmp")
        self.addCleanup(self.dir.cleanup)
        self.runs = os.path.join(self.dir.name, "runs")

    def test_the_page_is_where_the_ready_line_says_and_goes_with_the_cluster(self):
        # At a port it has keys, which the page shows the coordinator.
        local = Daemon("local", "--servers", "1", "--nodes", "1", "--slots", "1", "--listen",
                       "127.0.0.1:0", "--runs", self.runs, "--web", "127.0.0.1:0", "--log-level",
                       "error")
        self.addCleanup(lambda: local.process.poll() is None and local.end())
        self.assertRegex(local.field("web"), r"^http://127\.0\.0\.1:\d+/#token=\S+$")
        reader = Reader(local.field("web"))
        self.assertEqual(reader.ask("/")[0].status, 200)
        self.assertEqual(reader.ask("/api/cluster")[0].status, 401)
        self.assertEqual(reader.log_in().status, 200)
        seen = reader.json("/api/cluster")
        self.assertEqual(seen["problem"], "")
        self.assertEqual(seen["coordinator"], local.field("coordinator"))
        self.assertEqual(sorted(one["role"] for one in seen["daemons"]), ["server", "worker"])
        for line in local.process.stdout:
            if line.startswith("strata web link "):
                break
        self.assertEqual(Reader(line.split("url=")[1].strip()).log_in().status, 200)
        self.assertEqual(local.end(), 0)
        with self.assertRaises(ConnectionRefusedError):
            reader.ask("/")

    def test_the_page_is_at_one_port_unless_told_and_says_in_a_line_that_it_is_in_use(self):
        taken = socket.socket()
        self.addCleanup(taken.close)
        try:
            taken.bind((HOST, PORT))
            taken.listen()
        except OSError:
            pass  # in use by somebody else, then
        address = f"unix:{self.dir.name}/c"
        for command, option in (
                (["web", "--coordinator", address], "--listen "),
                (["local", "--listen", address, "--runs", self.runs, "--web"], "--web "),
                (["run", "--runs", self.runs, "--web", "true"], "--web=")):
            done = run(STRATA, *command)
            self.assertEqual(done.stderr, f"strata: error: cannot listen at {HOST}:{PORT}: Address "
                             f"already in use (by another strata web? {option}{HOST}:0 takes any"
                             " free port)\n")
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertEqual(os.listdir(self.dir.name), [], "something has begun")


class AddressInWordsTest(unittest.TestCase):
    """What people read of the address, against what the program does."""

    def test_help_has_it(self):
        self.assertIn(f"--listen TEXT={HOST}:{PORT}\n", run(STRATA, "web", "--help-all").stdout)

    def test_the_quickstart_ends_with_it(self):
        with tempfile.TemporaryDirectory(prefix="web", dir="/tmp") as folder:
            # A clone that has all and has trained: the script's own words are left.
            for path in ("deploy/install_packages.sh", "deploy/build.sh", "bazel-bin/cli/strata"):
                os.makedirs(os.path.dirname(os.path.join(folder, path)), exist_ok=True)
                with open(os.path.join(folder, path), "w", encoding="utf-8") as file:
                    file.write("#!/bin/sh\n")
                os.chmod(os.path.join(folder, path), 0o755)
            script = shutil.copy("deploy/quickstart.sh", os.path.join(folder, "deploy"))
            done = run("bash", script)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        last = done.stdout.split("\n\n")[-1]
        self.assertIn(f"http://{HOST}:{PORT}", last)
        # The command that it gives is one of the program's, and makes a page at that address.
        command = re.search(r"bazel-bin/cli/strata (local .*--web)\n", last).group(1).split()
        wrong = run(STRATA, *command, "--job", "/nowhere.textproto")
        self.assertIn("/nowhere.textproto", wrong.stderr)
        self.assertEqual(wrong.returncode, 2)

    def test_pages_have_it(self):
        for page in PAGES:
            self.assertTrue(f"http://{HOST}:{PORT}" in read(page), page)
        self.assertIn(f"'{HOST}:{PORT}'", read("deploy/monitoring/prometheus.yml"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
