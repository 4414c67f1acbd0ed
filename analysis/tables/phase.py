# SPDX-License-Identifier: BSD-2-Clause
"""The phase table: start, end and work of each phase, as the workload and the session wrote them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from analysis.rundir.run import as_int, clean
from analysis.tables import rows as table_rows
from analysis.tables.jsonl import Lines
from analysis.tables.row_time import RowTime
from analysis.tables.spec import TableSpec
from analysis.tables.store import I64, Column, Stored

CUT_NEAR_NS = 1_000_000_000  # a cut of the time bins farther from the phase is not believed


@dataclass(frozen=True)
class Phases:
    """The phases in the order of their start."""

    name: list[str]
    start_ns: I64
    end_ns: I64
    ops: I64
    bytes: I64
    # Time bins are cut here. From from_ns to the start, and from the end to until_ns, the workload was idle:
    # binned tables are summed over these bounds.
    from_ns: I64
    until_ns: I64


def _row(line: dict[str, Any]) -> dict[str, Any] | None:
    start, end = as_int(line.get("start_ns")), as_int(line.get("end_ns"))
    if not isinstance(line.get("name"), str) or start is None or end is None or not 0 < start <= end:
        return None
    return {
        "name": clean(line["name"], 60),
        "start_ns": start,
        "end_ns": end,
        "ops": max(as_int(line.get("ops")) or 0, 0),
        "bytes": max(as_int(line.get("bytes")) or 0, 0),
        **_cuts(line, start, end),
    }


def _cuts(line: dict[str, Any], start: int, end: int) -> dict[str, int]:
    """The cuts of the time bins around a phase; its start and end where the stated cuts are impossible."""
    first, last = as_int(line.get("from_ns")), as_int(line.get("until_ns"))
    if first is None or last is None or not start - CUT_NEAR_NS <= first <= start:
        return {"from_ns": start, "until_ns": end}
    return (
        {"from_ns": first, "until_ns": last}
        if end <= last <= end + CUT_NEAR_NS
        else {"from_ns": start, "until_ns": end}
    )


def _rows(lines: Lines) -> list[dict[str, Any]]:
    rows = []
    for line in lines:
        row = _row(line)
        if row is None:
            lines.bad += 1
        else:
            rows.append(row)
    return rows


def _read(stored: Stored) -> Phases:
    """The phases in the order of their start."""
    start, end = stored.ints("start_ns"), stored.ints("end_ns")
    first, last = stored.ints("from_ns"), stored.ints("until_ns")
    order = np.argsort(start, kind="stable")
    names = [clean(row["name"], 60) for row in stored.to_pylist()]
    return Phases(
        name=[names[i] for i in order],
        start_ns=start[order],
        end_ns=end[order],
        ops=stored.ints("ops")[order],
        bytes=stored.ints("bytes")[order],
        from_ns=np.where(first > 0, first, start)[order],
        until_ns=np.where(last > 0, last, end)[order],
    )


def _take(phases: Phases, rows: table_rows.Rows) -> Phases:
    kept = np.arange(len(phases.name))[rows]
    return replace(table_rows.take(phases, rows), name=[phases.name[i] for i in kept])


TABLE = TableSpec(
    name="phase",
    one_row="one phase of the workload",
    file="raw/phases.jsonl",
    time=RowTime("span", "start_ns", "end_ns", is_cut=False),
    columns=(
        Column("name", "string", "", "name; several phases may have the same"),
        Column("start_ns", "int", "ns", "start of the phase"),
        Column("end_ns", "int", "ns", "end of the phase"),
        Column("ops", "int", "operations", "operations, as the workload counted them"),
        Column("bytes", "int", "bytes", "bytes of file data moved, as the workload counted them"),
        Column("from_ns", "int", "ns", "cut of the time bins before start_ns, or start_ns", if_missing=0),
        Column("until_ns", "int", "ns", "cut of the time bins after end_ns, or end_ns", if_missing=0),
    ),
    lines=_rows,
    read=_read,
    take=_take,
)
