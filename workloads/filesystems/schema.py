# SPDX-License-Identifier: BSD-2-Clause
"""Read and check a file system's TOML file. README.md describes the keys."""

import functools
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workloads.system.errors import OptionError
from workloads.system.tree import TREE

_HERE = TREE / "workloads/filesystems"
_KEYS = (
    *(
        "summary",
        "packages",
        "in_debian",
        "untried",
        "kernel_type",
        "module",
        "mkfs",
        "mkfs_files",
        "version",
        "fsck",
        "mount",
    ),
    *("min_bytes", "journal", "several", "pool", "options", "lacks", "unseen"),
)


@dataclass(frozen=True)
class OptionSet:
    """Named options that a study used: FS=ext3:btrfs2007."""

    name: str
    source: str
    mkfs: tuple[str, ...]
    mkfs_env: Mapping[str, str]  # environment that some mkfs need for options of old versions
    mount: tuple[str, ...]
    fsck: tuple[str, ...]  # options that fsck then needs
    left_out: Mapping[str, str]  # published options that are not applied: the reason of each
    journal: bool  # the study had the journal on another disk: left out without JOURNAL=
    several: tuple[str, ...]  # mkfs options for several disks: left out on a single disk


@dataclass(frozen=True)
class Journal:
    """Arguments for a journal on another disk; {journal} in them is its device."""

    prepare: tuple[str, ...]  # a command run on the journal's disk before mkfs, empty if none is
    mkfs: tuple[str, ...]
    mount: tuple[str, ...]
    fsck: tuple[str, ...]


@dataclass(frozen=True)
class Pool:
    """Commands of a file system whose mkfs makes a pool, mounted by name and exported at the end."""

    export: tuple[str, ...]  # the pool's name is appended
    known: tuple[str, ...]  # the name is appended; fails if no pool has it


@dataclass(frozen=True)
class Filesystem:
    """One file system: the content of its TOML file."""

    name: str
    summary: str
    packages: tuple[str, ...]
    in_debian: bool  # Debian has its driver and programs: a setup of everything installs them
    untried: bool  # Seekmeter never ran on a kernel that has it
    kernel_type: str  # for mount -t
    module: str | None  # the driver that must serve the type; None: any driver may
    mkfs: tuple[str, ...]  # a pool's name and the devices come last
    mkfs_files: tuple[str, ...]  # options of mkfs that name another file or device: refused in MKFS=
    version: tuple[str, ...]  # prints the version of mkfs
    fsck: tuple[str, ...]  # changes nothing; the device comes last; empty: none exists
    mount: tuple[str, ...]  # options of every mount; {uid} and {gid} are the user's
    min_bytes: int
    journal: Journal | None  # None: the journal cannot be on another disk
    several: tuple[str, ...]  # mount options for each of several disks, {disk}; empty: it uses one disk
    pool: Pool | None
    lacks: tuple[str, ...]  # what a workload may need of others: see requires in the catalog
    unseen: str  # what cannot be seen of its requests, for a warning; "" usually
    option_sets: Mapping[str, OptionSet]

    @property
    def programs(self) -> tuple[str, ...]:
        """Names of the programs that a run needs."""
        commands = (self.mkfs, self.fsck, self.journal.prepare if self.journal else ())
        return tuple(dict.fromkeys(command[0] for command in commands if command))


@functools.cache
def names() -> list[str]:
    """Return the names of all file systems."""
    return sorted(path.stem for path in _HERE.glob("*.toml"))


@functools.cache
def load(name: str) -> Filesystem:
    """Return a file system by name. Raises OptionError if its TOML file is broken."""
    return read(_HERE / f"{name}.toml")


def read(path: Path) -> Filesystem:
    """Return the file system a TOML file describes. Raises OptionError naming the file and the fault."""
    try:
        table: dict[str, Any] = tomllib.loads(path.read_text())
        _only(table, _KEYS)
        filesystem = Filesystem(
            name=path.stem,
            summary=str(table["summary"]),
            packages=_strings(table, "packages"),
            in_debian=_truth(table, "in_debian", default=True),
            untried=_truth(table, "untried", default=False),
            kernel_type=str(table.get("kernel_type", path.stem)),
            module=str(table["module"]) if "module" in table else None,
            mkfs=_strings(table, "mkfs", needed=True),
            mkfs_files=_strings(table, "mkfs_files"),
            version=_strings(table, "version", needed=True),
            fsck=_strings(table, "fsck"),
            mount=_strings(table, "mount"),
            min_bytes=int(table["min_bytes"]),
            journal=_journal(table["journal"]) if "journal" in table else None,
            several=_strings(table, "several"),
            pool=_pool(table["pool"]) if "pool" in table else None,
            lacks=_strings(table, "lacks"),
            unseen=str(table.get("unseen", "")),
            option_sets={name: _options(name, options) for name, options in table.get("options", {}).items()},
        )
        for options in filesystem.option_sets.values():
            if options.journal and filesystem.journal is None:
                raise ValueError(
                    f"options {options.name} need a journal on another disk, and [journal] is missing"
                )
            if options.several and not filesystem.several:
                raise ValueError(f"options {options.name} are for several disks, and several is missing")
        return filesystem
    except (OSError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise OptionError(
            f"{path} is broken ({explain_toml(error)}): correct it as {_HERE / 'README.md'} says"
        ) from None


def explain_toml(error: Exception) -> str:
    """Return what is wrong with a TOML file, in one line."""
    if isinstance(error, KeyError):
        return f"the key {error.args[0]} is missing"
    return str(error).lower()


def _options(name: str, table: Mapping[str, Any]) -> OptionSet:
    _only(table, ("source", "mkfs", "mkfs_env", "mount", "fsck", "left_out", "journal", "several"))
    return OptionSet(
        name=name,
        source=str(table["source"]),
        mkfs=_strings(table, "mkfs"),
        mkfs_env={str(key): str(value) for key, value in table.get("mkfs_env", {}).items()},
        mount=_strings(table, "mount"),
        fsck=_strings(table, "fsck"),
        left_out={str(key): str(value) for key, value in table.get("left_out", {}).items()},
        journal=_truth(table, "journal", default=False),
        several=_strings(table, "several"),
    )


def _journal(table: Mapping[str, Any]) -> Journal:
    _only(table, ("prepare", "mkfs", "mount", "fsck"))
    return Journal(
        prepare=_strings(table, "prepare"),
        mkfs=_strings(table, "mkfs", needed=True),
        mount=_strings(table, "mount"),
        fsck=_strings(table, "fsck"),
    )


def _pool(table: Mapping[str, Any]) -> Pool:
    _only(table, ("export", "known"))
    return Pool(
        export=_strings(table, "export", needed=True),
        known=_strings(table, "known", needed=True),
    )


def _only(table: Mapping[str, Any], keys: Collection[str]) -> None:
    """Raise ValueError for an unknown key."""
    for key in table:
        if key not in keys:
            raise ValueError(f"unknown key {key}")


def _strings(table: Mapping[str, Any], key: str, needed: bool = False) -> tuple[str, ...]:
    value = table.get(key, [])
    if (
        not isinstance(value, list)
        or not all(isinstance(item, str) for item in value)
        or (needed and not value)
    ):
        raise ValueError(f"{key} must be a list of strings")
    return tuple(value)


def _truth(table: Mapping[str, Any], key: str, default: bool) -> bool:
    value = table.get(key, default)
    if not isinstance(value, bool):
        raise ValueError(f"{key} must be true or false")
    return value
