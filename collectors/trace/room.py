# SPDX-License-Identifier: BSD-2-Clause
"""Room for a run's files: at most ROOM= or MAX=, and a floor of free space stays for other programs.

The recorder checks its own files (recorder/room.c); this module checks the run directory for all others.
"""

from __future__ import annotations

import os
import stat
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workloads.cli.options import ROOM_BYTES
from workloads.system.units import show_seconds, show_size

FLOOR_BYTES = 1 << 30
_FLOOR_SHARE = 20
_CHECK_SECONDS = 1.0
_RATE_SECONDS = 10.0
_FORECAST_SECONDS = 100 * 3600  # beyond, a forecast says nothing
# MAX= is met before the size is reached, by what two more checks may find, and at least by some blocks of the
# recorder: so a watch, which ends then, loses nothing for want of room.
_AHEAD_SECONDS = 2.0
_AHEAD_BYTES = 512 << 10


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


def _rate(first: tuple[float, int], last: tuple[float, int]) -> float:
    """Bytes per second between two sizes, each with its time; a directory that became smaller has 0."""
    return max(last[1] - first[1], 0) / (last[0] - first[0]) if last[0] > first[0] else 0.0


def _too_large(most_bytes: int) -> str:
    return f"the run has reached ROOM={show_size(most_bytes)}"


@dataclass(frozen=True)
class Growth:
    """How large a recording is, how fast it grows, and how much larger it can be."""

    size_bytes: int
    most_bytes: int
    left_bytes: int  # until most_bytes, or until its file system has only the floor left
    bytes_per_s: float  # of the last seconds

    @property
    def text(self) -> str:
        """As a part of a progress line; "" if it does not grow."""
        if self.bytes_per_s < 1:
            return ""
        rate, size, most = (show_size(int(x)) for x in (self.bytes_per_s, self.size_bytes, self.most_bytes))
        full_s = self.left_bytes / self.bytes_per_s
        until = f"; full in {show_seconds(full_s)}" if full_s < _FORECAST_SECONDS else ""
        return f"recording {rate}/s, {size} of {most}{until}"


class Room:
    """The size of a directory, and the free space of its file system."""

    def __init__(
        self,
        directory: int | Path,
        most_bytes: int = ROOM_BYTES,
        floor_bytes: int | None = None,
        ends_at_max: bool = False,
    ) -> None:
        """Open a directory, given by a descriptor (duplicated) or a path.

        floor_bytes: None: floor_bytes_of() the directory. ends_at_max: the size is MAX=: it is met before
        it is reached, while all still has room.
        """
        if isinstance(directory, int):
            self._fd = os.dup(directory)
        else:
            self._fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self.most_bytes = most_bytes
        self.floor_bytes = floor_bytes_of(self._fd) if floor_bytes is None else floor_bytes
        self._limit: str | None = None
        self._next_check = 0.0
        self._ends_at_max = ends_at_max
        self._sizes: deque[tuple[float, int]] = deque()  # of the last seconds: when, and size
        self._free_bytes = 0

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

    def growth(self) -> Growth | None:
        """How the directory grows, by the checks of limit_met(); None: it is not known yet."""
        if len(self._sizes) < 2:
            return None
        size_bytes = self._sizes[-1][1]
        left_bytes = min(self.most_bytes - size_bytes, self._free_bytes - self.floor_bytes)
        return Growth(size_bytes, self.most_bytes, max(left_bytes, 0), _rate(self._sizes[0], self._sizes[-1]))

    def _note_size(self) -> int:
        now, size_bytes = time.monotonic(), self._size_bytes()
        self._sizes.append((now, size_bytes))
        while now - self._sizes[0][0] > _RATE_SECONDS and len(self._sizes) > 2:
            self._sizes.popleft()
        return size_bytes

    def _ahead_bytes(self) -> float:
        """How much may be written until the recorder has stopped: MAX= is met so long before."""
        earlier = (self._sizes[0], self._sizes[-2]) if len(self._sizes) > 1 else ()
        rate = max((_rate(one, self._sizes[-1]) for one in earlier), default=0.0)
        return max(_AHEAD_SECONDS * rate, min(_AHEAD_BYTES, self.most_bytes // 16))

    def _check(self) -> str | None:
        size_bytes = self._note_size()
        space = os.fstatvfs(self._fd)
        free_bytes = self._free_bytes = space.f_bavail * space.f_frsize
        if free_bytes < self.floor_bytes:
            free, floor = show_size(free_bytes), show_size(self.floor_bytes)
            return f"its file system has only {free} left, of which {floor} are kept free"
        if self._ends_at_max and size_bytes + self._ahead_bytes() >= self.most_bytes:
            return f"the run is about to be larger than MAX={show_size(self.most_bytes)}"
        return _too_large(self.most_bytes) if size_bytes >= self.most_bytes else None

    def _size_bytes(self) -> int:
        """Return the size of all regular files below, without following links."""
        size_bytes = 0
        for _, _, names, fd in os.fwalk(".", dir_fd=self._fd, follow_symlinks=False):
            for name in names:
                with suppress(OSError):  # removed meanwhile
                    status = os.stat(name, dir_fd=fd, follow_symlinks=False)
                    size_bytes += status.st_size if stat.S_ISREG(status.st_mode) else 0
        return size_bytes
