"""A cluster of real processes that Prometheus watches: a stopped rank sets off its alert."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import unittest
import urllib.parse

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import prometheus  # noqa: E402

STRATA = os.path.abspath("cli/strata")
WAIT_S = 15
JOB = """
name: "watched"
model { zoo: "lenet5" }
data { synthetic { train_samples: 512 test_samples: 64 } batch_per_rank: 8 }
ranks: 2
ranks_per_node: 1
epochs: 1000000
metrics { every_steps: 5 }
"""


class StuckTest(unittest.TestCase):
    def setUp(self):
        prometheus.skip_without_prometheus()
        folder = tempfile.TemporaryDirectory(prefix="mon", dir="/tmp")
        self.addCleanup(folder.cleanup)
        self.dir = folder.name
        address = f"unix:{self.dir}/c"
        self.coordinator = self.start("coordinator", "--listen", address, "--state",
                                      os.path.join(self.dir, "state"))
        way = ("--coordinator", address)
        self.start("server", *way, "--name", "s0")
        for name in ("w0", "w1"):
            self.start("worker", *way, "--name", name, "--slots", "1", "--gpus", "none", "--runs",
                       os.path.join(self.dir, "runs"))
        ready = self.start("web", *way, "--listen", "127.0.0.1:0", "--no-login")
        url = urllib.parse.urlparse(re.search(r" url=(\S+)", ready.line).group(1))
        job = os.path.join(self.dir, "job.textproto")
        with open(job, "w", encoding="utf-8") as file:
            file.write(JOB)
        subprocess.run([STRATA, "submit", job, *way], check=True, capture_output=True, timeout=20)
        self.prometheus = prometheus.Prometheus(os.path.join(self.dir, "p"), url.netloc, hold="1s",
                                                wait_s=3)
        self.addCleanup(self.prometheus.end)

    def start(self, *args):
        """A daemon of ours, once it is ready."""
        quiet = () if args[0] == "web" else ("--log-level", "error")
        daemon = subprocess.Popen([STRATA, *args, *quiet], stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.end, daemon)
        daemon.line = daemon.stdout.readline()
        self.assertIn(" ready ", daemon.line)
        return daemon

    def end(self, daemon):
        if daemon.poll() is None:
            daemon.terminate()
        try:
            daemon.wait(timeout=20)
        except subprocess.TimeoutExpired:
            daemon.kill()
            daemon.wait()
        daemon.stdout.close()

    def rank_pids(self):
        """Ids of the job's ranks, by their number."""
        found = {}
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                log = os.readlink(f"/proc/{pid}/fd/1")
                with open(f"/proc/{pid}/cmdline", encoding="utf-8", errors="replace") as file:
                    words = file.read().split("\0")
            except OSError:
                continue
            rank = re.search(r"/logs/rank(\d+)\.log$", log)
            if rank and log.startswith(self.dir) and "rank" in words:
                found[int(rank.group(1))] = int(pid)
        return found

    def await_query(self, expression):
        return prometheus.await_true(self, WAIT_S, lambda: self.prometheus.query(expression),
                                     lambda: expression)

    def await_alert(self, name):
        return prometheus.await_true(self, WAIT_S, lambda: self.prometheus.firing(name),
                                     lambda: self.prometheus.ask("alerts"))

    def await_no_alert(self, name):
        prometheus.await_true(self, WAIT_S, lambda: not self.prometheus.firing(name),
                              lambda: self.prometheus.ask("alerts"))

    def test_a_stopped_rank_and_a_lost_coordinator_set_off_their_alerts_and_no_other(self):
        self.await_query('strata_job_steps_total{job="1",name="watched"} > 5')
        self.assertEqual(len(self.await_query("strata_daemon_up == 1")), 3)
        self.assertEqual(self.prometheus.query("strata_job_wait_seconds > 3"), [])
        pid = self.rank_pids()[1]
        os.kill(pid, signal.SIGSTOP)
        try:
            series = self.await_query("strata_job_wait_seconds > 1")[0]["metric"]
            alert = self.await_alert("StrataRankStuck")[0]
        finally:
            os.kill(pid, signal.SIGCONT)
        for labels in (series, alert):
            self.assertEqual((labels["job"], labels["name"], labels["rank"]), ("1", "watched", "1"))
            self.assertIn(labels["daemon"], ("w0", "w1"))
        self.await_no_alert("StrataRankStuck")
        self.await_query("absent(strata_job_wait_seconds > 1)")
        for name in ("StrataDaemonGone", "StrataCoordinatorUnreachable", "StrataJobFailed"):
            self.assertEqual(self.prometheus.firing(name), [], name)
        self.coordinator.kill()
        self.await_alert("StrataCoordinatorUnreachable")


if __name__ == "__main__":
    unittest.main(verbosity=2)
