"""`strata top` on a cluster of real processes: on a terminal, in a pipe, without a coordinator."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import tempfile
import termios
import time
import unittest

STRATA = os.path.abspath("cli/strata")
DEADLINE_S = 120
JOB = """
name: "watched"
model { zoo: "lenet5" }
data { synthetic { train_samples: 512 test_samples: 64 } batch_per_rank: 8 }
ranks: 2
ranks_per_node: 1
epochs: 1000000
"""


class Terminal:
    """`strata top` on a terminal of its own."""

    def __init__(self, *args, rows=24, columns=100):
        self.master, slave = pty.openpty()
        self.resize(rows, columns)
        self.before = termios.tcgetattr(slave)
        self.process = subprocess.Popen(
            [STRATA, "top", *args], stdin=slave, stdout=slave, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "TERM": "xterm"})
        self.slave = slave
        self.text = ""

    def resize(self, rows, columns):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read(self, seconds):
        """What it draws until then."""
        until, text = time.monotonic() + seconds, ""
        while (left := until - time.monotonic()) > 0:
            if select.select([self.master], [], [], left)[0]:
                text += os.read(self.master, 65536).decode("utf-8", "replace")
        self.text += text
        return text

    def await_text(self, wanted):
        """A whole screen that has the words."""
        deadline = time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline:
            screens = (self.text + self.read(0.2)).split("\033[H")
            for screen in screens[1:]:
                if wanted in screen:
                    return screen
            self.text = "\033[H" + screens[-1]
        raise AssertionError(f"{wanted!r} is not shown, but {self.text!r}")

    def press(self, key):
        os.write(self.master, key)

    def end(self):
        """Its exit status."""
        deadline = time.monotonic() + DEADLINE_S
        while self.process.poll() is None and time.monotonic() < deadline:
            self.read(0.05)
        self.read(0.1)  # what it wrote last
        return self.process.wait(timeout=1)

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.process.stderr.close()
        os.close(self.slave)
        os.close(self.master)


class TopTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.TemporaryDirectory(prefix="top", dir="/tmp")
        cls.addClassCleanup(cls.dir.cleanup)
        cls.address = f"unix:{cls.dir.name}/c"
        cls.cluster = subprocess.Popen(
            [STRATA, "local", "--servers", "1", "--nodes", "2", "--slots", "1", "--listen",
             cls.address, "--runs", os.path.join(cls.dir.name, "runs"), "--log-level", "error"],
            stdout=subprocess.PIPE, text=True)
        cls.addClassCleanup(cls.stop)
        assert " ready " in cls.cluster.stdout.readline()
        path = os.path.join(cls.dir.name, "job.textproto")
        with open(path, "w", encoding="utf-8") as file:
            file.write(JOB)
        cls.job = path
        cls.strata("submit", path, "--coordinator", cls.address)

    @classmethod
    def stop(cls):
        cls.cluster.send_signal(signal.SIGTERM)
        cls.cluster.wait(timeout=DEADLINE_S)
        cls.cluster.stdout.close()

    @staticmethod
    def strata(*args, status=0):
        done = subprocess.run([STRATA, *args], capture_output=True, text=True, timeout=DEADLINE_S,
                              check=False)
        assert done.returncode == status, done
        return done

    def terminal(self, *args, **size):
        terminal = Terminal("--every", "0.2", *args, **size)
        self.addCleanup(terminal.close)
        return terminal

    def test_a_pipe_gets_one_picture_without_escape_sequences(self):
        text = self.strata("top", "--coordinator", self.address).stdout
        self.assertIn("watched", text)
        self.assertEqual(len(re.findall(r"^w\d|^s\d", text, re.M)), 3, text)
        self.assertNotIn("\033", text)

    def test_a_pipe_gets_long_lines_whole(self):
        self.strata("submit", self.job, "--coordinator", self.address, "--set", 'name="next"')
        self.addCleanup(self.strata, "cancel", "next", "--coordinator", self.address)
        text = self.strata("top", "--once", "--coordinator", self.address).stdout
        (row,) = [line for line in text.split("\n") if " next " in line]
        self.assertGreater(len(row), 100, text)
        self.assertIn("waits for 2 more free slots", row)
        self.assertTrue(row.endswith(" holds 2"), text)

    def test_the_screen_follows_the_job_and_q_leaves_it_as_it_was(self):
        top = self.terminal("--coordinator", self.address)
        top.await_text("running")
        steps = set()
        deadline = time.monotonic() + DEADLINE_S
        while len(steps) < 2 and time.monotonic() < deadline:
            found = re.search(r"watched +running.*? (\d+) +[-\d:]+ ", top.await_text("watched"))
            if found:
                steps.add(found.group(1))
            top.text = ""
        self.assertGreater(len(steps), 1)
        top.press(b"q")
        self.assertEqual(top.end(), 0)
        self.assertTrue(top.text.endswith("\033[?25h\033[?1049l"), top.text[-40:])
        self.assertEqual(termios.tcgetattr(top.slave), top.before)

    def test_no_line_is_longer_than_the_terminal_nor_after_it_has_shrunk(self):
        top = self.terminal("--coordinator", self.address, rows=30, columns=120)
        top.await_text("running")
        top.resize(16, 40)
        top.read(1)
        top.text = ""
        screen = top.await_text("strata top")
        top.press(b"q")
        self.assertEqual(top.end(), 0)
        lines = re.sub(r"\033\[[0-9;?]*[a-zA-Z]|\r", "", screen).split("\n")
        self.assertLessEqual(len(lines), 16)
        self.assertLessEqual(max(map(len, lines)), 40, lines)

    def test_a_signal_ends_it_and_the_terminal_is_as_it_was(self):
        top = self.terminal("--coordinator", self.address)
        top.await_text("running")
        top.process.send_signal(signal.SIGINT)
        self.assertEqual(top.end(), 0)
        self.assertTrue(top.text.endswith("\033[?25h\033[?1049l"), top.text[-40:])
        self.assertEqual(termios.tcgetattr(top.slave), top.before)

    def test_without_a_coordinator_it_says_whom_it_asks_and_goes_on(self):
        nowhere = f"unix:{self.dir.name}/nobody"
        top = self.terminal("--coordinator", nowhere)
        self.assertIn(nowhere, top.await_text("it is asked again"))
        self.assertIsNone(top.process.poll())
        top.press(b"q")
        self.assertEqual(top.end(), 0)
        done = self.strata("top", "--once", "--coordinator", nowhere, "--timeout", "1", status=1)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertIn(nowhere, done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
