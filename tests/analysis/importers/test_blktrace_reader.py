# SPDX-License-Identifier: BSD-2-Clause
"""Block traces whose requests are known become exactly those rows, and what is missing is counted."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from tests.analysis.importers.blktrace_files import (
    DISCARD,
    FLUSH,
    FS,
    FUA,
    PC,
    READ,
    SYNC,
    WRITE,
    Event,
    dev,
    message_note,
    numbered,
    process_note,
    run_reader,
    timestamp_note,
    write_cpus,
    write_dump,
)
from tests.analysis.importers.blktrace_requests import CPUS, NAMES, Requests
from tests.collectors.recording import read_table

# 9 (md), 253 and 254 (virtio, device mapper) are what btt takes for remappers: disks like all others
DEVICES = [dev(8, 0), dev(9, 1), dev(253, 0), dev(254, 16), dev(259, 70_000)]
START_NS = 10**12


def notes() -> list[Event]:
    return [process_note(START_NS - 1, pid, name, cpu=pid % CPUS) for pid, name in NAMES.items()]


def one_request(t_ns: int, sector: int, size: int = 4096, what: int = READ, **more: Any) -> list[Event]:
    """Q, G, D, C, each 100 ns after the other."""
    steps = zip("QGDC", (what, what, what | FS, what | FS), strict=True)
    return [Event(t_ns + 100 * i, action, sector, size, w, **more) for i, (action, w) in enumerate(steps)]


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("seed", range(3))
def test_every_request_becomes_its_row(reader: Path, tmp_path: Path, order: str, seed: int) -> None:
    several = [Requests(100 * seed + i, device) for i, device in enumerate(DEVICES)]
    events = numbered([*notes(), *(event for one in several for event in one.events)])
    rows = sorted(row for one in several for row in one.rows)
    assert len(rows) > 300
    for form, paths in (
        ("cpus", write_cpus(tmp_path / "cpus", "sda", events, order)),
        ("dump", write_dump(tmp_path / "dump", events, order)),
    ):
        got = run_reader(reader, tmp_path / f"{form}.out", paths)
        assert got.tuples() == rows
        assert got.lost == {}
        assert got.facts["events"] == sum(isinstance(event.action, str) for event in events)
        counts: dict[str, int] = {}
        for event in events:
            if isinstance(event.action, str):
                counts[event.action] = counts.get(event.action, 0) + 1
        assert got.facts["actions"] == counts
        # in order of completion, as the recorder's
        assert [row["complete_ns"] for row in got.rows] == sorted(row["complete_ns"] for row in got.rows)


def test_pipe_with_cpu_buffers_in_turn_is_sorted(reader: Path, tmp_path: Path) -> None:
    one = Requests(5, dev(8, 0), count=2000)
    events = numbered([*notes(), *one.events])
    pieces = []
    for first in range(0, len(events), 3000):
        part = events[first : first + 3000]
        pieces += [[event for event in part if event.cpu == cpu] for cpu in (2, 0, 1)]
    got = run_reader(reader, tmp_path, write_dump(tmp_path / "dump", [e for piece in pieces for e in piece]))
    assert got.tuples() == sorted(one.rows)
    assert got.lost == {} and got.notes.keys() <= {"partial completions"}


def test_events_slightly_out_of_order_are_sorted(reader: Path, tmp_path: Path) -> None:
    one = Requests(6, dev(8, 0), count=500)
    events = numbered([*notes(), *one.events])
    pick = random.Random(1)
    places = [i + pick.randrange(40) for i in range(len(events))]
    moved = [event for _, event in sorted(zip(places, events, strict=True), key=lambda pair: pair[0])]
    assert moved != events
    paths = write_cpus(tmp_path / "cpus", "sda", moved)
    assert run_reader(reader, tmp_path / "out", paths).tuples() == sorted(one.rows)


def test_flushes_belong_to_their_submitter(reader: Path, tmp_path: Path) -> None:
    """A journal's commit: write with flush before and after on a disk without FUA, then an fsync alone."""
    data = WRITE | SYNC
    events = [
        process_note(START_NS, 50, "jbd2/sda1-8"),
        process_note(START_NS, 60, "fio"),
        Event(START_NS + 10, "Q", 800, 4096, data | FLUSH | FUA, 50),
        Event(START_NS + 20, "G", 800, 4096, data | FLUSH | FUA, 50),
        Event(START_NS + 30, "D", 0, 0, READ | FLUSH | FS, 7),
        Event(START_NS + 40, "C", 0, 0, READ | FLUSH | FS, 0),
        Event(START_NS + 50, "D", 800, 4096, data | FS, 7),
        Event(START_NS + 60, "C", 800, 4096, data | FS, 0),
        Event(START_NS + 70, "D", 0, 0, READ | FLUSH | FS, 7),
        Event(START_NS + 80, "C", 0, 0, READ | FLUSH | FS, 0),
        Event(START_NS + 81, "C", 808, 0, data | FLUSH | FUA | FS, 0),  # the request around them ends
        Event(START_NS + 90, "Q", 0, 0, data | FLUSH, 60),
        Event(START_NS + 95, "G", 0, 0, data | FLUSH, 60),
        Event(START_NS + 100, "D", 0, 0, READ | FLUSH | FS, 7),
        Event(START_NS + 110, "C", 0, 0, READ | FLUSH | FS, 0),
        Event(START_NS + 111, "C", 0, 0, data | FLUSH | FS, 0),
    ]
    got = run_reader(reader, tmp_path, write_dump(tmp_path / "dump", numbered(events)))
    names = ("issue_ns", "op", "queue_ns", "complete_ns", "bytes", "comm", "flags", "queue_source")
    t = START_NS
    assert got.tuples(names) == [
        (t + 30, "flush", t + 10, t + 40, 0, "jbd2/sda1-8", 8, 0),
        (t + 50, "write", t + 10, t + 60, 4096, "jbd2/sda1-8", 1 + 4 + 8, 0),
        (t + 70, "flush", t + 10, t + 80, 0, "jbd2/sda1-8", 8, 0),
        (t + 100, "flush", t + 90, t + 110, 0, "fio", 8, 0),
    ]
    assert got.lost == {}
    assert got.notes == {"flush-only bios": 1}  # the other one had data


def test_write_through_disk_has_no_post_flush(reader: Path, tmp_path: Path) -> None:
    through = WRITE | SYNC | FUA
    events = [
        *one_request(START_NS, 800, what=through, pid=50),
        Event(START_NS + 1000, "Q", 0, 0, WRITE | FLUSH, 60),
        Event(START_NS + 1100, "D", 0, 0, READ | FLUSH | FS, 7),
        Event(START_NS + 1200, "C", 0, 0, READ | FLUSH | FS, 0),
    ]
    got = run_reader(reader, tmp_path, write_dump(tmp_path / "dump", events))
    assert got.tuples(("op", "pid", "queue_ns")) == [("flush", 60, START_NS + 1000), ("write", 50, START_NS)]


def test_multi_range_discards_and_commands_are_rows(reader: Path, tmp_path: Path) -> None:
    what = WRITE | DISCARD
    events = [
        Event(START_NS, "Q", 1000, 4096, what),
        Event(START_NS + 1, "Q", 5000, 4096, what),
        Event(START_NS + 2, "M", 5000, 4096, what),  # into a request of two places
        Event(START_NS + 3, "D", 1000, 8192, what | FS),
        Event(START_NS + 4, "C", 1000, 8192, what | FS),
        *one_request(START_NS + 10, 5000, what=what),  # not to be taken for the one before
        Event(START_NS + 500, "I", 0, 36, READ | PC, 70),
        Event(START_NS + 510, "D", 0, 36, READ | PC, 70),
        Event(START_NS + 520, "C", 0, 36, READ | PC, 0),
    ]
    got = run_reader(reader, tmp_path, write_dump(tmp_path / "dump", events))
    assert got.tuples(("issue_ns", "op", "sector", "bytes", "queue_ns")) == [
        (START_NS + 3, "discard", 1000, 8192, START_NS),
        (START_NS + 210, "discard", 5000, 4096, START_NS + 10),
        (START_NS + 510, "driver", 0, 36, START_NS + 500),
    ]
    assert got.lost == {} and got.notes == {}


def test_two_requests_at_one_sector_complete_in_order(reader: Path, tmp_path: Path) -> None:
    """Two threads read the same block at once: each completion ends the one that was issued first."""
    first, second = one_request(START_NS, 800, pid=50), one_request(START_NS + 10, 800, pid=60)
    got = run_reader(reader, tmp_path, write_dump(tmp_path / "dump", numbered(first + second)))
    assert got.tuples(("pid", "queue_ns", "issue_ns", "complete_ns")) == [
        (50, START_NS, START_NS + 200, START_NS + 300),
        (60, START_NS + 10, START_NS + 210, START_NS + 310),
    ]


def test_missing_kinds_of_events_are_counted(reader: Path, tmp_path: Path) -> None:
    second = 10**9
    orphan = one_request(START_NS + 5 * second, 40)[-1]
    events = numbered(
        [
            *one_request(START_NS, 800),
            one_request(START_NS + 400, 16)[-1],  # was on its way when tracing began
            orphan,
            *one_request(START_NS + 5 * second, 1600)[2:],  # no Q, no G
            *one_request(START_NS + 6 * second, 3200)[:3],  # does not end
            *one_request(START_NS + 6 * second, 3300)[:1],  # is not issued
            Event(START_NS + 7 * second, 200, 8, 8),  # an action no kernel has
        ]
    )
    for event in events[4:]:
        event.sequence += 10  # ten events of this CPU were dropped
    got = run_reader(reader, tmp_path, write_dump(tmp_path / "dump", events))
    assert got.lost == {
        "issue not seen": 1,
        "events missing, by their numbers": 10,
        "events of an unknown kind": 1,
    }
    assert got.notes == {
        "issued before the start": 1,
        "submitter from the request": 1,
        "open at the end": 1,
        "bios queued and not issued at the end": 1,
    }
    assert [(row["sector"], row["queue_source"]) for row in got.rows] == [(800, 0), (1600, 1)]


def test_lost_event_marks_are_counted(reader: Path, tmp_path: Path) -> None:
    """A tracer through tracefs writes them as text between the events, also at the start and the end."""
    good = [event.pack("<") for event in one_request(START_NS, 800)]
    marks = [b"CPU:0 [LOST 123 EVENTS]\n", b"CPU:11 [LOST EVENTS]\n", b"CPU:1 [LOST 7 EVENTS]\n"]
    path = tmp_path / "trace"
    path.write_bytes(marks[0] + good[0] + good[1] + marks[1] + good[2] + b"garbage" + good[3] + marks[2])
    got = run_reader(reader, tmp_path, [path])
    assert len(got.rows) == 1
    assert got.lost == {"events lost, by the kernel's marks": 123 + 1 + 7}
    assert got.notes == {"bytes that are no event": 7}


@pytest.mark.parametrize("order", ["<", ">"])
def test_notes_set_clock_and_names(reader: Path, tmp_path: Path, order: str) -> None:
    """Wall clock, messages, a name that changes; the cgroup's id in front of what follows an event."""
    cgroup = (77).to_bytes(8, "little" if order == "<" else "big")
    renamed = process_note(START_NS + 500, 100, "after")
    renamed.action, renamed.pdu = 0x100, cgroup + renamed.pdu
    split = Event(START_NS + 1300, 13 | 0x100, 1600, 4096, pdu=cgroup + (1608).to_bytes(8, "big"))
    events = [
        process_note(START_NS, 100, "before"),
        timestamp_note(START_NS + 5, 1_700_000_000, 250, order),
        *one_request(START_NS + 10, 800),
        message_note(START_NS + 450, b"cfq123A arm_idle" * 8),
        renamed,
        Event(START_NS + 1200, "Q", 1600, 8192),
        split,
        *one_request(START_NS + 1400, 1600)[2:],
        *one_request(START_NS + 1500, 1608)[2:],
    ]
    got = run_reader(reader, tmp_path, write_dump(tmp_path / "dump", events, order))
    assert got.tuples(("sector", "comm", "queue_ns")) == [
        (800, "before", START_NS + 10),
        (1600, "after", START_NS + 1200),
        (1608, "after", START_NS + 1200),
    ]
    assert got.facts["realtime_offset_ns"] == 1_700_000_000 * 10**9 + 250 - START_NS - 5
    assert got.facts["notes"] == 4 and got.facts["process_notes"] == 2


def as_blkparse_has_it(events: list[Event]) -> int:
    """What blkparse 1.3 makes of completions, in text and in dumps made along with it; how many it changes.

    Sectors where bios were split are remembered for good. A completion at one begins where the bio began.
    """
    roots: dict[tuple[int, int], int] = {}
    changed = 0
    for event in events:
        place = (event.device, event.sector)
        if event.action == "X":
            root = roots.setdefault(place, event.sector)
            roots.setdefault((event.device, event.sector + event.bytes // 512), root)
        elif event.action == "C" and place in roots:
            moved = event.sector - roots[place]
            event.sector -= moved
            event.bytes += moved * 512
            changed += moved > 0
    return changed


def split_request(t_ns: int, start: int, sizes: list[int]) -> list[Event]:
    """A read that is split; its parts are issued in order and complete the other way round."""
    ends = [start + sum(sizes[: i + 1]) // 512 for i in range(len(sizes))]
    parts = [(end - size // 512, size) for end, size in zip(ends, sizes, strict=True)]
    events = [Event(t_ns, "Q", start, sum(sizes))]
    for (sector, size), end in zip(parts[:-1], ends, strict=False):
        events.append(Event(t_ns, "X", sector, size, pdu=end.to_bytes(8, "big")))
    events += [Event(t_ns + 100, "D", sector, size, READ | FS) for sector, size in parts]
    events += [Event(t_ns + 200, "C", sector, size, READ | FS) for sector, size in reversed(parts)]
    return events


def test_completions_lengthened_by_blkparse_are_repaired(reader: Path, tmp_path: Path) -> None:
    several = [Requests(100 + i, device, in_parts=False) for i, device in enumerate(DEVICES)]
    events = numbered([*notes(), *(event for one in several for event in one.events)])
    later = max(event.t_ns for event in events) + 1000
    events += split_request(later, 10**9, [4096, 8192, 4096])
    # At places where one was split: a shorter one, one that is given back, and two at a time.
    events += one_request(later + 1000, 10**9 + 8, 512)
    given = one_request(later + 2000, 10**9 + 8)
    events += [*given[:3], Event(later + 2250, "R", 10**9 + 8, 4096, READ | FS), *given[2:]]
    events += one_request(later + 3000, 10**9, 2048)[:3] + one_request(later + 3000, 10**9 + 24, 1024)
    events += [Event(later + 3500, "C", 10**9, 2048, READ | FS)]
    true = run_reader(reader, tmp_path / "true", write_dump(tmp_path / "dump", events))
    changed = as_blkparse_has_it(events)
    got = run_reader(reader, tmp_path / "changed", write_dump(tmp_path / "dump", events))
    assert got.tuples() == true.tuples() and len(got.rows) > 350
    note = "completions that blkparse had made longer, put right"
    assert got.notes == true.notes | {note: changed} and changed > 50
    assert got.lost == true.lost == {}


@pytest.mark.parametrize(
    ("order", "step"),
    [(">", 7), pytest.param("<", 1, marks=pytest.mark.long), pytest.param(">", 1, marks=pytest.mark.long)],
)
def test_trace_cut_at_any_byte_keeps_whole_events(
    reader: Path, tmp_path: Path, order: str, step: int
) -> None:
    """A trace that ends inside an event: all before it is there, and the bytes behind are counted."""
    pdu = (8 << 20 | 1).to_bytes(4, "big") + bytes(12)
    events = [
        *one_request(START_NS, 800),
        Event(START_NS + 900, "A", 0, 4096, pdu=pdu),
        *one_request(START_NS + 1000, 8),
    ]
    packed = [event.pack(order) for event in events]
    whole = b"".join(packed)
    ends = [sum(map(len, packed[:i])) for i in range(len(packed) + 1)]
    path = tmp_path / "trace"
    lengths = {*range(ends[3], len(whole) + 1, step), *ends[3:], *(end - 1 for end in ends[4:])}
    for length in sorted(lengths):
        path.write_bytes(whole[:length])
        got = run_reader(reader, tmp_path, [path])
        count = max(i for i, end in enumerate(ends) if end <= length)
        left = length - ends[count]
        assert got.facts["events"] == count
        assert len(got.rows) == (count >= 4) + (count >= 9)
        assert got.lost == ({"events cut off by the end of a file": 1} if left else {})
        assert got.notes.get("bytes cut off by the end of a file", 0) == left


def test_damaged_time_does_not_stretch_the_trace(reader: Path, tmp_path: Path) -> None:
    """Reports would need memory for all of them."""
    events = [*one_request(START_NS, 800), Event(START_NS + 401 * 86400 * 10**9, "Q", 8, 4096)]
    events += [Event(1 << 61, "Q", 8, 4096), Event(START_NS + 400, "Q", 1 << 53, 4096)]
    got = run_reader(reader, tmp_path, write_dump(tmp_path / "dump", events))
    assert got.lost == {"events with an impossible time or place": 3}
    assert got.facts["last_ns"] == START_NS + 300 and len(got.rows) == 1


def test_dump_times_are_shifted_from_zero(reader: Path, tmp_path: Path) -> None:
    """Notes keep their own time in it, which says nothing there: they count from where they stand."""
    events = [
        timestamp_note(START_NS, 1_700_000_000, 0, "<"),
        process_note(START_NS + 10, 100, "before"),
        *one_request(0, 800),
        process_note(START_NS + 400, 100, "after"),
        *one_request(500, 1600),
    ]
    got = run_reader(reader, tmp_path, write_dump(tmp_path / "dump", events))
    assert got.facts["shift_ns"] == 10**9 and "realtime_offset_ns" not in got.facts
    assert got.tuples(("queue_ns", "complete_ns", "comm")) == [
        (10**9, 10**9 + 300, "before"),
        (10**9 + 500, 10**9 + 800, "after"),
    ]


def test_recording_header_equals_the_recorders(reader: Path, tmp_path: Path, tree: Path) -> None:
    """Names, types and numbers of bpf/block/block_records.h, read here for themselves."""
    text = (tree / "bpf/block/block_records.h").read_text()
    of_bio = [Event(START_NS + i, action, 8, 4096, device=dev(253, 0)) for i, action in enumerate("QC")]
    events = [*of_bio, *one_request(START_NS + 5, 800)]
    got = run_reader(reader, tmp_path, write_dump(tmp_path / "dump", events))
    of_volume, _ = read_table(tmp_path / "volume.rec")
    more = ["get_request_ns", "q2m_ns", "m2d_ns"]
    for struct, header, last in (("block", got.header, more), ("volume", of_volume, [])):
        body = text[text.index(f"struct {struct}_record {{") :]
        members = [line.split(";")[0].split()[-1] for line in body.splitlines()[1:] if ";" in line]
        members = members[: members.index("comm[16]")]
        assert [entry["name"] for entry in header["fields"]] == [*members, "comm", *last]
    assert of_volume["enums"].items() <= got.header["enums"].items()
    for enum, prefix in (("block_op", "BLOCK_OP_"), ("block_class", "BLOCK_CLASS_")):
        body = text[text.index(f"enum {enum} {{") :]
        names = [word.split(",")[0].strip() for word in body[: body.index("}")].splitlines()[1:]]
        words = [name.removeprefix(prefix).lower() for name in names if name.startswith(prefix)]
        assert got.header["enums"][enum] == {str(i): word for i, word in enumerate(words)}
    assert got.rows[0]["class"] == 0 and got.rows[0]["in_workload"] == 1 and got.rows[0]["tgid"] == 0
