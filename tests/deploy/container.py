"""Becomes a container's command: runs in mount and PID namespaces of its own, as their process 1.

usage: container.py SPEC, a file of JSON that pod.py writes. The root is this system's programs and
libraries, read-only, and nothing else of it: no file of a user, a temporary folder or a secret.
"""

import ctypes
import json
import os
import pathlib
import sys

SYSTEM = ("/usr", "/etc/ssl", "/etc/ld.so.cache", "/etc/nsswitch.conf")
DEVICES = ("null", "zero", "full", "random", "urandom")


LIBC = ctypes.CDLL(None, use_errno=True)
# <sys/mount.h>
RDONLY, REMOUNT, BIND, REC, PRIVATE, DETACH = 1, 32, 4096, 16384, 1 << 18, 2
PIVOT_ROOT = 155  # the number of the call, which has no function


def check(result: int, what: str) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")


def mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    words = [each.encode() for each in (source, target, kind)]
    check(LIBC.mount(*words, ctypes.c_ulong(flags), options.encode()), f"mount {target}")


def bind(source: str, root: pathlib.Path, target: str, *, read_only: bool) -> None:
    place = root / target.lstrip("/")
    if os.path.isdir(source):
        place.mkdir(parents=True, exist_ok=True)
    else:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.touch()
    mount(source, str(place), "", BIND)
    if read_only:
        mount("", str(place), "", REMOUNT | BIND | RDONLY)


def make_root(spec: dict, root: pathlib.Path) -> None:
    mount("", "/", "", REC | PRIVATE)
    mount("root", str(root), "tmpfs", 0, "mode=755")
    for path in SYSTEM:
        bind(path, root, path, read_only=True)
    for name in ("bin", "sbin", "lib", "lib64"):
        (root / name).symlink_to(f"usr/{name}")
    (root / "etc/passwd").write_text("strata:x:10001:10001::/nonexistent:/usr/sbin/nologin\n")
    (root / "etc/group").write_text("strata:x:10001:\n")
    bind(spec["hosts"], root, "/etc/hosts", read_only=True)
    bind(spec["strata"], root, "/opt/strata/strata", read_only=True)
    for name in DEVICES:
        bind(f"/dev/{name}", root, f"/dev/{name}", read_only=False)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        (root / "dev" / name).symlink_to(f"/proc/self/fd/{number}")
    (root / "dev/fd").symlink_to("/proc/self/fd")
    (root / "dev/shm").mkdir()
    mount("shm", str(root / "dev/shm"), "tmpfs", 0, "size=64m")
    (root / "proc").mkdir()
    mount("proc", str(root / "proc"), "proc", 0)
    (root / "tmp").mkdir(mode=0o1777)
    (root / "old").mkdir()
    for each in spec["mounts"]:
        bind(each["source"], root, each["target"], read_only=each["read_only"])


def main() -> None:
    spec = json.loads(pathlib.Path(sys.argv[1]).read_text())
    root = pathlib.Path(spec["root"])
    make_root(spec, root)
    os.chdir(root)
    check(LIBC.syscall(PIVOT_ROOT, b".", b"old"), "pivot_root")
    os.chdir("/")
    check(LIBC.umount2(b"/old", DETACH), "umount")
    os.rmdir("/old")
    if spec["read_only"]:
        mount("", "/", "", REMOUNT | BIND | RDONLY)
    os.umask(0o022)
    os.execve("/usr/bin/setpriv", ["setpriv", *spec["rights"], "--", *spec["words"]], spec["env"])


main()
