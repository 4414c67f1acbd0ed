# SPDX-License-Identifier: BSD-2-Clause
"""The phase table: one row is one phase of the workload, as the workload and the session wrote it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from analysis.rundir.run import as_int, clean
from analysis.tables.jsonl import Lines
from analysis.tables.store import I64, Column, Stored, schema, write_batches

COLUMNS = (
    Column("name", "string", "", "name; the same name may come many times"),
    Column("start_ns", "int", "ns", "begin"),
    Column("end_ns", "int", "ns", "end"),
    Column("ops", "int", "operations", "operations the workload says it did"),
    Column("bytes", "int", "bytes", "bytes of file data the workload says it moved"),
    Column("from_ns", "int", "ns", "cut of the time bins before it; start_ns: there was none", if_missing=0),
    Column("until_ns", "int", "ns", "cut of the time bins after it; end_ns: there was none", if_missing=0),
)
CUT_NEAR_NS = 1_000_000_000  # farther away from the phase, it is no cut of this phase's


@dataclass(frozen=True)
class Phases:
    """The phases in the order of their begin."""

    name: list[str]
    start_ns: I64
    end_ns: I64
    ops: I64
    bytes: I64
    from_ns: I64  # between this and the start the workload did nothing; what is summed up in bins goes by it
    until_ns: I64


def _proper(row: dict[str, Any]) -> dict[str, Any] | None:
    start, end = as_int(row.get("start_ns")), as_int(row.get("end_ns"))
    if not isinstance(row.get("name"), str) or start is None or end is None or not 0 < start <= end:
        return None
    return {
        "name": clean(row["name"], 60),
        "start_ns": start,
        "end_ns": end,
        "ops": max(as_int(row.get("ops")) or 0, 0),
        "bytes": max(as_int(row.get("bytes")) or 0, 0),
        **_cuts(row, start, end),
    }


def _cuts(row: dict[str, Any], start: int, end: int) -> dict[str, int]:
    """The cuts around a phase; its own begin and end, where there are none that can be true."""
    first, last = as_int(row.get("from_ns")), as_int(row.get("until_ns"))
    if first is None or last is None or not start - CUT_NEAR_NS <= first <= start:
        return {"from_ns": start, "until_ns": end}
    return (
        {"from_ns": first, "until_ns": last}
        if end <= last <= end + CUT_NEAR_NS
        else {"from_ns": start, "until_ns": end}
    )


def convert(source: Path, target: Path) -> None:
    """Write the table from phases.jsonl."""
    lines = Lines(source)
    rows = []
    for row in lines:
        proper = _proper(row)
        if proper is None:
            lines.bad += 1
        else:
            rows.append(proper)
    about = {"source": source.name, "source_bytes": lines.bytes, "bad_lines": lines.bad}
    arrow = schema("phase", COLUMNS, about)
    write_batches(target, arrow, [pa.RecordBatch.from_pylist(rows, schema=arrow)])


def from_stored(stored: Stored) -> Phases:
    """The phases in the order of their begin."""
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
