# SPDX-License-Identifier: BSD-2-Clause
"""Lock waits by class of lock and waiter; the panels of threads asleep on locks, and of spinning."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from analysis.figures import style
from analysis.figures.panels import lock_sleep, lock_spin
from analysis.measures.common.timeline import F64
from analysis.measures.locks import lock_waits
from analysis.measures.locks.lock_waits import OTHERS, LockWaits
from analysis.page.binning import Amount, Rounding, binned, row_edges
from analysis.page.data import Asked, Content, Cube, FromCube, Panel, Part, Ratio, Series, Value
from analysis.page.labels import Words, keyed
from analysis.page.lock_rows import LockRows, lock_rows, why_no_waits
from analysis.page.parts.requests import empty_cube
from analysis.page.series import PER_NS, line
from analysis.page.static import as_static, mark_of
from analysis.sections.lock_labels import ESTIMATED
from analysis.tables.store import I64

KEY, ORDER = "locks", 150
TIME, WAITS, SPIN, SLEEP = range(4)
TITLE = "Lock waits by class of lock"
ESTIMATE = f"{ESTIMATED}: of locks without a name, by caller, scaled from the call paths that were sampled"


def _waiters(rows: LockRows) -> Words:
    """The waiters by name; without one by their class."""
    table = rows.table
    names, classes = table.waiter_name, table.waiter
    words = [*names.labels, *(f"{label.replace('_', ' ')}" for label in classes.labels)]
    has_name = np.array([bool(label) for label in names.labels] or [False])[names.codes]
    codes = np.where(has_name, names.codes, classes.codes.astype(np.int64) + len(names.labels))
    return Words("waiter", words, codes)


def _locks(waits: LockWaits, row: I64) -> Words:
    return Words("lock", [" ".join(one.key) for one in waits.rows], row)


def _series(
    waits: LockWaits, drawn: dict[tuple[str, str], F64], of_key: I64, value: int, scale: float
) -> list[Series]:
    """The locks of the static panel, with its colours, and all others."""
    colored = (waits.sleep_series.keys() | waits.spin_series.keys()) - {OTHERS}
    colors = style.lock_colors(colored) | {OTHERS: style.OTHER_LOCKS}
    rows = {row.key: i for i, row in enumerate(waits.rows)}
    named = [rows[lock] for lock in drawn if lock != OTHERS]
    found = []
    for lock in drawn:
        mask = ~np.isin(of_key, named) if lock == OTHERS else of_key == rows[lock]
        keys = np.flatnonzero(mask).tolist()
        name = " ".join(part for part in lock if part)
        found.append(line(name, colors[lock], FromCube(KEY, value, keys, None, scale)))
    return found


def make(asked: Asked) -> Content:
    """The cube and both panels, empty without waits."""
    rows = lock_rows(asked)
    if rows is None:
        cubes = [empty_cube(KEY, ORDER, TITLE, why_no_waits(asked))]
        return Content(cubes=cubes, panels=_panels(asked, [], []))
    waits, table, scaled = rows.waits, rows.table, rows.scaled
    key, labels = keyed([_locks(waits, rows.row), _waiters(rows)])
    is_named = rows.is_named
    end = rows.end_ns
    rounding = Rounding(key, end)

    def amount(exact: I64, estimate: F64) -> Amount:
        return Amount(rounding.whole(np.where(is_named, exact, estimate)))

    spin, sleep = amount(table.spin_ns, scaled.spin_ns), amount(table.sleep_ns, scaled.sleep_ns)
    found = binned(
        asked,
        row_edges(asked, rows.start_ns, end),
        key,
        rows.start_ns,
        end,
        [
            Amount(spin.values + sleep.values),
            amount(table.count, scaled.count),
            spin,
            sleep,
            Amount(table.max_ns, is_max=True),
        ],
    )
    is_estimate = any(row.is_estimate for row in waits.rows)
    cube = Cube(
        key=KEY,
        order=ORDER,
        title=TITLE + (f" ({ESTIMATE})" if is_estimate else ""),
        definition=lock_waits.DEFINITION,
        edges=found.edge_column,
        labels=labels,
        values=[
            Value("time", "ns"),
            Value("waits", "count"),
            Value("spinning", "ns"),
            Value("sleeping", "ns"),
            Value("longest", "ns", "max"),
        ],
        entries=found.entries(),
        ratios=[Ratio("mean", "ns", TIME, WAITS)],
        mark=mark_of(asked, "locks"),
        bin_text=found.bin_text,
        why=found.why,
    )
    of_key = _row_of_key(key, rows.row)
    cpus = asked.source.run.cpus
    sleeping = _series(waits, waits.sleep_series, of_key, SLEEP, PER_NS)
    spinning = _series(waits, waits.spin_series, of_key, SPIN, 100 * PER_NS / cpus) if cpus else []
    return Content(cubes=[cube], panels=_panels(asked, sleeping, spinning))


def _row_of_key(key: I64, row: I64) -> I64:
    found = np.zeros(int(key.max(initial=-1)) + 1, dtype=np.int64)
    found[key] = row
    return found


def _panels(asked: Asked, sleeping: Sequence[Series], spinning: Sequence[Series]) -> list[Panel]:
    return [
        *as_static(lock_sleep.PANEL, asked, "threads", "stacked", sleeping),
        *as_static(lock_spin.PANEL, asked, "%", "stacked", spinning),
    ]


PART = Part("locks", 250, make)
