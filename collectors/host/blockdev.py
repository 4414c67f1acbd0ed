# SPDX-License-Identifier: BSD-2-Clause
"""Which disk a directory or a device name means."""

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
class Place:
    """What a directory lies on."""

    disk: str | None  # the whole disk, as in /sys/block; None: no block device
    device: str | None  # the block device itself, a partition perhaps, as in /sys/class/block
    dev: str  # "major:minor" of the file system (for btrfs a number of its own)
    kind: str  # ext4
    source: str  # /dev/vda1
    line: str  # what the kernel says of the mount
    mount_point: str
    upper: str = ""  # of an overlay: its upper directory, whose disk this is
    below_dev: str = ""  # and the number of the file system that it lies on


def whole_disk(name: str) -> str:
    """Return the disk in /sys/block that a device name, perhaps a partition's, belongs to."""
    sysfs = Path("/sys/class/block") / name
    if not sysfs.exists():
        raise MachineError(f"{name} is not a block device here: see /sys/block")
    real = sysfs.resolve()
    return real.parent.name if (real / "partition").exists() else real.name


def below_loop(name: str) -> dict[str, str] | None:
    """Return run.json's "below" of a loop device: the file system its file lies on, {"dev": …, "name": …}.

    dev: the file system's number; name: its block device's, if it has one. None: no loop device, or no file.
    """
    path = loopdev.backing_path(int(name[4:])) if re.fullmatch(r"loop\d+", name) else None
    if path is None:
        return None
    place = under(Path(path).parent)
    return {"dev": place.dev, **({"name": place.device} if place.device else {})}


def filesystem_number(directory: Path) -> str:
    """Return "major:minor" of the file system (its super block's, which btrfs's stat(2) does not give)."""
    return _mount_of(directory).dev


def under(directory: Path) -> Place:
    """Return what a directory lies on; of an overlay, what its upper directory lies on."""
    mount = _mount_of(directory)
    below = overlay.below(mount, mounts.here())
    device = device_of(below or mount)
    disk = whole_disk(device) if device is not None else None
    line = f"{mount.source} {mount.target} {mount.kind} {mount.options},{mount.super_options}"
    place = Place(disk, device, mount.dev, mount.kind, mount.source, line, mount.target)
    if below is None or disk is None:
        return place
    return replace(place, upper=overlay.upper_directory(mount), below_dev=below.dev)


def device_of(mount: mounts.Mount) -> str | None:
    """Return the block device of a mount, as in /sys/class/block; None if it has none."""
    if mount.source.startswith("/dev/"):
        name = os.path.basename(os.path.realpath(mount.source))
        if (Path("/sys/class/block") / name).exists():
            return name
    if (Path("/sys/dev/block") / mount.dev).exists():  # "/dev/root" and the like
        return (Path("/sys/dev/block") / mount.dev).resolve().name
    return None


def served_by(place: Place) -> dict[str, object]:
    """Return what tells a file system's own kernel threads, for run.json's "filesystem".

    numbers: of its super block; block_device: the one it is mounted from; bdi: what its writeback threads are
    called after (flush-7:9, flush-btrfs-1); others_of_kind: how many others of its kind are mounted, whose
    threads may have the same names.
    """
    of_kind = {mount.dev for _, mount in mounts.everywhere() if mount.kind == place.kind}
    return {
        "numbers": [place.dev, *([place.below_dev] if place.below_dev else [])],
        "block_device": place.device,
        "bdi": _bdi_of_btrfs(place) if place.kind == "btrfs" else place.below_dev or place.dev,
        "others_of_kind": len(of_kind - {place.dev}),
    }


def part(name: str) -> dict[str, object]:
    """Return where a partition lies on its disk, for run.json's "parts" of a disk that is shared.

    {"name", "dev", "first_sector", "sectors"}, in sectors of 512 bytes; of a whole disk all of it.
    """
    sysfs = Path("/sys/class/block") / name
    start = sysfs / "start"
    return {
        "name": name,
        "dev": (sysfs / "dev").read_text().strip(),
        "first_sector": int(start.read_text()) if start.exists() else 0,
        "sectors": int((sysfs / "size").read_text()),
    }


def parts(place: Place) -> list[dict[str, object]]:
    """Return the partitions or disks of a file system: of btrfs all that it lies on."""
    names = [place.device] if place.device is not None else []
    if place.kind == "btrfs" and place.device is not None:
        for devices in Path("/sys/fs/btrfs").glob("*/devices"):
            if (devices / place.device).exists():
                names = sorted(os.listdir(devices))
    return [part(name) for name in names]


def mount_point(directory: Path) -> Path:
    """Return where the file system that a directory lies on is mounted."""
    return Path(_mount_of(directory).target)


def _bdi_of_btrfs(place: Place) -> str | None:
    """Its name is of the file system's own making; /sys/fs/btrfs leads from its devices to it."""
    for devices in Path("/sys/fs/btrfs").glob("*/devices"):
        bdi = devices.parent / "bdi"
        if place.device is not None and (devices / place.device).exists() and bdi.exists():
            return bdi.resolve().name
    return None


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
