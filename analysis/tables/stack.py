# SPDX-License-Identifier: BSD-2-Clause
"""The stack table: one row is one kernel stack, frames as symbol+offset, innermost first."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from analysis.rundir.run import as_int, clean
from analysis.tables.jsonl import Lines
from analysis.tables.store import Column, Stored, schema, write_batches

COLUMNS = (
    Column("stack_id", "int", "", "number"),
    Column("frames", "frames", "", "symbol+offset, innermost first"),
)


def convert(source: Path, target: Path, table: str = "stack", columns: Sequence[Column] = COLUMNS) -> None:
    """Write the table from stack.jsonl, or from a file like it."""
    lines = Lines(source)
    rows: dict[int, dict[str, Any]] = {}
    for row in lines:
        stack_id, frames = as_int(row.get("stack_id")), row.get("frames")
        if stack_id is None or not isinstance(frames, list):
            lines.bad += 1
            continue
        rows.setdefault(stack_id, {"stack_id": stack_id, "frames": [clean(f, 200) for f in frames[:200]]})
    arrow = schema(
        table, columns, {"source": source.name, "source_bytes": lines.bytes, "bad_lines": lines.bad}
    )
    write_batches(target, arrow, [pa.RecordBatch.from_pylist(list(rows.values()), schema=arrow)])


def from_stored(stored: Stored) -> dict[int, list[str]]:
    """Frames of each stack."""
    return {
        int(row["stack_id"]): [clean(frame, 200) for frame in row["frames"] or [] if frame is not None]
        for row in stored.to_pylist()
    }
