"""What tests of `strata compare` and `strata sweep` share: a folder, a job, and commands in it."""

import json
import os
import signal
import subprocess
import tempfile
import threading
import unittest

STRATA = os.path.abspath("cli/strata")
DEADLINE_S = 300


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


class CampaignCase(unittest.TestCase):
    """A test with a folder of its own, `job` in it, and `out`, where runs are to go."""

    JOB = ""  # text of the job

    def setUp(self):
        self.dir = tempfile.TemporaryDirectory()
        self.addCleanup(self.dir.cleanup)
        self.out = self.path("out")
        self.job = self.path("job.textproto", self.JOB)

    def path(self, name, text=None):
        """Returns a path in the test's folder; writes `text` there if there is one."""
        path = os.path.join(self.dir.name, name)
        if text is not None:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        return path

    @staticmethod
    def run_strata(args):
        """Runs `strata ARGS` to its end; returns exit status, standard output and error."""
        done = subprocess.run([STRATA, *args], capture_output=True, text=True, timeout=DEADLINE_S)
        return done.returncode, done.stdout, done.stderr

    def succeed(self, args):
        """Runs `strata ARGS`, which must succeed without a word of warning; returns its output."""
        code, out, err = self.run_strata(args)
        self.assertEqual((code, err), (0, ""), out)
        return out

    def keys(self, *members):
        """Makes the keys of a cluster's members, each as "worker/w0", the coordinator and a user
        included; returns the path of each one's file by that name."""
        folder = self.path("keys")
        self.succeed(["keys", "for-run", "--out", folder, *members])
        return {member: os.path.join(folder, member.replace("/", "-") + ".pem")
                for member in members}

    def refuse(self, args):
        """Runs `strata ARGS`, which must refuse in one line and do nothing; returns the line."""
        code, out, err = self.run_strata(args)
        self.assertEqual((code, out), (2, ""), err)
        self.assertRegex(err, r"^strata: error: [^\n]*\n$")
        return err

    def interrupt(self, args, signal_number=signal.SIGINT, wait=lambda: None, begins="["):
        """Signals `strata ARGS` once a run is made, or a line of its output begins so, and `wait`
        returns; exit status, error."""
        process = subprocess.Popen([STRATA, *args], stdout=subprocess.PIPE, text=True,
                                   stderr=subprocess.PIPE)
        timer = self.watch(process)
        for line in process.stdout:
            if line.startswith(begins):
                wait()
                process.send_signal(signal_number)
                break
        _, err = process.communicate(timeout=DEADLINE_S)
        timer.cancel()
        return process.returncode, err

    @staticmethod
    def watch(process):
        """Kills the process after DEADLINE_S, unless the timer that it returns is cancelled."""
        timer = threading.Timer(DEADLINE_S, process.kill)
        timer.start()
        return timer

    def records(self):
        """The records of `out` by file name: content and when it was written."""
        folder = os.path.join(self.out, "runs")
        found = {}
        for name in os.listdir(folder):
            path = os.path.join(folder, name)
            found[name] = (json.loads(read(path)), os.stat(path).st_mtime_ns)
        return found
