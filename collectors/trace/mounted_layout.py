# SPDX-License-Identifier: BSD-2-Clause
"""The layout of file systems that stay mounted (DIR=, watch), read from their devices.

Nothing is written. What is read (groups, tables, the log) is set by mkfs and does not change, except the
chunks of btrfs, which are read past the page cache after a sync.
"""

import os
from pathlib import Path
from typing import Any

from collectors.host import blockdev
from workloads.filesystems import layout
from workloads.system import mounts
from workloads.system.errors import UserError

_SYS = Path("/sys/class/block")
_BTRFS = Path("/sys/fs/btrfs")


def of_directory(backing: blockdev.Backing) -> tuple[dict[str, Any], list[str]]:
    """Return the layout of the file system below a directory, and warnings."""
    device = _device(backing.source, backing.dev)
    if backing.disk is None or device is None:
        return {"journal": [], "why_not": f"{backing.source} is no disk"}, []
    disk_layout, warnings = layout.read_layout(backing.kind, _all_devices(backing.kind, device))
    return {"journal": journal_of(disk_layout), **disk_layout}, warnings


def of_disk(disk: str) -> tuple[dict[str, Any], list[str]]:
    """Return the layout of all mounted file systems of a disk in one, and warnings."""
    kinds: dict[str, str] = {}
    for mount in mounts.here():
        device = _device(mount.source, mount.dev)
        try:
            if device is not None and blockdev.whole_disk(os.path.basename(device)) == disk:
                kinds[device] = mount.kind
        except UserError:  # the device is gone by now
            continue
    if not kinds:
        return {"journal": [], "why_not": f"nothing of {disk} is mounted here"}, []
    whole: dict[str, Any] = {}
    warnings: list[str] = []
    for device, kind in kinds.items():
        part, more = layout.read_layout(kind, _all_devices(kind, device))
        warnings += more
        if "why_not" in part:
            whole.setdefault("why_not", part["why_not"])
        for key in ("areas", "spans", "chunks"):
            whole.setdefault(key, []).extend(part.get(key, []))
    return {"journal": journal_of(whole), **{key: value for key, value in whole.items() if value}}, warnings


def journal_of(disk_layout: dict[str, Any]) -> list[list[int]]:
    """Return the journals' extents in a layout, by which requests are classed."""
    areas = [area for area in disk_layout.get("areas", []) if area["kind"] == "journal"]
    return sorted([start, end] for area in areas for start, end in area["extents"])


def _device(source: str, number: str) -> str | None:
    """Return the path of a mounted block device, also for /dev/root; None: not a block device."""
    name = os.path.basename(os.path.realpath(source)) if source.startswith("/dev/") else ""
    if not (name and (_SYS / name).exists()):
        sysfs = Path("/sys/dev/block") / number
        name = sysfs.resolve().name if sysfs.exists() else ""
    return f"/dev/{name}" if name and os.path.exists(f"/dev/{name}") else None


def _all_devices(kind: str, device: str) -> list[str]:
    """Return a file system's devices: btrfs may have several."""
    if kind != "btrfs":
        return [device]
    for names in _BTRFS.glob("*/devices"):
        if (names / os.path.basename(device)).exists():
            others = sorted(name for name in os.listdir(names) if name != os.path.basename(device))
            return [device, *(f"/dev/{name}" for name in others)]
    return [device]
