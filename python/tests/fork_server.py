"""Forks the processes that forked_python stands for from this one, which has imported what they
import: that of PyTorch takes longer than what most of them do with it.

A process that was forked runs its script as a new interpreter does: as `__main__`, with arguments,
environment, folder and open files of its own, and in a process group of its own. The server ends
when its standard input does, and with it every such process.

usage: fork_server.py SOCKET MODULE...
  SOCKET  number of the open socket on which it listens
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import gc
import importlib
import json
import os
import selectors
import signal
import socket
import sys
import types
from dataclasses import dataclass
from typing import Any

FILES_MAX = 32
REQUEST_BYTES_MAX = 1 << 20


@dataclass
class Forked:
    """A process that was forked, whose end can be read from a descriptor, and the connection to
    what stands for it."""

    pid: int
    end: int
    connection: socket.socket

    def kill(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)


class Server:
    """Forks a process for each connection, and knows those that have not ended."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._forked: dict[int, Forked] = {}
        # Poll has no descriptor that processes would share.
        self._selector = selectors.PollSelector()
        self._selector.register(listener, selectors.EVENT_READ)
        self._selector.register(sys.stdin, selectors.EVENT_READ)

    def serve(self) -> dict[str, Any]:
        """Returns in each process that it forks, with what was asked for; in this one never."""
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is sys.stdin:
                    self._end()
                if key.fileobj is not self._listener:
                    self._look_after(key)
                elif asked := self._fork():
                    return asked

    def _fork(self) -> dict[str, Any] | None:
        """Takes a connection, and forks; returns in the process that it forked what that is to
        be."""
        connection, _ = self._listener.accept()
        message, files, _, _ = socket.recv_fds(connection, REQUEST_BYTES_MAX, FILES_MAX)
        if not message:
            connection.close()
            return None
        asked: dict[str, Any] = json.loads(message)
        pid = os.fork()
        if pid == 0:
            os.setpgid(0, 0)
            connection.close()
            self._close()
            take_files(files, asked["files"])
            return asked
        with contextlib.suppress(PermissionError, ProcessLookupError):
            os.setpgid(pid, pid)  # whoever is first: signals must find the group
        for number in files:
            os.close(number)
        forked = Forked(pid, os.pidfd_open(pid), connection)
        self._selector.register(forked.end, selectors.EVENT_READ, forked)
        self._selector.register(connection, selectors.EVENT_READ, forked)
        self._forked[pid] = forked
        return None

    def _look_after(self, key: selectors.SelectorKey) -> None:
        """Reaps a process, or does to it what has befallen what stands for it."""
        forked = key.data
        if forked.pid not in self._forked:
            return  # it was reaped in this turn
        if key.fileobj != forked.end:
            number = forked.connection.recv(64)
            if not number:
                self._selector.unregister(forked.connection)
            forked.kill(int(number or signal.SIGKILL))
            return
        _, status = os.waitpid(forked.pid, 0)
        forked.kill(signal.SIGKILL)  # what it may have started
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            forked.connection.send(b"%d" % status)
        self._selector.unregister(forked.end)
        with contextlib.suppress(KeyError):
            self._selector.unregister(forked.connection)
        os.close(forked.end)
        forked.connection.close()
        del self._forked[forked.pid]

    def _close(self) -> None:
        """Closes what is the server's, in a process that it has forked."""
        self._listener.close()
        self._selector.close()
        for forked in self._forked.values():
            os.close(forked.end)
            forked.connection.close()

    def _end(self) -> None:
        for forked in self._forked.values():
            forked.kill(signal.SIGKILL)
            os.waitpid(forked.pid, 0)
        os._exit(0)


def take_files(files: list[int], numbers: list[int]) -> None:
    """Moves open files to these numbers, as a process that is started has them."""
    above = max([2, *numbers]) + 1
    moved = [fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, above) for number in files]
    for number in files:
        os.close(number)
    for origin, number in zip(moved, numbers, strict=True):
        os.dup2(origin, number)
        os.close(origin)


def prepare(modules: list[str]) -> None:
    """Imports modules, and what PyTorch imports once it makes its first optimizer."""
    for module in modules:
        importlib.import_module(module)
    if torch := sys.modules.get("torch"):
        torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], 0.1)
    threads = len(os.listdir("/proc/self/task"))
    assert threads == 1, f"{modules} have started {threads - 1} threads, of which forks have none"
    gc.collect()
    gc.freeze()  # a collection would copy the pages that forks share


def end_before_imported_libraries() -> None:
    """Has the end of this process, by exit() of C, skip the destructors of libraries that the
    server has imported: PyTorch's take half a second. What is registered later comes before."""
    c = ctypes.CDLL(None)
    assert c.on_exit(c._exit, None) == 0


def become(asked: dict[str, Any]) -> None:
    """Runs what was asked for as the script of this process."""
    end_before_imported_libraries()
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    # Python's own numbers at random begin anew by themselves.
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed()
    sys.argv = asked["arguments"]
    path = sys.argv[0]
    sys.path[0] = os.path.dirname(os.path.abspath(path))
    main = types.ModuleType("__main__")
    main.__file__ = path
    sys.modules["__main__"] = main
    with open(path, "rb") as file:
        code = compile(file.read(), path, "exec")
    exec(code, main.__dict__)


if __name__ == "__main__":
    # Shells start what is in the background with Ctrl-C ignored, Strata's daemons start ranks
    # without.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with socket.socket(fileno=int(sys.argv[1])) as listening:
        server = Server(listening)
        prepare(sys.argv[2:])
        wanted = server.serve()
    become(wanted)
