# SPDX-License-Identifier: BSD-2-Clause
"""Which disk a directory or a device name means."""

import ctypes
import os
from dataclasses import dataclass
from pathlib import Path

from workloads import mounts
from workloads.errors import MachineError, RunError

_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Place:
    """What a directory lies on."""

    disk: str | None  # the whole disk, as in /sys/block; None: no block device
    dev: str  # "major:minor" of the file system (for btrfs a number of its own)
    kind: str  # ext4
    source: str  # /dev/vda1
    line: str  # what the kernel says of the mount


def whole_disk(name: str) -> str:
    """Return the disk in /sys/block that a device name, perhaps a partition's, belongs to."""
    sysfs = Path("/sys/class/block") / name
    if not sysfs.exists():
        raise MachineError(f"{name} is not a block device here: see /sys/block")
    real = sysfs.resolve()
    return real.parent.name if (real / "partition").exists() else real.name


def filesystem_number(directory: Path) -> str:
    """Return "major:minor" of the file system (its super block's, which btrfs's stat(2) does not give)."""
    return _mount_of(directory).dev


def under(directory: Path) -> Place:
    """Return what a directory lies on."""
    mount = _mount_of(directory)
    disk = None
    if mount.source.startswith("/dev/"):
        name = os.path.basename(os.path.realpath(mount.source))
        if (Path("/sys/class/block") / name).exists():
            disk = whole_disk(name)
    if disk is None and (Path("/sys/dev/block") / mount.dev).exists():  # "/dev/root" and the like
        disk = whole_disk((Path("/sys/dev/block") / mount.dev).resolve().name)
    line = f"{mount.source} {mount.target} {mount.kind} {mount.options},{mount.super_options}"
    return Place(disk, mount.dev, mount.kind, mount.source, line)


def _mount_of(directory: Path) -> mounts.Mount:
    """Return the mount a directory is in: the last one whose target is its nearest ancestor."""
    real = Path(os.path.realpath(directory))
    best: mounts.Mount | None = None
    for mount in mounts.here():
        target = Path(mount.target)
        if real.is_relative_to(target) and (
            best is None or len(target.parts) >= len(Path(best.target).parts)
        ):
            best = mount
    if best is None:
        raise MachineError(
            f"{directory} is in no mount of /proc/self/mountinfo: mount /proc; "
            "in a chroot, mount --bind its root on itself before chroot"
        )
    return best


def sync(directory: Path) -> None:
    """Write back one file system (syncfs(2))."""
    file = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if _libc.syncfs(file) != 0:
            number = ctypes.get_errno()
            raise RunError(f"{directory} cannot be synced: {os.strerror(number).lower()}")
    finally:
        os.close(file)
