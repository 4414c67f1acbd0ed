# SPDX-License-Identifier: BSD-2-Clause
"""Safety rules for erasing a block device. A rule can only refuse; none has an override.

Checked are the device, its partitions, the disk of a partition, and the device below a loop device. The
device is refused if any of these is mounted in any mount namespace, used as swap, held by another driver or
file system (dm, md, another btrfs or journal), below another loop device, or open for writing in another
process. It is also refused if an open with O_EXCL fails.
"""

import errno
import itertools
import os
import stat
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from workloads.system import loopdev, mounts
from workloads.system.errors import MachineError, OptionError, nearest

_SYS = Path("/sys")


@dataclass(frozen=True)
class Target:
    """A device that passed every rule, with facts by which recheck() recognises the disk."""

    given: str  # as the user named it
    path: str  # the device node behind that name
    name: str  # its name in sysfs
    dev: tuple[int, int]  # major, minor
    size_bytes: int
    disk_sequence: str  # the kernel's number of this disk since boot; empty before Linux 5.15


def check_device(given: str, erase: Collection[str], variable: str = "DISK") -> Target:
    """Return the device if it may be erased. Raises OptionError for no block device, MachineError if in use.

    erase: the names in ERASE=. variable: the variable that named the device.
    """
    if given not in erase:
        raise OptionError(
            f"{variable}={given} would be erased: to allow that give the same name again, ERASE={given}"
        )
    target = _look_up(given, variable)
    label = given if given == target.path else f"{given} (that is {target.path})"
    _check_size(target, label)
    for name, relation in _family(target.name):
        _check_unused(name, f"{label}{relation}")
    check_exclusive(target.path, label)
    return target


def recheck(target: Target) -> None:
    """Check every rule again, right before formatting. Raises MachineError if it is another disk by now."""
    current = check_device(target.given, (target.given,))
    if current != target:
        raise MachineError(
            f"{target.given} is not the disk that was checked at the start: check the cabling, start again"
        )


def check_apart(targets: Sequence[Target]) -> None:
    """Refuse a run's devices if two are the same disk, or one is part of another or below it."""
    for target, other in itertools.permutations(targets, 2):
        for name, relation in _family(target.name):
            if name == other.name:
                same = f"the same disk as {other.given}" if not relation else f"not apart from {other.given}"
                raise OptionError(f"{target.given} is {same}: give separate disks")


def check_exclusive(path: str, label: str | None = None) -> None:
    """Open the device with O_EXCL, which fails if the device is mounted, swap, or claimed by a driver."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_EXCL | os.O_CLOEXEC))
    except OSError as error:
        if error.errno == errno.EBUSY:
            raise MachineError(f"{label or path} is in use by the kernel: choose another disk") from None
        if error.errno in (errno.EACCES, errno.EPERM) and os.geteuid() != 0:
            return  # a plan by an ordinary user; the run, as root, checks it
        raise MachineError(f"{label or path} cannot be opened: {(error.strerror or '').lower()}") from None


def _look_up(given: str, variable: str) -> Target:
    """Resolve a device name to its node, sysfs name and size. Raises OptionError, MachineError."""
    try:
        path = os.path.realpath(given, strict=True)
        status = os.stat(path)
    except OSError as error:
        suggestion = nearest(os.path.basename(given), sorted(os.listdir("/sys/class/block")))
        raise OptionError(
            f"{variable}={given} cannot be opened ({(error.strerror or '').lower()}): {suggestion}"
        ) from None
    label = given if given == path else f"{given} (that is {path})"
    if not stat.S_ISBLK(status.st_mode):
        kinds = {
            stat.S_IFDIR: "a directory",
            stat.S_IFREG: "a regular file",
            stat.S_IFCHR: "a character device",
        }
        kind = kinds.get(stat.S_IFMT(status.st_mode), "something else")
        raise OptionError(
            f"{variable}={label} is {kind}, not a block device: give one such as /dev/sdb, or {variable}=file"
        )
    dev = (os.major(status.st_rdev), os.minor(status.st_rdev))
    sysfs = _SYS / f"dev/block/{dev[0]}:{dev[1]}"
    if not sysfs.exists():
        raise MachineError(f"{label} is a node without a device: give a disk that is plugged in")
    name = sysfs.resolve().name
    sectors = int((sysfs / "size").read_text())
    disk = sysfs.resolve().parent if (sysfs / "partition").exists() else sysfs
    sequence = (disk / "diskseq").read_text().strip() if (disk / "diskseq").exists() else ""
    return Target(given, path, name, dev, sectors * 512, sequence)


def _check_size(target: Target, label: str) -> None:
    sysfs = _SYS / "class/block" / target.name
    if target.size_bytes == 0:
        raise MachineError(f"{label} has no medium (its size is 0): choose another disk")
    if (sysfs / "ro").read_text().strip() == "1":
        raise MachineError(f"{label} is read-only: choose another disk")


def _family(name: str) -> list[tuple[str, str]]:
    """Return the device and all devices that share its data: (name in sysfs, relation for a message)."""
    sysfs = (_SYS / "class/block" / name).resolve()
    family = [(name, "")]
    if (sysfs / "partition").exists():
        family.append((sysfs.parent.name, f", a partition of /dev/{sysfs.parent.name}, which"))
    for child in sorted(sysfs.iterdir()):
        if (child / "partition").exists():
            family.append((child.name, f", whose partition /dev/{child.name}"))
    for loop in [name for name, _ in family]:
        below = _device_under_loop(loop)
        if below is not None:
            family += [
                (other, f", a loop device on /dev/{below} and so on /dev/{other}, which")
                for other, _ in _family(below)
            ]
    return family


def _device_under_loop(name: str) -> str | None:
    """Return the block device below a loop device; None if a file is below it."""
    file = _SYS / "class/block" / name / "loop/backing_file"
    if not file.exists():
        return None
    try:
        status = os.stat(file.read_text().strip())
    except OSError:
        return None
    if not stat.S_ISBLK(status.st_mode):
        return None
    return (_SYS / f"dev/block/{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}").resolve().name


def _check_unused(name: str, label: str) -> None:
    sysfs = _SYS / "class/block" / name
    dev = (sysfs / "dev").read_text().strip()
    for pid, mount in mounts.everywhere():
        if mount.dev == dev or _is_device(mount.source, dev):
            where = mount.target if pid is None else f"{mount.target} (seen by pid {pid})"
            raise MachineError(f"{label} is mounted on {where}: unmount it, or choose another disk")
    for line in Path("/proc/swaps").read_text().splitlines()[1:]:
        file = mounts.unescape(line.split()[0])
        if _is_device(file, dev) or _same_file(file, name):
            raise MachineError(f"{label} is in use as swap: swapoff {file}, or choose another disk")
    holders = sorted(os.listdir(sysfs / "holders")) if (sysfs / "holders").is_dir() else []
    if holders:
        raise MachineError(f"{label} is held by {', '.join(holders)}: choose another disk")
    for member in sorted((_SYS / "fs/btrfs").glob(f"*/devices/{name}")):
        raise MachineError(f"{label} is part of the mounted btrfs {member.parts[-3]}: choose another disk")
    _check_loops(name, dev, label)
    _check_open(name, dev, label)


def _is_device(path: str, dev: str) -> bool:
    """Return whether a path is the block device with this number ("major:minor")."""
    if not path.startswith("/"):
        return False
    try:
        status = os.stat(path)
    except OSError:
        return False
    return stat.S_ISBLK(status.st_mode) and f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}" == dev


def _file_under(name: str) -> loopdev.LoopFile | None:
    """Return the file below a loop device; None for other devices and for partitions, whose disk has it."""
    return loopdev.backing_of(name) if (_SYS / "class/block" / name / "loop").is_dir() else None


def _same_file(path: str, name: str) -> bool:
    """Return whether a path is the file below the loop device of this name."""
    under = _file_under(name)
    try:
        status = os.stat(path)
    except OSError:
        return False
    return under == loopdev.LoopFile(status.st_dev, status.st_ino)


def _check_loops(name: str, dev: str, label: str) -> None:
    """Refuse a device with a loop device on it, and a loop device that shares its file with another."""
    under = _file_under(name)
    for other in sorted(path.parent.name for path in (_SYS / "block").glob("loop*/loop")):
        if other == name:
            continue
        file = (_SYS / "block" / other / "loop/backing_file").read_text().rstrip("\n")
        if _is_device(file, dev):
            raise MachineError(f"{label} has the loop device /dev/{other} on it: losetup -d /dev/{other}")
        if under is not None and loopdev.backing_of(other) == under:
            raise MachineError(
                f"{label} shares its file with the loop device /dev/{other}: losetup -d /dev/{other}"
            )


def _check_open(name: str, dev: str, label: str) -> None:
    """Refuse a device that a process has open for writing, such as a running virtual machine's disk."""
    for pid in sorted(int(entry) for entry in os.listdir("/proc") if entry.isdigit()):
        try:
            for number in os.listdir(f"/proc/{pid}/fd"):
                link = os.readlink(f"/proc/{pid}/fd/{number}")
                if not link.startswith("/") or not _is_device(f"/proc/{pid}/fd/{number}", dev):
                    continue
                if _opened_to_write(pid, number):
                    comm = Path(f"/proc/{pid}/comm").read_text().strip()
                    raise MachineError(f"{label} is open for writing in {comm} (pid {pid}): end it first")
        except OSError:  # the process has ended, or is another user's
            continue


def _opened_to_write(pid: int, number: str) -> bool:
    for line in Path(f"/proc/{pid}/fdinfo/{number}").read_text().splitlines():
        if line.startswith("flags:"):
            return bool(int(line.split()[1], 8) & os.O_ACCMODE)
    return False
