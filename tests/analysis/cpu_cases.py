# SPDX-License-Identifier: BSD-2-Clause
"""Cases for findings on CPUs and on runs as a whole: tables written as a recorder does, and a path by hand.

The workload (thread 1) lasts 10 s on 2 CPUs. Thread 5 is the recorder's, thread 6 a program outside ("hog").
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from analysis.causes.classify import Waited
from analysis.causes.roles import WORKLOAD
from analysis.findings.rule import Case
from analysis.measures.common.timeline import F64
from analysis.measures.critical_path.pieces import Kind
from analysis.measures.critical_path.results import Coverage, NoPath, PathResults
from analysis.measures.critical_path.share import OwnWaits, Share
from analysis.measures.ledger import measure_ledger
from analysis.measures.results import measure
from analysis.rundir.run import open_run
from analysis.tables.load import load_tables
from tests.analysis.synthetic import BIN_NS, START_NS, Spec, run_json
from tests.analysis.thread_tables import thread_row

WALL_S = 10.0
BINS = 100
FIRST = START_NS + BIN_NS // 2  # of the workload
PROCESSES = {1: ("app", "workload"), 3: ("jbd2/loop3-8", "kernel"), 5: ("recorder", "recorder")}
OTHERS = {6: ("hog", "other"), 7: ("ksoftirqd/0", "kernel")}
STACKS = [
    {"stack_id": 0, "frames": ["io_schedule+0x1", "folio_wait_bit_common+0x2", "filemap_get_pages+0x3"]}
]


def times(
    thread: int, state: str, seconds: float, samples: Mapping[str, int] | None = None, **more: Any
) -> Any:
    """Time of a thread in one state, spread evenly over the run. samples: of all rows together."""
    rows = [
        {
            "bin_ns": START_NS + i * BIN_NS,
            "ns": round(seconds * 1e9 / BINS),
            "max_ns": round(seconds * 1e9 / BINS),
            "count": 1,
            "thread": thread,
            "state": state,
            **more,
        }
        for i in range(BINS)
    ]
    for name, whole in (samples or {}).items():
        for i, row in enumerate(rows):
            row[name] = whole * (i + 1) // BINS - whole * i // BINS
    return rows


def on_cpu(thread: int, kernel: int, user: int = 0, spin: int = 0) -> Any:
    """Time on a CPU with as many samples, of 1 ms, in the kernel, in the program and spinning."""
    whole = kernel + user + spin
    counts = {"samples": whole, "samples_user": user, "samples_spin": spin}
    return times(thread, "running", whole / 1000, counts)


def calls(call: str, count: int, seconds: float, nbytes: int = 0, **more: Any) -> Any:
    """Calls on the tested file system, spread evenly over the run."""
    return [
        {
            "bin_ns": START_NS + i * BIN_NS,
            "call": call,
            "target": "target",
            "count": count // BINS,
            "bytes": nbytes // BINS,
            "total_ns": round(seconds * 1e9 / BINS),
            "max_ns": round(seconds * 1e9 / max(count, 1)),
            **more,
        }
        for i in range(BINS)
    ]


def idle(cpus: float) -> Any:
    """Samples of the counters: so many CPUs idle."""
    return [
        {"t_ns": START_NS + i * BIN_NS, "name": name, "value": round(i * BIN_NS * share)}
        for i in range(BINS + 2)
        for name, share in (("cpu.idle_ns", cpus), ("cpu.iowait_ns", 0.0))
    ]


def spec_of(*parts: Any, **tables: Any) -> Spec:
    """A run of thread_time rows, and other tables."""
    spec = Spec(run=run_json(WALL_S + 0.1), **tables)
    spec.thread_time = [row for part in parts for row in part]
    spec.thread = [
        thread_row({"thread": number, "tid": 100 + number, "comm": comm, "role": role})
        for number, (comm, role) in (PROCESSES | OTHERS).items()
    ]
    spec.stack = list(STACKS)
    spec.run["words"] = {"FS": "ext4", "WL": "compilebench", "OUT": "/tmp/x"}
    return spec


def share(
    seconds: float,
    kind: Kind = Kind.CPU,
    role: str = WORKLOAD,
    name: str = "app",
    own: str = "on a CPU",
    **more: Any,
) -> Share:
    """A share of the path."""
    fields: dict[str, Any] = {
        "phase": "",
        "own": Waited(own, ""),
        "is_own": own in ("on a CPU", "ready"),
        "kind": kind,
        "role": role,
        "name": name,
        "cause": Waited(own, ""),
        "request": "",
        "is_below": False,
        "event": ("", ""),
        "ns": round(seconds * 1e9),
        "weak_ns": 0,
        "pieces": 100,
    }
    return Share(**(fields | more))


def ready(seconds: float, role: str, name: str, **more: Any) -> Share:
    """The workload is ready to run while another thread has the CPU."""
    return share(seconds, Kind.READY, role, name, "ready", **more)


def path_of(
    shares: Sequence[Share],
    over_time: Mapping[str, F64] | None = None,
    own_waits: Sequence[OwnWaits] = (),
    roots: int = 1,
) -> PathResults:
    """A path of these shares."""
    total = sum(one.ns for one in shares)
    return PathResults(
        is_one=roots == 1,
        name="app",
        names=(),
        roots=roots,
        at_work=float(roots),
        wall_ns=total // roots,
        total_ns=total,
        shares=list(shares),
        own_waits=list(own_waits),
        over_time=over_time or {},
        events=[],
        requests=[],
        files=[],
        coverage=Coverage(0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
        pieces=len(shares),
        rows=None,
    )


def case_of(folder: Path, spec: Spec, path: PathResults | None = None) -> Case:
    """What a rule looks at. path None: no path was recorded."""
    run = open_run(spec.write(folder))
    tables = load_tables(run)
    results = replace(measure(run, tables), path=path or NoPath(""))
    return Case(run, tables, results, measure_ledger(results.path, results.threads, results.window.work_s))
