# SPDX-License-Identifier: BSD-2-Clause
"""Requests by cause, and what the workload waited for, against sums over the rows one by one."""

from __future__ import annotations

import random
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analysis.measures.origin.requests import Whys
from analysis.measures.origin.waited import WAITED
from analysis.measures.results import measure
from analysis.render.text import render
from analysis.rundir.run import open_run
from analysis.sections.document import make_document
from analysis.tables.load import load_tables
from tests.analysis.synthetic import START_NS, Spec, collector, request

SECOND = 10**9
EVENTS: list[dict[str, Any]] = [
    # asked for by fsync(): waited for; the checkpoint within it, too
    {"event_id": 1, "kind": "jbd2_commit", "why": "fsync", "asker_call": "fsync"},
    {"event_id": 2, "kind": "jbd2_checkpoint", "why": "space", "parent_id": 1},
    # of the timer: not
    {"event_id": 3, "kind": "jbd2_commit", "why": "timer"},
    # a background round that a write() noticed was due: only while a writer is throttled
    {"event_id": 4, "kind": "writeback", "why": "background", "asker_call": "write"},
    {"event_id": 5, "kind": "dirty_throttle", "asker_call": "write", "from_s": 2.0, "to_s": 3.0},
    {"event_id": 6, "kind": "dirty_throttle", "asker_call": "write", "from_s": 2.5, "to_s": 4.0},
    {"event_id": 7, "kind": "dirty_throttle", "from_s": 6.0, "to_s": 7.0},  # of another program
]


def timed(event: dict[str, Any]) -> dict[str, Any]:
    begin, end = event.get("from_s", 1.0), event.get("to_s", 1.5)
    row = {key: value for key, value in event.items() if not key.endswith("_s")}
    return {**row, "start_ns": START_NS + int(begin * SECOND), "end_ns": START_NS + int(end * SECOND)}


def random_requests(count: int) -> list[dict[str, Any]]:
    rng = random.Random(7)
    rows = []
    for i in range(count):
        submitter = rng.choice(["workload", "kernel_thread", "other"])
        event = rng.choice([0, 0, 1, 2, 3, 4])
        more: dict[str, Any] = {
            "op": rng.choice(["read", "write", "write", "discard"]),
            "class": rng.choice(["data", "metadata", "journal", "unknown"]),
            "submitter": submitter,
            "event_id": event,
            "event_kind": "none" if not event else EVENTS[event - 1]["kind"],
            "call": rng.choice(["fsync", "write", "read", "mkdir", "none"])
            if submitter == "workload"
            else "none",
            "call_state": "open",
            "flags": rng.choice([0, 16, 17]),
            "waited": rng.choice(["no", "no", "completion"]),
            "complete_ns": START_NS + rng.randrange(1, 9 * SECOND),
        }
        issue = max(more["complete_ns"] - rng.randrange(1, 10**8), START_NS)
        rows.append(request(issue, 8 * i, 512 * rng.randrange(0, 300), **more))
    return sorted(rows, key=lambda row: int(row["complete_ns"]))


PHASES: list[dict[str, Any]] = [
    {"name": "a", "start_ns": START_NS + SECOND, "end_ns": START_NS + 3 * SECOND},
    {"name": "b", "start_ns": START_NS + 3 * SECOND, "end_ns": START_NS + 4 * SECOND},
    {"name": "a", "start_ns": START_NS + 5 * SECOND, "end_ns": START_NS + 6 * SECOND},
    {"name": "c", "start_ns": START_NS + 5 * SECOND + 100, "end_ns": START_NS + 5 * SECOND + 10**8},
    {"name": "no time", "start_ns": START_NS + 2 * SECOND, "end_ns": START_NS + 2 * SECOND},
]


def waited_one_by_one(row: dict[str, Any]) -> str:
    if row["waited"] == "completion":
        return "completion"
    if row["event_id"] in (1, 2):
        return "event"
    if row["submitter"] == "workload" and row["op"] == "write" and row["call"] == "fsync":
        return "event"
    is_needed = row["op"] == "read" and row["call"] != "none" and not row["flags"] & 16
    if row["submitter"] == "workload" and is_needed:
        return "event"
    at_s = (row["complete_ns"] - START_NS) / SECOND
    if row["submitter"] == "other" or row["op"] == "discard":  # not the flusher's
        return "not seen"
    return "event" if row["event_id"] == 4 and 2.0 <= at_s <= 4.0 else "not seen"


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[dict[str, Any]], Whys, list[str], str]:
    """The rows, the results, the rows' causes and the report's text."""
    path = tmp_path_factory.mktemp("whys") / "r"
    rows = random_requests(4000)
    spec = Spec(block=rows, event=[timed(event) for event in EVENTS], function=["wb_workfn"], phases=PHASES)
    run = open_run(spec.write(path))
    tables = load_tables(run)
    assert tables.block is not None
    column = tables.block.read_categorical("why")
    assert column is not None
    results = measure(run, tables)
    whys = results.origins.whys
    assert whys is not None
    causes = [column.labels[code] for code in column.codes]
    return rows, whys, causes, render(make_document(run, tables, results))


def test_each_request_and_byte_is_in_one_row(measured: tuple[Any, ...]) -> None:
    rows, whys, causes, _ = measured
    sums: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for row, why in zip(rows, causes, strict=True):
        at = {"read": 1, "write": 2}.get(row["op"], 3)
        sums[why][0] += 1
        sums[why][at] += row["bytes"]
    found = {r.why: [r.requests, r.read_bytes, r.write_bytes, r.other_bytes] for r in whys.rows}
    assert found == dict(sums) and len(found) > 8
    assert (whys.requests, whys.bytes) == (len(rows), sum(row["bytes"] for row in rows))
    assert [row.bytes for row in whys.rows] == sorted((row.bytes for row in whys.rows), reverse=True)


def test_waits_are_those_of_trying_each_request(measured: tuple[Any, ...]) -> None:
    rows, whys, causes, _ = measured
    counts: dict[tuple[str, str], int] = defaultdict(int)
    for row, why in zip(rows, causes, strict=True):
        counts[why, waited_one_by_one(row)] += 1
    for found in whys.rows:
        assert dict(zip(WAITED, found.waited, strict=True)) == {w: counts[found.why, w] for w in WAITED}
    assert sum(n for (_, waited), n in counts.items() if waited == "event") > 100


def test_latency_and_classes_are_those_of_the_cause(measured: tuple[Any, ...]) -> None:
    rows, whys, causes, _ = measured
    for found in whys.rows:
        mine = [row for row, why in zip(rows, causes, strict=True) if why == found.why]
        q2c = np.sort([row["complete_ns"] - row["queue_ns"] for row in mine])
        assert found.mean_ns == pytest.approx(q2c.mean())
        assert found.p99_ns == q2c[max(int(np.ceil(0.99 * q2c.size)), 1) - 1]
        by_class = [
            sum(row["bytes"] for row in mine if row["op"] == "write" and row["class"] == class_)
            for class_ in ("data", "metadata", "journal", "unknown")
        ]
        assert list(found.written_by_class)[:4] == by_class


def test_phases_have_what_completed_in_them(measured: tuple[Any, ...]) -> None:
    rows, whys, causes, _ = measured
    sums: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for row, why in zip(rows, causes, strict=True):
        at = row["complete_ns"]
        inside = {p["name"] for p in PHASES if p["start_ns"] <= at < p["end_ns"]} or {"(no phase)"}
        for name in inside:
            sums[name, why][0] += 1
            sums[name, why][1] += row["bytes"] if row["op"] == "read" else 0
            sums[name, why][2] += row["bytes"] if row["op"] == "write" else 0
            sums[name, why][3] += waited_one_by_one(row) != "not seen"
    found = {(r.phase, r.why): [r.requests, r.read_bytes, r.write_bytes, r.waited] for r in whys.by_phase}
    assert found == dict(sums)
    assert {phase for phase, _ in found} == {"a", "b", "c", "(no phase)"}


def test_section_names_what_no_rule_fits(measured: tuple[Any, ...]) -> None:
    _, whys, causes, text = measured
    assert "WHY REQUESTS WERE SENT" in text
    unknown = causes.count("unknown")
    assert unknown and f"{whys.unknown[0].comm}: {unknown:,} requests" in " ".join(text.split())
    section = text[text.index("WHY REQUESTS") :].split("\n\n", 1)[0]
    assert all(len(line) <= 80 for line in section.splitlines())


def test_older_run_has_no_such_section(tmp_path: Path) -> None:
    run = open_run(Spec(block=[request(START_NS + 10**6, 8)]).write(tmp_path / "r"))
    tables = load_tables(run)
    results = measure(run, tables)
    assert results.origins.whys is None and results.origins.written is None
    assert "WHY REQUESTS" not in render(make_document(run, tables, results))


@pytest.mark.parametrize("count", [0, 1])
def test_where_the_kernel_tells_no_call_waits_are_unknown(tmp_path: Path, count: int) -> None:
    """The recorder's note of a kernel that keeps no data with a task; other kernels have a zero there."""
    note = "calls and waits of tasks: not shown by this kernel"
    unknown = {"call": "none", "call_state": "unknown", "event_kind": "none"}
    row = request(START_NS + 10**6, 8, 4096, op="write", submitter="workload", **unknown)
    spec = Spec(block=[row])
    spec.run["collect"] = ["block", "calls"]
    sources = {"block": collector(1, notes={note: count}), "calls": collector(0)}
    spec.losses = {"collectors": sources, "complete": True}
    run = open_run(spec.write(tmp_path / "r"))
    tables = load_tables(run)
    text = render(make_document(run, tables, measure(run, tables)))
    words = " ".join(text[text.index("WHY REQUESTS") :].split("\n[", 1)[0].split())
    waited = "- -" if count else "0.0 0.0"
    assert f"task, call unknown 1 - 4.10 kB {waited}" in words
    assert (f"what the workload waited for, are not known: {note}" in words) is bool(count)


def test_without_calls_nobody_is_said_not_to_wait(tmp_path: Path) -> None:
    """COLLECT=block: the block layer does not know the workload's tasks, so it sees no wait."""
    row = request(START_NS + 10**6, 8, 4096, op="write", event_kind="jbd2_commit", event_id=1, comm=b"jbd2/x")
    zeroed = request(START_NS + 10**7, 8, 8192, op="write_zeroes", event_kind="lazy_init", event_id=2)
    spec = Spec(block=[{**row, "call": "none", "class": "journal"}, {**zeroed, "call": "none"}])
    spec.run["collect"] = ["block"]
    spec.losses = {"collectors": {"block": collector(2)}, "complete": True}
    run = open_run(spec.write(tmp_path / "r"))
    tables = load_tables(run)
    text = render(make_document(run, tables, measure(run, tables)))
    section = text[text.index("WHY REQUESTS") :].split("\n[", 1)[0]
    words = " ".join(section.split())
    assert "commit, unknown 1 - 4.10 kB - - " in words  # neither read, nor known to be waited for
    assert "what the workload waited for, are not known: calls was not asked for" in words
    assert "events and their reasons are not known: events was not asked for" in words
    # bytes that are neither read nor written are shown, too
    assert "lazy init - 0.0 8.19 kB" in words


def test_foreign_recording_of_signed_numbers_has_no_causes(tmp_path: Path) -> None:
    """The codes of causes are indices: a stranger's recording may have any numbers."""
    row = request(START_NS + 10**6, 8, event_kind="readahead", event_id=1)
    path = Spec(block=[{**row, "call": "read"}], event=[timed(EVENTS[0])]).write(tmp_path / "r")
    for name in ("block", "event"):
        file = path / f"raw/recorder/{name}.rec"
        content = file.read_bytes()
        assert b'"u8"' in content and b'"u64"' in content
        file.write_bytes(content.replace(b'"u8"', b'"i8"').replace(b'"u64"', b'"i64"'))
    run = open_run(path)
    tables = load_tables(run)
    assert tables.block is not None and tables.block.rows == 1
    assert measure(run, tables).origins.whys is None
