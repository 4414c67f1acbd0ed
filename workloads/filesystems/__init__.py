# SPDX-License-Identifier: BSD-2-Clause
"""File systems: one TOML file each (the keys are in README.md), and formatting, mounting and checking them.

Commands are argument lists, never shell text. Options that a kernel or mkfs does not know are refused before
anything is formatted: see plan/trial.py.
"""

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from workloads.cleanup.janitor import Janitor
from workloads.disks import Disk, safety
from workloads.filesystems.kernel_support import check_kernel, check_modules, kernel_has, modules_have
from workloads.filesystems.plan import FilesystemPlan
from workloads.filesystems.schema import Filesystem, OptionSet, explain_toml, load, names, read
from workloads.system import command, mounts
from workloads.system.command import run_command, run_long, stderr_tail
from workloads.system.errors import OptionError, RunError

# All that other rooms use of this one, whichever file defines it.
__all__ = [
    "Filesystem",
    "OptionSet",
    "check_kernel",
    "check_modules",
    "explain_toml",
    "format",
    "fsck",
    "kernel_has",
    "load",
    "missing_programs",
    "modules_have",
    "mount",
    "names",
    "proc_mounts_line",
    "read",
    "refuse_other_devices",
    "space",
    "unmount",
    "version",
]
# Words of mkfs and mount that take another device or file.
_EXTERNAL = {"device", "logdev", "rtdev", "name", "file"}
_EXTERNAL_MOUNT = _EXTERNAL | {"journal_dev", "journal_path", "jdev", "loop"}

# Of what fsck says, what is kept: a damaged file system may make it say very much.
_SAID_LINES, _SAID_BYTES = 20, 64 << 10


def refuse_other_devices(variable: str, words: Iterable[str]) -> None:
    """Raise OptionError for MKFS= or MOUNT= that could reach a device or file other than the disk."""
    for word in words:
        keys = {part.partition("=")[0].strip() for part in word.split(",")}
        if keys & (_EXTERNAL_MOUNT if variable == "MOUNT" else _EXTERNAL):
            raise OptionError(
                f"{variable}: {word} names another device or file: leave it out, disks are given by DISK and "
                f"JOURNAL"
            )
        if "/" in word:
            raise OptionError(
                f"{variable}: {word} names a device or file: leave it out, DISK and JOURNAL give the disks"
            )
        if variable == "MOUNT" and keys & {
            "bind",
            "rbind",
            "move",
            "remount",
            "ro",
            "user",
            "users",
            "noauto",
        }:
            raise OptionError(
                f"MOUNT: {word} is not an option for mounting a fresh file system to write on: leave it out"
            )


def missing_programs(filesystem: Filesystem) -> list[str]:
    """Return the programs of a file system that are not installed."""
    return [program for program in filesystem.programs if command.find_program(program) is None]


def format(plan: FilesystemPlan, disk: Disk, janitor: Janitor) -> None:
    """Make the file system on the disk and on the disks with it. Raises MachineError, RunError.

    Every safety rule, a trial open with O_EXCL and the disk's identity are checked in the instant before mkfs
    starts. The session cannot hold the device open meanwhile: mkfs itself opens the device with O_EXCL.
    """
    for member in disk.all:
        if member.target is not None:
            safety.recheck(member.target)
        else:
            safety.check_exclusive(member.path)
    pool = plan.filesystem.pool
    if pool is not None:
        janitor.add_pool(disk.pool, pool.export, pool.known)
    for argv in plan.format_commands(disk.devices):
        result = run_command(argv, plan.mkfs_env)
        if result.returncode != 0:
            raise RunError(f"{argv[0]} failed on {argv[-1]}: {stderr_tail(result)}")


def mount(plan: FilesystemPlan, disk: Disk, mountpoint: Path, janitor: Janitor) -> str:
    """Mount the disk on an existing, empty directory. Returns the line of /proc/mounts. Raises RunError."""
    source = plan.mount_source(disk.devices)
    janitor.add_mount(mountpoint, source)
    result = run_command(plan.mount_command(disk.devices, str(mountpoint)))
    if result.returncode != 0:
        raise RunError(f"{source} cannot be mounted on {mountpoint}: {stderr_tail(result)}")
    line = proc_mounts_line(mountpoint)
    missing = {"nosuid", "nodev"} - set(line.split(" ")[3].split(","))
    if missing:
        raise RunError(f"{source} is mounted without {', '.join(sorted(missing))}: {line}")
    return line


def unmount(mountpoint: Path, janitor: Janitor) -> None:
    """Unmount what mount() mounted. Raises MachineError if it is still in use after some seconds."""
    janitor.undo_mount(mountpoint)


def proc_mounts_line(mountpoint: Path) -> str:
    """Return what /proc/mounts says about a mounted directory.

    Raises RunError if nothing is mounted there.
    """
    found = mounts.at(mountpoint)
    if found is None:
        raise RunError(f"{mountpoint} is not mounted: something unmounted it")
    for line in reversed(Path("/proc/self/mounts").read_text().splitlines()):
        fields = line.split(" ")
        if mounts.unescape(fields[1]) == found.target:
            return line
    raise RunError(f"{mountpoint} is not in /proc/mounts: something unmounted it")


def space(mountpoint: Path) -> dict[str, int]:
    """Return how much room a mounted file system has, as it says itself (statvfs). Raises OSError.

    used: all blocks less the free ones, what df calls so; available: what of the free ones is not reserved
    for root. What a file system takes of the disk beforehand and does not count is in none of them.
    """
    status = os.statvfs(mountpoint)
    return {
        "total_bytes": status.f_blocks * status.f_frsize,
        "used_bytes": (status.f_blocks - status.f_bfree) * status.f_frsize,
        "available_bytes": status.f_bavail * status.f_frsize,
        "inodes": status.f_files,  # 0 where there are none to run out of, as on btrfs
        "inodes_used": status.f_files - status.f_ffree,
    }


def fsck(
    plan: FilesystemPlan,
    disk: Disk,
    heard: Callable[[bytes], None] = lambda said: None,
    look: Callable[[float], None] = lambda seconds: None,
) -> tuple[bool | None, str]:
    """Check the unmounted disk, changing nothing. Returns (clean, the last lines of what fsck said).

    (None, why) for a file system that has no fsck, and for an fsck that was ended by a signal. heard gets all
    that it says; look is called a few times a second with the seconds gone. ^C ends it at once.
    """
    argv = plan.fsck_command(disk.devices)
    if not argv:
        return None, f"none exists for {plan.name}"
    said = b""

    def hear(more: bytes) -> None:
        nonlocal said
        said = (said + more)[-_SAID_BYTES:]
        heard(more)

    status = run_long(argv, hear, look)
    if status < 0:
        return None, f"{argv[0]} was ended by signal {-status}"
    lines = said.decode(errors="replace").strip().splitlines()[-_SAID_LINES:]
    return status == 0, "\n".join([*lines, *([f"exit status {status}"] if status else [])])


def version(filesystem: Filesystem) -> str:
    """Return the version line of the file system's mkfs."""
    result = run_command(filesystem.version)
    lines = (result.stdout + result.stderr).strip().splitlines()
    return lines[0] if lines else "unknown"
