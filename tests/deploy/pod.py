"""A pod as the kubelet runs it: volumes, containers in order, probes, SIGTERM and its grace.

Not so: no limits of memory or cores, no seccomp, and the image is this system's libraries with the
program that was built.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress

from kustomize import Manifest
from network import WITH_PARENT, Host
from pod_templates import Template
from volumes import Site, Volumes

HERE = pathlib.Path(__file__).resolve().parent
POLL_S = 0.05
# Periods of probes and delays of restarts are so much shorter than in the manifests.
SCALE = 0.25
RESTART_S = 10


class Container:
    """One start after another of a container's command."""

    def __init__(self, pod: "Pod", told: Manifest) -> None:
        self.pod = pod
        self.told = told
        self.name: str = told["name"]
        self.starts = 0
        self.ready = False
        self.status: int | None = None
        self.unready = 0  # times that a probe failed that had held before
        self._running: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> pathlib.Path:
        return self.pod.folder / f"{self.name}.log"

    def text(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def environment(self) -> dict[str, str]:
        is_ours = self.told["image"].split(":")[0] == "strata"
        path = "/opt/strata:/usr/bin:/bin" if is_ours else "/usr/bin:/bin"
        found = {"PATH": path, "HOSTNAME": self.pod.name, "HOME": "/nonexistent"}
        for each in self.told.get("env", []):
            found[each["name"]] = each.get("value") or self.pod.field(
                each["valueFrom"]["fieldRef"]["fieldPath"]
            )
        return found

    def words(self, words: list[str]) -> list[str]:
        """Fills in $(NAME), as Kubernetes does."""
        known = self.environment()
        fill = lambda found: known.get(found[1], found[0])
        return [re.sub(r"\$\(([A-Za-z_]+)\)", fill, word) for word in words]

    def rights(self) -> list[str]:
        security = self.pod.template.spec["securityContext"]
        own = self.told["securityContext"]
        found = [f"--reuid={security['runAsUser']}", f"--regid={security['runAsGroup']}"]
        found += [f"--groups={security['fsGroup']}"]
        if own["allowPrivilegeEscalation"] is False:
            found.append("--no-new-privs")
        if own["capabilities"]["drop"] == ["ALL"]:
            found += ["--bounding-set=-all", "--inh-caps=-all", "--ambient-caps=-all"]
        return found

    def start(self) -> None:
        self.starts += 1
        self.status, self.ready = None, False
        root = self.pod.folder / f"{self.name}.root"
        root.mkdir(exist_ok=True)
        spec = {
            "root": str(root),
            "hosts": str(self.pod.site.hosts),
            "strata": self.pod.site.strata,
            "mounts": self.pod.volumes.mounts(self.told),
            "read_only": self.told["securityContext"]["readOnlyRootFilesystem"],
            "rights": self.rights(),
            "env": self.environment(),
            "words": self.words([*self.told["command"], *self.told.get("args", [])]),
        }
        path = self.pod.folder / f"{self.name}.json"
        path.write_text(json.dumps(spec))
        words = [*WITH_PARENT, *self.pod.host.enter(), "unshare", "--mount", "--pid", "--fork"]
        words += ["--kill-child=KILL", sys.executable, str(HERE / "container.py"), str(path)]
        with self.log.open("ab") as log:
            self._running = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def runs(self) -> bool:
        if self._running is None:
            return False
        status = self._running.poll()
        if status is None:
            return True
        self.status, self.ready, self._running = status, False, None
        return False

    def process(self) -> int | None:
        """The process 1 of the container."""
        if not self.runs():
            return None
        assert self._running is not None
        pid = self._running.pid
        with suppress(OSError, IndexError):
            return int(pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])
        return None

    def signal(self, number: int) -> None:
        pid = self.process()
        if pid is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def exec(
        self, words: list[str], *, stdin: str = "", timeout_s: float = 60
    ) -> subprocess.CompletedProcess[str]:
        """Runs a command in the container, as `kubectl exec` and probes do."""
        process = self.process()
        if process is None:
            return subprocess.CompletedProcess(words, 1, "", f"{self.name}: does not run")
        enter = ["nsenter", f"--target={process}", "--mount", "--net", "--uts", "--ipc"]
        words = [*enter, "--pid", "setpriv", *self.rights(), "--", *words]
        reads, writes = os.pipe()
        # As runc does, so that the container's user may open /dev/stdin.
        os.fchown(reads, self.pod.template.spec["securityContext"]["runAsUser"], -1)
        os.write(writes, stdin.encode())
        os.close(writes)
        try:
            return subprocess.run(
                words,
                stdin=reads,
                capture_output=True,
                text=True,
                timeout=timeout_s,
                env=self.environment(),
                cwd="/",
            )
        finally:
            os.close(reads)

    def holds(self, probe: Manifest) -> bool:
        """Whether a probe succeeds."""
        timeout_s = probe.get("timeoutSeconds", 1)
        if "tcpSocket" in probe:
            port = probe["tcpSocket"]["port"]
            named = {each["name"]: each["containerPort"] for each in self.told["ports"]}
            with suppress(OSError):
                place = (self.pod.host.address, named.get(port, port))
                socket.create_connection(place, timeout_s).close()
                return True
            return False
        try:
            return self.exec(probe["exec"]["command"], timeout_s=timeout_s).returncode == 0
        except subprocess.TimeoutExpired:
            return False


class Pod:
    """A pod; a thread of it does what the kubelet would."""

    def __init__(
        self, site: Site, name: str, template: Template, annotations: dict[str, str]
    ) -> None:
        self.site, self.name, self.template = site, name, template
        self.annotations = annotations
        self.folder = site.folder / "pods" / name
        self.folder.mkdir(parents=True, exist_ok=True)
        self.host = Host(name)
        self.volumes = Volumes(site, name, self.folder, template)
        spec = template.spec
        self.first = [Container(self, each) for each in spec.get("initContainers", [])]
        self.main = [Container(self, each) for each in spec["containers"]]
        self.killed: list[str] = []
        self.error = ""
        self._ends = threading.Event()
        self._idle = threading.Event()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def container(self, name: str) -> Container:
        return next(each for each in [*self.first, *self.main] if each.name == name)

    def field(self, path: str) -> str:
        annotation = re.fullmatch(r"metadata\.annotations\['(.+)'\]", path)
        if annotation:
            return self.annotations[annotation[1]]
        return {"metadata.name": self.name, "status.podIP": self.host.address}[path]

    def start(self) -> None:
        self._thread.start()

    def _run(self) -> None:
        try:
            self._start_all()
            while not self._ends.is_set() and not self.done():
                for each in self._lasting():
                    self._look_after(each)
                time.sleep(POLL_S)
            if not self._ends.is_set():
                self._end_sidecars()
        except Exception as error:  # said by who waits
            self.error = f"{type(error).__name__}: {error}"
        self._idle.set()
        # Containers end with the thread that has started them.
        self._over.wait()

    def _lasting(self) -> list[Container]:
        return [*[each for each in self.first if _is_sidecar(each)], *self.main]

    def _start_all(self) -> None:
        self._due: dict[tuple[str, str], float] = {}
        self._failed: dict[tuple[str, str], int] = {}
        for each in self.first:
            each.start()
            while not self._ends.is_set() and not (
                each.ready if _is_sidecar(each) else not each.runs()
            ):
                if _is_sidecar(each):
                    self._look_after(each)
                time.sleep(POLL_S)
            if each.status:
                raise RuntimeError(f"{each.name} ended with status {each.status}: {each.text()}")
        for each in self.main:
            if not self._ends.is_set():
                each.start()

    def _look_after(self, each: Container) -> None:
        """Restarts what has ended, and asks the probes that are due."""
        if not each.runs():
            again = _is_sidecar(each) or self.template.spec.get("restartPolicy", "Always")
            if again in (True, "Always") or (again == "OnFailure" and each.status):
                self._restart_when_due(each)
            return
        if not each.ready and not self._asks(each, "startupProbe"):
            return
        if not each.ready and self._asks(each, "readinessProbe"):
            each.ready = True
        elif each.ready and not self._asks(each, "readinessProbe"):
            each.ready = False
        if not self._asks(each, "livenessProbe"):
            each.signal(signal.SIGKILL)

    def _restart_when_due(self, each: Container) -> None:
        key, now = (each.name, "restart"), time.monotonic()
        if self._due.setdefault(key, now + RESTART_S * SCALE) <= now:
            del self._due[key]
            for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
                self._failed.pop((each.name, probe), None)
            each.start()

    def _asks(self, each: Container, name: str) -> bool:
        """Asks a probe if it is due; False once it has failed too often, or never held."""
        probe = each.told.get(name)
        if probe is None:
            return True
        key, now = (each.name, name), time.monotonic()
        limit = probe.get("failureThreshold", 3)
        if self._due.get(key, 0) <= now:
            self._due[key] = now + probe.get("periodSeconds", 10) * SCALE
            holds = each.holds(probe)
            each.unready += each.ready and not holds
            self._failed[key] = 0 if holds else self._failed.get(key, 0) + 1
            if name == "startupProbe" and self._failed[key] >= limit:
                each.signal(signal.SIGKILL)
        if name == "startupProbe" or not each.ready and name == "readinessProbe":
            return self._failed.get(key, 1) == 0
        return self._failed.get(key, 0) < limit

    def done(self) -> bool:
        """Whether it is the pod of a Job, and its command has ended."""
        policy = self.template.spec.get("restartPolicy", "Always")
        if policy == "Always" or any(each.starts == 0 for each in self.main):
            return False
        return not any(
            each.runs() or (policy == "OnFailure" and each.status) for each in self.main
        )

    def is_ready(self) -> bool:
        if self.error:
            raise RuntimeError(f"{self.name}: {self.error}")
        return all(each.ready for each in self._lasting())

    def restarts(self) -> int:
        return sum(max(each.starts - 1, 0) for each in [*self.first, *self.main])

    def _end_sidecars(self) -> None:
        """The last that was started ends first."""
        for each in reversed(self.first):
            if _is_sidecar(each):
                self._stop([each])

    def _stop(self, containers: list[Container]) -> None:
        for each in containers:
            each.signal(signal.SIGTERM)
        deadline = time.monotonic() + self.template.spec["terminationGracePeriodSeconds"]
        while any(each.runs() for each in containers) and time.monotonic() < deadline:
            time.sleep(POLL_S)
        for each in containers:
            if each.runs():
                self.killed.append(each.name)
                each.signal(signal.SIGKILL)
                while each.runs():
                    time.sleep(POLL_S)

    def delete(self) -> None:
        """Ends all in order, within the grace, and takes the pod's own volumes away."""
        self._ends.set()
        self._idle.wait()
        self._stop(self.main)
        self._end_sidecars()
        self._over.set()
        self._thread.join()
        self.host.end()

    def kill(self) -> None:
        """Ends all at once."""
        self._ends.set()
        self._idle.wait()
        for each in [*self.first, *self.main]:
            each.signal(signal.SIGKILL)
        self.delete()

    def join(self, timeout_s: float) -> None:
        """Waits for a pod that ends by itself."""
        if not self._idle.wait(timeout_s):
            raise TimeoutError(f"{self.name}: does not end in {timeout_s} s")
        if self.error:
            raise RuntimeError(f"{self.name}: {self.error}")


def _is_sidecar(container: Container) -> bool:
    return container.told.get("restartPolicy") == "Always"
