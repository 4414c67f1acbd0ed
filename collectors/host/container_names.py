# SPDX-License-Identifier: BSD-2-Clause
"""Names of containers and virtual machines, from the files in which their runtimes keep them.

The files are others': only those in root's own directories are read, no link is followed below these, sizes
are limited, and what they say is cleaned. A name that is not found stays the runtime's and the first digits
of the id.
"""

import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from collectors.host.json_file import read_json
from collectors.host.unit_paths import CONTAINER, Unit, cleaned

_CONFIG_MOST_BYTES = 4 << 20
_LIST_MOST_BYTES = 16 << 20
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_STORES = ("run/containers/storage/overlay-containers", "var/lib/containers/storage/overlay-containers")
_TASKS = "run/containerd/io.containerd.runtime.v2.task"
# Annotations, by the runtime that writes them: of the container, of its pod, of the pod's namespace.
_KEYS = (
    (
        "io.kubernetes.cri.container-name",
        "io.kubernetes.cri.sandbox-name",
        "io.kubernetes.cri.sandbox-namespace",
    ),
    ("io.kubernetes.container.name", "io.kubernetes.pod.name", "io.kubernetes.pod.namespace"),
    ("nerdctl/name", "", ""),
)
_ERRORS = (OSError, ValueError, RecursionError, KeyError, TypeError, AttributeError)


def named(unit: Unit, root: Path = Path("/")) -> Unit:
    """Return the unit with its own name, if its runtime's files tell it. root: of the host's file system."""
    if not unit.runtime:
        return unit
    look_ups: tuple[Callable[[Unit, Path], Unit | None], ...] = {
        "docker": (_of_docker,),
        "libpod": (_of_store_list, _of_storage),
        "crio": (_of_storage,),
        "pve-qemu": (_of_proxmox,),
        "pve-lxc": (_of_proxmox,),
    }.get(unit.runtime, (_of_containerd, _of_storage, _of_docker))
    for look_up in look_ups:
        with suppress(*_ERRORS):
            found = look_up(unit, root)
            if found is not None:
                return found
    return unit


def _roots_own(path: Path) -> int:
    """Open a directory that only root (or whoever runs this) can fill. Raises OSError, ValueError."""
    directory = os.open(path, _DIRECTORY)
    status = os.fstat(directory)
    if status.st_uid not in (0, os.geteuid()) or status.st_mode & stat.S_IWOTH:
        os.close(directory)
        raise ValueError(f"{path} is not root's own")
    return directory


def _read_below(base: Path, folders: tuple[str, ...], name: str, most_bytes: int) -> Any:
    """Return the JSON of a file below a directory of root's; the folders on the way are no links."""
    directory = _roots_own(base)
    try:
        for folder in folders:
            below = os.open(folder, _DIRECTORY | os.O_NOFOLLOW, dir_fd=directory)
            os.close(directory)
            directory = below
        return read_json(directory, name, most_bytes)
    finally:
        os.close(directory)


def _text(values: object, key: str) -> str:
    value = values.get(key, "") if isinstance(values, Mapping) else ""
    return cleaned(value) if isinstance(value, str) else ""


def _of_annotations(unit: Unit, annotations: object) -> Unit | None:
    """By what Kubernetes had written into a container's configuration."""
    for container_key, pod_key, namespace_key in _KEYS:
        name, pod = _text(annotations, container_key), _text(annotations, pod_key)
        namespace = _text(annotations, namespace_key)
        if not name and not pod:
            continue
        pod = "/".join(part for part in (namespace, pod) if part)
        # The container that holds a pod's namespaces has no name, or "POD".
        whole = pod if pod and name in ("", "POD") else "/".join(part for part in (pod, name) if part)
        return replace(unit, kind=CONTAINER, name=whole, pod=pod or unit.pod)
    return None


def _of_docker(unit: Unit, root: Path) -> Unit | None:
    base = root / "var/lib/docker/containers"
    config = _read_below(base, (unit.id,), "config.v2.json", _CONFIG_MOST_BYTES)
    labels = config.get("Config", {}).get("Labels") or {}
    if (found := _of_annotations(unit, labels)) is not None:
        return found
    name = _text(config, "Name").lstrip("/")
    return replace(unit, name=name) if name else None


def _of_containerd(unit: Unit, root: Path) -> Unit | None:
    base = root / _TASKS
    for namespace in _folders(base):
        with suppress(*_ERRORS):
            config = _read_below(base, (namespace, unit.id), "config.json", _CONFIG_MOST_BYTES)
            if (found := _of_annotations(unit, config.get("annotations"))) is not None:
                return found
    return None


def _folders(base: Path) -> Iterator[str]:
    directory = _roots_own(base)
    try:
        yield from sorted(os.listdir(directory))[:100]
    finally:
        os.close(directory)


def _of_storage(unit: Unit, root: Path) -> Unit | None:
    for store in _STORES:
        with suppress(*_ERRORS):
            config = _read_below(root / store, (unit.id, "userdata"), "config.json", _CONFIG_MOST_BYTES)
            if (found := _of_annotations(unit, config.get("annotations"))) is not None:
                return found
    return None


def _of_store_list(unit: Unit, root: Path) -> Unit | None:
    """Podman's containers have their names in the list of the storage."""
    for entry in _read_below(root / _STORES[1], (), "containers.json", _LIST_MOST_BYTES):
        if entry["id"] == unit.id and entry.get("names"):
            return replace(unit, name=cleaned(str(entry["names"][0])))
    return None


def _of_proxmox(unit: Unit, root: Path) -> Unit | None:
    """Proxmox: "name: web" of a virtual machine, "hostname: web" of a container."""
    folder, key = ("qemu-server", "name") if unit.runtime == "pve-qemu" else ("lxc", "hostname")
    directory = _roots_own(root / "etc/pve" / folder)
    try:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with os.fdopen(os.open(f"{unit.id}.conf", flags, dir_fd=directory), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return None
            text = file.read(1 << 16).decode("utf-8", "replace")
    finally:
        os.close(directory)
    found = re.search(rf"^{key}: *(.+)$", text.partition("\n[")[0], re.MULTILINE)
    return replace(unit, name=f"{unit.name} {cleaned(found[1].strip())}") if found else None
