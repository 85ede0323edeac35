"""What Kubernetes' controllers make of manifests: pods with names, and names that lead to them."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any, Callable

import checks
from kustomize import Manifest, name_of
from pod import Pod
from pod_templates import (
    Template,
    annotations_of_job,
    hostname_of_job,
    subdomain,
    template_of_jobs,
    template_of_set,
)
from volumes import Site

SERVICES = "10.88.1."


def wait(what: str, holds: Callable[[], Any], timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not in {timeout_s} s: {what}")
        time.sleep(0.05)


class Cluster:
    """Pods of manifests, until `end`."""

    def __init__(self, manifests: list[Manifest], strata: str) -> None:
        self.manifests = manifests
        self.site = Site(Path(tempfile.mkdtemp(prefix="strata-kubernetes-")), strata)
        for each in manifests:
            if each["kind"] == "ConfigMap":
                self.site.config_maps[name_of(each)] = each["data"]
        self.pods: dict[str, Pod] = {}
        self.connections: Counter[tuple[str, str, int]] = Counter()
        self.refused: set[tuple[str, str, int]] = set()
        self._names: dict[str, str] = {}
        self._addresses: dict[str, str] = {}
        self._ends = threading.Event()
        self._watch = threading.Thread(target=self._look_at_connections, daemon=True)
        self._watch.start()

    def one(self, kind: str, name: str) -> Manifest:
        return next(
            each for each in self.manifests if each["kind"] == kind and name_of(each) == name
        )

    def add_secret(self, name: str, files: dict[str, bytes]) -> None:
        self.site.secrets[name] = files

    def start_set(self, name: str) -> None:
        """Starts the pods of a StatefulSet."""
        manifest = self.one("StatefulSet", name)
        for number in range(manifest["spec"]["replicas"]):
            self.start_pod_of_set(name, number)

    def start_pod_of_set(self, name: str, number: int) -> Pod:
        manifest = self.one("StatefulSet", name)
        return self._start(f"{name}-{number}", template_of_set(manifest), {}, name)

    def start_jobs(self, name: str, jobs_name: str) -> None:
        """Starts the pods of one of a JobSet's jobs, once those that it depends on are ready."""
        manifest = self.one("JobSet", name)
        all_jobs = manifest["spec"]["replicatedJobs"]
        jobs = next(each for each in all_jobs if each["name"] == jobs_name)
        for other in jobs.get("dependsOn", []):
            start = f"{name}-{other['name']}-"
            self.wait_ready(60, *[each for each in self.pods if each.startswith(start)])
        for index in range(jobs.get("replicas", 1)):
            pod_name = hostname_of_job(name, jobs_name, index)
            annotations = annotations_of_job(manifest, jobs_name, index)
            template = template_of_jobs(manifest, jobs)
            self._start(pod_name, template, annotations, subdomain(manifest))

    def _start(
        self, name: str, template: Template, annotations: dict[str, str], domain: str
    ) -> Pod:
        pod = self.pods[name] = Pod(self.site, name, template, annotations)
        self._names[f"{name}.{domain}"] = pod.host.address
        for service in (each for each in self.manifests if each["kind"] == "Service"):
            spec = service["spec"]
            if spec.get("clusterIP") != "None" and checks.matches(
                spec["selector"], template.labels
            ):
                self._serve(name_of(service), pod)
        self._write_hosts()
        pod.start()
        return pod

    def _serve(self, service: str, pod: Pod) -> None:
        """Gives a pod the address of a Service, which it keeps when the pod changes."""
        own = f"{SERVICES}{len(self._addresses) + 1}"
        address = self._addresses.setdefault(service, own)
        pod.host.add_address(address)
        for other in self.pods.values():
            other.host.forget_neighbours()
        self._names[service] = address

    def _write_hosts(self) -> None:
        """In place, as containers have mounted the file."""
        lines = ["127.0.0.1 localhost"]
        lines += [f"{address} {name}" for name, address in self._names.items()]
        with open(self.site.hosts, "r+" if self.site.hosts.exists() else "w") as file:
            file.write("\n".join(lines) + "\n")
            file.truncate()

    def wait_ready(self, timeout_s: float, *names: str) -> None:
        pods = [self.pods[name] for name in names] or list(self.pods.values())
        wait("all are ready", lambda: all(pod.is_ready() for pod in pods), timeout_s)

    def delete(self, name: str) -> float:
        """Ends a pod as `kubectl delete pod` does; returns how many seconds that took."""
        began = time.monotonic()
        pod = self.pods.pop(name)
        pod.delete()
        self._forget(pod)
        return time.monotonic() - began

    def _forget(self, pod: Pod) -> None:
        shutil.rmtree(pod.folder)
        for name in [each for each in self._names if self._names[each] == pod.host.address]:
            del self._names[name]
        self._write_hosts()

    def _look_at_connections(self) -> None:
        while not self._ends.wait(0.1):
            pods = list(self.pods.values())
            where = {pod.host.address: pod for pod in pods}
            for pod in pods:
                try:
                    found = pod.host.connections()
                except FileNotFoundError:  # it is just ending
                    continue
                for each in found:
                    source = where.get(each.peer)
                    if source is not None:
                        self._note(pod, source, each.port)

    def _note(self, pod: Pod, source: Pod, port: int) -> None:
        labels = "app.kubernetes.io/component"
        key = (source.template.labels[labels], pod.template.labels[labels], port)
        self.connections[key] += 1
        if not checks.admits(self.manifests, pod.template.labels, source.template.labels, port):
            self.refused.add(key)

    def logs(self) -> str:
        found = sorted(self.site.folder.glob("pods/*/*.log"))
        return "\n".join(f"== {each}\n{each.read_text(errors='replace')}" for each in found)

    def end(self) -> None:
        """Ends what is left at once, and removes all files."""
        self._ends.set()
        self._watch.join()
        for pod in self.pods.values():
            pod.kill()
        shutil.rmtree(self.site.folder)


def run(words: list[str], timeout_s: float = 60, **how: Any) -> str:
    """Runs a command that must succeed; returns what it prints."""
    done = subprocess.run(words, capture_output=True, text=True, timeout=timeout_s, **how)
    if done.returncode != 0:
        raise RuntimeError(f"{words}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout
