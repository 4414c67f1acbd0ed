# SPDX-License-Identifier: BSD-2-Clause
"""Runs of one thread whose calls take known times, bin by bin: what a dip costs, and why, is arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from analysis.findings.rule import Case
from analysis.measures.ledger import measure_ledger
from analysis.measures.results import measure
from analysis.rundir.run import open_run
from analysis.tables.load import load_tables
from tests.analysis.synthetic import BIN_NS, START_NS, Spec, collector, hist_bucket, run_json
from tests.analysis.thread_tables import STACKS, THREADS, thread_row
from tests.dips.noise import autoregressive

LOG_SPACE, DEVICE_READ, CHILD = 0, 1, 4  # stacks of thread_tables
OP_BYTES = 65536


@dataclass
class Bin:
    """What a call costs in one time bin of the thread. A bin without calls is all wait."""

    cpu_us: float = 500.0
    wait_us: float = 0.0
    stack: int = LOG_SPACE
    fsyncs: int = 0  # beside the writes, each of fsync_us
    fsync_us: float = 0.0
    is_empty: bool = False


@dataclass
class DipRun:
    """A run, and what its bins hold."""

    bins: Sequence[Bin]
    phases: list[tuple[str, int, int]] = field(default_factory=list)  # name, first bin, last bin
    longest_call_ns: int = 0  # of the call that returns behind an empty bin; 0: as long as the stop
    writes: list[int] = field(default_factory=list)
    waits_ns: list[int] = field(default_factory=list)

    def spec(self) -> Spec:
        """The run's tables."""
        calls: list[dict[str, Any]] = []
        times: list[dict[str, Any]] = []
        stopped_ns = 0
        for number, one in enumerate(self.bins):
            begin = START_NS + number * BIN_NS
            free_us = BIN_NS / 1000 - one.fsyncs * one.fsync_us
            writes = 0 if one.is_empty else int(free_us / (one.cpu_us + one.wait_us))
            cpu_ns = 0 if one.is_empty else round(writes * one.cpu_us * 1000)
            waits_ns = BIN_NS - cpu_ns
            self.writes.append(writes)
            self.waits_ns.append(waits_ns)
            for state, ns, stack in (("running", cpu_ns, -1), ("blocked", waits_ns, one.stack)):
                if ns:
                    times.append(_time(begin, state, ns, stack))
            if writes:
                longest = self.longest_call_ns or stopped_ns
                most = max(longest if stopped_ns else 0, BIN_NS // writes)
                calls.append(
                    _call(begin, "write", writes, writes * OP_BYTES, BIN_NS // writes * writes, most)
                )
            if one.fsyncs:
                ns = round(one.fsync_us * 1000)
                calls.append(_call(begin, "fsync", one.fsyncs, 0, one.fsyncs * ns, ns))
            stopped_ns = stopped_ns + BIN_NS if one.is_empty else 0
        seconds = len(self.bins) * BIN_NS / 1e9
        facts = run_json(seconds)
        facts["collect"] = ["calls", "threads"]
        facts["clock"] |= {"workload_start_ns": START_NS, "workload_end_ns": START_NS + int(seconds * 1e9)}
        return Spec(
            call=calls,
            thread_time=times,
            thread=[thread_row(row) for row in THREADS],
            stack=[{"stack_id": i, "frames": frames} for i, frames in enumerate(STACKS)],
            phases=[
                {"name": name, "start_ns": START_NS + a * BIN_NS, "end_ns": START_NS + b * BIN_NS}
                for name, a, b in self.phases
            ],
            run=facts,
            losses={
                "collectors": {"calls": collector(1000), "threads": collector(1000)},
                "complete": True,
            },
        )

    def case(self, path: Path) -> Case:
        """The run, measured."""
        return case_of(self.spec().write(path))


def case_of(path: Path) -> Case:
    """A run directory, measured."""
    run = open_run(path)
    tables = load_tables(run)
    results = measure(run, tables)
    return Case(run, tables, results, measure_ledger(results.path, results.threads, results.window.work_s))


def _time(begin: int, state: str, ns: int, stack: int) -> dict[str, Any]:
    return {
        "bin_ns": begin,
        "length_ns": BIN_NS,
        "ns": ns,
        "max_ns": ns,
        "count": 1,
        "thread": 1,
        "state": state,
        "stack_id": stack,
    }


def _call(begin: int, call: str, count: int, moved: int, total_ns: int, most_ns: int) -> dict[str, Any]:
    hist = [0] * 256
    hist[hist_bucket(total_ns // count)] = count
    return {
        "bin_ns": begin,
        "length_ns": BIN_NS,
        "call": call,
        "target": "target",
        "count": count,
        "bytes": moved,
        "over_bytes": 0,
        "total_ns": total_ns,
        "max_ns": most_ns,
        "hist": hist,
    }


def noisy(bins: int, seed: int, phi: float = 0.3, cv: float = 0.08) -> list[Bin]:
    """Bins whose calls take a random time on the CPU, alike from bin to bin by phi, and a short wait."""
    noise = 1 + cv * autoregressive(phi, bins, np.random.default_rng(seed))
    return [Bin(cpu_us=500 * float(max(factor, 0.3)), wait_us=20) for factor in noise]
