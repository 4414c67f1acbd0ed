# SPDX-License-Identifier: BSD-2-Clause
"""Which events of the blk tracer's stream are not in another tracer's text, and what they leave in doubt.

perf leaves single events out, and its counts of lost ones do not say so. An event that is missing changes
requests at its place: its own, one that shares a bio with it, a later one that finds the bio still waiting.
No request elsewhere may be different.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from tests.collectors.blk_tracer import records

SECTOR_BYTES = 512
WRITE, NOTE, DISCARD = 1 << 17, 1 << 26, 1 << 29  # linux/blktrace_api.h: BLK_TC_ACT(BLK_TC_…)
LETTERS = {1: "Q", 2: "M", 3: "F", 4: "G", 6: "R", 7: "D", 8: "C", 12: "I", 13: "X"}  # __BLK_TA_…
OF_EVENT = {
    "bio_queue": "Q", "bio_backmerge": "M", "rq_merge": "M", "bio_frontmerge": "F", "getrq": "G",
    "rq_requeue": "R", "rq_issue": "D", "rq_complete": "C", "rq_insert": "I", "split": "X",
}  # fmt: skip

Place = tuple[str, int, int]  # discard, write or read; first sector, sector behind the last
Seen = Counter[tuple[str, Place]]


def place(kind: str, first: int, sectors: int) -> Place:
    """What is of no sectors (a flush) is nowhere."""
    return (kind, first, first + sectors) if sectors else ("", 0, 0)


def in_stream(stream: bytes) -> Seen:
    """Each event's letter and place; of a split (X), the place of its first part."""
    seen: Seen = Counter()
    for fields, _ in records(stream):
        letter = LETTERS.get(fields[5] & 0xFF)
        if letter and not fields[5] & NOTE:
            kind = "D" if fields[5] & DISCARD else "W" if fields[5] & WRITE else "R"
            seen[letter, place(kind, fields[3], fields[4] // SECTOR_BYTES)] += 1
    return seen


def in_text(text: str, device: int) -> Seen:
    """The same of the lines of perf script, ftrace and trace-cmd."""
    number = f"{device >> 20},{device & 0xFFFFF}"
    pattern = rf"block_(\w+): +{number} (\S+) (?:(?:\d+ )?\(.*?\) )?(\d+) ([+/]) (\d+)"
    seen: Seen = Counter()
    for event, rwbs, first, sign, size in re.findall(pattern, text):
        if event in OF_EVENT:
            kind = "D" if "D" in rwbs else "W" if set(rwbs) & set("WN") else "R"  # N: zeroes
            sectors = int(size) - int(first) if sign == "/" else int(size)
            seen[OF_EVENT[event], place(kind, int(first), sectors)] += 1
    return seen


class Doubt:
    """The places of missing events, and those of bios and requests that overlap them."""

    def __init__(self, missing: Iterable[tuple[str, Place]], everything: Seen) -> None:
        self.places = {place for _, place in missing}
        others = {place for letter, place in everything if letter in "QD"} - self.places
        while more := {place for place in others if self.holds(place)}:
            self.places |= more
            others -= more

    def holds(self, place: Place) -> bool:
        """Whether a place is in doubt; nowhere is, if any event of a flush is missing."""
        kind, first, end = place
        return place in self.places or any(
            kind == one and first < its_end and its_first < end for one, its_first, its_end in self.places
        )
