# SPDX-License-Identifier: BSD-2-Clause
"""File systems mounted from a disk, in any mount namespace: `watch` counts the calls on them.

Included are those on the disk's partitions, on volumes and arrays made of it, and overlays that write to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from collectors.host import blockdev, fs_devices, overlay
from workloads.system import device_graph, mounts
from workloads.system.device_facts import names_in
from workloads.system.device_graph import Graph
from workloads.system.mounts import Mount

MOST = 256  # MAX_TARGETS of recorder/options.h


@dataclass(frozen=True)
class Mounted:
    """A mounted file system."""

    dev: str  # "major:minor" of its super block
    name: str  # ext4
    mount_point: str
    device: str  # the mounted device, as in /sys/class/block


def find(watched: str) -> list[Mounted]:
    """Return the file systems mounted from a device; overlays come last."""
    own_mounts, graph = mounts.here(), device_graph.read()
    others = _further_devices(own_mounts, graph)
    return choose(
        watched,
        mounts.everywhere(),
        lambda mount: device_of(mount, own_mounts),
        lambda device: devices_below([device, *others.get(device, ())], graph),
    )


def choose(
    watched: str,
    views: Iterable[tuple[int | None, Mount]],
    device: Callable[[Mount], str | None],
    below: Callable[[str], set[str]],
) -> list[Mounted]:
    """Return each file system on the watched device once, by its best mount point.

    views: pairs of a process with the mount in its namespace (None: our own) and the mount. below: the
    devices that a device is made of.
    """
    best: dict[str, tuple[tuple[bool, bool, bool, int], Mounted]] = {}
    for pid, mount in views:
        name = device(mount)
        if name is None or watched not in below(name):
            continue
        rank = (mount.kind == "overlay", pid is not None, mount.root != "/", len(mount.target))
        if mount.dev not in best or rank < best[mount.dev][0]:
            best[mount.dev] = (rank, Mounted(mount.dev, mount.kind, mount.target, name))
    return [mounted for _, mounted in sorted(best.values(), key=lambda item: (item[0], item[1].dev))]


def device_of(mount: Mount, own_mounts: list[Mount]) -> str | None:
    """Return the device of a mount; of an overlay, that of its upper directory."""
    return blockdev.device_of(overlay.below(mount, own_mounts) or mount)


def devices_below(devices: Iterable[str], graph: Graph) -> set[str]:
    """Return devices and all that they are made of: volumes, disks, partitions; of btrfs, of all members."""
    every = [other for device in devices for other in (device, *_of_same_btrfs(device))]
    return {name for one in every for name in (one, *graph.below(one)) if name in graph.nodes}


def _further_devices(own_mounts: Iterable[Mount], graph: Graph) -> dict[str, list[str]]:
    """Return by main device the other devices of each file system: its journal, log, realtime device."""
    further: dict[str, list[str]] = {}
    for mount in own_mounts:
        device = blockdev.device_of(mount)
        if device is not None and mount.kind in ("ext3", "ext4", "xfs") and device not in further:
            found = fs_devices.find(mount, graph, device)
            further[device] = [other.name for other in found.devices if other.name != device]
    return further


def _of_same_btrfs(device: str) -> list[str]:
    place = fs_devices.btrfs_directory(None, device)
    return names_in(place / "devices") if place is not None else []  # none if it was unmounted meanwhile
