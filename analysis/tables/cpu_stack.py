# SPDX-License-Identifier: BSD-2-Clause
"""The cpu_stack table: call paths of perf samples, user and kernel."""

from __future__ import annotations

from analysis.tables import stack
from analysis.tables.spec import TableSpec
from analysis.tables.store import Column

TABLE = TableSpec(
    name="cpu_stack",
    one_row="one call path of the table cpu_sample",
    collector="perf",
    file="raw/perf/cpu_stack.jsonl",
    columns=(
        Column("stack_id", "int", "", "number of the call path"),
        Column("frames", "frames", "", "functions, innermost first; kernel functions end in _[k]"),
    ),
    lines=stack.frames_by_id,
    read=stack.read_stacks,
)
