# SPDX-License-Identifier: BSD-2-Clause
"""The file systems mounted from a disk or partition, in any mount namespace: `watch` counts calls on them.

Also those on a disk's partitions, on volumes and arrays made of it, and overlays that write to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from collectors.host import blockdev, overlay
from workloads.system import mounts
from workloads.system.errors import UserError
from workloads.system.mounts import Mount

_SYS = Path("/sys/class/block")
MOST = 256  # MAX_TARGETS of recorder/options.h
_DEEPEST = 8  # volumes on arrays on partitions


@dataclass(frozen=True)
class Mounted:
    """One file system."""

    dev: str  # "major:minor" of its super block
    name: str  # ext4
    mount_point: str
    device: str  # that it is mounted from, as in /sys/class/block


def find(watched: str) -> list[Mounted]:
    """Return what is mounted from a device: those with a device of their own first, then overlays on them."""
    here = mounts.here()
    return choose(watched, mounts.everywhere(), lambda mount: device_of(mount, here), devices_below)


def choose(
    watched: str,
    views: Iterable[tuple[int | None, Mount]],
    device: Callable[[Mount], str | None],
    below: Callable[[str], set[str]],
) -> list[Mounted]:
    """Return each file system of these mounts that lies on the watched device, once, by its best known place.

    views: the process that sees it (None: we do), and the mount. below: the devices that a device lies on.
    """
    found: dict[str, tuple[tuple[bool, bool, bool, int], Mounted]] = {}
    for pid, mount in views:
        name = device(mount)
        if name is None or watched not in below(name):
            continue
        rank = (mount.kind == "overlay", pid is not None, mount.root != "/", len(mount.target))
        one = Mounted(mount.dev, mount.kind, mount.target, name)
        if mount.dev not in found or rank < found[mount.dev][0]:
            found[mount.dev] = (rank, one)
    return [one for _, one in sorted(found.values(), key=lambda item: (item[0], item[1].dev))]


def device_of(mount: Mount, here: list[Mount]) -> str | None:
    """Return the device of a mount; of an overlay, that of its upper directory, whose path is the host's."""
    return blockdev.device_of(overlay.below(mount, here) or mount)


def devices_below(device: str) -> set[str]:
    """Return the disks and partitions that a device lies on, and itself; of btrfs, of all its devices."""
    return _below([device, *_of_same_btrfs(device)], _DEEPEST)


def _below(devices: Iterable[str], deepest: int) -> set[str]:
    found: set[str] = set()
    for device in devices:
        try:
            disk = blockdev.whole_disk(device)
        except UserError:  # gone meanwhile
            continue
        found |= {device, disk}
        parts = _SYS / disk / "slaves"
        if deepest > 0 and parts.is_dir():
            found |= _below([part.name for part in parts.iterdir()], deepest - 1)
    return found


def _of_same_btrfs(device: str) -> list[str]:
    for devices in Path("/sys/fs/btrfs").glob("*/devices"):
        if (devices / device).exists():
            return [one.name for one in devices.iterdir()]
    return []
