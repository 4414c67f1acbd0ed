# SPDX-License-Identifier: BSD-2-Clause
"""What a drive's parameters say about one access, without the model: place, seek, angle, transfer.

Times are in ns. The drive has one arm; sectors go along a track, then surface by surface, then cylinder by
cylinder, outermost first. Skews turn each track against the one before it.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from itertools import pairwise
from typing import Any


@dataclass(frozen=True)
class Place:
    """Where a sector of the drive is."""

    cylinder: int
    surface: int
    angle: float  # of a revolution, at which it begins
    share: float  # of a revolution that it takes


class Arithmetic:
    """A drive's arithmetic from its TOML file with tables of zones and seeks."""

    def __init__(self, toml: str) -> None:
        drive: dict[str, Any] = tomllib.loads(toml)
        self._surfaces = int(drive["surfaces"])
        self._zones: list[tuple[int, int]] = [tuple(row) for row in drive["zones"]["table"]]
        self._seeks = [(int(cylinders), ms * 1e6) for cylinders, ms in drive["seek"]["table"]]
        self._skew: dict[str, float] = drive["skew"]
        self._settle_ns: float = drive["seek"]["write_settle_ms"] * 1e6
        self._switch_ns: float = drive["seek"]["head_switch_ms"] * 1e6
        self.read_overhead_ns: float = drive["electronics"]["read_overhead_ms"] * 1e6
        self.revolution_ns: float = 60e9 / drive["rpm"]

    def place(self, sector: int) -> Place:
        """Return where a sector is on the drive."""
        left, surfaces, first = sector, self._surfaces, 0
        for last, per_track in self._zones:
            if left < (last + 1 - first) * surfaces * per_track:
                cylinder, in_cylinder = divmod(left, surfaces * per_track)
                surface, in_track = divmod(in_cylinder, per_track)
                cylinder += first
                angle = (self._turned(cylinder, surface) + in_track / per_track) % 1.0
                return Place(cylinder, surface, angle, 1.0 / per_track)
            left -= (last + 1 - first) * surfaces * per_track
            first = last + 1
        raise AssertionError(f"sector {sector} is beyond the drive")

    def move_ns(self, start: Place, end: Place, writes: bool = False) -> float:
        """Return the time from one track to another: the seek, or the switch of heads if that is longer."""
        distance = abs(end.cylinder - start.cylinder)
        seek_ns = 0.0
        if distance:
            seek_ns = self._seeks[0][1] if distance <= self._seeks[0][0] else self._seeks[-1][1]
            for (near, near_ns), (far, far_ns) in pairwise(self._seeks):
                if near <= distance <= far:
                    seek_ns = near_ns + (far_ns - near_ns) * (distance - near) / (far - near)
        if start.surface != end.surface:
            seek_ns = max(seek_ns, self._switch_ns)
        is_move = bool(distance) or start.surface != end.surface
        return seek_ns + (self._settle_ns if writes and is_move else 0.0)

    def turn_ns(self, at_ns: float, place: Place, begun_ns: float, begun: Place) -> float:
        """Return the wait until a place comes by, at a moment; `begun` was under its head at begun_ns."""
        turned = (at_ns - begun_ns) / self.revolution_ns + begun.angle
        return (place.angle - turned) % 1.0 * self.revolution_ns

    def _turned(self, cylinder: int, surface: int) -> float:
        """Return by how many revolutions a track is turned against the first one of the drive."""
        tracks = cylinder * (self._surfaces - 1) + surface
        return self._skew["track"] * tracks + self._skew["cylinder"] * cylinder
