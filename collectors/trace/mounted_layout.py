# SPDX-License-Identifier: BSD-2-Clause
"""The geometry of file systems that stay mounted (DIR=, watch): their devices are read beside the kernel.

That is safe, as nothing is written, and right: what is looked at (places of groups, tables and the log) was
set by mkfs and stays, but for the chunks of btrfs, which are read past the page cache after a sync.
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


def of_place(place: blockdev.Place) -> tuple[dict[str, Any], list[str]]:
    """Return the geometry of the file system of a directory, and what to warn of."""
    device = _device(place.source, place.dev)
    if place.disk is None or device is None:
        return {"journal": [], "why_not": f"{place.source} is no disk"}, []
    found, warnings = layout.read_layout(place.kind, _all_devices(place.kind, device))
    return {"journal": journal_of(found), **found}, warnings


def of_disk(disk: str) -> tuple[dict[str, Any], list[str]]:
    """Return the geometry of all file systems of a disk that are mounted, with their kinds, and warnings."""
    kinds: dict[str, str] = {}
    for mount in mounts.here():
        device = _device(mount.source, mount.dev)
        try:
            if device is not None and blockdev.whole_disk(os.path.basename(device)) == disk:
                kinds[device] = mount.kind
        except UserError:  # gone meanwhile
            continue
    if not kinds:
        return {"journal": [], "why_not": f"nothing of {disk} is mounted here"}, []
    whole: dict[str, Any] = {}
    warnings: list[str] = []
    for device, kind in kinds.items():
        found, said = layout.read_layout(kind, _all_devices(kind, device))
        warnings += said
        if "why_not" in found:
            whole.setdefault("why_not", found["why_not"])
        for key in ("areas", "spans", "chunks"):
            whole.setdefault(key, []).extend(found.get(key, []))
    return {"journal": journal_of(whole), **{key: value for key, value in whole.items() if value}}, warnings


def journal_of(found: dict[str, Any]) -> list[list[int]]:
    """Return the journals' extents, for requests to be classed by them."""
    areas = [area for area in found.get("areas", []) if area["kind"] == "journal"]
    return sorted([start, end] for area in areas for start, end in area["extents"])


def _device(source: str, number: str) -> str | None:
    """Return the path of what is mounted, also if it is called /dev/root; None if it is no block device."""
    name = os.path.basename(os.path.realpath(source)) if source.startswith("/dev/") else ""
    if not (name and (_SYS / name).exists()):
        place = Path("/sys/dev/block") / number
        name = place.resolve().name if place.exists() else ""
    return f"/dev/{name}" if name and os.path.exists(f"/dev/{name}") else None


def _all_devices(kind: str, device: str) -> list[str]:
    """Return the other devices of a btrfs too."""
    if kind != "btrfs":
        return [device]
    for names in _BTRFS.glob("*/devices"):
        if (names / os.path.basename(device)).exists():
            others = sorted(name for name in os.listdir(names) if name != os.path.basename(device))
            return [device, *(f"/dev/{name}" for name in others)]
    return [device]
