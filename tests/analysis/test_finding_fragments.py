# SPDX-License-Identifier: BSD-2-Clause
"""Files in pieces are found where a request costs time; whole files, random reads, bandwidth are not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analysis.findings.cold_reads import RULES as COLD
from analysis.findings.fragments import RULES as FRAGMENTS
from analysis.measures.at_device.fragments import Fragments, fragments_of
from analysis.tables.block import Block
from analysis.tables.store import Categorical
from tests.analysis.device_cases import APP, BUFFERED, case_of, found_by, one

KIB = 1024
WINDOW = 32  # requests that readahead sends at once


def _read(
    sizes: list[int], each_us: float, mb_s: float, gap_sectors: int = 64, waits: bool = False
) -> Fragments | None:
    """A file of such pieces read at a disk that takes each_us a request, and its bytes at mb_s.

    waits: each read is sent after the one before ended.
    """
    queue, complete, sector = [], [], []
    now = free = 1000.0
    place = 0
    for i, size in enumerate(sizes):
        now = free + 1000 if waits or i % WINDOW == 0 else now + 1000
        free = max(free, now) + 1000 * each_us + size / mb_s * 1000
        queue.append(now)
        complete.append(free)
        sector.append(place)
        place += size // 512 + gap_sectors
    begin, end = np.array(queue, dtype=np.int64), np.array(complete, dtype=np.int64)
    yes, same = np.ones(len(sizes), dtype=np.bool_), np.zeros(len(sizes), dtype=np.int8)
    block = Block(
        queue_ns=begin,
        issue_ns=begin,
        complete_ns=end,
        sector=np.array(sector),
        dev=np.full(len(sizes), 7340032),
        bytes=np.array(sizes),
        op=Categorical(same, ("read",)),
        class_=Categorical(same, ("data",)),
        comm=Categorical(same, ("app",)),
        in_workload=yes,
        failed=~yes,
        timed=yes,
        lasting=yes,
        read=lambda _: None,
    )
    own = np.full(len(sizes), 1000)
    return fragments_of(block, yes, own, own)


def _sizes(count: int = 640, size: int = 16 * KIB) -> list[int]:
    return [size * (1 + (i % 5 == 0) + (i % 15 == 0)) for i in range(count)]


NEEDED = sum(-(-sum(_sizes()[at : at + WINDOW]) // (128 * KIB)) for at in range(0, 640, WINDOW))


@pytest.mark.parametrize("each_us", [100, 1000])
def test_requests_beyond_those_of_whole_stretches_cost_their_own_time(each_us: float) -> None:
    found = _read(_sizes(), each_us, 400)
    assert found is not None
    assert found.requests == 640 and found.needed == NEEDED
    assert found.each_ns == pytest.approx(each_us * 1000, rel=0.02)
    assert found.more_ns.sum() == pytest.approx((640 - NEEDED) * each_us * 1000, rel=0.02)


def test_disk_of_which_a_request_costs_nothing() -> None:
    assert _read(_sizes(), 0, 100) is None


def test_adjacent_requests_are_a_whole_file() -> None:
    assert _read(_sizes(), 1000, 400, gap_sectors=0) is None


def test_random_reads_are_waited_for_one_by_one() -> None:
    assert _read(_sizes(), 1000, 400, waits=True) is None


def test_pieces_of_one_size_tell_only_the_most_that_a_request_may_take() -> None:
    found = _read([16 * KIB] * 640, 1000, 400)
    assert found is not None and found.is_most
    assert found.each_ns == pytest.approx(1_000_000 + 16 * KIB / 400 * 1000, rel=0.02)


def test_path_has_what_the_pieces_took_more(tmp_path: Path) -> None:
    """The application waits for the last of each 16 requests that readahead sends at once, of 1 ms each."""
    own, beside, t = [], [], 0
    for window in range(20):
        queue = t + 20
        pieces: list[dict[str, Any]] = []
        for i in range(15):
            done = queue + 1000 * (i + 1)
            place = {"sector": (window * 16 + i) * 256, "bytes": 4096 * (1 + i % 3)}
            pieces.append({"queue_us": queue, "issue_us": queue, "complete_us": done} | place)
        beside += pieces
        own.append(one(16_000, 1, sector=(window * 16 + 15) * 256, bytes=8192))
        t += 20 + 16_001 + 2
    columns = {"op": "read", "ino": 12, "pid": 1000 + APP, "submitter": "workload", "end_io_id": BUFFERED}
    case = case_of(tmp_path / "run", own, [one | columns for one in beside])
    (found,) = found_by(FRAGMENTS, case)
    assert found.cost.value_s == pytest.approx(20 * 15 * 1e-3, rel=0.03)
    assert "took 320 requests, where 20 of whole stretches had done" in found.because[0]
    assert sum(one.cost.value_s for one in found_by(COLD, case)) <= 20 * 1.1e-3
