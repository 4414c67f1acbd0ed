# SPDX-License-Identifier: BSD-2-Clause
"""The seek rule, at its edges and against one row at a time."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.measures.block import seeks
from analysis.measures.common.window import find_window
from analysis.measures.results import measure
from analysis.rundir.run import open_run
from analysis.sections.document import make_document
from analysis.tables.block import Block
from analysis.tables.load import load_tables
from tests.analysis.measured import block_results
from tests.analysis.synthetic import START_NS, Spec, request


def load_block(spec: Spec, path: Path) -> Block:
    tables = load_tables(open_run(spec.write(path)))
    assert tables.block is not None
    return tables.block


def naive(rows: list[dict[str, Any]]) -> tuple[int, int, int, int, list[int]]:
    """Seeks, sequential, near ahead, near back and the seeks' distances in sectors, one row at a time."""
    head: dict[int, int] = {}
    seek = sequential = ahead = back = 0
    distances = []
    for row in sorted(rows, key=lambda r: int(r["issue_ns"])):
        if row.get("op", "write") not in ("read", "write") or not row["bytes"]:
            continue
        dev = row.get("dev", 7 << 20 | 3)
        if dev in head:
            distance = row["sector"] - head[dev]
            if distance == 0:
                sequential += 1
            elif abs(distance) > 128:
                seek += 1
                distances.append(distance)
            elif distance > 0:
                ahead += 1
            else:
                back += 1
        head[dev] = row["sector"] + math.ceil(row["bytes"] / 512)
    return seek, sequential, ahead, back, distances


def test_seek_rule_holds_at_its_edges(tmp_path: Path) -> None:
    # ends: 8; then exactly there, 128 off both ways (near), 129 off both ways (seeks)
    starts = [0, 8, 16 + 128, 152 - 128, 32 + 129, 169 - 129]
    spec = Spec(block=[request(START_NS + i * 1_000_000, s) for i, s in enumerate(starts)])
    found = seeks.summary(seeks.measure_distances(load_block(spec, tmp_path / "r")))
    assert (found.requests, found.with_previous) == (6, 5)
    assert (found.sequential, found.near_ahead, found.near_back, found.seeks) == (1, 1, 1, 2)
    assert found.share(found.sequential) == pytest.approx(1 / 5)


def test_seeks_follow_the_issue_order(tmp_path: Path) -> None:
    rows = [request(START_NS + i * 1000, i * 8, complete_ns=START_NS + 9_000_000 - i) for i in range(100)]
    found = seeks.summary(seeks.measure_distances(load_block(Spec(block=rows[::-1]), tmp_path / "r")))
    assert (found.sequential, found.seeks) == (99, 0)


def test_flushes_and_discards_do_not_move_the_head(tmp_path: Path) -> None:
    rows = [
        request(START_NS, 1_000_000),
        request(START_NS + 1, 0, 0, op="flush"),
        request(START_NS + 2, 5_000_000, 1 << 20, op="discard"),
        request(START_NS + 3, 1_000_008),
    ]
    found = seeks.summary(seeks.measure_distances(load_block(Spec(block=rows), tmp_path / "r")))
    assert (found.requests, found.sequential, found.seeks) == (2, 1, 0)


def test_sectors_above_8_gib_are_exact(tmp_path: Path) -> None:
    # seekwatcher's 32-bit floats round these to the same number
    base = (1 << 33) + 1
    rows = [request(START_NS, base), request(START_NS + 1, base + 8), request(START_NS + 2, base + 16 + 129)]
    found = seeks.measure_distances(load_block(Spec(block=rows), tmp_path / "r"))
    assert found.distance_sectors.tolist() == [0, 0, 129]
    assert seeks.summary(found).absolute_bytes == [129 * 512] * 4


def test_each_device_has_its_own_head(tmp_path: Path) -> None:
    rows = []
    for i in range(50):
        rows.append(request(START_NS + 2 * i, i * 8, dev=1))
        rows.append(request(START_NS + 2 * i + 1, 10_000_000 + i * 8, dev=2))
    found = seeks.summary(seeks.measure_distances(load_block(Spec(block=rows), tmp_path / "r")))
    assert (found.with_previous, found.sequential, found.seeks) == (98, 98, 0)


def test_reads_and_writes_are_counted_apart(tmp_path: Path) -> None:
    rows = [
        request(START_NS + i, (i % 2) * 1_000_000 + i * 8, op="read" if i % 2 else "write") for i in range(10)
    ]
    run = open_run(Spec(block=rows).write(tmp_path / "r"))
    found = block_results(measure(run, load_tables(run))).seeks.summaries
    assert found["read"].requests == found["write"].requests == 5
    assert (found["read"].seeks, found["write"].seeks) == (5, 4)
    assert found["all"].seeks == 9


def test_short_last_bin_is_no_spike(tmp_path: Path) -> None:
    """seekwatcher scales its last, partial second up; ours joins it to the bin before."""
    spec = Spec(run={})
    end = START_NS + 10_000_000_000 + 1_000_000  # 10 s and 1 ms
    spec.run = {
        "schema": 1,
        "state": "complete",
        "clock": {"record_start_ns": START_NS, "record_end_ns": end},
    }
    spec.block = [request(START_NS + i * 10_000_000, i * 10_000) for i in range(1000)]
    spec.block.append(request(end - 200_000, 9_999_999))
    run = open_run(spec.write(tmp_path / "r"))
    m = measure(run, load_tables(run))
    assert block_results(m).seeks.per_s is not None
    assert block_results(m).seeks.per_s.max() <= 110
    assert m.timeline.lengths_s.sum() == pytest.approx(10.001)
    assert (block_results(m).seeks.per_s * m.timeline.lengths_s).sum() == pytest.approx(1000)
    assert find_window(run, load_tables(run)).elapsed_s == pytest.approx(10.001)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 400),
            st.integers(0, 1 << 40) | st.integers(0, 2000),
            st.integers(0, 40),
            st.sampled_from(["read", "write", "flush", "discard"]),
            st.integers(1, 2),
        ),
        max_size=60,
        unique_by=lambda t: t[0],
    )
)
def test_seeks_equal_one_row_at_a_time(
    tmp_path_factory: pytest.TempPathFactory, items: list[tuple[int, int, int, str, int]]
) -> None:
    rows = [
        request(START_NS + t * 1000, sector, sectors * 512, op=op, dev=dev)
        for t, sector, sectors, op, dev in items
    ]
    found = seeks.measure_distances(load_block(Spec(block=rows), tmp_path_factory.mktemp("run") / "r"))
    total = seeks.summary(found)
    *counted, distances = naive(rows)
    assert [total.seeks, total.sequential, total.near_ahead, total.near_back] == counted
    assert sorted(found.distance_sectors[found.is_seek].tolist()) == sorted(distances)
    if distances:
        ordered = sorted(distances)
        expected = [ordered[max(math.ceil(p * len(ordered) / 100), 1) - 1] * 512 for p in (1, 10, 50, 90, 99)]
        assert total.signed_bytes == expected


def test_report_has_near_requests_by_direction(tmp_path: Path) -> None:
    """Backwards by a little is near, but costs a disk most of a revolution."""
    starts = [1000 - 16 * i for i in range(10)]  # each 24 sectors before the end of the one before
    starts += [starts[-1] + 8 + 5]  # 5 ahead
    spec = Spec(block=[request(START_NS + i * 1_000_000, s) for i, s in enumerate(starts)])
    path = spec.write(tmp_path / "r")
    run = open_run(path)
    tables = load_tables(run)
    document = make_document(run, tables, measure(run, tables))
    table = next(one for one in document.sections if one.title == "Seeks").tables[0]
    row = dict(zip(table.titles, table.rows[0], strict=True))
    assert (row["of"], row["near ahead %"], row["near back %"]) == ("all", "10.0", "90.0")
    assert (row["seek %"], row["sequential %"]) == ("0.0", "0.0")
