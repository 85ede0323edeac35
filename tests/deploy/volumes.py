"""The volumes of a pod, with the owners and modes that the kubelet gives them."""

from __future__ import annotations

import os
import pathlib
from dataclasses import dataclass, field

from kustomize import Manifest
from pod_templates import Template


@dataclass
class Site:
    """What pods of a test share."""

    folder: pathlib.Path
    strata: str
    secrets: dict[str, dict[str, bytes]] = field(default_factory=dict)
    config_maps: dict[str, dict[str, str]] = field(default_factory=dict)

    @property
    def hosts(self) -> pathlib.Path:
        return self.folder / "hosts"

    def claim(self, name: str) -> pathlib.Path:
        """The folder of a claim, which outlives pods."""
        place = self.folder / "claims" / name
        place.mkdir(parents=True, exist_ok=True)
        return place


def own_by_group(place: pathlib.Path, security: Manifest) -> None:
    """Does to a volume what the kubelet does for fsGroup."""
    group = security["fsGroup"]
    is_there = place.stat()
    fits = is_there.st_gid == group and (is_there.st_mode & 0o2770) == 0o2770
    if security.get("fsGroupChangePolicy") == "OnRootMismatch" and fits:
        return
    for each in [*place.rglob("*"), place]:
        if each.is_symlink():
            continue
        os.chown(each, -1, group)
        mask = 0o2770 if each.is_dir() else 0o660
        each.chmod(each.stat().st_mode & 0o7777 | mask)


class Volumes:
    """A pod's volumes: folders that its containers mount."""

    def __init__(self, site: Site, pod: str, folder: pathlib.Path, template: Template) -> None:
        self._site = site
        self._security = template.spec["securityContext"]
        self._places: dict[str, pathlib.Path] = {}
        self._read_only: set[str] = set()
        for each in template.claims:
            name = each["metadata"]["name"]
            self._places[name] = site.claim(f"{name}-{pod}")
        for each in template.spec.get("volumes", []):
            self._places[each["name"]] = self._made(each, folder / "volumes" / each["name"])
        for name in set(self._places) - self._read_only:
            own_by_group(self._places[name], self._security)

    def mounts(self, container: Manifest) -> list[Manifest]:
        """What container.py is to mount."""
        return [
            {
                "source": str(self._places[each["name"]]),
                "target": each["mountPath"],
                "read_only": bool(each.get("readOnly")) or each["name"] in self._read_only,
            }
            for each in container.get("volumeMounts", [])
        ]

    def _made(self, volume: Manifest, place: pathlib.Path) -> pathlib.Path:
        if "persistentVolumeClaim" in volume:
            return self._site.claim(volume["persistentVolumeClaim"]["claimName"])
        place.mkdir(parents=True)
        if "emptyDir" in volume:
            place.chmod(0o777)
            return place
        self._read_only.add(volume["name"])
        for name, content in self._files(volume).items():
            (place / name).write_bytes(content)
            # The default mode, with what fsGroup adds.
            (place / name).chmod(0o644)
            os.chown(place / name, 0, self._security["fsGroup"])
        return place

    def _files(self, volume: Manifest) -> dict[str, bytes]:
        if "configMap" in volume:
            texts = self._site.config_maps[volume["configMap"]["name"]]
            return {name: text.encode() for name, text in texts.items()}
        secret = volume["secret"]
        files = self._site.secrets.get(secret["secretName"], {})
        if not files and not secret.get("optional"):
            raise ValueError(f"no Secret {secret['secretName']}")
        return files
