# SPDX-License-Identifier: BSD-2-Clause
"""The sched_window table: times in which switches and wake-ups were not recorded, as there were too many."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from analysis.rundir.run import as_int, clean
from analysis.tables.jsonl import Lines
from analysis.tables.row_time import RowTime
from analysis.tables.spec import TableSpec, columns_of
from analysis.tables.store import I64, Column


@dataclass(frozen=True)
class SchedWindow:
    """The sched_window table as numpy columns."""

    start_ns: I64
    end_ns: I64
    switches: I64


def _rows(lines: Lines) -> list[dict[str, Any]]:
    rows = []
    for line in lines:
        start, end = as_int(line.get("start_ns")), as_int(line.get("end_ns"))
        if start is None or end is None or not 0 < start <= end:
            lines.bad += 1
            continue
        switches = max(as_int(line.get("switches")) or 0, 0)
        why = clean(line.get("why") or "", 60)
        rows.append({"start_ns": start, "end_ns": end, "switches": switches, "why": why})
    return rows


TABLE = TableSpec(
    name="sched_window",
    one_row="one stretch of time in which no switch and no wake-up was recorded",
    file="raw/recorder/sched_window.jsonl",
    time=RowTime("span", "start_ns", "end_ns", is_cut=False, gives_window=False),
    collector="sched",
    is_optional=True,
    columns=(
        Column("start_ns", "int", "ns", "begin"),
        Column("end_ns", "int", "ns", "end"),
        Column("switches", "int", "switches", "switches in it, which are counted all the same", if_missing=0),
        Column("why", "string", "", "reason", if_missing=""),
    ),
    lines=_rows,
    read=columns_of(SchedWindow),
)
