"""Hosts of a network that this process alone has: a bridge, and a namespace for each pod."""

from __future__ import annotations

import ctypes
import os
import pathlib
import subprocess
from dataclasses import dataclass

CLONE_NEWNS = 0x00020000
CLONE_NEWNET = 0x40000000
BRIDGE = "pods0"
# A child of a process that has died ends.
WITH_PARENT = ["setpriv", "--pdeathsig", "KILL"]


class NoNamespaces(Exception):
    """This process may not make namespaces."""


def ip(*words: str, at: "Host | None" = None) -> None:
    enter = ["nsenter", f"--net=/proc/{at.pid}/ns/net"] if at else []
    done = subprocess.run([*enter, "ip", *words], capture_output=True, text=True, timeout=30)
    if done.returncode != 0:
        raise RuntimeError(f"ip {' '.join(words)}: {done.stderr.strip()}")


def enter_own() -> None:
    """Moves this process to network and mount namespaces of its own; they go with it.

    Raises `NoNamespaces` where that takes more rights than this process has.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if os.geteuid() != 0 or libc.unshare(CLONE_NEWNET | CLONE_NEWNS) != 0:
        raise NoNamespaces("takes root, and a kernel that lets it make namespaces")
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    ip("link", "set", "lo", "up")
    ip("link", "add", BRIDGE, "type", "bridge")
    ip("address", "add", "10.88.255.254/16", "dev", BRIDGE)
    ip("link", "set", BRIDGE, "up")


@dataclass
class Connection:
    """A TCP connection that somebody has made to a port of a host."""

    port: int
    peer: str


class Host:
    """What the containers of a pod share: a network, a host's name, memory that is shared."""

    made = 0

    def __init__(self, name: str) -> None:
        Host.made += 1
        number = Host.made
        self.address = f"10.88.0.{number}"
        self._cable = f"pod{number}"
        words = ["unshare", "--net", "--uts", "--ipc", "sh", "-c"]
        words += ['hostname "$0" && echo ready && exec sleep infinity', name]
        self._keeper = subprocess.Popen(WITH_PARENT + words, stdout=subprocess.PIPE, text=True)
        assert self._keeper.stdout is not None
        if self._keeper.stdout.readline() != "ready\n":
            raise RuntimeError(f"{name}: unshare has made no namespaces")
        ip("link", "set", "lo", "up", at=self)
        peer = ["peer", "name", "eth0", "netns", str(self.pid)]
        ip("link", "add", self._cable, "type", "veth", *peer)
        ip("address", "add", f"{self.address}/16", "dev", "eth0", at=self)
        ip("link", "set", "eth0", "up", at=self)
        ip("link", "set", self._cable, "master", BRIDGE, "up")

    @property
    def pid(self) -> int:
        return self._keeper.pid

    def add_address(self, address: str) -> None:
        ip("address", "add", f"{address}/16", "dev", "eth0", at=self)

    def forget_neighbours(self) -> None:
        ip("neighbour", "flush", "all", at=self)

    def enter(self) -> list[str]:
        spaces = [f"--{each}=/proc/{self.pid}/ns/{each}" for each in ("net", "uts", "ipc")]
        return ["nsenter", *spaces, "--"]

    def connections(self) -> list[Connection]:
        """Those from other hosts that are open now."""
        listening, found = set(), []
        for name in ("tcp", "tcp6"):
            text = pathlib.Path(f"/proc/{self.pid}/net/{name}").read_text()
            for line in text.splitlines()[1:]:
                _, local, peer, state = line.split()[:4]
                port = int(local.rpartition(":")[2], 16)
                if state == "0A":
                    listening.add(port)
                if state == "01":
                    found.append(Connection(port, _address(peer.rpartition(":")[0])))
        return [each for each in found if each.port in listening and each.peer != self.address]

    def end(self) -> None:
        self._keeper.kill()
        self._keeper.wait()
        assert self._keeper.stdout is not None
        self._keeper.stdout.close()


def _address(digits: str) -> str:
    """Reads an address of /proc/net/tcp; of tcp6 those of IPv4 that it has."""
    number = bytes.fromhex(digits[-8:])
    return ".".join(str(each) for each in reversed(number))
