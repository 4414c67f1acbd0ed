# SPDX-License-Identifier: BSD-2-Clause
"""CPU samples with their call paths, as perf samples. Those of idle CPUs are left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from analysis.exporters.perfetto.trace_file import (
    CALLSTACKS,
    FRAMES,
    FUNCTION_NAMES,
    LOT,
    MAPPING_PATHS,
    MAPPINGS,
    PERF_SAMPLE,
    SEQUENCE,
    SEQUENCE_ID,
    TIMESTAMP,
    TraceFile,
)
from analysis.exporters.perfetto.wire import field, message, number
from analysis.tables.store import Stored

MODES = {"kernel": 1, "user": 2}
KERNEL_MARK = "_[k]"
ANY_FRAME = "call path not kept"
_OF_SEQUENCE = field(SEQUENCE, SEQUENCE_ID)


def write_samples(trace: TraceFile, stored: Stored, stacks: Mapping[int, Sequence[str]]) -> tuple[int, int]:
    """Write the table cpu_sample; returns the samples written, and those of idle CPUs."""
    mode = stored.categorical("mode")
    rows = np.flatnonzero(~mode.is_("idle"))
    stack_id = stored.ints("stack_id")[rows]
    keys, code = np.unique(stack_id, return_inverse=True)
    iids = np.array([_callstack(trace, stacks.get(key)) for key in keys.tolist()] or [0], dtype=np.int64)
    modes = np.array([MODES.get(label, 0) for label in mode.labels] or [0], dtype=np.int64)
    t, cpu = stored.ints("t_ns")[rows], stored.ints("cpu")[rows]
    pid, tid = stored.ints("pid")[rows], stored.ints("tid")[rows]
    trace.flush_names()
    for at in range(0, rows.size, LOT):
        lot = slice(at, at + LOT)
        content = [*number(1, cpu[lot]), *number(2, pid[lot]), *number(3, tid[lot])]
        content += [*number(4, iids[code[lot]]), *number(5, modes[mode.codes[rows[lot]]])]
        parts = [*number(TIMESTAMP, t[lot]), _OF_SEQUENCE, *message(PERF_SAMPLE, content)]
        trace.packets(t[lot].size, parts)
    return int(rows.size), stored.rows - int(rows.size)


def _callstack(trace: TraceFile, frames: Sequence[str] | None) -> int:
    """Number of a call path, the outermost frame first."""
    found = [_frame(trace, frame) for frame in reversed(frames or [ANY_FRAME])]
    entry = b"".join(field(2, frame) for frame in found)
    return trace.intern(CALLSTACKS, repr(found), entry)


def _frame(trace: TraceFile, name: str) -> int:
    where = "kernel" if name.endswith(KERNEL_MARK) else "user"
    path = trace.intern(MAPPING_PATHS, where)
    mapping = trace.intern(MAPPINGS, where, field(4, 0) + field(5, 1 << 40) + field(7, path))
    function = trace.intern(FUNCTION_NAMES, name.removesuffix(KERNEL_MARK))
    # frames of one mapping are told apart by their place in it: the number of the function stands for it
    place = field(4, function)
    return trace.intern(FRAMES, name, field(2, function) + field(3, mapping) + place)
