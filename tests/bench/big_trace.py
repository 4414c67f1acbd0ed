# SPDX-License-Identifier: BSD-2-Clause
"""Write a block trace of millions of events in blktrace's format: one file per CPU, known requests."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import IO

import numpy as np
import numpy.typing as npt

# struct blk_io_trace of linux/blktrace_api.h
EVENT = np.dtype(
    [("magic", "<u4"), ("sequence", "<u4"), ("time", "<u8"), ("sector", "<u8"), ("bytes", "<u4"),
     ("action", "<u4"), ("pid", "<u4"), ("device", "<u4"), ("cpu", "<u4"), ("error", "<u2"),
     ("pdu_len", "<u2")]
)  # fmt: skip
READ, WRITE, QUEUE, ISSUE, COMPLETE, FS = (1 << 16 + bit for bit in (0, 1, 4, 6, 7, 8))
# events of a request: action and category, and ns after queueing
STEPS = ((1, QUEUE, 0), (4, QUEUE, 700), (12, QUEUE, 1500), (7, ISSUE | FS, 2600), (8, COMPLETE | FS, 0))
EVENTS_A_REQUEST = len(STEPS)
CPUS = 2
GAP_NS = 5_000
PART = 1 << 19


def write_trace(folder: Path, name: str, requests: int, device: int = 8 << 20) -> int:
    """Write NAME.blktrace.N: random 4 KiB reads and writes, about 16 in flight; return the event count."""
    random = np.random.default_rng(1)
    files = [(folder / f"{name}.blktrace.{cpu}").open("wb") for cpu in range(CPUS)]
    sequence = [1] * CPUS
    left = np.empty(0, dtype=EVENT)
    for first in range(0, requests, PART):
        count = min(PART, requests - first)
        queued = 10**12 + (first + np.arange(count, dtype=np.int64)) * GAP_NS
        part = np.zeros((count, EVENTS_A_REQUEST), dtype=EVENT)
        part["magic"] = 0x65617407
        part["device"] = device
        part["sector"] = random.integers(0, 1 << 27, (count, 1)) * 8
        part["bytes"] = 4096
        part["pid"] = 4000 + random.integers(0, 4, (count, 1))
        part["cpu"] = random.integers(0, CPUS, (count, 1))
        direction = np.where(random.random(count) < 0.7, READ, WRITE)
        for i, (action, category, after_ns) in enumerate(STEPS):
            part["action"][:, i] = action | category | direction
            part["time"][:, i] = queued + after_ns
        part["time"][:, -1] = queued + 2600 + random.integers(20_000, 140_000, count)
        events = np.concatenate([left, part.reshape(-1)])
        events = events[np.argsort(events["time"], kind="stable")]
        # Events that may interleave with the next part wait for it.
        done = int(np.searchsorted(events["time"], queued[-1])) if first + count < requests else events.size
        left = events[done:]
        _write(files, sequence, events[:done])
    for file in files:
        file.close()
    return requests * EVENTS_A_REQUEST


def _write(files: Sequence[IO[bytes]], sequence: list[int], events: npt.NDArray[np.void]) -> None:
    for cpu, file in enumerate(files):
        own = events[events["cpu"] == cpu].copy()
        own["sequence"] = sequence[cpu] + np.arange(own.size)
        sequence[cpu] += own.size
        own.tofile(file)
