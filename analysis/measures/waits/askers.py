# SPDX-License-Identifier: BSD-2-Clause
"""Which other processes asked for commits, and how many: the table event."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analysis.measures.common.window import Window
from analysis.measures.waits.commits import ASKED, COMMITS, is_tested
from analysis.tables import event, thread
from analysis.tables.load import Tables


@dataclass(frozen=True)
class Askers:
    """Commits of the workload's time."""

    all: int
    others: int  # that another process asked for
    all_bytes: int
    others_bytes: int  # of the journal
    by_name: list[tuple[str, int]]  # of programs, with the threads: most commits first
    whys: list[tuple[str, int]]


def askers_of(tables: Tables, window: Window, own: frozenset[int] = frozenset()) -> Askers | None:
    """Count the tested file system's commits by who asked. None: no commits were recorded.

    own: its device numbers, see commits.is_tested().
    """
    table = tables.get(event.TABLE)
    if table is None:
        return None
    inside = (table.end_ns >= window.work_start_ns) & (table.start_ns <= window.work_end_ns)
    is_commit = table.kind.is_in(COMMITS) & inside & is_tested(table, own)
    if not is_commit.any():
        return None
    others = is_commit & table.asker_call.is_("none") & table.why.is_in(ASKED) & (table.asker_tid > 0)
    names = _names(tables)
    threads: dict[str, list[int]] = {}
    counts_of: dict[str, int] = {}
    tids, counts = np.unique(table.asker_tid[others], return_counts=True)
    for tid, count in zip(tids.tolist(), counts.tolist(), strict=True):
        name = names.get(tid, "")
        threads.setdefault(name, []).append(tid)
        counts_of[name] = counts_of.get(name, 0) + count
    by_name = {_text(name, of): counts_of[name] for name, of in threads.items()}
    codes, counts = np.unique(table.why.codes[others], return_counts=True)
    whys = {table.why.labels[code]: int(count) for code, count in zip(codes, counts, strict=True)}
    return Askers(
        int(is_commit.sum()),
        int(others.sum()),
        int(table.bytes[is_commit].sum()),
        int(table.bytes[others].sum()),
        sorted(by_name.items(), key=lambda one: (-one[1], one[0])),
        sorted(whys.items(), key=lambda one: (-one[1], one[0])),
    )


def _text(name: str, tids: list[int]) -> str:
    threads = f"thread {tids[0]}" if len(tids) == 1 else f"{len(tids)} threads"
    return f"{name} ({threads})" if name else threads


def _names(tables: Tables) -> dict[int, str]:
    """Name of the process by thread id, of threads that were logged."""
    threads = tables.get(thread.TABLE)
    if threads is None:
        return {}
    rows = zip(threads.tid.tolist(), threads.comm, strict=True)
    return {tid: comm for tid, comm in rows if tid and comm}
