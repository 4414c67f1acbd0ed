# SPDX-License-Identifier: BSD-2-Clause
"""The cgroups of this machine while a session records: number, path, and what each is of (raw/units.jsonl).

The recorder's tables have a cgroup's number, the inode of its cgroup2 directory. The tree is walked as
recording begins, then at most once a second, and as it ends. A name stays after its cgroup is gone. A cgroup
that lived between two walks has no name: the report counts what it did as unknown.
"""

import json
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from collectors.host.container_names import named
from collectors.host.unit_paths import Unit, cleaned, unit_of
from workloads.cgroup import find_layout

FILE = "units.jsonl"
WALK_NS = 1_000_000_000
# Beyond these the rest of the tree is counted as left out.
CGROUPS_MOST = 20_000
DEPTH_MOST = 32
NAME_TRIES = 5  # a runtime may write a container's name after its cgroup


@dataclass
class _Cgroup:
    path: str
    unit: Unit
    first_ns: int
    gone_ns: int | None = None
    tries: int = 0

    def line(self, number: int) -> dict[str, Any]:
        unit = self.unit
        return {
            "cgroup": number,
            "path": cleaned(self.path),
            "kind": unit.kind,
            "name": unit.name,
            "pod": unit.pod,
            "first_ns": self.first_ns,
            "gone_ns": self.gone_ns,
        }


def _hosts_root() -> Path:
    """The root of the host's file system, also from a container that sees the host's processes."""
    of_init = Path("/proc/1/root")
    return of_init if os.access(of_init / ".", os.X_OK) else Path("/")


class Units:
    """The names of all cgroups, seen from start to stop; the last line of a number counts."""

    def __init__(self, raw: Path, tree: Path | None = None, host: Path | None = None) -> None:
        """Walk the tree for the first time.

        tree: where cgroup2 is mounted. host: the root of the file system where names are looked up.
        """
        self._host = host or _hosts_root()
        self._tree = tree or find_layout().v2
        self._known: dict[int, _Cgroup] = {}
        self._left_out = 0
        self._walks = 0
        self._longest_ns = 0
        self._walked_ns = 0
        self._is_damaged = False
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            self._file = os.open(raw / FILE, flags, 0o600)
        except OSError:
            self._file = -1
            self._is_damaged = True
        self.walk()

    def poll(self) -> None:
        """Walk the tree, if the last time is a second ago."""
        if time.monotonic_ns() - self._walked_ns >= WALK_NS:
            self.walk()

    def stop(self) -> None:
        """Walk once more, and close the file."""
        if self._file >= 0:
            self.walk()
            os.close(self._file)
            self._file = -1

    def walk(self) -> None:
        """Look for new cgroups, and for those that are gone."""
        if self._tree is None or self._file < 0:
            return
        self._walked_ns = start_ns = time.monotonic_ns()
        changed: dict[int, _Cgroup] = {}
        present = set()
        left_out = 0
        for number, path in _walk(str(self._tree), "/", 0):
            present.add(number)
            known = self._known.get(number)
            if known is None or known.path != path:
                if known is None and len(self._known) >= CGROUPS_MOST:
                    left_out += 1
                    continue
                known = self._known[number] = changed[number] = _Cgroup(path, unit_of(path), start_ns)
            elif not known.unit.runtime or known.tries >= NAME_TRIES:
                continue
            known.tries += 1
            unit = named(known.unit, self._host)
            if unit.name != known.unit.name:
                known.unit = unit
                known.tries = NAME_TRIES
                changed[number] = known
        for number, known in self._known.items():
            if number not in present and known.gone_ns is None:
                known.gone_ns = start_ns
                changed[number] = known
        self._left_out = max(self._left_out, left_out)
        self._append(changed)
        self._walks += 1
        self._longest_ns = max(self._longest_ns, time.monotonic_ns() - start_ns)

    def facts(self) -> dict[str, Any]:
        """Return run.json's "units"."""
        facts: dict[str, Any] = {
            "tree": str(self._tree) if self._tree is not None else None,
            "cgroups": len(self._known),
            "left_out": self._left_out,
            "walks": self._walks,
            "longest_walk_ns": self._longest_ns,
            "written": not self._is_damaged,
        }
        if self._tree is not None:
            with suppress(OSError):
                controllers = (self._tree / "cgroup.controllers").read_text().split()
                facts["controllers"] = [name for name in ("io", "memory") if name in controllers]
                facts["root"] = self._tree.stat().st_ino
        return facts

    def _append(self, changed: dict[int, _Cgroup]) -> None:
        lines = [json.dumps(known.line(number)) + "\n" for number, known in changed.items()]
        data = "".join(lines).encode()
        try:
            while data:
                data = data[os.write(self._file, data) :]
        except OSError:  # the run's disk is full; the recorder says so, too
            self._is_damaged = True


def _walk(folder: str, path: str, depth: int) -> Iterator[tuple[int, str]]:
    """Yield number and path of a cgroup and all below it. Those that vanish meanwhile are left out."""
    try:
        status = os.stat(folder, follow_symlinks=False)
        yield status.st_ino, path
        # A directory has a link for each one below it, but for file systems that keep no count (1).
        if status.st_nlink == 2 or depth == DEPTH_MOST:
            return
        with os.scandir(folder) as entries:
            below = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    except OSError:
        return
    for name in below:
        yield from _walk(os.path.join(folder, name), os.path.join(path, name), depth + 1)
