# SPDX-License-Identifier: BSD-2-Clause
"""Is there room for what a run records? Not beyond ROOM=, nor below a floor of free space for all others.

The recorder asks for itself (recorder/room.c); this is for whatever else writes into the run directory.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from workloads.cli.options import ROOM_BYTES
from workloads.system.units import show_size

FLOOR_BYTES = 1 << 30
_FLOOR_SHARE = 20
_LOOK_SECONDS = 1.0


def floor_bytes_of(directory: int | Path) -> int:
    """Return what is kept free of a directory's file system: 1 GiB, or a twentieth of it if that is less."""
    return _floor_bytes(os.statvfs(directory))


def _floor_bytes(space: os.statvfs_result) -> int:
    return min(FLOOR_BYTES, space.f_blocks * space.f_frsize // _FLOOR_SHARE)


def nearly_full(directory: int | Path) -> str | None:
    """Return that a file system has less than half of its floor left, in words; None: it has more.

    Recording ends at the floor; at half of it ends whatever else a run writes there.
    """
    space = os.statvfs(directory)
    free_bytes = space.f_bavail * space.f_frsize
    if free_bytes >= _floor_bytes(space) // 2:
        return None
    return f"has only {show_size(free_bytes)} left, which are for all others"


def limit_met_by_recorder(losses: Mapping[str, Any]) -> str | None:
    """Return, from what its losses.json says, which limit ended its recording; None: none did."""
    recorder = losses.get("recorder")
    room = recorder.get("room") if isinstance(recorder, Mapping) else None
    if not isinstance(room, Mapping):
        return None
    most, floor = room.get("most_bytes"), room.get("floor_bytes")
    if room.get("met") == "size" and isinstance(most, int):
        return _too_large(most)
    if room.get("met") == "floor" and isinstance(floor, int):
        return f"its file system had hardly more left than the {show_size(floor)} that are kept free"
    return None


def _too_large(most_bytes: int) -> str:
    return f"the run has reached ROOM={show_size(most_bytes)}"


class Room:
    """The room in and around one directory."""

    def __init__(
        self, directory: int | Path, most_bytes: int = ROOM_BYTES, floor_bytes: int | None = None
    ) -> None:
        """Watch a directory, given by its descriptor (which stays the caller's) or path; close() ends it.

        floor_bytes: None is floor_bytes_of() it.
        """
        if isinstance(directory, int):
            self._fd = os.dup(directory)
        else:
            self._fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self.most_bytes = most_bytes
        self.floor_bytes = floor_bytes_of(self._fd) if floor_bytes is None else floor_bytes
        self._limit: str | None = None
        self._next_look = 0.0

    def limit_met(self) -> str | None:
        """Return which limit is met, in words that go on after "because"; None: there is room.

        Looks at most once a second. What was met once stays so, whatever is deleted then.
        """
        now = time.monotonic()
        if self._limit is None and now >= self._next_look:
            self._limit = self._look()
            self._next_look = now + _LOOK_SECONDS
        return self._limit

    def close(self) -> None:
        """Let go of the directory."""
        os.close(self._fd)

    def _look(self) -> str | None:
        space = os.fstatvfs(self._fd)
        free_bytes = space.f_bavail * space.f_frsize
        if free_bytes < self.floor_bytes:
            free, floor = show_size(free_bytes), show_size(self.floor_bytes)
            return f"its file system has only {free} left, of which {floor} are kept free"
        return _too_large(self.most_bytes) if self._size_bytes() >= self.most_bytes else None

    def _size_bytes(self) -> int:
        """Return the size of all regular files below, no link followed."""
        size_bytes = 0
        for _, _, names, fd in os.fwalk(".", dir_fd=self._fd, follow_symlinks=False):
            for name in names:
                with suppress(OSError):  # gone meanwhile
                    status = os.stat(name, dir_fd=fd, follow_symlinks=False)
                    size_bytes += status.st_size if stat.S_ISREG(status.st_mode) else 0
        return size_bytes
