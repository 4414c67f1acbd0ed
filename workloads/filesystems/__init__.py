# SPDX-License-Identifier: BSD-2-Clause
"""File systems: one TOML file each (the keys are in README.md), and formatting, mounting and checking them.

Commands are argument lists, never shell text. Options a kernel or mkfs does not know are found before
anything is formatted: see trial.py.
"""

import ctypes
import functools
import os
import re
import shutil
import signal
import subprocess
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workloads import mounts
from workloads.disks import safety
from workloads.errors import MachineError, RunError, WordError
from workloads.filesystems import geometry

if TYPE_CHECKING:
    from workloads.disks import Disk
    from workloads.janitor import Janitor
    from workloads.plan import Plan

_HERE = Path(__file__).parent
# mkfs runs here: no relative name in an argument can reach a device or make a file.
_NOWHERE = "/sys"
_libc = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG = 1  # prctl(2)


@dataclass(frozen=True)
class OptionSet:
    """Named options that a study used: FS=ext3:btrfs2007."""

    name: str
    source: str
    mkfs: tuple[str, ...]
    mkfs_env: Mapping[str, str]  # some mkfs need an environment variable to allow what they once allowed
    mount: tuple[str, ...]
    fsck: tuple[str, ...]  # what fsck then needs too
    left_out: Mapping[str, str]  # published options that are not applied, and why


@dataclass(frozen=True)
class Filesystem:
    """One file system, as its TOML file says."""

    name: str
    summary: str
    packages: tuple[str, ...]
    mkfs: tuple[str, ...]  # the device comes last
    version: tuple[str, ...]  # prints the version of mkfs
    fsck: tuple[str, ...]  # changes nothing; the device comes last
    mount: tuple[str, ...]  # options of every mount
    min_bytes: int
    geometry: str  # how to find the journal: ext, xfs, none
    option_sets: Mapping[str, OptionSet]


@functools.cache
def names() -> list[str]:
    """Return the names of all file systems."""
    return sorted(path.stem for path in _HERE.glob("*.toml"))


@functools.cache
def load(name: str) -> Filesystem:
    """Return a file system by name. Raises WordError if its TOML file is broken."""
    return read(_HERE / f"{name}.toml")


def read(path: Path) -> Filesystem:
    """Return the file system a TOML file describes. Raises WordError naming the file and the fault."""
    try:
        table: dict[str, Any] = tomllib.loads(path.read_text())
        sets = {
            name: OptionSet(
                name=name,
                source=str(options["source"]),
                mkfs=_strings(options, "mkfs"),
                mkfs_env={str(key): str(value) for key, value in options.get("mkfs_env", {}).items()},
                mount=_strings(options, "mount"),
                fsck=_strings(options, "fsck"),
                left_out={str(key): str(value) for key, value in options.get("left_out", {}).items()},
            )
            for name, options in table.get("options", {}).items()
        }
        if table["geometry"] not in geometry.KINDS:
            raise ValueError(f"geometry must be one of {', '.join(geometry.KINDS)}")
        return Filesystem(
            name=path.stem,
            summary=str(table["summary"]),
            packages=_strings(table, "packages"),
            mkfs=_strings(table, "mkfs", needed=True),
            version=_strings(table, "version", needed=True),
            fsck=_strings(table, "fsck", needed=True),
            mount=_strings(table, "mount"),
            min_bytes=int(table["min_bytes"]),
            geometry=str(table["geometry"]),
            option_sets=sets,
        )
    except (OSError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise WordError(
            f"{path} is broken ({explain_toml(error)}): correct it as {_HERE / 'README.md'} says"
        ) from None


def explain_toml(error: Exception) -> str:
    """Return what is wrong with a TOML file, in one line."""
    if isinstance(error, KeyError):
        return f"the key {error.args[0]} is missing"
    return str(error).lower()


def _strings(table: Mapping[str, Any], key: str, needed: bool = False) -> tuple[str, ...]:
    value = table.get(key, [])
    if (
        not isinstance(value, list)
        or not all(isinstance(item, str) for item in value)
        or (needed and not value)
    ):
        raise ValueError(f"{key} must be a list of strings")
    return tuple(value)


def refuse_other_devices(variable: str, words: Iterable[str]) -> None:
    """Raise WordError for words of MKFS= or MOUNT= that could reach another device or file than the disk."""
    for word in words:
        keys = {part.partition("=")[0].strip() for part in word.split(",")}
        external = keys & {"device", "logdev", "rtdev", "journal_dev", "journal_path", "name", "file", "loop"}
        if (external and variable == "MOUNT") or external & {"device", "logdev", "rtdev", "name", "file"}:
            raise WordError(
                f"{variable}: {word} names another device or file: leave it out, there is one disk only"
            )
        if "/" in word:
            raise WordError(
                f"{variable}: {word} names a device or file: leave it out, the disk is given by DISK"
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
            raise WordError(
                f"MOUNT: {word} is not an option for mounting a fresh file system to write on: leave it out"
            )


def kernel_has(name: str) -> bool:
    """Return whether this kernel has the file system: loaded or built in, or as a module mount would load."""
    listed = Path("/proc/filesystems").read_text().split("\n")
    if any(line.split()[-1:] == [name] for line in listed):  # ext4 registers ext2 and ext3 here too
        return True
    modules = Path("/lib/modules") / os.uname().release
    pattern = re.compile(rf"^alias fs-{re.escape(name)} ", re.MULTILINE)
    for file in (modules / "modules.alias", modules / "modules.builtin.alias"):
        if file.exists() and pattern.search(file.read_text(errors="replace")):
            return True
    return False


def missing_programs(filesystem: Filesystem) -> list[str]:
    """Return the programs of a file system that are not installed."""
    return [program for program in (filesystem.mkfs[0], filesystem.fsck[0]) if find_program(program) is None]


def check_kernel(filesystem: Filesystem) -> None:
    """Raise MachineError if the kernel does not know the file system."""
    if not kernel_has(filesystem.name):
        raise MachineError(
            f"this kernel ({os.uname().release}) has no {filesystem.name}: choose another FS, "
            f"or load or install its module (known now: see /proc/filesystems)"
        )


def find_program(program: str) -> str | None:
    """Return the path of a program, also looking where an ordinary user's PATH does not."""
    path = os.environ.get("PATH", os.defpath) + ":/usr/local/sbin:/usr/sbin:/sbin"
    return shutil.which(program, path=path)


def _end_with_session() -> None:
    """Let no mkfs go on writing on a disk whose session was killed (preexec_fn)."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def run_command(
    argv: Sequence[str], env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run one command to its end, in the C locale, away from any directory with files. Output is text."""
    program = find_program(argv[0])
    if program is None:
        raise MachineError(f"{argv[0]} is missing: run make setup")
    return subprocess.run(
        [program, *argv[1:]],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        cwd=_NOWHERE,
        env={**os.environ, "LC_ALL": "C", **(env or {})},
        check=False,
        preexec_fn=_end_with_session,
    )


def last_words(result: subprocess.CompletedProcess[str]) -> str:
    """Return the line of a failed command that says why: the first one that is not part of a usage text."""
    lines = [line.strip() for line in (result.stderr or result.stdout).splitlines() if line.strip()]
    lines = [
        line for line in lines if not re.match(r"(mke2fs \d|mkfs\.\w+ version|usage:)", line, re.IGNORECASE)
    ]
    return lines[0].rstrip(".") if lines else f"exit status {result.returncode}"


def format(plan: "Plan", disk: "Disk") -> None:
    """Make the file system of the plan on the disk. Raises MachineError, RunError.

    mkfs itself opens the device with O_EXCL, so ours cannot be held meanwhile: every rule, including a trial
    O_EXCL open and that it is still the same disk, is checked in the instant before mkfs starts.
    """
    assert plan.filesystem is not None
    if disk.target is not None:
        safety.recheck(disk.target)
    else:
        safety.check_exclusive(disk.path)
    result = run_command(plan.mkfs_command(disk.path), plan.mkfs_env)
    if result.returncode != 0:
        raise RunError(f"{plan.mkfs_argv[0]} failed on {disk.path}: {last_words(result)}")


def mount(plan: "Plan", disk: "Disk", mountpoint: Path, janitor: "Janitor") -> str:
    """Mount the disk on an existing, empty directory. Returns the line of /proc/mounts. Raises RunError."""
    janitor.add_mount(mountpoint, disk.path)
    result = run_command(plan.mount_command(disk.path, str(mountpoint)))
    if result.returncode != 0:
        raise RunError(f"{disk.path} cannot be mounted on {mountpoint}: {last_words(result)}")
    return proc_mounts_line(mountpoint)


def unmount(mountpoint: Path, janitor: "Janitor") -> None:
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


def fsck(plan: "Plan", disk: "Disk") -> tuple[bool, str]:
    """Check the unmounted disk, changing nothing. Returns (clean, the last lines of what fsck said)."""
    assert plan.filesystem is not None
    result = run_command(plan.fsck_command(disk.path))
    output = (result.stdout + result.stderr).strip()
    return result.returncode == 0, "\n".join(output.splitlines()[-20:])


def version(filesystem: Filesystem) -> str:
    """Return the version line of the file system's mkfs."""
    result = run_command(filesystem.version)
    lines = (result.stdout + result.stderr).strip().splitlines()
    return lines[0] if lines else "unknown"
