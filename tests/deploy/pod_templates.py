"""The pods of manifests: their templates, and what each controller gives its pods."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Iterator

from kustomize import Manifest, name_of

JOBSET = "jobset.sigs.k8s.io/"


@dataclass
class Template:
    """A template of pods, and where it stands."""

    place: str
    metadata: Manifest
    spec: Manifest
    claims: list[Manifest] = field(default_factory=list)

    @property
    def containers(self) -> list[Manifest]:
        return [*self.spec.get("initContainers", []), *self.spec["containers"]]

    @property
    def labels(self) -> dict[str, str]:
        return dict(self.metadata.get("labels", {}))


def templates(manifests: list[Manifest]) -> Iterator[Template]:
    """Yields the templates of StatefulSets and JobSets."""
    for manifest in manifests:
        if manifest["kind"] == "StatefulSet":
            yield template_of_set(manifest)
        if manifest["kind"] == "JobSet":
            for jobs in manifest["spec"]["replicatedJobs"]:
                yield template_of_jobs(manifest, jobs)


def template_of_set(manifest: Manifest) -> Template:
    spec = manifest["spec"]
    return Template(
        f"StatefulSet {name_of(manifest)}",
        spec["template"]["metadata"],
        spec["template"]["spec"],
        spec.get("volumeClaimTemplates", []),
    )


def template_of_jobs(manifest: Manifest, jobs: Manifest) -> Template:
    template = jobs["template"]["spec"]["template"]
    return Template(
        f"JobSet {name_of(manifest)}/{jobs['name']}",
        template.get("metadata", {}),
        template["spec"],
    )


def hostname_of_job(jobset: str, jobs: str, index: int) -> str:
    """The name of the one pod of a job of a JobSet."""
    return f"{jobset}-{jobs}-{index}-0"


def annotations_of_job(manifest: Manifest, jobs: str, index: int) -> dict[str, str]:
    """What the JobSet's controller writes to a pod that templates here ask for."""
    name = name_of(manifest)
    found = {f"{JOBSET}job-index": str(index), f"{JOBSET}replicatedjob-name": jobs}
    head: Any = manifest["spec"].get("coordinator")
    if head:
        host = hostname_of_job(name, head["replicatedJob"], head.get("jobIndex", 0))
        found[f"{JOBSET}coordinator"] = f"{host}.{subdomain(manifest)}"
    return found


def subdomain(manifest: Manifest) -> str:
    return str(manifest["spec"].get("network", {}).get("subdomain", name_of(manifest)))
