# SPDX-License-Identifier: BSD-2-Clause
"""The rows of lock_wait that the report shows: of each its class, its call path, its waits scaled to all."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analysis.measures.locks.lock_waiters import shown_waits
from analysis.measures.locks.lock_waits import LockWaits
from analysis.measures.locks.waits_by_stack import Scaled, by_path, scale
from analysis.page.data import Asked
from analysis.tables.lock_wait import LockWait
from analysis.tables.store import I64


@dataclass(frozen=True)
class LockRows:
    """row, path: of each wait its index in waits.rows, and in waits.paths."""

    table: LockWait
    waits: LockWaits
    scaled: Scaled
    row: I64
    path: I64

    @property
    def start_ns(self) -> I64:
        """Begin of each wait's time bin."""
        return self.table.bin_ns

    @property
    def end_ns(self) -> I64:
        """End of each wait's time bin."""
        return np.asarray(self.table.bin_ns + self.table.bin_length_ns)

    @property
    def is_named(self) -> npt.NDArray[np.bool_]:
        """Waits on locks with a name of their own, whose sums need no scaling."""
        named = np.array([i for i, lock in self.waits.names.items() if lock.name], dtype=np.uint64)
        return np.isin(self.table.lock_id, named)


def why_no_waits(asked: Asked) -> str:
    """Why there are no rows."""
    recorded = asked.source.tables.lock_wait is not None
    return "no lock was waited on" if recorded else asked.source.run.absent("locks")


def lock_rows(asked: Asked) -> LockRows | None:
    """The rows; None without waits."""
    source = asked.source
    waits = source.results.locks.waits
    if waits is None or source.tables.lock_wait is None:
        return None
    shown = source.tables if source.results.locks.shows_all else shown_waits(source.run, source.tables)
    table = shown.lock_wait
    if table is None or not table.bin_ns.size:
        return None
    scaled = scale(table)
    _, groups = by_path(table, scaled)
    return LockRows(table, waits, scaled, waits.row_of_path[groups.of_row], groups.of_row)
