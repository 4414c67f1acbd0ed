# SPDX-License-Identifier: BSD-2-Clause
"""Room for a run's files: at most ROOM=, and a floor of free space stays for other programs.

The recorder checks its own files (recorder/room.c); this module checks the run directory for all others.
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
_CHECK_SECONDS = 1.0


def floor_bytes_of(directory: int | Path) -> int:
    """Return the floor of free space on a directory's file system: 1 GiB, or a twentieth if that is less."""
    return _floor_bytes(os.statvfs(directory))


def _floor_bytes(space: os.statvfs_result) -> int:
    return min(FLOOR_BYTES, space.f_blocks * space.f_frsize // _FLOOR_SHARE)


def nearly_full(directory: int | Path) -> str | None:
    """Return a sentence's end if less than half of the floor is free on a file system; else None.

    Recording ends at the floor; everything else that a run writes there ends at half of it.
    """
    space = os.statvfs(directory)
    free_bytes = space.f_bavail * space.f_frsize
    if free_bytes >= _floor_bytes(space) // 2:
        return None
    return f"has only {show_size(free_bytes)} left, which are kept free for others"


def limit_met_by_recorder(losses: Mapping[str, Any]) -> str | None:
    """Return which limit ended the recorder's writing, by its losses.json; None: none did."""
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
    """The size of a directory, and the free space of its file system."""

    def __init__(
        self, directory: int | Path, most_bytes: int = ROOM_BYTES, floor_bytes: int | None = None
    ) -> None:
        """Open a directory, given by a descriptor (duplicated) or a path.

        floor_bytes: None: floor_bytes_of() the directory.
        """
        if isinstance(directory, int):
            self._fd = os.dup(directory)
        else:
            self._fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self.most_bytes = most_bytes
        self.floor_bytes = floor_bytes_of(self._fd) if floor_bytes is None else floor_bytes
        self._limit: str | None = None
        self._next_check = 0.0

    def limit_met(self) -> str | None:
        """Return which limit is met, as the end of a sentence; None: there is room.

        Checks at most once a second. A limit that was met once stays met, whatever is deleted.
        """
        now = time.monotonic()
        if self._limit is None and now >= self._next_check:
            self._limit = self._check()
            self._next_check = now + _CHECK_SECONDS
        return self._limit

    def close(self) -> None:
        """Close the directory."""
        os.close(self._fd)

    def _check(self) -> str | None:
        space = os.fstatvfs(self._fd)
        free_bytes = space.f_bavail * space.f_frsize
        if free_bytes < self.floor_bytes:
            free, floor = show_size(free_bytes), show_size(self.floor_bytes)
            return f"its file system has only {free} left, of which {floor} are kept free"
        return _too_large(self.most_bytes) if self._size_bytes() >= self.most_bytes else None

    def _size_bytes(self) -> int:
        """Return the size of all regular files below, without following links."""
        size_bytes = 0
        for _, _, names, fd in os.fwalk(".", dir_fd=self._fd, follow_symlinks=False):
            for name in names:
                with suppress(OSError):  # removed meanwhile
                    status = os.stat(name, dir_fd=fd, follow_symlinks=False)
                    size_bytes += status.st_size if stat.S_ISREG(status.st_mode) else 0
        return size_bytes
