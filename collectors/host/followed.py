# SPDX-License-Identifier: BSD-2-Clause
"""What a watch follows (UNIT=, CGROUP=, PID=), found on this machine: a cgroup2 directory, or a process."""

import difflib
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from collectors.host import kernel, rights
from collectors.host.unit_paths import cleaned, unescaped
from workloads.cgroup import find_layout
from workloads.cli.follow_options import Follow
from workloads.system.errors import MachineError

_CGROUPS_MOST = 20_000
_SUFFIXES = (".service", ".scope", ".slice")


@dataclass(frozen=True)
class Followed:
    """A cgroup2 directory, or the first process."""

    word: str
    name: str  # as the report shows it
    directory: Path | None = None
    pid: int | None = None

    @property
    def memory_directory(self) -> Path | None:
        """The directory that its memory is charged to, by which written-back pages have an owner."""
        has_memory = self.directory is not None and (self.directory / "memory.current").exists()
        return self.directory if has_memory else None

    def facts(self) -> dict[str, Any]:
        """Return run.json's workload.follow."""
        return {
            "word": self.word,
            "name": self.name,
            "path": cleaned(str(self.directory)) if self.directory else None,
            "pid": self.pid,
        }


def find(follow: Follow, tree: Path | None = None, proc: Path = Path("/proc")) -> Followed:
    """Return what is to be followed. Raises MachineError if it is not there.

    tree: where cgroup2 is mounted.
    """
    if follow.word == "PID":
        return _process(int(follow.value), proc)
    root = tree or find_layout().v2
    if root is None:
        raise MachineError(
            f"{follow.word}={follow.value}: this machine has no cgroup2 tree mounted: follow a process, PID="
        )
    if follow.word == "CGROUP":
        inside = Path(follow.value).relative_to(root) if Path(follow.value).is_relative_to(root) else None
        path = root / (inside or follow.value.strip("/"))
        if not path.is_dir():
            raise MachineError(f"CGROUP={follow.value} is not in {root}: systemd-cgls shows what is")
        return Followed("CGROUP", cleaned(f"cgroup /{path.relative_to(root)}"), path)
    return _unit(follow.value, root)


def _process(pid: int, proc: Path) -> Followed:
    if any(one.right == rights.PROCESSES for one in rights.missing()):
        raise MachineError(
            "PID= is a number of the host, this container has its own: start it with --pid=host"
        )
    name = kernel.read(proc / str(pid) / "comm")
    if not name:
        raise MachineError(f"PID={pid} is no process of this machine: see ps")
    status = kernel.read(proc / str(pid) / "status") or ""
    tgid = next((line.split()[1] for line in status.splitlines() if line.startswith("Tgid:")), str(pid))
    if tgid != str(pid):
        raise MachineError(f"PID={pid} is a thread of the process {tgid}: give PID={tgid}")
    return Followed("PID", cleaned(f"process {pid} ({name})"), pid=pid)


def _unit(name: str, root: Path) -> Followed:
    names = (name, *(name + suffix for suffix in _SUFFIXES))
    known: dict[str, list[Path]] = {}
    for path in _directories(root):
        known.setdefault(unescaped(path.name), []).append(path)
        known.setdefault(path.name, []).append(path)
    for wanted in names:
        found = sorted(set(known.get(wanted, ())))
        if len(found) == 1:
            return Followed("UNIT", cleaned(wanted), found[0])
        if found:
            places = " ".join(f"CGROUP=/{path.relative_to(root)}" for path in found[:4])
            raise MachineError(f"UNIT={name} is {len(found)} cgroups: name one of {cleaned(places)}")
    if len(known) > _CGROUPS_MOST:
        raise MachineError(
            f"UNIT={name} is not among the first {_CGROUPS_MOST:,} cgroups: give CGROUP= its path"
        )
    near = difflib.get_close_matches(name, [one.removesuffix(".service") for one in known], 3)
    hint = f"did you mean {', '.join(near)}?" if near else "systemd-cgls shows the units that run"
    raise MachineError(f"UNIT={name} has no cgroup now: {hint}")


def _directories(root: Path) -> Iterator[Path]:
    """Yield the cgroups below the root, the upper ones first."""
    level, seen = [root], 0
    while level:
        below = []
        for path in level:
            with suppress(OSError), os.scandir(path) as entries:
                below += [Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False)]
        yield from below
        seen += len(below)
        level = below if seen < _CGROUPS_MOST else []
