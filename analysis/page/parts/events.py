# SPDX-License-Identifier: BSD-2-Clause
"""File-system events by kind and reason; the panel of events under way; commits as marks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from analysis import units
from analysis.figures import style
from analysis.figures.panels.events import MOST_ROWS, NOT_DRAWN, PANEL
from analysis.measures.origin.events import own_devices
from analysis.page.binning import Amount, binned, even_edges
from analysis.page.data import Asked, Content, Cube, FromCube, Label, Mark, Panel, Part, Ratio, Series, Value
from analysis.page.labels import Words, keyed, words_of
from analysis.page.parts.requests import empty_cube
from analysis.page.series import PER_NS, line
from analysis.page.static import mark_of
from analysis.tables import event
from analysis.tables.event import Event
from analysis.tables.store import I64
from analysis.visible import clean

KEY, ORDER = "events", 230
COUNT, TIME = 0, 1
COMMITS = ("jbd2_commit", "btrfs_commit", "xfs_log_force", "jbd2_checkpoint")
MOST_MARKS = 300
TITLE = "File-system events"
DEFINITION = (
    "events of the file system under test by kind and reason: count, in the time bin in which they"
    " began; time: of the part inside the window, by overlap, exactly; where several threads are in such"
    " events at once it exceeds the window. An event whose end was not seen has no length."
)


def _marks(asked: Asked, table: Event, rows: npt.NDArray[np.intp], begin: I64, end: I64) -> list[Mark]:
    """The commits; of many the longest."""
    commits = np.flatnonzero(table.kind.is_in(COMMITS)[rows])
    lengths = (end - begin)[commits]
    chosen = commits[np.sort(np.argsort(-lengths, kind="stable")[:MOST_MARKS])]
    found = []
    for at in chosen.tolist():
        row = rows[at]
        kind = table.kind.labels[table.kind.codes[row]]
        why = table.why.labels[table.why.codes[row]]
        first, last = int(begin[at]), int(end[at])
        text = f"{kind}, {units.ns(last - first)}" + (f", why: {why}" if why not in ("", "none") else "")
        found.append(
            Mark(
                "commit",
                clean(kind),
                clean(text),
                first - asked.zero_ns,
                max(last, first + 1) - asked.zero_ns,
            )
        )
    return found


def _series(asked: Asked, labels: list[Label]) -> list[Series]:
    """Kinds with a length, most time first."""
    events = asked.source.results.origins.events
    kinds = words_of(labels[0])
    shown = [row.kind for row in events.rows if row.max_ns and row.kind not in NOT_DRAWN] if events else []
    found = []
    for number, kind in enumerate(shown[:MOST_ROWS]):
        keys = [key for key, one in enumerate(kinds) if one == clean(kind)]
        color = style.LOCKS[number % len(style.LOCKS)]
        found.append(line(kind, color, FromCube(KEY, TIME, keys, None, PER_NS)))
    return found


def make(asked: Asked) -> Content:
    """Cube, panel and marks; the cube alone, empty, if events were not recorded."""
    run, table = asked.source.run, asked.source.tables.get(event.TABLE)
    if table is None:
        return Content(cubes=[empty_cube(KEY, ORDER, TITLE, run.absent("events"))])
    low, high = asked.zero_ns + asked.start_ns, asked.zero_ns + asked.end_ns
    own = own_devices(run)
    is_own = (table.dev == 0) | np.isin(table.dev, sorted(own)) | (not own)
    is_kind = ~table.kind.is_in(("", "none"))
    rows = np.flatnonzero((table.end_ns >= low) & (table.start_ns <= high) & is_own & is_kind)
    begin = np.clip(table.start_ns[rows], low, high)
    end = np.maximum(np.clip(table.end_ns[rows], low, high), begin)
    end = np.where(table.is_open[rows], begin, end)
    key, labels = keyed(
        [
            Words("kind", table.kind.labels, table.kind.codes[rows]),
            Words("why", table.why.labels, table.why.codes[rows]),
        ]
    )
    length = end - begin
    found = binned(
        asked,
        even_edges(asked),
        key,
        begin,
        end,
        [
            Amount(np.ones(rows.size, dtype=np.int64), "start"),
            Amount(length, "divided"),
            Amount(table.bytes[rows], "start"),
            Amount(length, "start", is_max=True),
        ],
    )
    cube = Cube(
        key=KEY,
        order=ORDER,
        title=TITLE,
        definition=DEFINITION,
        edges=found.edge_column,
        labels=labels,
        values=[
            Value("count", "count"),
            Value("time", "ns"),
            Value("bytes", "bytes"),
            Value("longest", "ns", "max"),
        ],
        entries=found.entries(),
        ratios=[Ratio("events/s", "1/s", COUNT)],
        sort=TIME,
        mark=mark_of(asked, "events"),
        bin_text=found.bin_text,
        why=found.why or ("" if found.bin.size else "none occurred"),
    )
    panels: Sequence[Panel] = [_panel(asked, _series(asked, labels))]
    return Content(cubes=[cube], panels=panels, marks=_marks(asked, table, rows, begin, end))


def _panel(asked: Asked, series: list[Series]) -> Panel:
    return Panel(
        key="events",
        order=PANEL.order,
        title="File-system events: mean number under way, by kind",
        unit="events",
        kind="stacked",
        series=series,
        mark=mark_of(asked, "events"),
        why="" if series else "no event with a length occurred",
    )


PART = Part("events", 300, make)
