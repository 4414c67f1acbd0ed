# SPDX-License-Identifier: BSD-2-Clause
"""What a drive's parameters say about one access, without the model: place, seek, angle, transfer.

Times are in ns. The drive has one arm; sectors go along a track, then surface by surface, then cylinder by
cylinder, outermost first. Skews turn each track against the one before it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True)
class Place:
    """Where a sector of the drive is."""

    cylinder: int
    surface: int
    angle: float  # of a revolution, at which it begins
    share: float  # of a revolution that it takes


class Arithmetic:
    """A drive's arithmetic from its parameters as text: "key value value …" a line."""

    def __init__(self, text: str) -> None:
        lines = [line.split() for line in text.splitlines() if line.strip()]
        self.one = {words[0]: words[1] for words in lines}
        self.zones = [(int(words[1]), int(words[2])) for words in lines if words[0] == "zone"]
        self.seeks = [(int(words[1]), int(words[2])) for words in lines if words[0] == "seek"]
        self.revolution_ns = 60e9 / self.number("rpm")

    def number(self, key: str) -> float:
        """Return a parameter that is one number."""
        return float(self.one[key])

    def place(self, host_sector: int) -> Place:
        """Return where a sector of the host's disk is on the drive."""
        left = host_sector + int(self.one["first_sector"])
        surfaces, first = int(self.one["surfaces"]), 0
        for last, per_track in self.zones:
            if left < (last + 1 - first) * surfaces * per_track:
                cylinder, in_cylinder = divmod(left, surfaces * per_track)
                surface, in_track = divmod(in_cylinder, per_track)
                cylinder += first
                turned = self.number("track_skew") * (cylinder * (surfaces - 1) + surface)
                turned += self.number("cylinder_skew") * cylinder
                return Place(cylinder, surface, (turned + in_track / per_track) % 1.0, 1.0 / per_track)
            left -= (last + 1 - first) * surfaces * per_track
            first = last + 1
        raise AssertionError(f"sector {host_sector} is beyond the drive")

    def move_ns(self, start: Place, end: Place, writes: bool = False) -> float:
        """Return the time from one track to another: the seek, or the switch of heads if that is longer."""
        distance = abs(end.cylinder - start.cylinder)
        seek_ns = 0.0
        if distance:
            seek_ns = float(self.seeks[0][1] if distance <= self.seeks[0][0] else self.seeks[-1][1])
            for (near, near_ns), (far, far_ns) in pairwise(self.seeks):
                if near <= distance <= far:
                    seek_ns = near_ns + (far_ns - near_ns) * (distance - near) / (far - near)
        if start.surface != end.surface:
            seek_ns = max(seek_ns, self.number("head_switch_ns"))
        is_move = bool(distance) or start.surface != end.surface
        return seek_ns + (self.number("write_settle_ns") if writes and is_move else 0.0)

    def turn_ns(self, at_ns: float, place: Place, begun_ns: float, begun: Place) -> float:
        """Return the wait until a place comes by, at a moment; `begun` was under its head at begun_ns."""
        turned = (at_ns - begun_ns) / self.revolution_ns + begun.angle
        return (place.angle - turned) % 1.0 * self.revolution_ns

    def sequential_ns(self, first: int, sectors: int) -> float:
        """Return the time to read sectors in a row, from the first one's beginning: turns and skews."""
        begin, end = self.place(first), self.place(first + sectors)
        surfaces = int(self.one["surfaces"])
        tracks = (end.cylinder - begin.cylinder) * surfaces + end.surface - begin.surface
        # Each new track begins one turn and its skew after the one before.
        turns = 0.0
        for track in range(tracks):
            is_last = (begin.surface + track) % surfaces == surfaces - 1
            turns += 1 + self.number("cylinder_skew" if is_last else "track_skew")
        start_offset = (begin.angle - self._track_angle(begin)) % 1.0
        end_offset = (end.angle - self._track_angle(end)) % 1.0
        return (turns + end_offset - start_offset) * self.revolution_ns

    def _track_angle(self, place: Place) -> float:
        surfaces = int(self.one["surfaces"])
        turned = self.number("track_skew") * (place.cylinder * (surfaces - 1) + place.surface)
        return turned + self.number("cylinder_skew") * place.cylinder
