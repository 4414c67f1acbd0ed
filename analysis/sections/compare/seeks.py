# SPDX-License-Identifier: BSD-2-Clause
"""Seeks of several runs: count, rate and distance."""

from __future__ import annotations

from collections.abc import Callable

from analysis import units
from analysis.measures.block import seeks
from analysis.render.document import Section
from analysis.sections.compare.spec import CompareSpec, Runs, Tags
from analysis.sections.compare.table import Row, Value, integer, make_table, rates, union


def build_seeks(runs: Runs, tags: Tags) -> list[Section]:
    """Counts and shares by operation and class, then rates."""
    section = Section()
    blocks = [one.results.block for one in runs]
    summaries = [block.seeks.summaries if block is not None else {} for block in blocks]
    names = union([[name for name in by_name if by_name[name].requests] for by_name in summaries])
    if not names:
        section.absent = "no run recorded a read or write with data"
        return [section]

    def over(name: str, get: Callable[[seeks.SeekSummary], float | None]) -> list[Value]:
        values: list[Value] = []
        for by_name in summaries:
            values.append(get(by_name[name]) if name in by_name else None)
        return values

    rows = []
    for name in names:
        rows += [
            Row((name, "seeks"), over(name, lambda s: s.seeks), integer),
            Row((name, "seek %"), over(name, lambda s: s.share(s.seeks)), units.percent, ratio=False),
            Row((name, "sequential %"), over(name, lambda s: s.share(s.sequential)), units.percent, False),
            Row((name, "near back %"), over(name, lambda s: s.share(s.near_back)), units.percent, False),
            Row((name, "median distance"), over(name, _median_distance), units.bytes_),
        ]
    section.tables.append(make_table(("of", ""), runs, tags.short, rows, False, ("block",)))
    total = over("all", lambda s: s.seeks)
    per_s = rates(runs, [value if isinstance(value, (int, float)) else None for value in total], 1)
    rows = [Row(("seeks/s",), per_s, units.rate)]
    section.tables.append(make_table(("",), runs, tags.short, rows, True, ("block",)))
    section.definition = seeks.DEFINITION + " Median distance: without its sign, of the seeks."
    return [section]


def _median_distance(summary: seeks.SeekSummary) -> float | None:
    return summary.absolute_bytes[seeks.ABSOLUTE_PERCENTS.index(50.0)] if summary.absolute_bytes else None


SECTIONS = (CompareSpec("seeks", "Seeks", 500, build_seeks, collectors=("block",)),)
