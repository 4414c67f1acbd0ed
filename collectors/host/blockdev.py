# SPDX-License-Identifier: BSD-2-Clause
"""The disk, block device and mount below a directory, and the whole disk of a device name."""

import ctypes
import os
import re
from dataclasses import dataclass, replace
from pathlib import Path

from collectors.host import overlay
from workloads.system import loopdev, mounts
from workloads.system.errors import MachineError, RunError

_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Backing:
    """The mount that a directory is in, and the disk below it."""

    disk: str | None  # the whole disk, as in /sys/block; None: not on a block device
    device: str | None  # the block device itself, a partition perhaps, as in /sys/class/block
    dev: str  # "major:minor" of the file system (for btrfs a number of its own)
    kind: str  # ext4
    source: str  # /dev/vda1
    line: str  # as in /proc/mounts
    mount_point: str
    upper: str = ""  # of an overlay: its upper directory, which lies on this disk
    below_dev: str = ""  # of an overlay: "major:minor" of the file system with the upper directory


def whole_disk(name: str) -> str:
    """Return the disk in /sys/block of a device or partition. Raises MachineError."""
    sysfs = Path("/sys/class/block") / name
    if not sysfs.exists():
        raise MachineError(f"{name} is not a block device here: see /sys/block")
    real = sysfs.resolve()
    return real.parent.name if (real / "partition").exists() else real.name


def below_loop(name: str) -> dict[str, str] | None:
    """Return run.json's "below" of a loop device: the file system its file lies on, {"dev": …, "name": …}.

    dev: the file system's number; name: its block device, if it has one. None: not a loop device on a file.
    """
    path = loopdev.backing_path(int(name[4:])) if re.fullmatch(r"loop\d+", name) else None
    if path is None:
        return None
    backing = under(Path(path).parent)
    return {"dev": backing.dev, **({"name": backing.device} if backing.device else {})}


def filesystem_number(directory: Path) -> str:
    """Return "major:minor" of the super block; stat(2) of btrfs gives a subvolume's number instead."""
    return _mount_of(directory).dev


def under(directory: Path) -> Backing:
    """Return the mount and disk below a directory; of an overlay, the disk of its upper directory."""
    mount = _mount_of(directory)
    below = overlay.below(mount, mounts.here())
    device = device_of(below or mount)
    disk = whole_disk(device) if device is not None else None
    line = f"{mount.source} {mount.target} {mount.kind} {mount.options},{mount.super_options}"
    backing = Backing(disk, device, mount.dev, mount.kind, mount.source, line, mount.target)
    if below is None or disk is None:
        return backing
    return replace(backing, upper=overlay.upper_directory(mount), below_dev=below.dev)


def device_of(mount: mounts.Mount) -> str | None:
    """Return the block device of a mount, as in /sys/class/block; None if it has none."""
    if mount.source.startswith("/dev/"):
        name = os.path.basename(os.path.realpath(mount.source))
        if (Path("/sys/class/block") / name).exists():
            return name
    if (Path("/sys/dev/block") / mount.dev).exists():  # "/dev/root" and the like
        return (Path("/sys/dev/block") / mount.dev).resolve().name
    return None


def served_by(backing: Backing) -> dict[str, object]:
    """Return the keys of run.json's "filesystem" that identify a file system's own kernel threads.

    numbers: of its super block; block_device: the mounted device; bdi: the name in its writeback threads
    (flush-7:9, flush-btrfs-1); others_of_kind: how many other file systems of the kind are mounted, whose
    threads may have the same names.
    """
    of_kind = {mount.dev for _, mount in mounts.everywhere() if mount.kind == backing.kind}
    return {
        "numbers": [backing.dev, *([backing.below_dev] if backing.below_dev else [])],
        "block_device": backing.device,
        "bdi": _bdi_of_btrfs(backing) if backing.kind == "btrfs" else backing.below_dev or backing.dev,
        "others_of_kind": len(of_kind - {backing.dev}),
    }


def part(name: str) -> dict[str, object]:
    """Return a partition's extent on its disk, for run.json's "parts" of a shared disk.

    {"name", "dev", "first_sector", "sectors"}, in sectors of 512 bytes; of a whole disk its size.
    """
    sysfs = Path("/sys/class/block") / name
    start = sysfs / "start"
    return {
        "name": name,
        "dev": (sysfs / "dev").read_text().strip(),
        "first_sector": int(start.read_text()) if start.exists() else 0,
        "sectors": int((sysfs / "size").read_text()),
    }


def parts(backing: Backing) -> list[dict[str, object]]:
    """Return the partitions or disks of a file system; btrfs may have several."""
    names = [backing.device] if backing.device is not None else []
    if backing.kind == "btrfs" and backing.device is not None:
        for devices in Path("/sys/fs/btrfs").glob("*/devices"):
            if (devices / backing.device).exists():
                names = sorted(os.listdir(devices))
    return [part(name) for name in names]


def mount_point(directory: Path) -> Path:
    """Return the mount point of a directory's file system."""
    return Path(_mount_of(directory).target)


def _bdi_of_btrfs(backing: Backing) -> str | None:
    """Return the name of btrfs's own backing device info, by its devices in /sys/fs/btrfs."""
    for devices in Path("/sys/fs/btrfs").glob("*/devices"):
        bdi = devices.parent / "bdi"
        if backing.device is not None and (devices / backing.device).exists() and bdi.exists():
            return bdi.resolve().name
    return None


def _mount_of(directory: Path) -> mounts.Mount:
    """Return the mount of a directory: the last one on its nearest ancestor. Raises MachineError."""
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
    """Write back one file system (syncfs(2)). Raises RunError."""
    file = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if _libc.syncfs(file) != 0:
            number = ctypes.get_errno()
            raise RunError(f"{directory} cannot be synced: {os.strerror(number).lower()}")
    finally:
        os.close(file)
