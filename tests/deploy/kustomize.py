"""What `kustomize build` makes of a folder, for the fields that deploy/kubernetes uses.

Tests have no kustomize to run; where a kubectl is there, they compare. A field that is not known
here is an error.
"""

from __future__ import annotations

import pathlib
from typing import Any, Iterator

import yaml

Manifest = dict[str, Any]

KNOWN = {
    "apiVersion",
    "kind",
    "namespace",
    "resources",
    "images",
    "replicas",
    "configMapGenerator",
    "generatorOptions",
}
CLUSTER_WIDE = {"Namespace"}


def build(folder: pathlib.Path) -> list[Manifest]:
    """Returns the manifests of a folder with a kustomization.yaml."""
    told = yaml.safe_load((folder / "kustomization.yaml").read_text())
    unknown = set(told) - KNOWN
    if unknown:
        raise ValueError(f"{folder}/kustomization.yaml: {sorted(unknown)} are not known here")
    made = [_config_map(folder, each) for each in told.get("configMapGenerator", [])]
    if made and not told.get("generatorOptions", {}).get("disableNameSuffixHash"):
        raise ValueError(f"{folder}: names with hashes are not known here")
    for name in told["resources"]:
        made += [each for each in yaml.safe_load_all((folder / name).read_text()) if each]
    for manifest in made:
        if "namespace" in told and manifest["kind"] not in CLUSTER_WIDE:
            manifest["metadata"]["namespace"] = told["namespace"]
        for replica in told.get("replicas", []):
            if manifest["kind"] == "StatefulSet" and replica["name"] == name_of(manifest):
                manifest["spec"]["replicas"] = replica["count"]
        for container in containers_in(manifest):
            _set_image(container, told.get("images", []))
    return made


def name_of(manifest: Manifest) -> str:
    return str(manifest["metadata"]["name"])


def containers_in(value: Any) -> Iterator[Manifest]:
    """Yields the containers of a manifest, also of kinds that kustomize does not know."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key in ("containers", "initContainers"):
                yield from inner
            else:
                yield from containers_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from containers_in(inner)


def _config_map(folder: pathlib.Path, told: Manifest) -> Manifest:
    data = {pathlib.Path(name).name: (folder / name).read_text() for name in told["files"]}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": told["name"]},
        "data": data,
    }


def _set_image(container: Manifest, images: list[Manifest]) -> None:
    for image in images:
        if container["image"].split(":")[0] == image["name"]:
            container["image"] = f"{image['newName']}:{image['newTag']}"
            return
