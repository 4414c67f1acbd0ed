# SPDX-License-Identifier: BSD-2-Clause
"""File systems: one TOML file each (the keys are in README.md), and formatting, mounting and checking them.

Commands are argument lists, never shell text. Options that a kernel or mkfs does not know are refused before
anything is formatted: see plan/trial.py.
"""

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from workloads.cleanup.janitor import Janitor
from workloads.disks import Disk, in_use, safety
from workloads.filesystems.kernel_support import check_kernel, check_modules, kernel_has, modules_have
from workloads.filesystems.plan import FilesystemPlan
from workloads.filesystems.schema import Filesystem, OptionSet, explain_toml, load, names, read
from workloads.system import command, mounts
from workloads.system.command import run_command, run_long, stderr_tail
from workloads.system.errors import OptionError, RunError

# The package's interface.
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
    "refuse_files_of_mkfs",
    "refuse_other_devices",
    "space",
    "unmount",
    "unseen",
    "version",
]
# Options of mkfs and mount that take another device or file.
_EXTERNAL = {"device", "logdev", "rtdev", "name", "file"}
_EXTERNAL_MOUNT = _EXTERNAL | {"journal_dev", "journal_path", "jdev", "loop"}

# Only the end of fsck's output is kept: on a damaged file system the output may be very long.
_TAIL_LINES, _TAIL_BYTES = 20, 64 << 10


def refuse_other_devices(variable: str, options: Iterable[str]) -> None:
    """Raise OptionError for options of MKFS= or MOUNT= that name another device or file than the disk."""
    for option in options:
        keys = {part.partition("=")[0].strip() for part in option.split(",")}
        if keys & (_EXTERNAL_MOUNT if variable == "MOUNT" else _EXTERNAL):
            raise OptionError(
                f"{variable}: {option} names another device or file: leave it out, disks are given by DISK "
                f"and JOURNAL"
            )
        if "/" in option:
            raise OptionError(
                f"{variable}: {option} names a device or file: leave it out, DISK and JOURNAL give the disks"
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
                f"MOUNT: {option} is not an option for mounting a fresh file system to write on: leave it out"
            )


def refuse_files_of_mkfs(filesystem: Filesystem, arguments: Iterable[str]) -> None:
    """Raise OptionError for arguments of MKFS= by which this mkfs reads or writes another file or device.

    mkfs may run as root: "-d .." of mke2fs would copy a directory that only root may read. getopt(3) lets one
    argument hold several letters, and a long option be cut short: what may be such an option is refused.
    """
    for argument in arguments:
        if argument.endswith("."):  # "..": the commands' working directory is /sys, whose parent is /
            raise OptionError(f"MKFS: {argument} names a directory: leave it out")
        for option in filesystem.mkfs_files:
            if argument.startswith("--") and option.startswith("--"):
                refused = len(argument) > 2 and option.startswith(argument.partition("=")[0])
            else:
                refused = argument[:1] == "-" and argument[1:2] != "-" and option[1] in argument[1:]
            if refused and argument.startswith(option[:2]):
                raise OptionError(
                    f"MKFS: {option} of {filesystem.mkfs[0]} reads or writes another file: leave it out"
                )
            if refused:
                raise OptionError(
                    f"MKFS: {argument} may hold {option}, which reads or writes another file: write each "
                    f"option and its value apart, as in -{argument[1]} {argument[2:] or 'VALUE'}"
                )


def unseen(kind: str) -> str:
    """Return what cannot be seen of the requests of a mounted file system, "" usually. kind: as mounted."""
    for filesystem in map(load, names()):
        mounted_as = "fuseblk" if filesystem.module == "fuse" else filesystem.kernel_type
        if mounted_as == kind and filesystem.unseen:
            return filesystem.unseen
    return ""


def missing_programs(filesystem: Filesystem) -> list[str]:
    """Return the programs of a file system that are not installed."""
    return [program for program in filesystem.programs if command.find_program(program) is None]


def format(plan: FilesystemPlan, disk: Disk, janitor: Janitor) -> None:
    """Make the file system on the disk and on the disks with it. Raises MachineError, RunError.

    The safety rules and the disk's identity are checked right before mkfs starts. The session does not hold
    the device open while mkfs runs, because mkfs itself opens it with O_EXCL.
    """
    targets = [member.target for member in disk.all if member.target is not None]
    if targets:
        users = in_use.read()
        for target in targets:
            safety.recheck(target, users)
    for member in disk.all:
        if member.target is None:
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
    """Unmount the file system that mount() mounted. Raises MachineError if it stays busy for seconds."""
    janitor.undo_mount(mountpoint)


def proc_mounts_line(mountpoint: Path) -> str:
    """Return the line of /proc/mounts for a mount point. Raises RunError if nothing is mounted there."""
    mount = mounts.at(mountpoint)
    if mount is None:
        raise RunError(f"{mountpoint} is not mounted: another program has unmounted it")
    for line in reversed(Path("/proc/self/mounts").read_text().splitlines()):
        fields = line.split(" ")
        if mounts.unescape(fields[1]) == mount.target:
            return line
    raise RunError(f"{mountpoint} is not in /proc/mounts: another program has unmounted it")


def space(mountpoint: Path) -> dict[str, int]:
    """Return the bytes and inodes of a mounted file system, total and used, by statvfs(3). Raises OSError.

    used: total less free blocks, as in df. available: free blocks that are not reserved for root. Metadata
    that a file system does not count as blocks is in none of the numbers.
    """
    status = os.statvfs(mountpoint)
    return {
        "total_bytes": status.f_blocks * status.f_frsize,
        "used_bytes": (status.f_blocks - status.f_bfree) * status.f_frsize,
        "available_bytes": status.f_bavail * status.f_frsize,
        "inodes": status.f_files,  # 0 if their number has no limit, as on btrfs
        "inodes_used": status.f_files - status.f_ffree,
    }


def fsck(
    plan: FilesystemPlan,
    disk: Disk,
    on_output: Callable[[bytes], None] = lambda output: None,
    on_tick: Callable[[float], None] = lambda seconds: None,
) -> tuple[bool | None, str]:
    """Run fsck on the unmounted disk, read-only. Returns (clean, the last lines of fsck's output).

    Returns (None, reason) if the file system has no fsck, or a signal ended fsck. on_output, on_tick: as in
    run_long(). ^C ends fsck at once.
    """
    argv = plan.fsck_command(disk.devices)
    if not argv:
        return None, f"none exists for {plan.name}"
    tail = b""

    def keep_tail(output: bytes) -> None:
        nonlocal tail
        tail = (tail + output)[-_TAIL_BYTES:]
        on_output(output)

    status = run_long(argv, keep_tail, on_tick)
    if status < 0:
        return None, f"{argv[0]} was ended by signal {-status}"
    lines = tail.decode(errors="replace").strip().splitlines()[-_TAIL_LINES:]
    return status == 0, "\n".join([*lines, *([f"exit status {status}"] if status else [])])


def version(filesystem: Filesystem) -> str:
    """Return the version line of the file system's mkfs."""
    result = run_command(filesystem.version)
    lines = (result.stdout + result.stderr).strip().splitlines()
    return lines[0] if lines else "unknown"
