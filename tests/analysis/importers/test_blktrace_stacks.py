# SPDX-License-Identifier: BSD-2-Clause
"""Traces of stacked devices, event by event: each bio is a row, and each request knows whose it is."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from analysis.importers.stack import stack_of
from tests.analysis.importers.blktrace_files import (
    FLUSH,
    FS,
    FUA,
    META,
    READ,
    SYNC,
    WRITE,
    Event,
    Imported,
    dev,
    named_rows,
    numbered,
    process_note,
    remap_pdu,
    run_reader,
    write_dump,
)
from tests.analysis.importers.text_traces import read_text

START_NS = 10**12
SDA, SDB, SDC = (dev(8, 16 * i) for i in range(3))
DM0, DM1, MD0 = dev(253, 0), dev(253, 1), dev(9, 0)
APP, CRYPT, RAID = 50, 60, 70
NOTES = [
    process_note(START_NS, pid, name)
    for pid, name in ((APP, "fio"), (CRYPT, "dmcrypt_write/2"), (RAID, "md0_raid5"))
]
VOLUME = ("dev", "op", "sector", "bytes", "queue_ns", "complete_ns", "pid", "comm")
LEAF = ("dev", "op", "sector", "bytes", "pid", "comm", "origin_dev", "origin_sector", "origin_ns")


def remap(t_ns: int, to: int, sector: int, size: int, from_dev: int, from_sector: int, what: int = READ,
          pid: int = APP) -> Event:  # fmt: skip
    """A: a bio of from_dev goes to another device."""
    return Event(t_ns, "A", sector, size, what, pid, to, pdu=remap_pdu(from_dev, to, from_sector))


def request(t_ns: int, device: int, sector: int, size: int, what: int = READ, pid: int = APP) -> list[Event]:
    """Q, G, D, C of a leaf, 1 us apart each."""
    kinds = ("Q", what, pid), ("G", what, pid), ("D", what | FS, 7), ("C", what | FS, 0)
    return [Event(t_ns + 1000 * i, a, sector, size, w, p, device) for i, (a, w, p) in enumerate(kinds)]


def served(t_ns: int, leaf: int, sector: int, size: int, volume: int, at: int, what: int = READ,
           pid: int = APP) -> list[Event]:  # fmt: skip
    """A, then the leaf's request, for a bio of the volume."""
    return [remap(t_ns, leaf, sector, size, volume, at, what, pid),
            *request(t_ns + 10, leaf, sector, size, what, pid)]  # fmt: skip


def bio(t_ns: int, end_ns: int, device: int, sector: int, size: int, what: int = READ) -> list[Event]:
    """Q and C of a volume."""
    return [Event(t_ns, "Q", sector, size, what, APP, device),
            Event(end_ns, "C", sector, size, what, 0, device)]  # fmt: skip


def imported(reader: Path, folder: Path, events: Iterable[Event]) -> Imported:
    folder.mkdir(exist_ok=True)
    return run_reader(reader, folder / "out", write_dump(folder / "dump", [*NOTES, *numbered(events)]))


def bios(folder: Path, names: Sequence[str] = VOLUME) -> list[tuple[Any, ...]]:
    """Rows of volume.rec, sorted by device and queue time."""
    _, rows = named_rows(folder / "out/volume.rec")
    rows.sort(key=lambda row: (row["dev"], row["queue_ns"]))
    return [tuple(row[name] for name in names) for row in rows]


def test_linear_volume_gives_its_leafs_requests_their_origin(reader: Path, tmp_path: Path) -> None:
    t = START_NS
    events = []
    for i in range(20):
        at = t + 100_000 * i
        events += bio(at, at + 9000, DM0, 8 * i, 4096)
        events += served(at + 5, SDA, 2048 + 8 * i, 4096, DM0, 8 * i)
    got = imported(reader, tmp_path, events)
    assert bios(tmp_path) == [
        (DM0, "read", 8 * i, 4096, t + 100_000 * i, t + 100_000 * i + 9000, APP, "fio") for i in range(20)
    ]
    assert got.tuples(LEAF) == [
        (SDA, "read", 2048 + 8 * i, 4096, APP, "fio", DM0, 8 * i, t + 100_000 * i) for i in range(20)
    ]
    assert sorted(row["origin"] for row in got.rows) == [id_ for (id_,) in bios(tmp_path, ["bio_id"])]
    assert bios(tmp_path, ["bio_id"]) == bios(tmp_path, ["origin"])  # the top's own
    assert got.lost == {} and got.notes == {}
    assert got.facts["remaps"] == [{"from": "253:0", "to": "8:0", "count": 20, "first_sector": 2048}]
    stack = stack_of(got.facts, {"8:0": "sda", "253:0": "dm-0"})
    assert stack is not None and [root["name"] for root in stack["roots"]] == ["dm-0"]
    assert [(node["name"], node["recorded"], node["below"]) for node in stack["nodes"]] == [
        ("dm-0", "bios", ["sda"]),
        ("sda", "requests", []),
    ]


def stripe_events(t: int, with_parts: bool) -> list[Event]:
    """A bio of 256 KiB over two leaves, in chunks of 64 KiB; its C has the length of the last chunk alone."""
    chunk = 128
    events = [Event(t, "Q", 1000 * chunk, 4 << 16, WRITE, APP, DM0)]
    for i in range(4):
        start = (1000 + i) * chunk
        if i:
            split = start.to_bytes(8, "big")
            events.append(Event(t + 10 * i, "X", start - chunk, 1 << 16, WRITE, APP, DM0, pdu=split))
        leaf = (SDA, SDB)[i % 2]
        events += served(t + 10 * i + 1, leaf, (500 + i // 2) * chunk, 1 << 16, DM0, start, WRITE)
        if with_parts and i < 3:
            events.append(Event(t + 8000 + i, "C", start, 1 << 16, WRITE, 0, DM0))
    return [*events, Event(t + 9000, "C", 1003 * chunk, 1 << 16, WRITE, 0, DM0)]


@pytest.mark.parametrize("with_parts", [False, True])
def test_striped_bio_ends_with_its_last_sector(reader: Path, tmp_path: Path, with_parts: bool) -> None:
    """dm: the bio ends with what is left of it. md since 6.12, and the block layer: so do its first parts."""
    got = imported(reader, tmp_path, stripe_events(START_NS, with_parts))
    assert bios(tmp_path) == [
        (DM0, "write", 128_000, 1 << 18, START_NS, START_NS + 9000, APP, "fio")
    ]  # fmt: skip
    assert [row[0:1] + row[2:4] + row[6:] for row in got.tuples(LEAF)] == [
        (leaf, (500 + i // 2) * 128, 1 << 16, DM0, (1000 + i) * 128, START_NS)
        for leaf, i in ((SDA, 0), (SDA, 2), (SDB, 1), (SDB, 3))
    ]
    assert got.lost == {}
    assert got.notes == ({"volume: ends of a part of a bio": 3} if with_parts else {})


def test_rest_of_a_bio_queued_again_is_no_second_bio(reader: Path, tmp_path: Path) -> None:
    """Kernels before 4.14 trace it so."""
    events = stripe_events(START_NS, False)
    again = [Event(e.t_ns + 1, "Q", e.sector + 128, (3 - i) << 16, WRITE, APP, DM0)
             for i, e in enumerate(e for e in events if e.action == "X")]  # fmt: skip
    got = imported(reader, tmp_path, [*events, *again])
    assert [row[3] for row in bios(tmp_path)] == [1 << 18]
    assert {row["origin_ns"] for row in got.rows} == {START_NS} and got.lost == {}


def test_crypt_writes_by_a_worker_keep_their_submitter(reader: Path, tmp_path: Path) -> None:
    """Two writes of 1.5 MiB wait for a worker, which sends them in an order of its own, in parts."""
    t, size = START_NS, 3 << 19
    events = bio(t, t + 90_000, DM0, 0, size, WRITE) + bio(t + 10, t + 91_000, DM0, 3072, size, WRITE)
    for i, start in enumerate((3072, 0)):
        for part in range(3):
            at = start + 1024 * part
            when = t + 5000 + 10_000 * (3 * i + part)
            events += served(when, SDA, 4096 + at, 1 << 19, DM0, at, WRITE, CRYPT)
    got = imported(reader, tmp_path, events)
    assert [row[3:6] for row in bios(tmp_path)] == [(size, t, t + 90_000), (size, t + 10, t + 91_000)]
    assert got.tuples(("sector", "origin_sector", "pid", "comm", "origin_ns")) == [
        (4096 + 1024 * i, 1024 * i, APP, "fio", t + 10 * (i >= 3)) for i in range(6)
    ]
    assert got.lost == {} and got.notes == {}


def lvm_on_crypt_events(t: int, _: bool = False) -> list[Event]:
    """Ten writes to dm-1 (LVM) on dm-0 (crypt) on sda2, which begins at sector 1,000,000."""
    part, what = dev(8, 2), WRITE | SYNC
    events = []
    for i in range(10):
        at = t + 100_000 * i
        events += bio(at, at + 30_000, DM1, 8 * i, 4096, what)
        events += [remap(at + 1, DM0, 384 + 8 * i, 4096, DM1, 8 * i, what)]
        events += bio(at + 2, at + 29_000, DM0, 384 + 8 * i, 4096, what)
        # the crypt's, with the disk's number and the partition's sector; then the partition's own
        events += [remap(at + 500, SDA, 32_768 + 384 + 8 * i, 4096, DM0, 384 + 8 * i, what, CRYPT)]
        events += [remap(at + 501, SDA, 10**6 + 32_768 + 384 + 8 * i, 4096, part, 32_768 + 384 + 8 * i,
                         what, CRYPT)]  # fmt: skip
        events += request(at + 502, SDA, 10**6 + 32_768 + 384 + 8 * i, 4096, what, CRYPT)
    return events


def test_lvm_on_crypt_on_a_partition_is_followed_through(reader: Path, tmp_path: Path) -> None:
    """The disk's requests serve bios of dm-1, and so do dm-0's bios."""
    t = START_NS
    got = imported(reader, tmp_path, lvm_on_crypt_events(t))
    assert got.tuples(LEAF) == [
        (SDA, "write", 10**6 + 33_152 + 8 * i, 4096, APP, "fio", DM1, 8 * i, t + 100_000 * i)
        for i in range(10)
    ]
    rows = bios(tmp_path, ("dev", "bio_id", "origin", "comm"))
    ids = [id_ for device, id_, _, _ in rows if device == DM1]
    assert [row[2:] for row in rows if row[0] == DM0] == [(id_, "fio") for id_ in ids]
    assert [row["origin"] for row in got.rows] == ids
    assert got.lost == {} and got.notes == {}
    stack = stack_of(got.facts, {})
    assert stack is not None
    assert [(node["name"], node["below"]) for node in stack["nodes"]] == [
        ("253:1", ["253:0"]),
        ("253:0", ["8:2"]),
        ("8:0", []),
    ]
    assert [(p["name"], p["disk"], p["first_sector"]) for p in stack["parts"]] == [("8:2", "8:0", 10**6)]


def test_partition_of_a_bare_disk_is_no_volume(reader: Path, tmp_path: Path) -> None:
    events = [remap(START_NS, SDA, 2048 + 8, 4096, dev(8, 1), 8), *request(START_NS + 1, SDA, 2056, 4096)]
    got = imported(reader, tmp_path, events)
    assert not (tmp_path / "out/volume.rec").exists() and got.notes == {}
    assert got.tuples(("dev", "sector", "origin", "queue_source")) == [(SDA, 2056, 0, 0)]
    assert stack_of(got.facts, {}) is None


def test_mirrors_writes_serve_one_bio_and_its_own_none(reader: Path, tmp_path: Path) -> None:
    """raid1: a write goes to both leaves; the superblock's write to each has no remap event, so no origin."""
    t = START_NS
    events = bio(t, t + 9000, MD0, 800, 8192, WRITE)
    for leaf in (SDA, SDB):
        events += served(t + 10, leaf, 2048 + 800, 8192, MD0, 800, WRITE)
        events += request(t + 50_000, leaf, 16, 4096, WRITE | FLUSH | FUA | META, RAID)
    got = imported(reader, tmp_path, events)
    assert [row[3:6] for row in bios(tmp_path)] == [(8192, t, t + 9000)]
    assert got.tuples(("dev", "sector", "origin", "origin_sector", "comm")) == [
        (SDA, 16, 0, 0, "md0_raid5"),
        (SDA, 2848, 1, 800, "fio"),
        (SDB, 16, 0, 0, "md0_raid5"),
        (SDB, 2848, 1, 800, "fio"),
    ]
    assert got.lost == {}


def raid5_events(t: int, start: int = 12_800, leaf_start: int = 6400) -> list[Event]:
    """A full stripe of two chunks of 64 KiB, in pages, and its parity, on SDC."""
    events = [
        Event(t, "Q", start, 2 << 16, WRITE, APP, MD0),
        Event(t + 99_000, "C", start, 2 << 16, WRITE, 0, MD0),
    ]
    for leaf, first in ((SDA, start), (SDB, start + 128), (SDC, None)):
        for page in range(16):
            at, when = leaf_start + 8 * page, t + 1000 + 20 * page
            origin = 0 if first is None else first + 8 * page
            events += [remap(when, leaf, at, 4096, MD0, origin, WRITE, RAID)]
            events += [Event(when + 1, "Q", at, 4096, WRITE, RAID, leaf)]
            events += [Event(when + 2, "M" if page else "G", at, 4096, WRITE, RAID, leaf)]
        events += [Event(t + 2000, "D", leaf_start, 1 << 16, WRITE | FS, RAID, leaf)]
        events += [Event(t + 9000, "C", leaf_start, 1 << 16, WRITE | FS, 0, leaf)]
    return events


def classed(got: Imported) -> list[tuple[Any, ...]]:
    """Device, origin, its sector, comm and class of the leaves' requests."""
    classes = got.header["enums"]["block_class"]
    return sorted(
        (row["dev"], row["origin"], row["origin_sector"], row["comm"], classes[str(row["class"])])
        for row in got.rows
        if (row["parity_bytes"] == row["bytes"]) == (classes[str(row["class"])] == "parity")
    )


def test_raid5_pages_find_the_bio_they_lie_in(reader: Path, tmp_path: Path) -> None:
    """A: per page of 4 KiB by the raid's thread, merged at the leaf; parity's says sector 0."""
    t = START_NS
    got = imported(reader, tmp_path, raid5_events(t))
    assert classed(got) == [
        (SDA, 1, 12_800, "fio", "unknown"),
        (SDB, 1, 12_928, "fio", "unknown"),
        (SDC, 0, 0, "md0_raid5", "parity"),
    ]
    assert {row["merges"] for row in got.rows} == {15}
    assert [row[2:6] for row in bios(tmp_path)] == [(12_800, 2 << 16, t, t + 99_000)]
    assert got.lost == {} and got.notes == {}


def test_parity_and_data_in_one_request_are_told_apart(reader: Path, tmp_path: Path) -> None:
    """SDC's next chunk is data, and merged with the parity before it: the request is that of the data."""
    t = START_NS
    events = raid5_events(t)
    done = [event for event in events if event.device == SDC and event.action in ("D", "C")]
    events = [event for event in events if event not in done]
    events += bio(t + 10, t + 99_000, MD0, 13_184, 4096, WRITE)
    events += [remap(t + 1500, SDC, 6528, 4096, MD0, 13_184, WRITE, RAID)]
    events += [Event(t + 1501, letter, 6528, 4096, WRITE, RAID, SDC) for letter in "QM"]
    events += [Event(e.t_ns, e.action, 6400, 17 * 4096, e.categories, e.pid, SDC) for e in done]
    got = imported(reader, tmp_path, events)
    (row,) = (row for row in got.rows if row["dev"] == SDC)
    assert (row["bytes"], row["parity_bytes"], row["class"], row["comm"]) == (17 * 4096, 16 * 4096, 0, "fio")
    assert (row["origin_dev"], row["origin_sector"], row["origin_ns"]) == (MD0, 13_184, t + 10)


@pytest.mark.parametrize("was_read", [False, True])
def test_parity_of_the_first_stripe_needs_a_read_of_it(reader: Path, tmp_path: Path, was_read: bool) -> None:
    """A bio to sector 0 is open, and data and parity say the same; a read tells where it lies."""
    t = START_NS
    events = bio(t, t + 9000, MD0, 8, 4096) + served(t + 10, SDA, 2056, 4096, MD0, 8)
    if was_read:
        events = bio(t, t + 9000, MD0, 0, 4096) + served(t + 10, SDA, 2048, 4096, MD0, 0)
    got = imported(reader, tmp_path, events + raid5_events(t + 10**6, start=0, leaf_start=2048))
    id_ = bios(tmp_path, ["bio_id"])[-1][0]
    assert [row for row in classed(got) if row[1] != 1] == [
        (SDA, id_ if was_read else 0, 0, "fio", "unknown"),
        (SDB, id_, 128, "fio", "unknown"),
        (SDC, 0, 0, "fio", "parity" if was_read else "unknown"),
    ]


def test_one_write_of_sector_0_is_no_parity(reader: Path, tmp_path: Path) -> None:
    """Neither its class nor another origin is certain from one place that says sector 0."""
    t = START_NS
    events = bio(t, t + 9000, MD0, 0, 4096, WRITE) + served(t + 10, SDA, 2048, 4096, MD0, 0, WRITE)
    events += served(t + 20_000, SDB, 2048, 4096, MD0, 0, WRITE)  # its bio was not seen
    got = imported(reader, tmp_path, events)
    assert got.tuples(("dev", "class", "origin")) == [(SDA, 0, 1), (SDB, 0, 0)]


def test_bio_that_goes_on_itself_ends_with_its_request(reader: Path, tmp_path: Path) -> None:
    """NVMe multipath, md before 5.13: the path has no Q of its own, the head no C. Two bios, one request."""
    t, head, path = START_NS, dev(259, 2), dev(259, 0)
    events = []
    for i, letter in enumerate("GM"):
        events += [Event(t + 100 * i, "Q", 64 + 8 * i, 4096, READ, APP, head)]
        events += [remap(t + 100 * i + 1, path, 64 + 8 * i, 4096, head, 64 + 8 * i)]
        events += [Event(t + 100 * i + 2, letter, 64 + 8 * i, 4096, READ, APP, path)]
    events += [
        Event(t + 1000, "D", 64, 8192, READ | FS, 7, path),
        Event(t + 5000, "C", 64, 8192, READ | FS, 0, path),
    ]
    got = imported(reader, tmp_path, events)
    assert [row[2:6] for row in bios(tmp_path)] == [(64 + 8 * i, 4096, t + 100 * i, t + 5000) for i in (0, 1)]
    names = ("dev", "bytes", "queue_ns", "issue_ns", "merges", "queue_source", "origin_dev", "origin_sector")
    assert got.tuples(names) == [(path, 8192, t, t + 1000, 1, 0, head, 64)]
    assert got.lost == {} and got.notes == {}


def multipath_events(t: int) -> list[Event]:
    """Three requests of two bios each to a multipath device, sent on to one disk."""
    events = []
    for round_ in range(3):
        at = t + 100_000 * round_
        for i, letter in enumerate("GM"):
            events += [Event(at + 100 * i, "Q", 64 + 8 * i, 4096, WRITE, APP, DM0)]
            events += [Event(at + 100 * i + 2, letter, 64 + 8 * i, 4096, WRITE, APP, DM0)]
        events += [Event(at + 1000, "D", 64, 8192, WRITE | FS, 7, DM0)]
        events += [remap(at + 1001, SDA, 64, 8192, DM0, 64, WRITE | FS, 7)]
        events += [Event(at + 1002, "D", 64, 8192, WRITE | FS, 7, SDA)]
        events += [Event(at + 5000, "C", 64, 8192, WRITE | FS, 0, SDA)]
        events += [Event(at + 5010, "C", 64, 8192, WRITE | FS, 0, DM0)]
    return events


def test_multipaths_requests_become_its_bios(reader: Path, tmp_path: Path) -> None:
    """dm-multipath takes requests and sends them on (RA): rows of its bios, requests of the leaf."""
    t = START_NS
    got = imported(reader, tmp_path, multipath_events(t))
    assert [row[2:6] for row in bios(tmp_path)][-4:] == [
        (64 + 8 * i, 4096, t + 100_000 * n + 100 * i, t + 100_000 * n + 5010) for n in (1, 2) for i in (0, 1)
    ]
    assert {row["dev"] for row in got.rows} == {SDA} and len(got.rows) == 3
    assert [row["origin_ns"] for row in got.rows][1:] == [t + 100_000, t + 200_000]
    assert [row["comm"] for row in got.rows][1:] == ["fio", "fio"]
    assert got.lost == {}


def test_flushes_of_a_volume_belong_to_its_bio(reader: Path, tmp_path: Path) -> None:
    """A commit through dm: an empty flush goes down first, without the bio's place; then the data."""
    t, what = START_NS, WRITE | SYNC | FLUSH | FUA
    events = [
        Event(t, "Q", 800, 4096, what, APP, DM0),
        remap(t + 1, SDA, 0, 0, DM0, 0, WRITE | FLUSH),
        Event(t + 2, "Q", 0, 0, WRITE | FLUSH, APP, SDA),
        Event(t + 3, "G", 0, 0, WRITE | FLUSH, APP, SDA),
        Event(t + 4, "D", 0, 0, READ | FLUSH | FS, 7, SDA),
        Event(t + 1000, "C", 0, 0, READ | FLUSH | FS, 0, SDA),
        Event(t + 1001, "C", 0, 0, WRITE | FLUSH | FS, 0, SDA),
        *served(t + 2000, SDA, 2848, 4096, DM0, 800, WRITE | SYNC | FUA, RAID),
        Event(t + 9000, "C", 800, 4096, WRITE | SYNC | FUA, 0, DM0),
    ]
    got = imported(reader, tmp_path, events)
    assert [row[1:6] for row in bios(tmp_path)] == [("write", 800, 4096, t, t + 9000)]
    assert got.tuples(("op", "origin", "origin_ns", "comm")) == [
        ("flush", 1, t, "fio"),
        ("write", 1, t, "fio"),
    ]
    assert got.lost == {}


def test_trace_of_leaves_alone_draws_the_untraced_volume(reader: Path, tmp_path: Path) -> None:
    """blktrace of the disks of a stripe alone: no origins, and the tree says what is missing."""
    events = [event for event in stripe_events(START_NS, False) if event.device != DM0]
    got = imported(reader, tmp_path, events)
    assert [row["origin"] for row in got.rows] == [0] * 4
    stack = stack_of(got.facts, {})
    assert stack is not None
    assert [(n["name"], n["recorded"], n["why_not"], n["below"]) for n in stack["nodes"]] == [
        ("253:0", "no", "the trace has no events of it", ["8:0", "8:16"]),
        ("8:0", "requests", "", []),
        ("8:16", "requests", "", []),
    ]


def test_bios_alone_stay_requests(reader: Path, tmp_path: Path) -> None:
    """A trace of one volume, or of Q and C alone: nothing tells which, and the rows are as before."""
    events = bio(START_NS, START_NS + 500, DM0, 8, 4096) + bio(START_NS + 90, START_NS + 900, DM0, 80, 4096)
    got = imported(reader, tmp_path, events)
    assert got.tuples(("sector", "queue_ns", "issue_ns", "complete_ns", "comm")) == [
        (8, START_NS, START_NS, START_NS + 500, "fio"),
        (80, START_NS + 90, START_NS + 90, START_NS + 900, "fio"),
    ]
    assert not (tmp_path / "out/volume.rec").exists()
    assert got.notes == {"rows that are bios, as no requests were traced": 2}


def test_volume_without_remaps_beside_a_disk_has_bios(reader: Path, tmp_path: Path) -> None:
    """zram: Q and C only."""
    zram = dev(252, 0)
    events = bio(START_NS, START_NS + 500, zram, 8, 4096) + request(START_NS, SDA, 8, 4096)
    got = imported(reader, tmp_path, events)
    assert [row["dev"] for row in got.rows] == [SDA]
    assert bios(tmp_path, ["dev", "sector", "complete_ns"]) == [(zram, 8, START_NS + 500)]


def test_remaps_cut_short_or_in_circles_are_survived(reader: Path, tmp_path: Path) -> None:
    t = START_NS
    loop = [remap(t + 5, SDA, 800, 4096, SDA, 800), remap(t + 6, SDA, 808, 4096, SDA, 800)]
    cut = remap(t + 7, SDA, 900, 4096, DM0, 800)
    cut.pdu = cut.pdu[:15]
    circle = [Event(t + 8, "Q", 8, 4096, READ, APP, DM0), remap(t + 9, DM1, 8, 4096, DM0, 8),
              Event(t + 10, "Q", 8, 4096, READ, APP, DM1), remap(t + 11, DM0, 8, 4096, DM1, 8),
              Event(t + 12, "Q", 8, 4096, READ, APP, DM0)]  # fmt: skip
    got = imported(reader, tmp_path, [*request(t, SDA, 800, 4096), *loop, cut, *circle])
    assert got.lost == {"remaps cut short": 1}
    assert got.notes == {"volume: open at the end": 3}
    stack = stack_of(got.facts, {})
    assert stack is not None and json.dumps(stack)
    assert {node["name"]: node["below"] for node in stack["nodes"]} == {
        "253:0": ["253:1"], "253:1": ["253:0"], "8:0": []
    }  # fmt: skip


def test_chain_of_200_volumes_keeps_the_origin(reader: Path, tmp_path: Path) -> None:
    """As many as are kept apart; the request at the bottom serves the bio at the top."""
    layers = [dev(253, i) for i in range(200)]
    t = START_NS
    events = bio(t, t + 10**6, layers[0], 8, 4096)
    for i, (upper, lower) in enumerate(pairwise(layers), 1):
        events += [remap(t + 10 * i, lower, 8 + i, 4096, upper, 7 + i)]
        events += bio(t + 10 * i + 1, t + 10**6 - i, lower, 8 + i, 4096)
    events += served(t + 10_000, SDA, 4096, 4096, layers[-1], 207)
    got = imported(reader, tmp_path, events)
    assert got.tuples(LEAF) == [(SDA, "read", 4096, 4096, APP, "fio", layers[0], 8, t)]
    assert {origin for (origin,) in bios(tmp_path, ["origin"])} == {1} and len(bios(tmp_path)) == 200
    assert got.lost == {} and got.notes == {}


def as_ftrace(events: Iterable[Event]) -> str:
    """The events as the kernel prints its block tracepoints; a Q is followed by nothing that has no text."""
    names = {"Q": "bio_queue", "G": "getrq", "D": "rq_issue", "A": "bio_remap", "X": "split"}
    comms = {APP: "fio", CRYPT: "dmcrypt_write/2", RAID: "md0_raid5"}
    said = []
    for e in numbered(events):
        assert isinstance(e.action, str)
        rwbs = ("W" if e.categories & WRITE else "R") + ("S" if e.categories & SYNC else "")
        place, comm = f"{e.sector} + {e.bytes // 512}", comms.get(e.pid, "x")
        number = f"{e.device >> 20},{e.device & 0xFFFFF} {rwbs} "
        if e.action == "A":
            old, at = int.from_bytes(e.pdu[:4], "big"), int.from_bytes(e.pdu[8:], "big")
            text = f"{number}{place} <- ({old >> 20},{old & 0xFFFFF}) {at}"
        elif e.action == "X":
            text = f"{number}{e.sector} / {int.from_bytes(e.pdu, 'big')} [{comm}]"
        elif e.action == "D":
            text = f"{number}{e.bytes} () {place} [{comm}]"
        elif e.action == "C" and e.categories & FS:
            text = f"{number}() {place} [0]"
        else:
            text = f"{number}{place} [{0 if e.action == 'C' else comm}]"
        name = names.get(e.action) or ("rq_complete" if e.categories & FS else "bio_complete")
        said.append(f"{comm}-{e.pid} [000] {e.t_ns // 10**9}.{e.t_ns % 10**9:09}: block_{name}: {text}\n")
    return "".join(said)


@pytest.mark.parametrize("make", [stripe_events, lvm_on_crypt_events])
def test_text_gives_the_same_rows_and_origins(
    translator: Path, reader: Path, tmp_path: Path, make: Callable[[int, bool], list[Event]]
) -> None:
    """ftrace, trace-cmd and perf script have the remaps, too."""
    events = make(START_NS, False)
    got = imported(reader, tmp_path / "binary", events)
    rows = bios(tmp_path / "binary")
    text = read_text(translator, reader, tmp_path / "text", as_ftrace(events)).imported
    assert bios(tmp_path / "text") == rows and len(rows) > 0
    assert text.tuples(LEAF) == got.tuples(LEAF) and all(row["origin"] for row in text.rows)
    assert text.facts["remaps"] == got.facts["remaps"] and text.lost == {}


def test_request_in_place_of_a_lost_one_is_paired(reader: Path, tmp_path: Path) -> None:
    """One whose end was lost is at its sectors for a minute; the table of pieces grows just then."""
    t, head, path = START_NS, dev(259, 2), dev(259, 0)
    for count in range(4090, 4097):
        lost = request(t, path, 64, 4096)[:3]
        others = [Event(t + 5000 + i, "Q", 1000 + 8 * i, 4096, READ, APP, path) for i in range(count)]
        later = t + 70 * 10**9
        events = [
            Event(later, "Q", 64, 4096, READ, APP, head),
            remap(later + 1, path, 64, 4096, head, 64),
            Event(later + 2, "D", 64, 4096, READ | FS, APP, path),
            Event(later + 3, "C", 64, 4096, READ | FS, 0, path),
        ]
        got = imported(reader, tmp_path, [*lost, *others, *events])
        assert [(row["complete_ns"], row["origin_ns"]) for row in got.rows] == [(0, 0), (later + 3, later)]
        assert got.notes["bios queued and not issued at the end"] == count
