# SPDX-License-Identifier: BSD-2-Clause
"""The phase table: one row is one phase of the workload, as the workload and the session wrote it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from analysis.run import as_int, clean
from analysis.tables.lines import read_lines
from analysis.tables.store import I64, Column, Stored, schema, write_batches

COLUMNS = (
    Column("name", "string", "", "name; the same name may come many times"),
    Column("start_ns", "int", "ns", "begin"),
    Column("end_ns", "int", "ns", "end"),
    Column("ops", "int", "operations", "operations the workload says it did"),
    Column("bytes", "int", "bytes", "bytes of file data the workload says it moved"),
)


@dataclass(frozen=True)
class Phases:
    """The phases in the order of their begin."""

    name: list[str]
    start_ns: I64
    end_ns: I64
    ops: I64
    bytes: I64


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
    }


def convert(source: Path, target: Path) -> None:
    """Write the table from phases.jsonl."""
    found, bad, size = read_lines(source)
    rows = [proper for row in found if (proper := _proper(row)) is not None]
    about = {"source": source.name, "source_bytes": size, "bad_lines": bad + len(found) - len(rows)}
    arrow = schema("phase", COLUMNS, about)
    write_batches(target, arrow, [pa.RecordBatch.from_pylist(rows, schema=arrow)])


def from_stored(stored: Stored) -> Phases:
    """The phases in the order of their begin."""
    start = stored.ints("start_ns")
    order = np.argsort(start, kind="stable")
    names = [clean(row["name"], 60) for row in stored.to_pylist()]
    return Phases(
        name=[names[i] for i in order],
        start_ns=start[order],
        end_ns=stored.ints("end_ns")[order],
        ops=stored.ints("ops")[order],
        bytes=stored.ints("bytes")[order],
    )
