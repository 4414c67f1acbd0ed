# SPDX-License-Identifier: BSD-2-Clause
"""What emulated disks did: seeking, rotating, transferring, overhead, idle; by their own record."""

from __future__ import annotations

import numpy as np

from analysis.figures import style
from analysis.figures.panels.disk_time import PANEL
from analysis.measures.disk.states import BUSY, DEFINITION, WORDS, State
from analysis.page.binning import even_edges, of_cells
from analysis.page.data import Asked, Content, Cube, FromCube, Part, Value
from analysis.page.labels import Words, keyed, words_of
from analysis.page.series import line
from analysis.page.static import as_static, mark_of

KEY = "disk_time"
MOST_DISKS = 16


def make(asked: Asked) -> Content:
    """The cube and a panel over all disks; nothing for a run without emulated disks."""
    disks = asked.source.results.disks
    if disks is None or not disks.disks:
        return Content()
    shown = disks.disks[:MOST_DISKS]
    edges = even_edges(asked)
    lengths = np.diff(edges)
    rows, names, words = [], [], []
    for disk in shown:
        busy = [np.diff(disks.states[disk.number].of(state).until(edges)) for state in BUSY]
        for state, ns in zip(State, [*busy, np.maximum(lengths - np.sum(busy, axis=0), 0)], strict=True):
            rows.append(ns)
            names.append(disk.label)
            words.append(WORDS[state])
    codes = np.arange(len(rows), dtype=np.int64)
    _, labels = keyed([Words("disk", names, codes), Words("did", words, codes)])
    found = of_cells(asked, edges, [np.array(rows, dtype=np.int64)])
    cube = Cube(
        key=KEY,
        order=240,
        title="What the disk did, by its own record",
        definition=DEFINITION,
        edges=found.edge_column,
        labels=labels,
        values=[Value("time", "ns")],
        entries=found.entries(),
        mark=mark_of(asked, "disk_service"),
        bin_text=found.bin_text,
    )
    did = words_of(labels[1])
    series = []
    for state in State:
        keys = [key for key, word in enumerate(did) if word == WORDS[state]]
        scale = 100 / 1e9 / len(shown)
        name, source = WORDS[state], FromCube(KEY, 0, keys, None, scale)
        hatch = style.DISK_STATE_HATCH.get(name, "")
        series.append(line(name, style.DISK_STATE[name], source, hatch=hatch))
    more = len(disks.disks) - len(shown)
    left_out = [f"what {more:,} more emulated disks did"] if more else []
    return Content(cubes=[cube], panels=as_static(PANEL, asked, "%", "stacked", series), left_out=left_out)


PART = Part("disk_time", 430, make)
