"""The program of an actor of `strata.ray` on its host: starts daemons and commands, and ends
them."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from typing import IO

from strata import launching

_END_DEADLINE_S = 15.0
_POLL_S = 0.05
_PREFIX = "strata-ray-"
# Makes a process end with the one that has started it, however that ends, and becomes a program.
_WITH_PARENT = (
    "import ctypes, os, signal, sys\n"
    "ctypes.CDLL(None).prctl(1, signal.SIGTERM)\n"
    "os.getppid() == int(sys.argv[1]) or sys.exit(1)\n"
    "os.execv(sys.argv[2], sys.argv[2:])\n"
)


def clear_left_keys() -> None:
    """Removes keys left by this user's killed actors."""
    for name in os.listdir(tempfile.gettempdir()):
        path = os.path.join(tempfile.gettempdir(), name)
        pid = name.removeprefix(_PREFIX).partition("-")[0]
        if not name.startswith(_PREFIX) or not pid.isdigit() or os.path.exists(f"/proc/{pid}"):
            continue
        # It may be another user's, or just have gone.
        with suppress(FileNotFoundError):
            if os.lstat(path).st_uid == os.getuid():
                shutil.rmtree(path, ignore_errors=True)


class _Process:
    """A running program, whose standard output is kept by line."""

    def __init__(self, words: list[str], log: str, cwd: str) -> None:
        with open(log, "ab") as errors:
            self.running = subprocess.Popen(
                [sys.executable, "-c", _WITH_PARENT, str(os.getpid()), *words],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                errors="replace",
                cwd=cwd,
            )
        self.log = log
        self.lines: list[str] = []
        assert self.running.stdout is not None
        self._reader = threading.Thread(target=self._read, args=[self.running.stdout], daemon=True)
        self._reader.start()

    def _read(self, out: IO[str]) -> None:
        for line in out:
            self.lines.append(line.rstrip("\n"))

    def status(self) -> int | None:
        """The exit status, once all output has been read."""
        status = self.running.poll()
        if status is not None:
            self._reader.join(_END_DEADLINE_S)
        return status

    def last_words(self) -> str:
        """The last line of its log."""
        with open(self.log, errors="replace") as log:
            lines = log.read().strip().splitlines()
        return lines[-1] if lines else f"see {self.log}"


class Host:
    """An actor. Its processes end with it, even if it is killed."""

    def __init__(self, runs: str) -> None:
        self._command = os.path.abspath(launching.command())
        self._logs = os.path.join(runs, "daemons")
        os.makedirs(self._logs, exist_ok=True)
        clear_left_keys()
        self._private = tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-")  # for this user alone
        self._processes: dict[str, _Process] = {}

    def describe(self) -> tuple[str, str, int]:
        """Returns the program's version, the host's name, and this process."""
        said = subprocess.run([self._command, "--version"], capture_output=True, text=True)
        return said.stdout.strip(), os.uname().nodename, os.getpid()

    def make_keys(self, members: list[str]) -> dict[str, bytes]:
        """Makes the keys of a cluster for one run; returns them by the name of each member's
        file."""
        folder = os.path.join(self._private, "made")
        made = subprocess.run(
            [self._command, "keys", "for-run", "--out", folder, *members],
            capture_output=True,
            text=True,
        )
        if made.returncode != 0:
            raise RuntimeError(made.stderr.strip())
        keys = {}
        for name in os.listdir(folder):
            with open(os.path.join(folder, name), "rb") as file:
                keys[name] = file.read()
        shutil.rmtree(folder)
        return keys

    def keep(self, name: str, content: bytes) -> str:
        """Writes a file that only this user can read; returns its path."""
        path = os.path.join(self._private, name)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as file:
            file.write(content)
        return path

    def start(self, name: str, arguments: list[str], ready_in_s: float | None = None) -> str:
        """Starts `strata ARGUMENTS`; returns the line in which a daemon says that it is ready.

        Without `ready_in_s` it returns at once. Raises RuntimeError saying why it is not ready.
        """
        log = os.path.join(self._logs, f"{name}.log")
        process = _Process([self._command, *arguments], log, self._private)
        self._processes[name] = process
        if ready_in_s is None:
            return ""
        deadline = time.monotonic() + ready_in_s
        while time.monotonic() < deadline:
            for line in process.lines:
                if " ready " in line:
                    return line
            if process.status() is not None:
                raise RuntimeError(f"{name}: {process.last_words()}")
            time.sleep(_POLL_S)
        raise RuntimeError(f"{name}: is not ready after {ready_in_s:g} s, see {log}")

    def ended(self) -> dict[str, str]:
        """Returns the processes that have ended, with their last lines."""
        found = {}
        for name, process in self._processes.items():
            if process.status() is not None:
                found[name] = process.last_words()
        return found

    def said(self, name: str, since: int) -> tuple[list[str], int | None]:
        """Returns a command's output from a line on, and its exit status once there is one."""
        status = self._processes[name].status()
        return self._processes[name].lines[since:], status

    def ask(self, arguments: list[str]) -> str:
        """Runs a command to its end; returns its output."""
        done = subprocess.run([self._command, *arguments], capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(done.stderr.strip())
        return done.stdout

    def stop(self, name: str) -> None:
        """Ends a process in order, or by force if it takes too long."""
        process = self._processes.pop(name, None)
        if process is None:
            return
        process.running.send_signal(signal.SIGTERM)
        try:
            process.running.wait(_END_DEADLINE_S)
        except subprocess.TimeoutExpired:
            process.running.kill()
            process.running.wait()

    def close(self) -> None:
        """Ends all remaining processes, the newest first, and removes the keys."""
        for name in reversed(list(self._processes)):
            self.stop(name)
        shutil.rmtree(self._private, ignore_errors=True)
