# SPDX-License-Identifier: BSD-2-Clause
"""Memory reclaim in the workload's own threads: the events direct_reclaim on the path, asleep or on a CPU."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analysis.causes.roles import WORKLOAD
from analysis.measures.critical_path.results import NoPath, PathResults
from analysis.measures.waits.on_path import path_ns
from analysis.tables import event, thread
from analysis.tables.load import Tables

KIND = "direct_reclaim"


@dataclass(frozen=True)
class Reclaim:
    """Direct reclaim of the ledger's threads. ns: of their time."""

    count: int
    ns: int
    pages: int
    by_memcg: bool  # a cgroup's limit was the reason, not the machine's


def reclaim_of(tables: Tables, path: PathResults | NoPath, window: tuple[int, int]) -> Reclaim | None:
    """Sum the events. None: no events were recorded."""
    table = tables.get(event.TABLE)
    if table is None:
        return None
    mine = table.kind.is_(KIND) & np.isin(table.tid, sorted(_tids(tables))) & ~table.is_open
    begin, end = np.clip(table.start_ns, *window), np.clip(table.end_ns, *window)
    rows = np.flatnonzero(mine & (end > begin))
    if isinstance(path, PathResults) and path.rows is not None:
        ns = path_ns(path.rows, table.tid[rows], begin[rows], end[rows])
    else:
        ns = (end - begin)[rows]
    rows, ns = rows[ns > 0], ns[ns > 0]
    return Reclaim(
        int(rows.size),
        int(ns.sum()),
        int(table.pages[rows].sum()),
        bool(table.why.is_("memcg")[rows].sum() * 2 > rows.size),
    )


def _tids(tables: Tables) -> set[int]:
    """Thread ids of the workload."""
    threads = tables.get(thread.TABLE)
    if threads is None:
        return set()
    rows = zip(threads.tid.tolist(), threads.role, strict=True)
    return {tid for tid, role in rows if role == WORKLOAD and tid}
