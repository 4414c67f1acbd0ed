# SPDX-License-Identifier: BSD-2-Clause
"""Roles of threads: the workload, the file system under test, its disk's machinery, the recorder, others.

The recorder tells the workload, itself, kernel threads and others apart. Whose work a kernel thread does is
told by its name, by the function of its work item and by what the work says of itself ("flush-7:8"), see
roles.toml.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from analysis.causes.rules import FOLDER, Patterns, RuleError, parse, patterns
from analysis.rundir.tested import TestedFilesystem, names_one_of

WORKLOAD, FILESYSTEM, DISK, RECORDER, OTHER = ROLES = ("workload", "filesystem", "disk", "recorder", "other")
KERNEL = "kernel"  # what the recorder says of kernel threads
LISTS = ("block_layer", "disk_works", "disk_threads", "disk_processes")
BY_KIND = ("of_kind", "works_of_kind")
PARTITION_OF = r"(?:p?\d+)?"


@dataclass(frozen=True)
class RoleRules:
    """The content of roles.toml."""

    block_layer: tuple[str, ...]  # beginnings of names
    disk_works: Patterns
    disk_threads: Patterns
    disk_processes: Patterns
    of_kind: Mapping[str, tuple[str, ...]]  # beginnings of names, by the kind of file system
    works_of_kind: Mapping[str, Patterns]


def _names(value: object, what: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not value or not all(isinstance(name, str) and name for name in value):
        raise RuleError(f"roles.toml: {what} is no list of names")
    return tuple(value)


def read_roles(path: Path) -> RoleRules:
    """The rules of a file, checked. Raises RuleError."""
    table: dict[str, Any] = parse(path)
    if wrong := sorted(set(table) ^ {*LISTS, *BY_KIND}):
        raise RuleError(f"{path.name}: {wrong[0]} is missing or unknown")
    for key in BY_KIND:
        if not isinstance(table[key], Mapping):
            raise RuleError(f"{path.name}: {key} is no table")
    lists = {key: patterns(table[key], f"{path.name}: {key}") for key in LISTS[1:]}
    return RoleRules(
        _names(table["block_layer"], "block_layer"),
        **lists,
        of_kind={kind: _names(names, kind) for kind, names in table["of_kind"].items()},
        works_of_kind={
            kind: patterns(names, f"{path.name}: {kind}") for kind, names in table["works_of_kind"].items()
        },
    )


@cache
def roles() -> RoleRules:
    """The rules of this folder."""
    return read_roles(FOLDER / "roles.toml")


def role_of(recorded: str, comm: str, work: str, work_name: str, tested: TestedFilesystem) -> str:
    """The role of a thread, or of what a kworker does.

    recorded: the role that the recorder gave. work: the function of the work item. work_name: what the work
    says it is for.
    """
    if recorded in (WORKLOAD, RECORDER):
        return recorded
    if recorded != KERNEL:
        return DISK if roles().disk_processes.match(comm) else OTHER
    return _of_kernel(work_name or comm, work, tested)


def _of_kernel(name: str, work: str, tested: TestedFilesystem) -> str:
    rules = roles()
    if work and rules.disk_works.match(work):
        return DISK
    if name in {device for device in tested.devices if ":" not in device}:
        return DISK  # a loop device's worker has the device's name alone
    if names_one_of(name, tested.devices):
        return FILESYSTEM
    if names_one_of(name, tested.below_devices, PARTITION_OF):
        return DISK
    if name.startswith(rules.block_layer) or rules.disk_threads.match(name):
        return DISK
    kind = tested.kind
    of_kind = name.startswith(rules.of_kind.get(kind, ("\0",)))
    if not of_kind and work and kind in rules.works_of_kind:
        of_kind = rules.works_of_kind[kind].match(work)
    # with another file system of the same kind, nobody can tell whose thread it is
    return FILESYSTEM if of_kind and tested.is_only else OTHER
