# SPDX-License-Identifier: BSD-2-Clause
"""The stack table: kernel call paths of lock waits, holders and lock samples."""

from __future__ import annotations

from typing import Any

from analysis.rundir.run import as_int, clean
from analysis.tables.jsonl import Lines
from analysis.tables.spec import TableSpec
from analysis.tables.store import Column, Stored

FRAMES_MOST = 200
FRAME_LETTERS_MOST = 200


def frames_by_id(lines: Lines) -> list[dict[str, Any]]:
    """Rows of the table; the first line of a stack_id counts."""
    rows: dict[int, dict[str, Any]] = {}
    for row in lines:
        stack_id, frames = as_int(row.get("stack_id")), row.get("frames")
        if stack_id is None or not isinstance(frames, list):
            lines.bad += 1
            continue
        names = [clean(frame, FRAME_LETTERS_MOST) for frame in frames[:FRAMES_MOST]]
        rows.setdefault(stack_id, {"stack_id": stack_id, "frames": names})
    return list(rows.values())


def read_stacks(stored: Stored) -> dict[int, list[str]]:
    """Frames of each stack by its number, innermost first."""
    return {
        int(row["stack_id"]): [
            clean(frame, FRAME_LETTERS_MOST) for frame in row["frames"] or [] if frame is not None
        ]
        for row in stored.to_pylist()
    }


TABLE = TableSpec(
    name="stack",
    one_row="one kernel call path",
    collector="locks",
    file="raw/recorder/stack.jsonl",
    columns=(
        Column("stack_id", "int", "", "number of the call path"),
        Column("frames", "frames", "", "symbol+offset, innermost first"),
    ),
    lines=frames_by_id,
    read=read_stacks,
)
