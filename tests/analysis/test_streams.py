# SPDX-License-Identifier: BSD-2-Clause
"""Streams, the scheduler's order and the model disk, against one request at a time and by hand."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.measures.block import seek_cost, seeks, seeks_by, streams
from analysis.rundir.run import open_run
from analysis.tables.block import Block
from analysis.tables.load import load_tables
from analysis.tables.store import I64, Ints
from tests.analysis.synthetic import START_NS, Spec, request

DEV = 7 << 20 | 3


def load_block(rows: list[dict[str, Any]], path: Path) -> Block:
    tables = load_tables(open_run(Spec(block=rows).write(path)))
    assert tables.block is not None
    return tables.block


def naive(requests: Sequence[tuple[int, int]]) -> list[int]:
    """The predecessor of each (start, end) in its stream, -1 for none: heads by place, when they moved."""
    heads: dict[int, int] = {}
    found = []
    for i, (start, end) in enumerate(requests):
        head = heads.pop(start, None)
        found.append(head if head is not None and i - head <= 256 else -1)
        heads[end] = i
    return found


def predecessors(start: I64, end: I64) -> Ints:
    """The requests that requests of these sectors continue."""
    return streams.predecessors(start.size, lambda at: (start[at], end[at]))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 12), st.integers(1, 4)), max_size=60))
def test_predecessors_equal_one_at_a_time(items: list[tuple[int, int]]) -> None:
    start = np.array([s for s, _ in items], dtype=np.int64)
    length = np.array([n for _, n in items], dtype=np.int64)
    expected = naive([(s, s + n) for s, n in items])
    assert predecessors(start, start + length).tolist() == expected


def test_predecessors_cross_the_border_of_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same when a piece ends in the middle of the streams, and with ends that have become too old."""
    rng = random.Random(3)
    heads = [k * 100_000 for k in range(40)]
    items = []
    for _ in range(5000):
        k = min(int(rng.expovariate(0.12)), 39)  # the last ones are visited more seldom than every 256
        size = rng.choice((8, 16))
        items.append((heads[k], heads[k] + size))
        heads[k] += size
    start = np.array([a for a, _ in items], dtype=np.int64)
    end = np.array([b for _, b in items], dtype=np.int64)
    expected = naive(items)
    ages = [i - head for i, head in enumerate(expected) if head >= 0]
    assert max(ages) > 200 and expected.count(-1) > 45  # streams that were given up among them
    for step in (300, 777, streams.STEP):
        monkeypatch.setattr(streams, "STEP", step)
        assert predecessors(start, end).tolist() == expected


def test_stream_window_is_256_requests() -> None:
    for others, continues in ((255, True), (256, False)):
        starts = [0, *(10_000 + 100 * i for i in range(others)), 8]
        start = np.array(starts, dtype=np.int64)
        assert predecessors(start, start + 8)[-1] == (0 if continues else -1)


def test_impossible_sectors_belong_to_no_stream() -> None:
    start = np.array([0, 1 << 42, (1 << 42) + 8, 8], dtype=np.int64)
    assert predecessors(start, start + 8).tolist() == [-1, -1, -1, 0]


def test_interleaved_streams_are_sequential(tmp_path: Path) -> None:
    """biopattern calls these 800 requests random: of the requests before, none is adjacent."""
    rows = []
    for i in range(100):
        for k in range(8):
            t = START_NS + (i * 8 + k) * 1000
            op = "read" if k < 3 else "write"
            rows.append(request(t, k * 1_000_000 + i * 8, op=op, comm=b"r" if k < 3 else b"w", ino=k + 1))
    block = load_block(rows, tmp_path / "r")
    found = seeks.measure_distances(block)
    assert seeks.summary(found).sequential == 0
    flows = streams.measure_streams(block, found)
    read, write = flows.rows
    assert (read.op, read.requests, read.adjacent, read.in_stream, read.streams) == ("read", 300, 0, 297, 3)
    assert (write.op, write.requests, write.in_stream, write.streams) == ("write", 500, 495, 5)
    assert read.mean_requests == write.mean_requests == 100
    assert read.mean_bytes == 100 * 4096
    assert write.parallel == pytest.approx(5 * 495 / 500)
    processes, more = seeks_by.by_process(block, found, flows.continues)
    assert more == 0
    by_name = {row.label: row for row in processes}
    assert by_name["r"].in_stream == 0.99 and by_name["w"].in_stream == 0.99
    # every request but the very first is a seek; the way back from the last writer to the first reader
    assert (by_name["r"].seeks, by_name["w"].seeks) == (299, 500)
    assert by_name["w"].net_bytes == pytest.approx((1_000_000 - 8) * 512)
    forth, back = 200 * (1_000_000 - 8), 99 * (8 - (7_000_000 + 8))
    assert by_name["r"].net_bytes == pytest.approx((forth + back) * 512 / 299)
    assert by_name["r"].away_bytes == pytest.approx((forth - back) * 512 / 299)


def test_one_direction_does_not_continue_the_other(tmp_path: Path) -> None:
    rows = [request(START_NS + i, i * 8, op="read" if i % 2 else "write") for i in range(10)]
    rows += [request(START_NS + 100 + i, 80 + i * 8, dev=DEV + 1) for i in range(10)]
    block = load_block(rows, tmp_path / "r")
    flows = streams.measure_streams(block, seeks.measure_distances(block))
    assert [(r.dev, r.op, r.in_stream) for r in flows.rows] == [
        (DEV, "read", 0),
        (DEV, "write", 0),
        (DEV + 1, "write", 9),
    ]


def test_known_permutation_saves_known_seeks(tmp_path: Path) -> None:
    """Queued in shuffled order, issued in order of sectors: 999 sequential instead of random requests."""
    order = list(range(1000))
    random.Random(5).shuffle(order)
    rows = [
        request(START_NS + 10_000_000 + i * 1000, i * 1024, 1024 * 512, queue_ns=START_NS + order[i] * 10)
        for i in range(1000)
    ]
    block = load_block(rows, tmp_path / "r")
    queued = sorted(range(1000), key=lambda i: order[i])
    expected = sum(b != a + 1 for a, b in pairwise(queued))
    (row,) = seek_cost.by_order(
        block, seeks.rows_in_order(block), seeks.rows_in_order(block, in_queue_order=True)
    )
    assert (row.issued, row.queued, row.saved_seeks) == (0, expected, expected)
