# SPDX-License-Identifier: BSD-2-Clause
"""The block devices and the mount below a directory, and the whole disk of a device name."""

import ctypes
import os
import re
from dataclasses import dataclass, field, replace
from pathlib import Path

from collectors.host import fs_devices, overlay
from collectors.host.fs_devices import FsDevices
from workloads.system import device_graph, loopdev, mounts
from workloads.system.device_graph import Graph
from workloads.system.errors import MachineError, RunError

_libc = ctypes.CDLL(None, use_errno=True)
# File systems whose device number is no device's: their devices are in the mount's source.
_OWN_NUMBERS = ("btrfs", "bcachefs")


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
    found: FsDevices = field(default_factory=FsDevices)  # of the file system; of an overlay, of that below


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


def under(directory: Path, graph: Graph | None = None) -> Backing:
    """Return the mount and disk below a directory; of an overlay, the disk of its upper directory.

    graph: this machine's devices; None: read now.
    """
    mount = _mount_of(directory)
    below = overlay.below(mount, mounts.here())
    own = below or mount
    graph = graph or device_graph.read()
    found = fs_devices.find(own, graph, device_of(own), directory if below is None else Path(own.target))
    device = found.devices[0].name if found.devices else None
    disk = graph.nodes[device].disk if device is not None else None
    line = f"{mount.source} {mount.target} {mount.kind} {mount.options},{mount.super_options}"
    backing = Backing(disk, device, mount.dev, mount.kind, mount.source, line, mount.target, found=found)
    if below is None or disk is None:
        return backing
    return replace(backing, upper=overlay.upper_directory(mount), below_dev=below.dev)


def device_of(mount: mounts.Mount) -> str | None:
    """Return the block device of a mount, as in /sys/class/block; None if it has none.

    The source is any text of the mounter's: it counts only for file systems that have a number of their own.
    """
    number = mount.dev
    if mount.kind in _OWN_NUMBERS:
        path = mount.source.partition(":")[0]
        try:
            status = os.stat(path)
            number = f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}"
        except (OSError, ValueError):  # the node is another namespace's
            name = os.path.basename(path)
            return name if (Path("/sys/class/block") / name).exists() else None
    sysfs = Path("/sys/dev/block") / number
    return sysfs.resolve().name if sysfs.exists() else None


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
    """Return the partitions or whole devices of a file system."""
    return [part(device.name) for device in backing.found.devices]


def mount_point(directory: Path) -> Path:
    """Return the mount point of a directory's file system."""
    return Path(_mount_of(directory).target)


def _bdi_of_btrfs(backing: Backing) -> str | None:
    """Return the name of btrfs's own backing device info, by its devices in /sys/fs/btrfs."""
    place = fs_devices.btrfs_directory(None, backing.device)
    bdi = place / "bdi" if place is not None else None
    return bdi.resolve().name if bdi is not None and bdi.exists() else None


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
