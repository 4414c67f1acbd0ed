# SPDX-License-Identifier: BSD-2-Clause
"""The model of a disk, and drive-cost: times against arithmetic from the parameters, and the model's rules.

The arithmetic is this file's own: it places sectors by counting and takes seeks from the curve, so neither
the model's geometry nor its search in tables is trusted.
"""

from __future__ import annotations

import json
import math
import random
import struct
import subprocess
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "build" / "drive-cost"
NATIVE = ROOT / "workloads" / "drives" / "native"
ROW = struct.Struct("<10qQ3I4B")
READ, WRITE, FLUSH, DESTAGE = range(4)
MEDIA, CACHE, READ_AHEAD = range(3)
REVOLUTION_NS = 60e9 / 7200
SEEK_MS = (0.8, 8.5, 16.0)  # one cylinder, mean, full stroke
CYLINDERS, SURFACES = 48000, 4
ZONES = ((15999, 1000), (31999, 800), (47999, 600))
SECTORS = sum(16000 * SURFACES * length for _, length in ZONES)

Request = tuple[int, int, int, int, int]  # arrival_ns, op, sector, sectors, fua


class Row(NamedTuple):
    """One service of the model, as main.c describes it."""

    request: int
    issue_ns: int
    arrival_ns: int
    start_ns: int
    end_ns: int
    overhead_ns: int
    seek_ns: int
    rotation_ns: int
    transfer_ns: int
    wait_ns: int
    sector: int
    sectors: int
    cylinder: int
    queued: int
    op: int
    how: int
    fua: int
    by_head: int


class Costs(NamedTuple):
    """What drive-cost said."""

    totals: dict[str, int]
    rows: list[Row]


def seek_ns(cylinders: int) -> float:
    """Lee and Katz' curve through the three points."""
    if cylinders == 0:
        return 0.0
    least, mean, most = SEEK_MS
    root = (15 * mean - 10 * least - 5 * most) / (3 * math.sqrt(CYLINDERS))
    line = (7 * least - 15 * mean + 8 * most) / (3 * CYLINDERS)
    return (root * math.sqrt(cylinders - 1) + line * (cylinders - 1) + least) * 1e6


def flat(**changes: object) -> str:
    """The parameters of a 7200 rpm disk without cache and read-ahead, as text."""
    distances = sorted({round(CYLINDERS ** (i / 150)) for i in range(150)} | {CYLINDERS - 1})
    values: dict[str, object] = {
        "sectors": SECTORS,
        "first_sector": 0,
        "rpm": 7200,
        "surfaces": SURFACES,
        "write_settle_ns": 100_000,
        "head_switch_ns": 600_000,
        "track_skew": 0.1,
        "cylinder_skew": 0.125,
        "read_overhead_ns": 100_000,
        "write_overhead_ns": 100_000,
        "bus_bytes_per_s": 300e6,
        "queue_depth": 32,
        "scheduling": "sptf",
        "most_age_ns": 3600 * 10**9,
        "write_cache_bytes": 0,
        "write_cache_extents": 1024,
        "destage_at": 0.75,
        "destage_idle_ns": 10_000_000,
        "destage_window": 8,
        "read_before": 0,
        "read_segments": 0,
        "segment_sectors": 1024,
    }
    lines = [f"{key} {value}\n" for key, value in {**values, **changes}.items()]
    lines += [f"zone {last} {length}\n" for last, length in ZONES]
    lines += [f"seek {distance} {round(seek_ns(distance))}\n" for distance in distances]
    return "".join(lines)


CACHED = {"write_cache_bytes": 8 << 20, "read_segments": 8}


def run(folder: Path, requests: Iterable[Request], *options: str, params: str | None = None) -> Costs:
    """The costs of these requests; without options one at a time."""
    (folder / "params").write_text(params or flat())
    stream = b"".join(
        struct.pack("<qQIBBH", arrival, sector, sectors, op, fua, 0)
        for arrival, op, sector, sectors, fua in requests
    )
    words = [str(PROGRAM), f"--params={folder / 'params'}", f"--rows={folder / 'rows'}"]
    done = subprocess.run(
        [*words, *(options or ("--closed=1",))], input=stream, capture_output=True, check=True
    )
    rows = [Row(*fields) for fields in ROW.iter_unpack((folder / "rows").read_bytes())]
    return Costs(json.loads(done.stdout), rows)


def random_requests(count: int, op: int, seed: int, fua: int = 0) -> list[Request]:
    """Requests of 4 KiB anywhere on the disk."""
    draw = random.Random(seed)
    return [(0, op, draw.randrange(SECTORS // 8) * 8, 8, fua) for _ in range(count)]


def sequential(op: int, first: int, count: int, sectors: int = 128) -> list[Request]:
    """Requests one behind the other."""
    return [(0, op, first + i * sectors, sectors, 0) for i in range(count)]


class Place(NamedTuple):
    """Where a sector is."""

    cylinder: int
    surface: int
    turn: float  # its beginning, as a share of a revolution
    length: int  # of its track


def place(sector: int) -> Place:
    """Count zones, cylinders, surfaces."""
    first_cylinder = 0
    for last, length in ZONES:
        in_zone = (last + 1 - first_cylinder) * SURFACES * length
        if sector < in_zone:
            cylinder, rest = divmod(sector, SURFACES * length)
            surface, number = divmod(rest, length)
            cylinder += first_cylinder
            skew = cylinder * ((SURFACES - 1) * 0.1 + 0.125) + surface * 0.1
            return Place(cylinder, surface, (skew + number / length) % 1, length)
        sector -= in_zone
        first_cylinder = last + 1
    raise AssertionError(sector)


def zone_rate(length: int) -> float:
    """Bytes a second of a zone, read or written from end to end: skews cost a part of a revolution each."""
    turns = SURFACES + (SURFACES - 1) * 0.1 + 0.125
    return SURFACES * length * 512 / (turns * REVOLUTION_NS / 1e9)


# --- mechanics ------------------------------------------------------------------------------------


@pytest.mark.parametrize("op", [READ, WRITE])
def test_each_random_request_costs_what_arithmetic_says(tmp_path: Path, op: int) -> None:
    """Seek by distance, rotation by angle, transfer by zone: each request to the microsecond."""
    costs = run(tmp_path, random_requests(400, op, seed=1))
    first = costs.rows[0]
    at, now_ns = place(first.sector), first.end_ns
    # one request tells the platter's phase; the table's straight lines: within 20 us of the curve
    begin_ns = first.end_ns - first.transfer_ns
    phase = (at.turn - begin_ns / REVOLUTION_NS) % 1
    for row in costs.rows[1:]:
        to = place(row.sector)
        movement_ns = seek_ns(abs(to.cylinder - at.cylinder))
        if to.surface != at.surface:
            movement_ns = max(movement_ns, 600_000)
        if op == WRITE and to[:2] != at[:2]:
            movement_ns += 100_000
        assert row.seek_ns == pytest.approx(movement_ns, abs=20_000)
        settled_ns = now_ns + 100_000 + row.seek_ns
        turn = (to.turn - phase - settled_ns / REVOLUTION_NS) % 1
        waited = row.rotation_ns / REVOLUTION_NS
        assert min(abs(turn - waited), 1 - abs(turn - waited)) * REVOLUTION_NS < 1000
        assert row.transfer_ns == pytest.approx(8 / to.length * REVOLUTION_NS, abs=2)
        assert (row.start_ns, row.overhead_ns, row.cylinder) == (now_ns, 100_000, to.cylinder)
        at, now_ns = place(row.sector + 7), row.end_ns


def test_random_reads_cost_mean_seek_and_half_a_turn(tmp_path: Path) -> None:
    requests = random_requests(6000, READ, seed=2)
    places = [place(sector).cylinder for _, _, sector, _, _ in requests]
    distances = [abs(a - b) for a, b in pairwise(places)]
    mean_seek_ns = sum(map(seek_ns, distances)) / len(distances)
    transfer_ns = sum(8 / place(r[2]).length for r in requests) / len(requests) * REVOLUTION_NS
    expected = 100_000 + mean_seek_ns + REVOLUTION_NS / 2 + transfer_ns
    assert run(tmp_path, requests).totals["end_ns"] / 6000 == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize("first,length", [(0, 1000), (SECTORS - 128 * 1500, 600)])
@pytest.mark.parametrize("depth", [1, 8])
@pytest.mark.parametrize("op", [READ, WRITE])
def test_sequential_rate_is_the_zones(tmp_path: Path, first: int, length: int, depth: int, op: int) -> None:
    """By read-ahead or through the write cache no revolution is lost; the flush ends the cache's lead."""
    requests = [*sequential(op, first, 1500), (0, FLUSH, 0, 0, 0)]
    costs = run(tmp_path, requests, f"--closed={depth}", params=flat(**CACHED))
    seconds = (costs.totals["end_ns"] - 20e6) / 1e9  # the first seek, of up to 24 ms
    assert 1500 * 65536 / seconds == pytest.approx(zone_rate(length), rel=0.012)


def test_deep_sequential_writes_through_lose_no_turn(tmp_path: Path) -> None:
    """Without a cache the electronics prepare the next request while the head writes."""
    costs = run(tmp_path, sequential(WRITE, 0, 1500), "--closed=8")
    assert 1500 * 65536 / (costs.totals["end_ns"] / 1e9) == pytest.approx(zone_rate(1000), rel=0.02)


def test_reads_in_an_offset_lie_where_the_offset_is(tmp_path: Path) -> None:
    """DISK=hdd@OFFSET: the host's sector 0 is in the inner zone."""
    offset = SECTORS - 10**6
    requests = [(0, READ, sector, 8, 0) for sector in (0, 999_000)]
    rows = run(tmp_path, requests, params=flat(sectors=10**6, first_sector=offset)).rows
    assert [row.cylinder for row in rows] == [place(offset).cylinder, place(offset + 999_000).cylinder]
    assert [row.sector for row in rows] == [0, 999_000]
    assert rows[0].transfer_ns == pytest.approx(8 / 600 * REVOLUTION_NS, abs=2)


# --- whole revolutions ----------------------------------------------------------------------------


@pytest.mark.parametrize("fua", [0, 1])
def test_synchronous_appends_cost_a_turn_each(tmp_path: Path, fua: int) -> None:
    """FUA, or a write and a flush: the next sector has just passed, so a turn and 8 sectors; or the skew."""
    requests: list[Request] = []
    for i in range(250):
        requests.append((0, WRITE, i * 8, 8, fua))
        requests += [] if fua else [(0, FLUSH, 0, 0, 0)]
    rows = run(tmp_path, requests, params=flat(**CACHED)).rows
    ends_ns = [row.end_ns for row in rows if row.op == (WRITE if fua else FLUSH)]
    turns = [(after - before) / REVOLUTION_NS for before, after in pairwise(ends_ns)]
    assert turns.pop(124) == pytest.approx(0.1 + 8 / 1000, abs=1e-5)
    assert turns == [pytest.approx(1 + 8 / 1000, abs=1e-5)] * 248


def test_reread_costs_a_turn_without_segments(tmp_path: Path) -> None:
    rows = run(tmp_path, [(0, READ, 4096, 8, 0)] * 20).rows
    for row in rows[1:]:
        assert row.end_ns - row.start_ns == pytest.approx(REVOLUTION_NS, abs=2)
    again = run(tmp_path, [(0, READ, 4096, 8, 0)] * 20, params=flat(read_segments=1)).rows
    assert {row.how for row in again[1:]} == {READ_AHEAD}
    for row in again[1:]:
        assert row.end_ns - row.start_ns == pytest.approx(100_000 + 4096 / 300e6 * 1e9, abs=1)


def test_flush_takes_time_in_line_with_its_writes(tmp_path: Path) -> None:
    """The same milliseconds for each of 8, 64, 256 scattered writes, and all of them are destaged."""
    waits_ms = []
    for count in (64, 256, 512):
        requests = [*random_requests(count, WRITE, seed=3), (0, FLUSH, 0, 0, 0)]
        costs = run(tmp_path, requests, params=flat(**CACHED, destage_idle_ns=10**9))
        assert sum(row.sectors for row in costs.rows if row.op == DESTAGE) == count * 8
        waits_ms.append(costs.totals["flush_wait_ns"] / 1e6)
    first = (waits_ms[1] - waits_ms[0]) / 192
    second = (waits_ms[2] - waits_ms[1]) / 256
    assert first == pytest.approx(second, rel=0.1)
    assert waits_ms[0] == pytest.approx(64 * first, rel=0.15)


# --- the queue ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "rule,published",
    [
        ("fifo", (78, 78, 78, 78, 78, 78)),
        ("sstf", (78, 90, 104, 118, 134, 149)),
        ("sptf", (78, 94, 112, 135, 162, 197)),
    ],
)
def test_deep_queues_serve_reads_as_simulated(tmp_path: Path, rule: str, published: Sequence[int]) -> None:
    """Random reads a second at depths 1 to 32, against a simulation of an ideal disk by another program."""
    requests = random_requests(4000, READ, seed=4)
    for depth, rate in zip((1, 2, 4, 8, 16, 32), published, strict=True):
        totals = run(tmp_path, requests, f"--closed={depth}", params=flat(scheduling=rule)).totals
        assert 4000e9 / totals["end_ns"] == pytest.approx(rate, rel=0.04)


def test_age_limit_bounds_the_wait_in_a_deep_queue(tmp_path: Path) -> None:
    requests = random_requests(4000, READ, seed=5)
    waits_ms = []
    for age_ns in (3600 * 10**9, 500_000_000):
        costs = run(tmp_path, requests, "--closed=32", params=flat(most_age_ns=age_ns))
        waits_ms.append(max(row.end_ns - row.arrival_ns for row in costs.rows) / 1e6)
    assert waits_ms[0] > 1000
    # whatever is older goes first, in order: those that got old together wait for each other
    assert waits_ms[1] < 800
    assert 4000e9 / costs.totals["end_ns"] == pytest.approx(184, rel=0.04)


def test_queue_of_one_is_served_in_order(tmp_path: Path) -> None:
    requests = random_requests(200, READ, seed=6)
    rows = run(tmp_path, requests, "--closed=32", params=flat(queue_depth=1)).rows
    assert [row.request for row in rows] == list(range(200))
    assert {row.queued for row in rows} == {1}


# --- caches ---------------------------------------------------------------------------------------


def test_dirty_reads_come_from_the_cache(tmp_path: Path) -> None:
    """Wholly dirty: over the bus. Dirty in part, or flushed: from the platter."""
    requests = [
        (0, WRITE, 800, 8, 0),
        (0, WRITE, 808, 8, 0),
        (0, READ, 804, 8, 0),
        (0, READ, 796, 8, 0),
        (0, FLUSH, 0, 0, 0),
        (0, READ, 800, 8, 0),
    ]
    params = flat(write_cache_bytes=1 << 20, destage_idle_ns=10**9)
    rows = {row.request: row for row in run(tmp_path, requests, params=params).rows}
    assert [rows[i].how for i in range(6)] == [CACHE, CACHE, CACHE, MEDIA, MEDIA, MEDIA]
    assert rows[2].end_ns - rows[2].start_ns == pytest.approx(100_000 + 4096 / 300e6 * 1e9, abs=1)
    assert rows[-1].op == DESTAGE and (rows[-1].sector, rows[-1].sectors) == (800, 16)
    assert rows[4].wait_ns == rows[-1].end_ns - rows[4].start_ns - rows[4].overhead_ns


def test_write_makes_what_was_read_ahead_old(tmp_path: Path) -> None:
    pause_ns = 50_000_000
    requests = [
        (0, READ, 8000, 8, 0),
        (pause_ns, READ, 8008, 8, 0),
        (2 * pause_ns, WRITE, 8020, 8, 1),
        (3 * pause_ns, READ, 8016, 8, 0),
    ]
    rows = run(tmp_path, requests, "--seed=0", params=flat(**CACHED)).rows
    assert [row.how for row in rows] == [MEDIA, READ_AHEAD, MEDIA, MEDIA]


def test_cached_write_makes_what_was_read_old(tmp_path: Path) -> None:
    """Once the write has left the cache, what was read before it is not there any more."""
    requests = [(0, READ, 8000, 8, 0), (0, WRITE, 8000, 8, 0), (0, FLUSH, 0, 0, 0), (0, READ, 8000, 8, 0)]
    rows = [row for row in run(tmp_path, requests, params=flat(**CACHED)).rows if row.op != DESTAGE]
    assert [row.how for row in rows] == [MEDIA, CACHE, MEDIA, MEDIA]


def test_read_ahead_has_a_sector_once_it_has_passed(tmp_path: Path) -> None:
    """Without overhead and bus, sectors wanted at odd times come when the head is behind them, not sooner."""
    params = flat(read_segments=1, read_overhead_ns=0, bus_bytes_per_s=1e12)
    requests = [(0, READ, 0, 1, 0), *((20_000_000 + i * 3001, READ, 5000 + i, 1, 0) for i in range(1, 400))]
    requests[1] = (20_000_000, READ, 5000, 1, 0)
    rows = run(
        tmp_path, [request for request in requests if request[2] != 5001], "--seed=3", params=params
    ).rows
    begin_ns = rows[1].end_ns
    for row in rows[2:]:
        passed_ns = begin_ns + (row.sector - 5000) / 1000 * REVOLUTION_NS
        assert row.how == READ_AHEAD
        assert passed_ns - 2 < row.end_ns < max(passed_ns, row.arrival_ns) + 10


def test_read_ahead_returns_nothing_that_is_not_read(tmp_path: Path) -> None:
    """Each reply of a sequential stream comes after the head has passed its sectors, and not much later."""
    requests = sequential(READ, 0, 1000, sectors=64)
    rows = run(tmp_path, requests, params=flat(**CACHED)).rows
    assert [row.how for row in rows[:2]] == [MEDIA, READ_AHEAD]
    media_ns: float = rows[0].end_ns
    for row in rows[1:]:
        last = row.sector + row.sectors
        tracks = last // 1000 - (row.sector // 1000)
        media_ns += 64 / 1000 * REVOLUTION_NS
        if tracks and last % 1000:  # the border's skew lies before the sectors behind it
            media_ns += (0.125 if last // 1000 % SURFACES == 0 else 0.1) * REVOLUTION_NS
        elif row.sector % 1000 == 0:
            media_ns += (0.125 if row.sector // 1000 % SURFACES == 0 else 0.1) * REVOLUTION_NS
        bus_ns = 100_000 + 32768 / 300e6 * 1e9
        assert -2000 < row.end_ns - max(media_ns, row.start_ns + bus_ns) < 2000


def test_full_cache_lets_writes_wait_for_destages(tmp_path: Path) -> None:
    """The cache takes its extents at bus speed, then one write for each destage."""
    params = flat(write_cache_bytes=1 << 20, write_cache_extents=64, destage_at=1)
    costs = run(tmp_path, random_requests(300, WRITE, seed=7), params=params)
    ends = [row.end_ns for row in costs.rows if row.op == WRITE]
    assert ends[63] == pytest.approx(64 * (100_000 + 4096 / 300e6 * 1e9), abs=100)
    destages = [row.end_ns for row in costs.rows if row.op == DESTAGE]
    for number, end_ns in enumerate(ends[64:]):
        assert end_ns > destages[number]


def test_destages_take_turns_with_waiting_reads(tmp_path: Path) -> None:
    """A full cache does not keep reads waiting: behind a destage a read that waits is next."""
    mixed = [*random_requests(600, WRITE, seed=15), *random_requests(600, READ, seed=16)]
    random.Random(17).shuffle(mixed)
    params = flat(write_cache_bytes=1 << 20, write_cache_extents=64)
    rows = run(tmp_path, mixed, "--closed=32", params=params).rows
    by_head = [row for row in rows if row.by_head]
    reads = [row for row in by_head if row.op == READ]
    doubles = 0
    for before, row in pairwise(by_head):
        if before.op == row.op == DESTAGE:
            doubles += 1
            assert not [read for read in reads if read.arrival_ns < row.start_ns < read.start_ns]
    assert doubles < len(reads) < sum(row.op == DESTAGE for row in by_head) + 100


def test_idle_drive_destages_and_a_busy_one_does_not(tmp_path: Path) -> None:
    pause_ns = 10**9
    requests = [
        *((i * 1_000_000, WRITE, i * 100_000, 8, 0) for i in range(20)),
        (pause_ns, READ, 0, 8, 0),
    ]
    rows = run(tmp_path, requests, "--seed=0", params=flat(write_cache_bytes=8 << 20)).rows
    destages = [row for row in rows if row.op == DESTAGE]
    last = max(row.end_ns for row in rows if row.op == WRITE)
    assert len(destages) == 20
    assert destages[0].start_ns == last + 10_000_000


# --- rules that hold always -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def checker(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """drive_check, which keeps a mirror of the cache."""
    program = tmp_path_factory.mktemp("drive") / "drive_check"
    sources = [Path(__file__).with_name("drive_check.c"), *sorted((NATIVE / "model").glob("*.c"))]
    flags = ["-std=c11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE", f"-I{NATIVE}"]
    subprocess.run(["gcc", *flags, *map(str, sources), "-o", str(program), "-lm"], check=True)
    return program


def small_disk(draw: random.Random) -> str:
    """A disk of some thousand sectors with parameters at random, the edges of their ranges too."""
    surfaces = draw.choice([1, 2, 6])
    edge = draw.randrange(3, 9)
    zones = [(edge, draw.randrange(60, 90)), (20, draw.randrange(16, 60))]
    sectors = surfaces * ((edge + 1) * zones[0][1] + (20 - edge) * zones[1][1])
    first = draw.choice([0, 5, sectors // 3])
    choices: dict[str, Sequence[object]] = {
        "sectors": [sectors - first],
        "first_sector": [first],
        "rpm": [5400, 7200, 15000, 999.5],
        "surfaces": [surfaces],
        "write_settle_ns": [0, 100_000],
        "head_switch_ns": [0, 500_000],
        "track_skew": [0, 0.1, 0.5],
        "cylinder_skew": [0, 0.1, 0.9],
        "read_overhead_ns": [0, 100_000],
        "write_overhead_ns": [0, 200_000],
        "bus_bytes_per_s": [1e6, 3e8],
        "queue_depth": [1, 2, 32],
        "scheduling": ["fifo", "sstf", "sptf"],
        "most_age_ns": [0, 50_000_000, 10**9],
        "write_cache_bytes": [0, 4096, 65536, 1 << 20],
        "write_cache_extents": [1, 2, 10, 1000],
        "destage_at": [0, 0.5, 0.75, 1],
        "destage_idle_ns": [0, 1_000_000, 100_000_000],
        "destage_window": [0, 1, 8],
        "read_before": [0, 1],
        "read_segments": [0, 1, 3],
        "segment_sectors": [8, 100, 600],
    }
    lines = [f"{key} {draw.choice(values)}\n" for key, values in choices.items()]
    lines += [f"zone {last} {length}\n" for last, length in zones]
    lines += ["seek 1 400000\n", "seek 10 1500000\n", "seek 20 4000000\n"]
    return "".join(lines)


def test_model_keeps_its_rules_in_random_runs(checker: Path) -> None:
    """Pieces sum up, one head, answers once, flushes leave nothing dirty, no allocation, power cuts."""
    done = dict.fromkeys(("reads", "writes", "flushes", "destages", "by_cache", "by_read_ahead", "cuts"), 0)
    for seed in range(40):
        words = [str(checker), str(seed), "2000"]
        text = small_disk(random.Random(seed))
        result = subprocess.run(words, input=text, capture_output=True, text=True, check=False)
        assert result.returncode == 0, (seed, result.stderr)
        for key, value in json.loads(result.stdout).items():
            done[key] += value
    assert min(done.values()) > 10, done


def test_flush_leaves_every_earlier_write_on_the_platter(tmp_path: Path) -> None:
    """From the rows alone: each write that ended before a flush came has since been written by the head."""
    draw = random.Random(8)
    requests: list[Request] = []
    for number in range(3000):
        op = FLUSH if number % 50 == 49 else WRITE
        requests.append((number * 4_000_000, op, draw.randrange(5000) * 8, 8, int(draw.random() < 0.1)))
    rows = run(tmp_path, requests, "--seed=1", params=flat(**CACHED)).rows
    dirty: set[int] = set()
    for row in rows:  # in order of end
        if row.op == WRITE and row.how == CACHE:
            dirty.add(row.sector)
        elif row.op in (WRITE, DESTAGE):
            dirty.difference_update(range(row.sector, row.sector + row.sectors))
        elif row.op == FLUSH:
            assert not dirty
    assert sum(row.op == FLUSH for row in rows) == 60


def test_nothing_starts_before_it_comes(tmp_path: Path) -> None:
    """A mixed load as recorded: times in order, pieces that sum up, work of the head one after another."""
    draw = random.Random(9)
    requests: list[Request] = []
    now_ns = 0
    for _ in range(3000):
        now_ns += draw.randrange(12_000_000)
        requests.append((now_ns, draw.randrange(2), draw.randrange(10**6), draw.randrange(1, 256), 0))
    costs = run(tmp_path, requests, "--elevator=64", params=flat(**CACHED))
    free_ns = 0
    for row in costs.rows:
        pieces = row.overhead_ns + row.seek_ns + row.rotation_ns + row.transfer_ns + row.wait_ns
        assert row.start_ns + pieces == row.end_ns
        assert row.op == DESTAGE or row.issue_ns <= row.arrival_ns <= row.start_ns
        if row.by_head:
            assert row.start_ns >= free_ns
            free_ns = row.end_ns
    assert [row.end_ns for row in costs.rows] == sorted(row.end_ns for row in costs.rows)
    assert sorted(row.request for row in costs.rows if row.op != DESTAGE) == list(range(3000))
    heads = [row for row in costs.rows if row.by_head]
    for piece in ("seek_ns", "rotation_ns", "transfer_ns", "overhead_ns"):
        assert costs.totals[piece] == sum(getattr(row, piece) for row in heads)


def test_same_seed_gives_the_same_rows(tmp_path: Path) -> None:
    requests = random_requests(500, READ, 10) + random_requests(500, WRITE, 11)
    first, again, other = (
        run(tmp_path, requests, "--closed=16", f"--seed={seed}", params=flat(**CACHED)) for seed in (5, 5, 6)
    )
    assert first == again
    assert first.rows[0].rotation_ns != other.rows[0].rotation_ns


# --- parameters and requests from outside ---------------------------------------------------------


def refusal(folder: Path, text: str | bytes, stream: bytes = b"", *options: str) -> str:
    """The one line of a refusal, which must be printable."""
    (folder / "params").write_bytes(text if isinstance(text, bytes) else text.encode())
    words = [str(PROGRAM), f"--params={folder / 'params'}", *options]
    result = subprocess.run(words, input=stream, capture_output=True, check=False)
    assert result.returncode == 2, result
    line = result.stderr.decode("ascii")
    assert line.count("\n") == 1 and line[:-1].isprintable()
    return line


@pytest.mark.parametrize(
    "old,new,word",
    [
        ("rpm 7200", "rpm 0", "rpm"),
        ("rpm 7200", "rpm nan", "rpm"),
        ("rpm 7200", "rpm 0x1000", "rpm"),
        ("rpm 7200", "rpm 1e999", "rpm"),
        ("rpm 7200", "rpm -7200", "rpm"),
        ("rpm 7200", "rpm 7200 1", "rpm"),
        ("rpm 7200", "rpm 7200\nrpm 7200", "rpm"),
        ("rpm 7200", "", "rpm is missing"),
        ("rpm 7200", "speed 7200", "speed"),
        ("rpm 7200", "rpm 7200\n\x1b[2J 1", "no parameter"),
        ("rpm 7200", "rpm 7200" + "0" * 300, "line"),
        ("rpm 7200", "rpm 7200\0", "line"),
        ("surfaces 4", "surfaces 0", "surfaces"),
        ("surfaces 4", "surfaces 4294967297", "surfaces"),
        ("surfaces 4", "surfaces 3", "zones do not hold"),
        ("zone 15999 1000", "zone 15999 0", "zone"),
        ("zone 15999 1000", "zone 99999 1000", "zone"),
        ("zone 15999 1000", "zone 4294967295 1000", "zone"),
        ("zone 15999 1000", "zone 1 2 3", "zone"),
        ("zone 15999 1000", "zone 0 16\n" * 70 + "zone 15999 1000", "zone"),
        ("seek 2 ", "seek 1 ", "seek"),
        ("seek 2 ", "seek 0 ", "seek"),
        ("seek 2 ", "seek 2 99999999999", "seek"),
        ("track_skew 0.1", "track_skew 1", "track_skew"),
        ("queue_depth 32", "queue_depth 100000", "queue_depth"),
        ("scheduling sptf", "scheduling best", "scheduling"),
        ("write_cache_bytes 0", "write_cache_bytes 100", "write_cache"),
        ("read_segments 0", "read_segments 1\nread_segments 0", "read_segments"),
        ("segment_sectors 1024", "segment_sectors 99999999999999999999", "segment_sectors"),
        ("sectors ", "sectors 18446744073709551615\nrpm ", "sectors"),
    ],
)
def test_hostile_parameters_are_refused_with_a_line(tmp_path: Path, old: str, new: str, word: str) -> None:
    text = flat()
    assert old in text
    assert word in refusal(tmp_path, text.replace(old, new, 1))


def test_damaged_parameters_are_refused_or_work(tmp_path: Path) -> None:
    """Bytes, words and lines at random: exit status 0 or 2, soon, with one line for 2."""
    draw = random.Random(12)
    requests = b"".join(
        struct.pack("<qQIBBH", 0, draw.randrange(1000), 8, draw.randrange(3), 0, 0) for _ in range(20)
    )
    statuses = set()
    for _ in range(150):
        lines = flat(**CACHED).splitlines()
        for _ in range(draw.randrange(1, 3)):
            at = draw.randrange(len(lines))
            words = lines[at].split(" ")
            words[-1] = draw.choice(["0", "1", "16", "65535", "4294967295", "1e-300", "é", "-1", "", "8"])
            lines[at] = draw.choice([" ".join(words), "", lines[at] * 2, lines[draw.randrange(len(lines))]])
        (tmp_path / "params").write_text("\n".join(lines) + "\n")
        words = [str(PROGRAM), f"--params={tmp_path / 'params'}", "--closed=4"]
        result = subprocess.run(words, input=requests, capture_output=True, timeout=20, check=False)
        statuses.add(result.returncode)
        assert result.returncode in (0, 2), (lines, result)
        assert result.stderr.count(b"\n") == (result.returncode == 2)
    assert statuses == {0, 2}


@pytest.mark.parametrize(
    "line",
    [
        "1 r 0 8",
        "1 x 0 8 0",
        "-1 r 0 8 0",
        "1 r 0 8 2",
        "1 r 0 8 0 0",
        "1 r 0 0 0",
        "1 r 0 65537 0",
        f"1 r {SECTORS - 4} 8 0",
        "1 w 18446744073709551608 8 0",
    ],
)
def test_wrong_requests_are_refused_by_number(tmp_path: Path, line: str) -> None:
    stream = f"0 r 0 8 0\n{line}\n".encode()
    assert refusal(tmp_path, flat(), stream, "--text").startswith("drive-cost: request 1: ")


# --- the host's elevator --------------------------------------------------------------------------


def test_elevator_sorts_what_the_drive_has_no_room_for(tmp_path: Path) -> None:
    """A queue of 1 drive: behind the first request the others go by position, in batches of 16 upwards."""
    requests = random_requests(64, READ, seed=13)
    rows = run(tmp_path, requests, "--closed=64", "--elevator=64", params=flat(queue_depth=1)).rows
    assert [row.request for row in rows] != list(range(64))
    sectors = [row.sector for row in rows]
    falls = sum(a > b for a, b in pairwise(sectors))
    assert falls <= 2
    unsorted = run(tmp_path, requests, "--closed=64", params=flat(queue_depth=1)).totals
    assert rows[-1].end_ns < unsorted["end_ns"] * 0.8


def test_elevator_merges_requests_that_follow(tmp_path: Path) -> None:
    requests = [(0, READ, 10**6, 8, 0), *sequential(READ, 0, 16, sectors=8)]
    words = ("--closed=64", "--elevator=64", "--merge=256")
    rows = run(tmp_path, requests, *words, params=flat(queue_depth=1)).rows
    merged = [row for row in rows if row.request > 0]
    assert len({row.end_ns for row in merged}) == 1
    assert sorted(row.sector for row in merged) == [i * 8 for i in range(16)]
    transfers = [row.transfer_ns for row in merged if row.transfer_ns]
    assert transfers == [pytest.approx(128 / 1000 * REVOLUTION_NS, abs=2)]


def test_gaps_keep_the_time_between_requests(tmp_path: Path) -> None:
    """A closed loop with gaps: what the host did between its requests takes as long as recorded."""
    requests = [(i * 20_000_000, READ, 8 * i, 8, 0) for i in range(50)]
    issues = [row.issue_ns for row in run(tmp_path, requests, "--closed=1", "--gaps").rows]
    assert issues == [i * 20_000_000 for i in range(50)]
    slow = [
        (i * 1000, READ, sector, 8, 0) for i, (_, _, sector, _, _) in enumerate(random_requests(50, 0, 14))
    ]
    rows = run(tmp_path, slow, "--closed=1", "--gaps").rows
    for before, row in pairwise(rows):
        assert row.issue_ns == before.end_ns
