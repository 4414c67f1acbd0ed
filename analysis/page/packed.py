# SPDX-License-Identifier: BSD-2-Clause
"""Pack a run for the page: its dataclasses become JSON, their columns deflated bytes.

Each cube, panel, map and the rows become a binary part, so that the page can read what it needs first.
"""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from analysis.discovery import find_parts
from analysis.findings.finding import Finding
from analysis.fork import ForkedTask
from analysis.page import parts as parts_folder
from analysis.page.columns import Column, Texts, TooLarge
from analysis.page.data import Asked, Budget, Mark, Part
from analysis.render.output import RunSource
from analysis.rundir.run import clean

PACK_LEVEL = 4  # of zlib; 6 takes twice as long and saves 2 %
ALL_BYTES = 6_400_000  # of all parts of a page: 8.5 MB as base64, beside 2 MB; twice as much opens in 3 s
LEAST_BINS = 2_000  # of a cube that may have so many: a bin for each pixel of a wide window
ZERO = "seconds since the workload started"
ZERO_NOT_STATED = "seconds since the first record"


@dataclass(frozen=True)
class PackedRun:
    """A run in the page: what becomes JSON, and its binary parts, deflated."""

    header: Mapping[str, Any]
    parts: Sequence[bytes]

    @property
    def bytes(self) -> int:
        """Size of the parts."""
        return sum(len(part) for part in self.parts)


class _Packer:
    """Collects the bytes of columns. What is packed between two calls of cut() shares a part."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self._open: list[bytes] = []
        self._at = 0

    @property
    def bytes(self) -> int:
        """Size of the ended parts, deflated."""
        return sum(len(part) for part in self.parts)

    def cut(self) -> None:
        """End the open part."""
        if self._open:
            self.parts.append(zlib.compress(b"".join(self._open), PACK_LEVEL))
        self._open, self._at = [], 0

    def json(self, thing: Any) -> Any:
        """The thing as JSON; its columns go into the open part."""
        if isinstance(thing, Column | Texts):
            encoded = thing.encoded()
            place = {"part": len(self.parts), "at": self._at, "n": thing.count, "coding": thing.coding}
            if isinstance(thing, Texts):
                place["bytes"] = len(encoded)
            self._open.append(encoded)
            self._at += len(encoded)
            return place
        if dataclasses.is_dataclass(thing) and not isinstance(thing, type):
            names = [field.name for field in dataclasses.fields(thing)]
            return {name.rstrip("_"): self.json(getattr(thing, name)) for name in names}
        if isinstance(thing, Mapping):
            return {str(key): self.json(value) for key, value in thing.items()}
        if isinstance(thing, (list, tuple)):
            return [self.json(value) for value in thing]
        return thing

    def each(self, things: Sequence[Any], left_out: list[str]) -> list[Any]:
        """Each thing with a part of its own. One that JavaScript cannot hold is left out and named."""
        made = []
        for thing in things:
            self.cut()
            try:
                made.append(self.json(thing))
            except TooLarge:
                name = getattr(thing, "title", "") or getattr(thing, "name", "") or "single requests"
                left_out.append(f"{name}: a value is beyond 2^53, which this page cannot show exactly")
                self._open, self._at = [], 0
        self.cut()
        return made


def share(runs: int) -> Budget:
    """What each of so many runs may take of their page."""
    alone = Budget(ALL_BYTES)
    return Budget(ALL_BYTES // runs, max(alone.most_bins // runs, LEAST_BINS))


def pack(source: RunSource, budget: Budget, findings: Sequence[Finding] = ()) -> PackedRun:
    """The run as the page holds it. findings: the answer's, with windows."""
    window = source.results.window
    zero = window.work_start_ns
    asked = Asked(source, zero, window.start_ns - zero, window.end_ns - zero, budget, _marks(findings, zero))
    packer = _Packer()
    cubes: list[Any] = []
    panels: list[Any] = []
    maps: list[Any] = []
    rows: list[Any] = []
    notes: list[str] = []
    left_out: list[str] = []
    for part in find_parts(parts_folder, "PART", Part):
        content = part.make(dataclasses.replace(asked, budget=budget.after(packer.bytes)))
        asked = asked.after(content)
        left_out += content.left_out
        notes += content.notes
        cubes += packer.each(content.cubes, left_out)
        panels += packer.each(content.panels, left_out)
        maps += packer.each(content.maps, left_out)
        rows += packer.each([] if content.rows is None else [content.rows], left_out)
    header = {
        "name": clean(source.run.name),
        "title": clean(source.title),
        "tag": "",
        "zero_text": ZERO if window.stated else ZERO_NOT_STATED,
        "start_ns": asked.start_ns,
        "end_ns": asked.end_ns,
        "banners": [clean(banner) for banner in source.banners],
        "marks": packer.json(sorted(asked.marks, key=lambda mark: (mark.start_ns, mark.end_ns))),
        "cubes": sorted(cubes, key=_order),
        "panels": sorted(panels, key=_order),
        "maps": maps,
        "rows": (rows or [None])[0],
        "notes": notes,
        "left_out": left_out,
    }
    return PackedRun(header, packer.parts)


def _order(packed: Mapping[str, Any]) -> int:
    """The position of a packed cube or panel."""
    return int(packed["order"])


def start_pack(source: RunSource, findings: Sequence[Finding], runs: int = 1) -> ForkedTask[PackedRun]:
    """Pack a run in a process of its own while this one goes on. runs: in its page."""
    return ForkedTask(lambda: pack(source, share(runs), findings))


def _marks(findings: Sequence[Finding], zero_ns: int) -> tuple[Mark, ...]:
    """The findings' windows."""
    return tuple(
        Mark(
            "finding",
            finding.kind,
            clean(finding.what),
            finding.where.start_ns - zero_ns,
            finding.where.end_ns - zero_ns,
            number,
        )
        for number, finding in enumerate(findings, 1)
    )
