"""What must hold of the manifests besides Kubernetes' own schemas. Each check yields findings."""

from __future__ import annotations

import functools
import re
import subprocess
from typing import Any, Callable, Iterator

from kustomize import Manifest, name_of
from pod_templates import Template, templates

# The JobSet's own fields that are used: schemas of Kubernetes lack them.
# https://jobset.sigs.k8s.io/docs/reference/jobset.v1alpha2/
JOBSET_FIELDS = {
    "spec": {"coordinator", "network", "successPolicy", "replicatedJobs"},
    "coordinator": {"replicatedJob", "jobIndex", "podIndex"},
    "network": {"enableDNSHostnames", "publishNotReadyAddresses"},
    "successPolicy": {"operator", "targetReplicatedJobs"},
    "replicatedJobs": {"name", "replicas", "dependsOn", "template"},
}
PROBES = ("startupProbe", "readinessProbe", "livenessProbe")


@functools.cache
def _help(strata: str, words: tuple[str, ...]) -> str:
    run = subprocess.run([strata, *words, "--help"], capture_output=True, text=True, timeout=30)
    return run.stdout if run.returncode == 0 else ""


def _check_command(where: str, strata: str, words: list[str]) -> Iterator[str]:
    """Whether the program has a command, and all the options that it is given."""
    command = tuple(words[1:3] if words[1] == "keys" else words[1:2])
    text = _help(strata, command)
    if not text:
        yield f"{where}: the program has no command {' '.join(command)}"
    for word in words[1 + len(command) :]:
        option = re.match(r"--[a-z-]+", word)
        if text and option and not re.search(rf"^  {option[0]}( |$)", text, re.MULTILINE):
            yield f"{where}: {' '.join(command)} has no option {option[0]}"


def commands(found: list[Template], strata: str) -> Iterator[str]:
    """Every command of a container and of a probe is one of the program's, or sh."""
    for template in found:
        for container in template.containers:
            where = f"{template.place}, {container['name']}"
            words = [*container["command"], *container.get("args", [])]
            if container["image"].split(":")[0] == "busybox":
                if words[:2] != ["sh", "-c"] or len(words) != 3:
                    yield f"{where}: busybox runs sh -c TEXT"
                continue
            if words[0] != "strata":
                yield f"{where}: {words[0]} is not in the image"
            yield from _check_command(where, strata, words)
            for name in PROBES:
                probe = container.get(name, {}).get("exec", {}).get("command")
                if probe:
                    yield from _check_command(f"{where}, {name}", strata, probe)


def variables(found: list[Template]) -> Iterator[str]:
    """$(NAME) in a command is a variable that the container has, and all of those are used."""
    for template in found:
        for container in template.containers:
            where = f"{template.place}, {container['name']}"
            text = " ".join([*container["command"], *container.get("args", [])])
            used = set(re.findall(r"\$\(([A-Z_]+)\)", text))
            named = {each["name"] for each in container.get("env", [])}
            yield from (f"{where}: no variable {name}" for name in sorted(used - named))


def volumes(
    found: list[Template], manifests: list[Manifest], made_by_hand: set[str]
) -> Iterator[str]:
    """What is mounted is there: volumes, and the Secrets, ConfigMaps and claims behind them."""
    there = {(each["kind"], name_of(each)) for each in manifests}
    there |= {("Secret", name) for name in made_by_hand}
    for template in found:
        named = {each["name"] for each in template.spec.get("volumes", [])}
        named |= {name_of(each) for each in template.claims}
        mounted = set()
        for container in template.containers:
            for mount in container.get("volumeMounts", []):
                mounted.add(mount["name"])
                if mount["name"] not in named:
                    yield f"{template.place}, {container['name']}: no volume {mount['name']}"
        yield from (f"{template.place}: {name} is mounted nowhere" for name in named - mounted)
        for volume in template.spec.get("volumes", []):
            source = _source(volume)
            if source and source not in there:
                yield f"{template.place}: no {source[0]} {source[1]}"


def _source(volume: Manifest) -> tuple[str, str] | None:
    if "secret" in volume:
        return ("Secret", volume["secret"]["secretName"])
    if "configMap" in volume:
        return ("ConfigMap", volume["configMap"]["name"])
    if "persistentVolumeClaim" in volume:
        return ("PersistentVolumeClaim", volume["persistentVolumeClaim"]["claimName"])
    return None


def ports(found: list[Template], manifests: list[Manifest]) -> Iterator[str]:
    """Ports that are named or probed are those that the daemon listens at; Services lead there."""
    for template in found:
        for container in template.containers:
            where = f"{template.place}, {container['name']}"
            named = {each["name"]: each["containerPort"] for each in container.get("ports", [])}
            listens = set(_listens(container))
            for port in sorted(set(named.values()) - listens):
                yield f"{where}: port {port} is named, but nothing listens there"
            for port in sorted(listens - set(named.values())):
                yield f"{where}: port {port} is not named"
            for name in PROBES:
                port = container.get(name, {}).get("tcpSocket", {}).get("port")
                if port is not None and port not in named and port not in named.values():
                    yield f"{where}, {name}: no port {port}"
    for service in (each for each in manifests if each["kind"] == "Service"):
        pods = [each for each in found if matches(service["spec"]["selector"], each.labels)]
        if not pods:
            yield f"Service {name_of(service)}: selects no pod"
        for port in service["spec"].get("ports", []):
            for template in pods:
                if dict(_named_ports(template)).get(port["targetPort"]) != port["port"]:
                    yield f"Service {name_of(service)}: {port['name']} leads nowhere"


def _named_ports(template: Template) -> Iterator[tuple[str, int]]:
    for container in template.containers:
        for port in container.get("ports", []):
            yield port["name"], port["containerPort"]


def _options(container: Manifest) -> dict[str, str]:
    words = [*container["command"], *container.get("args", [])]
    text = " ".join(words)
    return dict(re.findall(r"(--[a-z-]+)[= ]([^ ]+)", text))


def _listens(container: Manifest) -> Iterator[int]:
    options = _options(container)
    if container["command"][:2] == ["strata", "coordinator"]:
        yield int(options["--listen"].rpartition(":")[2])
    if container["command"][:2] == ["strata", "server"]:
        first = int(options["--port"])
        yield from range(first, first + int(options.get("--shards", "1")))


def matches(selector: Manifest, labels: dict[str, str]) -> bool:
    """Whether a map of labels, or a selector with matchLabels and matchExpressions, matches."""
    simple = selector.get("matchLabels", {})
    if "matchLabels" not in selector and "matchExpressions" not in selector:
        simple = selector
    told = all(labels.get(key) == value for key, value in simple.items())
    return told and all(
        each["operator"] == "In" and labels.get(each["key"]) in each["values"]
        for each in selector.get("matchExpressions", [])
    )


def selectors(found: list[Template], manifests: list[Manifest]) -> Iterator[str]:
    """Sets select their own pods; budgets and policies select some."""
    for manifest in manifests:
        kind, spec = manifest["kind"], manifest.get("spec", {})
        where = f"{kind} {name_of(manifest)}"
        if kind == "StatefulSet":
            labels = spec["template"]["metadata"]["labels"]
            if not matches(spec["selector"], labels):
                yield f"{where}: does not select its own pods"
            services = [name_of(each) for each in manifests if each["kind"] == "Service"]
            if spec["serviceName"] not in services:
                yield f"{where}: no Service {spec['serviceName']}"
        if kind in ("PodDisruptionBudget", "NetworkPolicy"):
            selector = spec["selector" if kind == "PodDisruptionBudget" else "podSelector"]
            if not any(matches(selector, each.labels) for each in found):
                yield f"{where}: selects no pod"
    for template in found:
        for spread in template.spec.get("topologySpreadConstraints", []):
            if not matches(spread["labelSelector"], template.labels):
                yield f"{template.place}: spreads other pods"
        if admits(manifests, template.labels, None, 1) is None:
            yield f"{template.place}: no NetworkPolicy selects it"


def admits(
    manifests: list[Manifest], to: dict[str, str], source: dict[str, str] | None, port: int
) -> bool | None:
    """Whether policies let pods with some labels connect; None: no policy selects the target.

    Without labels of a source: a pod of another namespace that has none.
    """
    policies = [
        each["spec"]
        for each in manifests
        if each["kind"] == "NetworkPolicy" and matches(each["spec"]["podSelector"], to)
    ]
    if not policies:
        return None
    return any(
        _admits_port(rule, port) and any(_admits_peer(peer, source) for peer in rule["from"])
        for policy in policies
        for rule in policy["ingress"]
    )


def _admits_port(rule: Manifest, port: int) -> bool:
    return any(each["port"] <= port <= each.get("endPort", each["port"]) for each in rule["ports"])


def _admits_peer(peer: Manifest, source: dict[str, str] | None) -> bool:
    return source is not None and matches(peer["podSelector"], source)


def restricted(found: list[Template]) -> Iterator[str]:
    """The profile `restricted` of Pod Security, a root that is read-only, and bounded memory."""
    for template in found:
        pod = template.spec["securityContext"]
        told = (pod.get("runAsNonRoot"), pod.get("runAsUser", 0) > 0, pod["seccompProfile"]["type"])
        if told != (True, True, "RuntimeDefault"):
            yield f"{template.place}: runs as root, or without seccomp"
        if pod.get("fsGroupChangePolicy") != "OnRootMismatch":
            yield f"{template.place}: opens keys on its volumes to the group"
        if template.spec.get("automountServiceAccountToken") is not False:
            yield f"{template.place}: has the account's token"
        for container in template.containers:
            own = container.get("securityContext", {})
            wanted = {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            if own != wanted:
                yield f"{template.place}, {container['name']}: is not confined"
            resources = container.get("resources", {})
            if "memory" not in resources.get("limits", {}) or "cpu" not in resources["requests"]:
                yield f"{template.place}, {container['name']}: no limit of memory, or no cores"


def grace(found: list[Template]) -> Iterator[str]:
    """Daemons have the time that --notice promises them, and 10 s to end."""
    for template in found:
        for container in template.containers:
            notice = float(_options(container).get("--notice", "0"))
            if template.spec["terminationGracePeriodSeconds"] < notice + 10:
                yield f"{template.place}, {container['name']}: is killed before its --notice ends"


def memory(found: list[Template]) -> Iterator[str]:
    """What a daemon promises to jobs is less than it may use."""
    for template in found:
        for container in template.containers:
            promised = _options(container).get("--memory-limit")
            limit = container.get("resources", {}).get("limits", {}).get("memory", "0Gi")
            if promised and float(promised[:-3]) * 1.25 > float(limit[:-2]):
                yield f"{template.place}, {container['name']}: promises more than {limit} allows"


def jobsets(manifests: list[Manifest]) -> Iterator[str]:
    """A JobSet has fields that there are, and names jobs of its own."""
    for manifest in (each for each in manifests if each["kind"] == "JobSet"):
        where, spec = f"JobSet {name_of(manifest)}", manifest["spec"]
        names = [each["name"] for each in spec["replicatedJobs"]]
        parts: list[tuple[str, Any]] = [("spec", spec)]
        parts += [(key, spec[key]) for key in ("coordinator", "network", "successPolicy")]
        parts += [("replicatedJobs", each) for each in spec["replicatedJobs"]]
        for key, part in parts:
            for name in sorted(set(part) - JOBSET_FIELDS[key]):
                yield f"{where}: {key} has no {name}"
        used = [spec["coordinator"]["replicatedJob"]]
        used += spec["successPolicy"]["targetReplicatedJobs"]
        for i, each in enumerate(spec["replicatedJobs"]):
            for other in each.get("dependsOn", []):
                if other["name"] not in names[:i] or other["status"] not in ("Ready", "Complete"):
                    yield f"{where}: {each['name']} depends on what is not before it"
        yield from (f"{where}: no job {name}" for name in used if name not in names)


def all_findings(manifests: list[Manifest], strata: str, made_by_hand: set[str]) -> list[str]:
    """Returns what is wrong with what kustomize has made."""
    found = list(templates(manifests))
    checks: list[Callable[[], Iterator[str]]] = [
        lambda: commands(found, strata),
        lambda: variables(found),
        lambda: volumes(found, manifests, made_by_hand),
        lambda: ports(found, manifests),
        lambda: selectors(found, manifests),
        lambda: restricted(found),
        lambda: grace(found),
        lambda: memory(found),
        lambda: jobsets(manifests),
    ]
    return [finding for check in checks for finding in check()]
