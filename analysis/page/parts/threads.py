# SPDX-License-Identifier: BSD-2-Clause
"""What each thread did: time by thread, role, state and cause; the panel of states, and threads as lanes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from analysis.causes.roles import WORKLOAD
from analysis.causes.rules import rules
from analysis.figures.panels.thread_states import LABELS, LOOKS, PANEL
from analysis.measures.threads.over_time import LATEST_NS, SERIES, series_of
from analysis.measures.threads.parts import READY_TEXTS, kinds_of
from analysis.page.binning import Amount, binned, row_edges
from analysis.page.colors import both
from analysis.page.data import Asked, Content, Cube, FromCube, Label, Lanes, Panel, Part, Series, Value
from analysis.page.labels import Words, keyed, words_of
from analysis.page.parts.requests import empty_cube
from analysis.page.series import PER_NS, line
from analysis.page.static import as_static, mark_of
from analysis.tables import thread_time
from analysis.tables.store import Categorical
from analysis.tables.thread_rows import ASLEEP, RUNNABLE
from analysis.tables.thread_time import ThreadTime
from analysis.visible import clean

KEY, ORDER = "threads", 130
THREAD, ROLE, STATE, CAUSE, DOES = range(5)
OWN_WILL = "asleep of its own will"
OWN_WILL_COLOR = "#F7F7F7"
TITLE = "What each thread did"
DEFINITION = (
    "time by thread, role, state and cause, of the table thread_time. Its time bins are this table's; a"
    " row of several bins, which one state fills, is divided among them exactly (split by samples: by"
    " overlap). count, longest: intervals that ended in the window."
)


def _names(times: ThreadTime) -> Words:
    """The threads by name and thread id; those of number 0 together."""
    numbers, first, codes = np.unique(times.thread, return_index=True, return_inverse=True)
    words = []
    for number, row in zip(numbers.tolist(), first.tolist(), strict=True):
        comm = times.comm.labels[times.comm.codes[row]]
        words.append(f"{clean(comm)} ({int(times.tid[row])})" if number else "all other threads")
    return Words("thread", words, codes.reshape(-1))


def cause_words(times: ThreadTime) -> Words:
    """What a thread waited for, in the words of the report; of a thread that ran nothing."""
    known = rules().causes
    asleep = times.state.is_in((*ASLEEP, "other"))
    ready = times.state.is_(RUNNABLE)
    words = {"": 0}
    codes = np.zeros(times.ns.size, dtype=np.int64)
    for rows, column, text in (
        (asleep, times.cause, {name: cause.text for name, cause in known.items()}),
        (ready, times.by, READY_TEXTS),
    ):
        lut = [words.setdefault(text.get(label, label), len(words)) for label in column.labels]
        codes[rows] = np.array(lut or [0])[column.codes[rows]]
    return Words("cause", list(words), codes)


def _does(kinds: Categorical) -> Words:
    """The band that each row is drawn in."""
    names = [series_of(kind) for kind in kinds.labels]
    return Words("does", [LABELS[name] if name else OWN_WILL for name in names], kinds.codes)


def _series(labels: list[Label]) -> list[Series]:
    """The workload's threads by what they do, from the bottom."""
    role, does = words_of(labels[ROLE]), words_of(labels[DOES])
    found = []
    for name in SERIES:
        look = LOOKS[name]
        keys = [
            key for key, pair in enumerate(zip(role, does, strict=True)) if pair == (WORKLOAD, look.label)
        ]
        if keys:
            source = FromCube(KEY, 0, keys, None, PER_NS)
            found.append(line(look.label, look.color, source, hatch=look.hatch or ""))
    return found


def lane_colors() -> Mapping[str, tuple[str, str]]:
    """The colours of the panel of states, for lanes."""
    return {look.label: both(look.color) for look in LOOKS.values()} | {OWN_WILL: both(OWN_WILL_COLOR)}


def _states(asked: Asked, series: list[Series]) -> list[Panel]:
    return as_static(PANEL, asked, "threads", "stacked", series)


def make(asked: Asked) -> Content:
    """The cube and both panels; empty ones if threads were not recorded."""
    run, times = asked.source.run, asked.source.tables.get(thread_time.TABLE)
    if times is None:
        empty = empty_cube(KEY, ORDER, TITLE, run.absent("threads"))
        return Content(cubes=[empty], panels=_states(asked, []))
    mark = mark_of(asked, "threads")
    kinds = kinds_of(times)
    key, labels = keyed(
        [
            _names(times),
            Words.of("role", times.role),
            Words.of("state", times.state),
            cause_words(times),
            _does(kinds),
        ]
    )
    start = np.clip(times.bin_ns, 0, LATEST_NS)
    end = start + np.clip(times.bin_length_ns, 0, LATEST_NS)
    found = binned(
        asked,
        row_edges(asked, start, end),
        key,
        start,
        end,
        [Amount(times.ns, "divided"), Amount(times.count), Amount(times.max_ns, is_max=True)],
    )
    cube = Cube(
        key=KEY,
        order=ORDER,
        title=TITLE,
        definition=DEFINITION,
        edges=found.edge_column,
        labels=labels,
        values=[Value("time", "ns"), Value("count", "count"), Value("longest", "ns", "max")],
        entries=found.entries(),
        mark=mark,
        bin_text=found.bin_text,
        why=found.why,
    )
    lanes = Panel(
        key="lanes",
        order=PANEL.order + 300,
        title="Threads: shares of each one's time by what it did",
        unit="",
        kind="lanes",
        lanes=Lanes(
            KEY,
            THREAD,
            DOES,
            0,
            lane_colors(),
            {look.label: look.hatch for look in LOOKS.values() if look.hatch},
            idle=(OWN_WILL, LABELS["other"]),
            first_label=ROLE,
            first_word=WORKLOAD,
        ),
        height_px=240,
        mark=mark,
    )
    return Content(cubes=[cube], panels=[*_states(asked, _series(labels)), lanes])


PART = Part("threads", 230, make)
