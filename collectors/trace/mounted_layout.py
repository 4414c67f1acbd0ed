# SPDX-License-Identifier: BSD-2-Clause
"""The layout of file systems that stay mounted (DIR=, watch), read from their devices.

Nothing is written. What is read (groups, tables, the log) is set by mkfs and does not change, except the
chunks of btrfs, which are read past the page cache after a sync. Offsets are sectors of the whole device that
the file system is on: a disk, or a volume.
"""

from collections.abc import Collection
from pathlib import Path
from typing import Any

from collectors.host import blockdev, fs_devices
from collectors.host.fs_devices import FsDevices
from workloads.filesystems import layout
from workloads.system import device_graph, mounts
from workloads.system.device_graph import Graph

_SECTOR_BYTES = 512


def of_directory(backing: blockdev.Backing) -> tuple[dict[str, Any], list[str]]:
    """Return the layout of the file system below a directory, and warnings."""
    if not backing.found.devices:
        return {"journal": [], "why_not": f"{backing.source} is no disk"}, []
    graph = device_graph.read()
    disk_layout, warnings = _read(backing.kind, backing.found, graph)
    own_journal = external_journal(backing.found, graph)
    return {"journal": journal_of(disk_layout), **own_journal, **disk_layout}, warnings


def of_disks(disks: Collection[str]) -> tuple[dict[str, Any], list[str]]:
    """Return the layout of all file systems mounted from these whole devices, in one, and warnings."""
    graph = device_graph.read()
    mounted: dict[FsDevices, str] = {}
    for mount in mounts.here():
        device = blockdev.device_of(mount)
        if device not in graph.nodes or mount.kind == "overlay":
            continue
        found = fs_devices.find(mount, graph, device)
        if any(graph.nodes[one.name].disk in disks for one in found.devices):
            mounted[found] = mount.kind
    if not mounted:
        return {"journal": [], "why_not": f"nothing of {' '.join(sorted(disks))} is mounted here"}, []
    whole: dict[str, Any] = {}
    warnings: list[str] = []
    for found, kind in mounted.items():
        part, more = _read(kind, found, graph)
        warnings += more
        whole |= external_journal(found, graph)
        if "why_not" in part:
            whole.setdefault("why_not", part["why_not"])
        for key in ("areas", "spans", "chunks"):
            whole.setdefault(key, []).extend(part.get(key, []))
    return {"journal": journal_of(whole), **{key: value for key, value in whole.items() if value}}, warnings


def journal_of(disk_layout: dict[str, Any]) -> list[list[int]]:
    """Return the journals' extents in a layout, by which requests are classed."""
    areas = [area for area in disk_layout.get("areas", []) if area["kind"] == "journal"]
    return sorted([start, end] for area in areas for start, end in area["extents"])


def external_journal(found: FsDevices, graph: Graph) -> dict[str, Any]:
    """Return geometry's "journal_dev", the whole device with the journal or log; {} if it is internal.

    "journal_dev_sectors", [start, end), tells the journal's part if that device has other parts.
    """
    for device in found.devices:
        if device.role in ("journal", "log"):
            node = graph.nodes[device.name]
            end = node.first_sector + node.sectors
            own = {"journal_dev_sectors": [node.first_sector, end]} if node.disk != node.name else {}
            return {"journal_dev": graph.nodes[node.disk].dev if node.disk in graph.nodes else "", **own}
    return {}


def _read(kind: str, found: FsDevices, graph: Graph) -> tuple[dict[str, Any], list[str]]:
    members = [device for device in found.devices if device.role in ("data", "member")]
    paths = [_path(device.name) for device in members]
    own = {
        device.role: (_path(device.name), graph.nodes[device.name].sectors * _SECTOR_BYTES)
        for device in found.devices
        if device not in members
    }
    return layout.read_layout(kind, paths, own.get("journal") or own.get("log"), own.get("realtime"))


def _path(name: str) -> str:
    """Return the node that devtmpfs makes for a device."""
    return str(Path("/dev") / name.replace("!", "/"))
