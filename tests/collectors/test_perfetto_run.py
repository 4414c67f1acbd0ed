# SPDX-License-Identifier: BSD-2-Clause
"""A real run as a Perfetto trace, read by Perfetto's own trace processor, against its tables."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from analysis.export import make_export
from tests.analysis.thread_states import State, rows_of, rows_of_file, states
from tests.analysis.trace_processor import ask, needs_trace_processor
from tests.collectors.recording import needs_btf
from tests.collectors.sessions import finished
from tests.marks import needs_root

pytestmark = [needs_root, needs_btf, needs_trace_processor]
WORK = (
    "for i in 1 2 3 4; do"
    " (for j in $(seq 30); do dd if=/dev/zero of=f$i-$j bs=16k count=4 conv=fsync; done) &"
    " done; wait; sync; cat f* > all; rm f*"
)
COLLECT = "block locks counters threads sched events perf"
MOST_TID = 1 << 22
TRACE = "export/perfetto/trace.pftrace"
# Plain reads, joined here: the trace processor's own joins take longer than all else.
THREADS = "select utid, tid from thread"
STATES = "select utid, ts, dur, state, waker_utid, irq_context from thread_state order by utid, ts, id"
TRACKS = "select id, name, parent_id from track"
SLICES = """
    select track_id, name, ts, dur, extract_arg(arg_set_id, 'debug.bytes'),
        extract_arg(arg_set_id, 'debug.sector'), extract_arg(arg_set_id, 'debug.inode'),
        coalesce(extract_arg(arg_set_id, 'debug.sequence'), 0)
    from slice
"""
COUNTERS = "select track_id, ts, cast(value as int) from counter"
SAMPLES = "select ts, utid, cpu, callsite_id is not null from perf_sample"
EVENTS_TRACK = "file system, writeback, memory"
Rows = list[list[Any]]


@dataclass(frozen=True)
class Asked:
    """What the trace processor says. Slices and counters by the names of their track and the one above."""

    tid: dict[int, int]
    states: Rows
    slices: list[tuple[str, str, list[Any]]]
    counters: list[tuple[str, str, list[Any]]]
    samples: Rows


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of four writers that wait for each other's commits, and its trace."""
    path = tmp_path_factory.mktemp("perfetto") / "run"
    finished(path, FS="ext4", SIZE="128M", CMD=WORK, COLLECT=COLLECT).run.report()
    make_export(path, "perfetto", None)
    return path


@pytest.fixture(scope="module")
def asked(run: Path) -> Asked:
    queries = (THREADS, STATES, TRACKS, SLICES, COUNTERS, SAMPLES)
    threads, states_, tracks, slices, counters, samples = ask(run / TRACE, *queries)
    name = {number: name for number, name, _ in tracks}
    above = {number: name.get(parent, "") for number, _, parent in tracks}

    def named(rows: Rows) -> list[tuple[str, str, list[Any]]]:
        return [(above[row[0]], name[row[0]], row[1:]) for row in rows]

    return Asked({row[0]: row[1] for row in threads}, states_, named(slices), named(counters), samples)


def test_perfetto_thread_states_equal_the_tables(run: Path, asked: Asked) -> None:
    """Every state of every logged thread, with its begin, length, and the thread that woke it."""
    start_ns = int(json.loads((run / "run.json").read_text())["clock"]["record_start_ns"])
    found: dict[int, list[State]] = {}
    for utid, at_ns, dur_ns, name, waker_utid, in_irq in asked.states:
        waker = asked.tid.get(waker_utid, 0)
        is_thread = 0 < waker <= MOST_TID and not in_irq
        found.setdefault(asked.tid[utid], []).append(State(at_ns, dur_ns, name, waker if is_thread else None))
    expected = states(run, start_ns)
    assert len(expected) > 20
    for tid, rows in expected.items():
        assert found[tid] == rows, tid
    assert {row.name for rows in expected.values() for row in rows} >= {"Running", "R", "S", "D"}


def test_perfetto_requests_equal_the_table_block(run: Path, asked: Asked) -> None:
    found = Counter((name, *row[:6]) for above, name, row in asked.slices if above.startswith("requests: "))
    expected: Counter[tuple[Any, ...]] = Counter()
    for row in rows_of(run, "block"):
        what = (row["op"], row["issue_ns"])
        where = (row["bytes"], row["sector"], row["ino"])
        if row["complete_ns"]:
            expected[(row["class"], *what, row["complete_ns"] - row["issue_ns"], *where)] += 1
        else:
            expected[("completion not seen", *what, 0, *where)] += 1
    assert sum(expected.values()) > 100
    assert found == expected


def test_perfetto_events_equal_the_table_event(run: Path, asked: Asked) -> None:
    rows = rows_of(run, "event")
    expected = Counter(
        (row["kind"], row["start_ns"], row["end_ns"] - row["start_ns"], row["sequence"]) for row in rows
    )
    assert "jbd2_commit" in {row["kind"] for row in rows}
    found = Counter(
        (name, row[1], row[2], row[6])
        for above, name, row in asked.slices
        if above == EVENTS_TRACK and not name.endswith(": its phases")
    )
    assert found == expected


def test_perfetto_counters_equal_the_tables(run: Path, asked: Asked) -> None:
    sampled = Counter(
        (name.split(" ")[0], *row) for above, name, row in asked.counters if above == "system counters"
    )
    assert sampled == Counter((row["name"], row["t_ns"], row["value"]) for row in rows_of(run, "counter"))
    waited_ns = sum(row[1] for above, _, row in asked.counters if above.startswith("lock waits"))
    assert waited_ns == sum(row["spin_ns"] + row["sleep_ns"] for row in rows_of(run, "lock_wait")) > 0


def test_perfetto_cpu_samples_equal_the_table_cpu_sample(run: Path, asked: Asked) -> None:
    rows = [row for row in rows_of(run, "cpu_sample") if row["mode"] != "idle"]
    assert rows
    assert Counter((row[0], asked.tid[row[1]], row[2], bool(row[3])) for row in asked.samples) == Counter(
        (row["t_ns"], row["tid"], row["cpu"], True) for row in rows
    )


def test_perfetto_critical_path_equals_ours_where_it_goes_on(run: Path, asked: Asked) -> None:
    """Perfetto's path ends at an interrupt, in the thread that slept. Where it names another, ours does."""
    pieces: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for row in rows_of_file(run / "critical_path.parquet"):
        pieces[row["root"]].append(row)
    tid = {row["thread"]: row["tid"] for row in rows_of(run, "thread")}
    utid = {number: utid for utid, number in asked.tid.items()}
    roots = sorted(pieces, key=lambda root: len(pieces[root]))[-8:]
    spans = {
        root: (min(row["start_ns"] for row in pieces[root]), max(row["end_ns"] for row in pieces[root]))
        for root in roots
    }
    queries = [
        "select ts, dur, utid"
        f" from _thread_executing_span_critical_path({utid[tid[root]]}, {start}, {end - start})"
        for root, (start, end) in spans.items()
    ]
    _, *paths = ask(run / TRACE, "include perfetto module sched.thread_executing_span", *queries)
    same_ns = other_ns = 0
    for root, path in zip(roots, paths, strict=True):
        for at_ns, dur_ns, other in path:
            if asked.tid[other] == tid[root]:
                continue
            for row in pieces[root]:
                both_ns = min(row["end_ns"], at_ns + dur_ns) - max(row["start_ns"], at_ns)
                if both_ns > 0 and tid.get(row["thread"]) == asked.tid[other]:
                    same_ns += both_ns
                elif both_ns > 0:
                    other_ns += both_ns
    assert same_ns > 50_000
    assert other_ns <= 0.01 * same_ns  # where a switch was lost
