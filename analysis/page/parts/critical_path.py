# SPDX-License-Identifier: BSD-2-Clause
"""The critical path by where its pieces end: kind, what, and whose; the panel of its groups."""

from __future__ import annotations

import numpy as np

from analysis.figures.panels.critical_path import LOOKS, PANEL
from analysis.measures.critical_path.ends import GROUPS, end_of
from analysis.measures.critical_path.results import NoPath, PathResults
from analysis.page.binning import EVEN_BINS, even_edges, of_cells
from analysis.page.data import Asked, Content, Cube, FromCube, Label, Part, Series, Value
from analysis.page.labels import Words, keyed, words_of
from analysis.page.parts.requests import empty_cube
from analysis.page.series import PER_NS, line
from analysis.page.static import as_static, mark_of
from analysis.tables.store import I64

KEY, ORDER = "path", 140
GROUP = 3
MOST_CELLS = 6_000_000  # shares x bins while they are summed
LEAST_BINS = 100
TITLE = "The critical path: what the workload's progress waits for in the end"
DEFINITION = (
    "time of the path by where its pieces end (critical_path.parquet); of several threads the sum over"
    " them. Pieces are cut at the edges of the time bins, exactly. kind: as in that file; who: the"
    " thread that ran or was ready, or the sender of the request."
)


def _why_not(path: PathResults | NoPath, asked: Asked) -> str:
    """Why there is no cube; empty: there is one."""
    if isinstance(path, NoPath):
        return path.why or asked.source.run.absent("sched")
    return "" if path.rows is not None else f"{path.pieces:,} pieces are too many to keep"


def _edges(asked: Asked, shares: int) -> I64:
    return even_edges(asked, max(min(EVEN_BINS, MOST_CELLS // max(shares, 1)), LEAST_BINS))


def _series(labels: list[Label]) -> list[Series]:
    groups = words_of(labels[GROUP])
    found = []
    for group in GROUPS:
        keys = [key for key, one in enumerate(groups) if one == LOOKS[group].label]
        if keys:
            look, source = LOOKS[group], FromCube(KEY, 0, keys, None, PER_NS)
            found.append(line(look.label, look.color, source, hatch=look.hatch or ""))
    return found


def make(asked: Asked) -> Content:
    """The cube and its panel, both empty if there is no path, or too long a one."""
    path = asked.source.results.path
    if why := _why_not(path, asked):
        panels = as_static(PANEL, asked, "threads", "stacked", [])
        return Content(cubes=[empty_cube(KEY, ORDER, TITLE, why)], panels=panels)
    assert isinstance(path, PathResults)
    assert path.rows is not None
    edges = _edges(asked, len(path.shares))
    shares, ns = path.rows.sums.by_bin(path.rows.pieces, edges[:-1], edges[1:])
    ends = [end_of(share) for share in shares]
    codes = np.arange(len(shares), dtype=np.int64)
    key, labels = keyed(
        [
            Words("kind", [share.kind.name.lower() for share in shares], codes),
            Words("ends in", [text for _, text in ends], codes),
            Words("who", [share.name for share in shares], codes),
            Words("group", [LOOKS[group].label for group, _ in ends], codes),
        ]
    )
    sums = np.zeros((int(key.max(initial=-1)) + 1, edges.size - 1), dtype=np.int64)
    np.add.at(sums, key, ns)
    found = of_cells(asked, edges, [sums])
    cube = Cube(
        key=KEY,
        order=ORDER,
        title=TITLE,
        definition=DEFINITION,
        edges=found.edge_column,
        labels=labels,
        values=[Value("time", "ns")],
        entries=found.entries(),
        mark=mark_of(asked, "sched"),
        bin_text=found.bin_text,
    )
    return Content(cubes=[cube], panels=as_static(PANEL, asked, "threads", "stacked", _series(labels)))


PART = Part("critical_path", 240, make)
