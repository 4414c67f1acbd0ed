# SPDX-License-Identifier: BSD-2-Clause
"""File-system events by kind and reason, against sums over the rows one by one; section and panel."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analysis.measures.origin.events import EventResults
from analysis.measures.results import Results, measure
from analysis.render.text import render
from analysis.rundir.run import open_run
from analysis.sections.document import make_document
from analysis.tables.load import load_tables
from tests.analysis.measured import draw
from tests.analysis.synthetic import START_NS, Spec, collector, request

SECOND = 10**9
END_NS = START_NS + 10 * SECOND


def events() -> list[dict[str, Any]]:
    """Random events; some overlap, some reach over the edges of the recording, some have no length."""
    rng = random.Random(5)
    rows = []
    for number in range(1, 400):
        kind = rng.choice(["jbd2_commit", "writeback", "dirty_throttle", "lazy_init"])
        start = START_NS + rng.randrange(-SECOND, 10 * SECOND)
        length = 0 if kind == "lazy_init" else rng.randrange(10**8)
        why = {"jbd2_commit": ["timer", "fsync"], "writeback": ["background"]}.get(kind, ["none"])
        rows.append(
            {
                "event_id": number,
                "kind": kind,
                "why": rng.choice(why),
                "start_ns": start,
                "end_ns": start + length,
                "bytes": rng.randrange(10**6),
                "p3_ns": length // 4,
                "p4_ns": length // 2,
                "is_open": int(number % 40 == 0),
                "dev": rng.choice([0, 7 << 20 | 3, 7 << 20 | 3, 254 << 20]),
                "asker_call": rng.choice(["none", "fsync"]),
                "comm": b"jbd2/loop3-8",
            }
        )
    return rows


def inside(rows: list[dict[str, Any]], kind: str, why: str = "") -> list[tuple[int, int, dict[str, Any]]]:
    """Begin and end within the recording, of the events that it has."""
    found = []
    for row in rows:
        # conversion leaves out what ended before, or began after
        if row["dev"] == 254 << 20:  # another file system's
            continue
        if row["kind"] != kind or (why and row["why"] != why) or row["end_ns"] < START_NS:
            continue
        if row["start_ns"] <= END_NS:
            begin, end = max(row["start_ns"], START_NS), min(row["end_ns"], END_NS)
            found.append((begin, begin if row["is_open"] else end, row))
    return found


def covered(spans: list[tuple[int, int]]) -> int:
    total, until = 0, 0
    for begin, end in sorted(spans):
        total += max(end - max(begin, until), 0)
        until = max(until, end)
    return total


def write(path: Path, rows: list[dict[str, Any]] | None, **more: Any) -> Path:
    spec = Spec(block=[request(START_NS + SECOND, 8)], event=rows, **more)
    return spec.write(path)


@pytest.fixture(scope="module")
def measured(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[list[dict[str, Any]], EventResults, Results, str]:
    rows = events()
    path = write(tmp_path_factory.mktemp("events") / "r", rows)
    kinds = [
        {"kind": "jbd2_commit", "shown": True, "why": ""},
        {"kind": "jbd2_fast_commit", "shown": False, "why": "no tracepoint"},
        {"kind": "f2fs_gc", "shown": False, "why": "no tracepoint"},
    ]
    lines = "".join(json.dumps(kind) + "\n" for kind in kinds)
    (path / "raw/recorder/event_kind.jsonl").write_text(lines)
    run = open_run(path)
    tables = load_tables(run)
    results = measure(run, tables)
    assert results.origins.events is not None
    return rows, results.origins.events, results, render(make_document(run, tables, results))


def test_sums_are_those_of_the_rows(measured: tuple[Any, ...]) -> None:
    rows, found, _, _ = measured
    assert {row.kind for row in found.rows} == {"jbd2_commit", "writeback", "dirty_throttle", "lazy_init"}
    for row in [*found.rows, *found.by_why["jbd2_commit"]]:
        mine = inside(rows, row.kind, row.why)
        lengths = sorted(end - begin for begin, end, _ in mine)
        assert (row.count, row.total_ns, row.max_ns) == (len(mine), sum(lengths), lengths[-1])
        assert row.covered_ns == covered([(begin, end) for begin, end, _ in mine])
        assert row.open == sum(event["is_open"] for _, _, event in mine)
        seen = [end - begin for begin, end, event in mine if not event["is_open"]]
        assert row.mean_ns == pytest.approx(sum(seen) / len(seen))
        assert row.p99_ns == np.percentile(seen, 99, method="inverted_cdf")
        assert row.bytes == sum(event["bytes"] for _, _, event in mine)
    assert {row.why for row in found.by_why["jbd2_commit"]} == {"timer", "fsync"}


def test_phases_of_commits_are_sums_of_their_columns(measured: tuple[Any, ...]) -> None:
    rows, found, _, _ = measured
    commits = [event for _, _, event in inside(rows, "jbd2_commit")]
    phases = {row.phase: row for row in found.phases}
    assert list(phases) == ["asked before", "running", "locked", "flushing", "logging"]
    assert phases["flushing"].total_ns == sum(event["p4_ns"] for event in commits)
    assert phases["locked"].max_ns == max(event["p3_ns"] for event in commits)


def test_shares_of_bins_sum_to_the_time_under_way(measured: tuple[Any, ...]) -> None:
    rows, found, results, _ = measured
    for row in found.rows:
        lengths = results.timeline.lengths_s * 1e9
        assert (found.covered[row.kind] * lengths).sum() == pytest.approx(row.covered_ns, abs=1000)
        edges = results.timeline.edges_ns
        spans = [(begin, end) for begin, end, _ in inside(rows, row.kind)]
        for i in (0, 7, 50):
            low, high = int(edges[i]), int(edges[i + 1])
            part = covered([(max(b, low), min(e, high)) for b, e in spans if b < high and e > low])
            assert found.covered[row.kind][i] == pytest.approx(part / (high - low), abs=1e-6)


def test_section_says_what_the_kernel_does_not_show(measured: tuple[Any, ...]) -> None:
    rows, *_, text = measured
    section = text[text.index("FILE-SYSTEM EVENTS") :].split("\nSEEKS")[0]
    assert "not shown: jbd2_fast_commit (no tracepoint)" in section
    assert "f2fs_gc" not in section  # another file system's
    others = sum(row["dev"] == 254 << 20 and row["end_ns"] >= START_NS for row in rows)
    assert f"left out: {others} events of other file systems, by device (254:0 {others})" in section
    assert "asked by fsync()" in section or "longest jbd2_commit" in section
    assert all(len(line) <= 80 for line in section.splitlines())


def test_section_states_why_there_are_no_events(tmp_path: Path) -> None:
    losses = {"collectors": {"block": collector(1), "events": collector(state="off", why="no BTF")}}
    path = write(tmp_path / "r", None, losses=losses)
    run = open_run(path)
    tables = load_tables(run)
    text = render(make_document(run, tables, measure(run, tables)))
    assert "not available: no BTF" in text[text.index("FILE-SYSTEM EVENTS") :]


def test_panel_has_a_row_for_each_kind_with_a_length(tmp_path: Path) -> None:
    figure = draw(write(tmp_path / "r", events()))
    panel = next(ax for ax in figure.axes if ax.get_title(loc="left").startswith("File-system events"))
    names = [text.get_text() for text in panel.texts]
    assert sorted(names) == ["dirty_throttle", "jbd2_commit", "writeback"]
    older = draw(write(tmp_path / "older", None))
    assert not any(ax.get_title(loc="left").startswith("File-system events") for ax in older.axes)
