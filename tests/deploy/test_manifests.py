"""deploy/kubernetes is what Kubernetes and the program take, and the checks can fail."""

from __future__ import annotations

import copy
import os
import pathlib
import re
import shutil
import subprocess
from typing import Any, Callable

import kubernetes_validate
import pytest
import yaml

import checks
import kustomize
from kustomize import Manifest

STRATA = os.environ.get("STRATA_COMMAND", "strata")
FOLDER = pathlib.Path("deploy/kubernetes")
PAGE = pathlib.Path("docs/kubernetes.md")
# In which containers that always restart beside others are no beta any more, and one of now.
VERSIONS = ("1.33", "1.37")


def built(name: str) -> list[Manifest]:
    return kustomize.build(FOLDER / name)


def made_by_hand() -> set[str]:
    """The Secrets that the page says how to make."""
    return set(re.findall(r"create secret generic ([a-z-]+)", PAGE.read_text()))


def findings(manifests: list[Manifest]) -> list[str]:
    return checks.all_findings(manifests, STRATA, made_by_hand())


def validate(manifest: Manifest, version: str) -> None:
    """Against Kubernetes' schema; of a JobSet, which is not Kubernetes' own, the Jobs."""
    if manifest["kind"] != "JobSet":
        kubernetes_validate.validate(manifest, version, strict=True)
        return
    for jobs in manifest["spec"]["replicatedJobs"]:
        job = {"apiVersion": "batch/v1", "kind": "Job", **jobs["template"]}
        kubernetes_validate.validate(job, version, strict=True)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", ["cluster", "job"])
def test_every_manifest_is_valid(name: str, version: str) -> None:
    for manifest in built(name):
        validate(manifest, version)


@pytest.mark.parametrize("name", ["cluster", "job"])
def test_the_checks_find_nothing(name: str) -> None:
    assert findings(built(name)) == []


@pytest.mark.parametrize("name", ["cluster", "job"])
def test_kustomize_makes_the_same(name: str) -> None:
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("no kubectl is here: only kustomize.py has read the folder")
    # It follows no link out of the folder.
    folder = (FOLDER / name / "kustomization.yaml").resolve().parent
    run = subprocess.run([kubectl, "kustomize", str(folder)], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    order = lambda manifest: (manifest["kind"], manifest["metadata"]["name"])
    assert sorted(yaml.safe_load_all(run.stdout), key=order) == sorted(built(name), key=order)


def test_the_image_is_one_setting() -> None:
    images = [
        container["image"]
        for name in ("cluster", "job")
        for container in kustomize.containers_in(built(name))
    ]
    assert set(images) == {"strata:latest", "busybox:1.37"}


def by_name(manifests: list[Manifest], kind: str, name: str) -> Any:
    found = [
        each for each in manifests if each["kind"] == kind and each["metadata"]["name"] == name
    ]
    assert len(found) == 1
    return found[0]


def pod(manifests: list[Manifest], name: str) -> Any:
    return by_name(manifests, "StatefulSet", name)["spec"]["template"]["spec"]


def submit(manifests: list[Manifest]) -> Any:
    jobs = by_name(manifests, "JobSet", "job")["spec"]["replicatedJobs"][2]
    return jobs["template"]["spec"]["template"]["spec"]


def drop(values: list[Any], name: str) -> None:
    values[:] = [each for each in values if each["name"] != name]


Breaks = Callable[[list[Manifest]], Any]
BROKEN: list[tuple[str, str, Breaks]] = [
    (
        "cluster",
        "server has no option --shard",
        lambda all: pod(all, "server")["containers"][0]["args"].append("--shard=2"),
    ),
    (
        "cluster",
        "StatefulSet coordinator, coordinator, livenessProbe: the program has no command node",
        lambda all: pod(all, "coordinator")["containers"][0]["livenessProbe"].update(
            exec={"command": ["strata", "node"]}
        ),
    ),
    (
        "cluster",
        "StatefulSet worker, worker: no variable POD",
        lambda all: pod(all, "worker")["containers"][0].pop("env"),
    ),
    (
        "cluster",
        "StatefulSet server: no Secret other",
        lambda all: pod(all, "server")["volumes"][0]["secret"].update(secretName="other"),
    ),
    (
        "cluster",
        "StatefulSet server, server: no volume tmp",
        lambda all: drop(pod(all, "server")["volumes"], "tmp"),
    ),
    (
        "cluster",
        "StatefulSet server, server: port 7101 is named, but nothing listens there",
        lambda all: pod(all, "server")["containers"][0]["args"].remove("--shards=2"),
    ),
    (
        "cluster",
        "Service coordinator: control leads nowhere",
        lambda all: by_name(all, "Service", "coordinator")["spec"]["ports"][0].update(port=7071),
    ),
    (
        "cluster",
        "StatefulSet worker: does not select its own pods",
        lambda all: by_name(all, "StatefulSet", "worker")["spec"]["selector"]["matchLabels"].update(
            {"app.kubernetes.io/component": "server"}
        ),
    ),
    (
        "cluster",
        "StatefulSet worker: no NetworkPolicy selects it",
        lambda all: all.remove(by_name(all, "NetworkPolicy", "worker")),
    ),
    (
        "cluster",
        "StatefulSet server: opens keys on its volumes to the group",
        lambda all: pod(all, "server")["securityContext"].pop("fsGroupChangePolicy"),
    ),
    (
        "cluster",
        "StatefulSet server: runs as root, or without seccomp",
        lambda all: pod(all, "server")["securityContext"].update(runAsUser=0),
    ),
    (
        "cluster",
        "StatefulSet worker, token: is not confined",
        lambda all: pod(all, "worker")["initContainers"][0].pop("securityContext"),
    ),
    (
        "cluster",
        "StatefulSet worker, worker: is killed before its --notice ends",
        lambda all: pod(all, "worker").update(terminationGracePeriodSeconds=30),
    ),
    (
        "cluster",
        "StatefulSet worker, worker: promises more than 2Gi allows",
        lambda all: pod(all, "worker")["containers"][0]["resources"]["limits"].update(memory="2Gi"),
    ),
    ("job", "JobSet job/submit: no ConfigMap job", lambda all: all.pop(0)),
    (
        "job",
        "JobSet job: no job tail",
        lambda all: by_name(all, "JobSet", "job")["spec"]["coordinator"].update(
            replicatedJob="tail"
        ),
    ),
    (
        "job",
        "JobSet job: replicatedJobs has no replica",
        lambda all: by_name(all, "JobSet", "job")["spec"]["replicatedJobs"][1].update(replica=2),
    ),
    (
        "job",
        "JobSet job/submit, submit: submit has no option --wait",
        lambda all: submit(all)["containers"][0]["args"].append("--wait"),
    ),
]


@pytest.mark.parametrize(("name", "finding", "breaks"), BROKEN, ids=[each[1] for each in BROKEN])
def test_a_fault_is_found(name: str, finding: str, breaks: Breaks) -> None:
    manifests = copy.deepcopy(built(name))
    breaks(manifests)
    assert any(finding in each for each in findings(manifests)), findings(manifests)


def test_a_field_that_there_is_not_is_found() -> None:
    manifests = built("cluster")
    pod(manifests, "server")["terminationGracePeriod"] = 3
    with pytest.raises(kubernetes_validate.ValidationError):
        validate(by_name(manifests, "StatefulSet", "server"), VERSIONS[0])
    manifests = built("job")
    submit(manifests)["containers"][0]["restartPolicie"] = "Always"
    with pytest.raises(kubernetes_validate.ValidationError):
        validate(by_name(manifests, "JobSet", "job"), VERSIONS[0])


def test_strangers_may_not_connect() -> None:
    manifests = built("cluster")
    part_of = lambda name: {
        "app.kubernetes.io/name": "strata",
        "app.kubernetes.io/component": name,
    }
    admits = lambda to, source, port: checks.admits(manifests, part_of(to), source, port)
    client = {"strata-client": "true"}
    assert admits("coordinator", part_of("worker"), 7070)
    assert admits("coordinator", client, 7070)
    assert admits("server", part_of("worker"), 7101)
    assert not admits("coordinator", {"app": "other"}, 7070)
    assert not admits("coordinator", None, 7070)
    assert not admits("server", client, 7100)
    assert not admits("server", part_of("worker"), 7102)
    assert not admits("worker", part_of("server"), 7200)
