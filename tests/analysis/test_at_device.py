# SPDX-License-Identifier: BSD-2-Clause
"""The path's time at requests: each instant goes to one cause, and the causes' times sum to it."""

from __future__ import annotations

import heapq
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analysis.measures.at_device.kinds import kind_of
from analysis.measures.at_device.served import How, excess_of
from analysis.measures.at_device.split import DeviceTime, Why
from analysis.measures.at_device.traits import LEAST_CHAIN, first_reads, small_streaming_reads
from analysis.measures.critical_path.stretches import Mask
from analysis.tables.block import Block
from analysis.tables.store import Categorical
from tests.analysis.device_cases import DIRECT, HELD, case_of, one


def _times(folder: Path, own: list[dict[str, Any]], others: list[dict[str, Any]] | None = None) -> DeviceTime:
    found = case_of(folder, own, others or []).results.device_time
    assert found is not None
    return found


@pytest.mark.parametrize("seed", range(3))
def test_causes_sum_to_the_time_at_requests(tmp_path: Path, seed: int) -> None:
    """Any mix of requests, with others' beside."""
    rng = random.Random(seed)
    own = [
        one(
            rng.randint(20, 3000),
            rng.randint(0, 500),
            rng.choice((0, 0, 900)),
            rng.choice(("read", "direct", "tag", "flush")),
            op=rng.choice(("read", "write", "flush")),
            work_id=rng.choice((0, HELD)),
            end_io_id=rng.choice((0, DIRECT)),
            flags=rng.choice((0, 1, 4, 8)),
            bytes=rng.choice((4096, 65536, 1 << 20)),
            sector=rng.randrange(0, 1 << 24, 8),
        )
        for _ in range(80)
    ]
    starts = [rng.randrange(0, 100_000) for _ in range(30)]
    others = [{"queue_us": t, "issue_us": t + 5, "complete_us": t + rng.randint(50, 2000)} for t in starts]
    found = _times(tmp_path / "run", own, others)
    parts = sum(time.ns for why, time in found.of.items() if why != Why.SEEKS)
    assert parts == pytest.approx(found.total_ns, rel=1e-9)
    for time in found.of.values():
        assert 0 <= time.low_ns <= time.high_ns + 1e-6
    # what the schedule says, without the tables: the time asleep, up to the completion
    asleep_us = sum(
        entry["q2d_us"] + entry["d2c_us"] + (entry["held_us"] if entry["columns"]["work_id"] else 0)
        for entry in own
    )
    before_us = sum(entry["held_us"] for entry in own if not entry["columns"]["work_id"])
    # a request that the thread had sent before it slept is its own all the time
    assert asleep_us * 1000 <= found.total_ns <= (asleep_us + before_us + 2 * len(own)) * 1000


def test_reads_in_a_row_are_a_stream_only_from_some_length_on(tmp_path: Path) -> None:
    streams = {
        length: [one(sector=(length << 20) + 8 * i, ino=length) for i in range(length)] for length in (3, 40)
    }
    case = case_of(tmp_path / "run", [entry for stream in streams.values() for entry in stream])
    block = case.tables.block
    assert block is not None
    small = small_streaming_reads(block, np.arange(block.rows))
    assert LEAST_CHAIN > 3
    assert [int(small[block.ino == length].sum()) for length in (3, 40)] == [0, 40]


def test_second_read_of_a_place_is_none_of_the_first(tmp_path: Path) -> None:
    own = [one(sector=sector) for sector in (800, 1600, 800, 800, 2400)]
    block = case_of(tmp_path / "run", own).tables.block
    assert block is not None
    assert first_reads(block, np.arange(block.rows)).tolist() == [True, True, False, False, True]


def _block(begin: list[int], took: list[int]) -> Block:
    size = len(begin)
    queue = np.array(begin, dtype=np.int64) + 1
    same = Categorical(np.zeros(size, dtype=np.int8), ("read",))
    yes = np.ones(size, dtype=np.bool_)
    return Block(
        queue_ns=queue,
        issue_ns=queue,
        complete_ns=queue + np.array(took, dtype=np.int64),
        dev=np.zeros(size, dtype=np.int64),
        sector=np.arange(size, dtype=np.int64),
        bytes=np.full(size, 4096),
        op=same,
        class_=same,
        comm=same,
        in_workload=yes,
        failed=~yes,
        timed=yes,
        lasting=yes,
        read=lambda _: None,
    )


@pytest.mark.parametrize("seed", range(5))
def test_long_requests_that_meet_others_by_chance_are_no_excess(seed: int) -> None:
    """Times do not depend on others', but long requests meet others more often: that must not count."""
    rng = np.random.default_rng(seed)
    own = np.cumsum(rng.integers(5_000, 20_000, 4_000))
    took = rng.lognormal(7, 1.2, own.size).astype(np.int64)
    others = np.sort(rng.integers(0, int(own[-1]), 2_000))
    block = _block([*own.tolist(), *others.tolist()], [*took.tolist(), *([3_000] * others.size)])
    is_own = np.arange(block.rows) < own.size
    found = excess_of(block, np.flatnonzero(is_own), is_own, ~is_own)
    assert found.is_compared.any()
    assert found.low.max() <= 0.05  # no more than chance


@pytest.mark.parametrize("factor", [2, 5])
def test_excess_is_what_others_added(factor: int) -> None:
    rng = np.random.default_rng(factor)
    own = np.arange(4_000, dtype=np.int64) * 50_000
    others = np.arange(0, int(own[-1]), 400_000, dtype=np.int64)
    took = rng.integers(8_000, 12_000, own.size)
    is_slow = (own % 400_000) < 200_000  # the other's request lasts half of the time
    block = _block(
        [*own.tolist(), *others.tolist()],
        [*np.where(is_slow, factor * took, took).tolist(), *([200_000] * others.size)],
    )
    is_own = np.arange(block.rows) < own.size
    found = excess_of(block, np.flatnonzero(is_own), is_own, ~is_own)
    assert found.share[found.met].mean() == pytest.approx(1 - 1 / factor, abs=0.02)
    assert np.array_equal(found.met, is_slow)
    assert found.low.max() <= 1 - 1 / factor <= found.high.max()


@pytest.mark.parametrize("serves_first", [True, False])
def test_request_that_waits_for_the_end_of_others_is_told_without_comparison(serves_first: bool) -> None:
    """Others' requests are always under way: only what they still have to go can tell."""
    rng = np.random.default_rng(1)
    others = np.arange(1_000, dtype=np.int64) * 100_000
    own = np.sort(rng.integers(0, int(others[-1]), 3_000))
    to_go = 100_000 - own % 100_000
    took = rng.integers(8_000, 12_000, own.size) + (to_go if serves_first else 50_000)
    block = _block([*own.tolist(), *others.tolist()], [*took.tolist(), *([100_000] * others.size)])
    is_own = np.arange(block.rows) < own.size
    found = excess_of(block, np.flatnonzero(is_own), is_own, ~is_own)
    assert found.met.all()
    excess = (found.share * took).sum()
    if serves_first:
        assert found.how == How.BEHIND
        assert excess == pytest.approx(to_go.sum(), rel=0.02)
        assert found.without_ns == pytest.approx(10_000, rel=0.1)
    else:
        assert found.low.sum() == pytest.approx(0, abs=0.05 * own.size)


def _closed(
    rng: np.random.Generator, clients: int, servers: int, least_us: float, most_us: float
) -> tuple[Block, Mask]:
    """Clients that each send a request as the one before ends, at a disk of so many servers.

    Returns the requests, and which are of the first client.
    """
    events = [(float(rng.uniform(0, 100)), client) for client in range(clients)]
    free, own, begin, took = [0.0] * servers, [], [], []
    for _ in range(4_000):
        t, client = heapq.heappop(events)
        start = max(t, free[0])
        end = start + float(rng.uniform(least_us, most_us))
        heapq.heapreplace(free, end)
        begin.append(round(t * 1e3))
        took.append(round((end - t) * 1e3))
        own.append(client == 0)
        heapq.heappush(events, (end + float(rng.exponential(20)), client))
    return _block(begin, took), np.array(own)


@pytest.mark.parametrize("clients", [2, 17])
@pytest.mark.parametrize("spread", [0.02, 0.5])
def test_disk_that_serves_one_at_a_time_is_told_from_others(clients: int, spread: float) -> None:
    """Others' requests are always under way, and as many: neither comparison nor slope can tell."""
    rng = np.random.default_rng(clients)
    least, most = 400 * (1 - spread), 400 * (1 + spread)
    for servers in (1, 64):
        block, own = _closed(rng, clients, servers, least, most)
        found = excess_of(block, np.flatnonzero(own), own, ~own)
        took = (block.complete_ns - block.queue_ns)[own]
        if servers == 1:
            assert found.how == How.IN_TURN
            # but for its own turn
            assert (found.share * took).mean() == pytest.approx(took.mean() - 400_000, rel=0.1)
            assert found.without_ns == pytest.approx(400_000, rel=0.1)
        else:
            assert found.how != How.IN_TURN
            assert found.low.mean() < 0.05


@pytest.mark.parametrize("servers", [1, 64])
def test_few_requests_are_explained_by_what_all_tell(servers: int) -> None:
    """The first client has sent five requests: too few to compare or to tell anything by themselves."""
    block, own = _closed(np.random.default_rng(1), 8, servers, 390, 410)
    first = np.flatnonzero(own)[100:105]
    others = np.ones(block.rows, dtype=np.bool_)
    others[first] = False
    found = excess_of(block, first, ~others, others)
    took = (block.complete_ns - block.queue_ns)[first]
    if servers == 1:
        assert found.how == How.IN_TURN
        assert (found.share * took).mean() == pytest.approx(took.mean() - 400_000, rel=0.02)
    else:
        assert found.how == How.NOT
        assert not found.share.any()


def test_writes_that_flush_are_a_kind_of_their_own() -> None:
    block = _block([0, 0, 0], [1000, 1000, 1000])
    flags = {"flags": np.array([0, 8, 4 | 8])}
    kinds = kind_of(replace(block, read=flags.get, kept={}), np.arange(3))
    assert kinds[1] == kinds[2] != kinds[0]
    assert np.unique(kind_of(block, np.arange(3))).size == 1  # where flags were not recorded


@pytest.mark.parametrize("added_ns", [0, 2_000])
def test_more_requests_of_others_take_a_request_longer_or_not(added_ns: int) -> None:
    """One to eight of the others' are always under way, each for long: neither comparison nor turns tell."""
    rng = np.random.default_rng(2)
    steps = np.arange(500, dtype=np.int64) * 100_000
    number = rng.integers(1, 9, steps.size)
    others = np.repeat(steps, number)
    own = np.sort(rng.integers(0, int(steps[-1]), 2_000)) // 100_000 * 100_000 + rng.integers(
        0, 80_000, 2_000
    )
    took = rng.integers(8_000, 12_000, own.size) + added_ns * number[own // 100_000]
    block = _block([*own.tolist(), *others.tolist()], [*took.tolist(), *([100_000] * others.size)])
    is_own = np.arange(block.rows) < own.size
    found = excess_of(block, np.flatnonzero(is_own), is_own, ~is_own)
    assert found.how == How.BY_NUMBER
    expected = (added_ns * number[own // 100_000]).sum()
    assert (found.share * took).sum() == pytest.approx(expected, rel=0.1, abs=0.01 * took.sum())
