# SPDX-License-Identifier: BSD-2-Clause
"""Why requests were sent, and whether the workload waited: runs in which only one cause can send any."""

from __future__ import annotations

import mmap
import os
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.collectors.event_rows import FileSystem, file_system, rows, write
from tests.collectors.loop_disk import MIB, SECTOR_BYTES, LoopDisk
from tests.collectors.recording import (
    Recording,
    needs_btf,
    read_table,
    recording,
    skip_without_contexts,
)
from tests.marks import needs_root

pytestmark = [needs_root, needs_btf]

PAGE_BYTES = 4096
READS = 64
VM = Path("/proc/sys/vm")
# Nothing commits by itself meanwhile.
QUIET = "commit=600"
# The end of a buffer that is written in place; the latter is a bio's end: jbd2 of Linux 7.2 needs no other.
IN_PLACE = {"end_buffer_write_sync", "bh_end_write"}


class Sent:
    """A recording of requests, and the disk's own counters around it."""

    def __init__(self, run: Recording, sectors: int, begin_ns: int) -> None:
        self.run = run
        self.begin_ns = begin_ns
        self.sectors = sectors  # read and written, as the kernel counts them
        header, events = read_table(run.out / "event.rec")
        whys = header["enums"]["event_why"]
        self.reasons = {int(event["event_id"]): whys[str(event["why"])] for event in events}

    def requests(self) -> list[dict[str, Any]]:
        """All requests; enums and functions as words, `why` of the event."""
        header, table = read_table(self.run.out / "block.rec")
        functions = {line["id"]: line["name"] for line in self.run.lines("function")}
        enums = {
            field["name"]: header["enums"][field["enum"]] for field in header["fields"] if "enum" in field
        }
        made = []
        for record in table[table["issue_ns"] > self.begin_ns]:
            row = dict(zip(table.dtype.names or (), record.tolist(), strict=True))
            row |= {name: words[str(row[name])] for name, words in enums.items()}
            row |= {"work": functions.get(row["work_id"], ""), "end_io": functions.get(row["end_io_id"], "")}
            row["why"] = self.reasons.get(row["event_id"], "")
            made.append(row)
        assert sum(row["bytes"] for row in made) == self.sectors * SECTOR_BYTES
        assert not any(self.run.source("block")["lost"].values())
        return made


@contextmanager
def sent_on(place: Path, system: FileSystem) -> Iterator[list[Sent]]:
    """Record during the block; afterwards the list has the recording."""

    found: list[Sent] = []
    disk = LoopDisk(Path("/dev") / system.disk, place / "disk")

    def sectors() -> int:
        stat = disk.idle_stat()
        return stat["read_sectors"] + stat["write_sectors"]

    words = ("--collect", "block,calls,events", "--disk", system.disk, "--target-dev", system.device)
    with recording(place / "out", *words) as run:
        # Another test's sync() may have sent something meanwhile.
        before, begin_ns = sectors(), time.monotonic_ns()
        yield found
        after = sectors()
    skip_without_contexts(run, "block")
    found.append(Sent(run, after - before, begin_ns))


@contextmanager
def flushed_at_once() -> Iterator[None]:
    """All dirty pages are old, for the flusher."""
    settings = {"dirty_expire_centisecs": "1", "dirty_writeback_centisecs": "5"}
    before = {name: (VM / name).read_text() for name in settings}
    try:
        for name, value in settings.items():
            (VM / name).write_text(value)
        yield
    finally:
        for name, value in before.items():
            (VM / name).write_text(value)


def test_an_fsync_is_charged_with_all_that_it_sends(tmp_path: Path) -> None:
    with file_system(tmp_path, "ext4", mount=QUIET) as system, sent_on(tmp_path, system) as found:
        write(system.folder / "synced", os.urandom(MIB), sync=True)
    requests = found[0].requests()
    data = [row for row in requests if row["class"] == "data"]
    assert sum(row["bytes"] for row in data) == MIB
    assert {(row["call"], row["call_state"], row["op"]) for row in data} == {("fsync", "open", "write")}
    journal = [row for row in requests if row["event_kind"] == "jbd2_commit"]
    assert journal and {row["why"] for row in journal} == {"fsync"}
    # Before its first commit the journal's thread writes its superblock.
    others = [row for row in requests if row not in journal and not row["comm"].startswith(b"jbd2/")]
    assert {row["call"] for row in others} <= {"open", "write", "fsync"}
    assert all(row["end_io"] not in ("", "[unknown]") for row in requests)


def test_what_the_flusher_writes_is_no_call_and_nobody_waits(tmp_path: Path) -> None:
    with file_system(tmp_path, "ext4", mount=QUIET) as system:
        write(system.folder / "dirty", os.urandom(4 * MIB))
        stat = Path(f"/sys/block/{system.disk}/stat")
        before = int(stat.read_text().split()[6])
        with sent_on(tmp_path, system) as found, flushed_at_once():
            deadline = time.monotonic() + 20
            while (int(stat.read_text().split()[6]) - before) * SECTOR_BYTES < 4 * MIB:
                assert time.monotonic() < deadline, "the flusher does not write"
                time.sleep(0.02)
    data = [row for row in found[0].requests() if row["class"] == "data"]
    assert sum(row["bytes"] for row in data) == 4 * MIB
    assert {(row["event_kind"], row["why"], row["work"]) for row in data} <= {
        (kind, "periodic", "wb_workfn") for kind in ("writeback", "writeback_inode")
    }
    assert {row["call"] for row in data} == {"none"}
    assert {row["waited"] for row in found[0].requests() if row["op"] != "read"} == {"no"}


def test_a_checkpoint_writes_what_its_event_says(tmp_path: Path) -> None:
    """A small journal that is full: handles write the oldest transaction's blocks in place themselves."""
    mkfs = ("-J", "size=4")
    with (
        file_system(tmp_path, "ext4", mkfs, mount=QUIET) as system,
        sent_on(tmp_path, system) as found,
    ):
        for number in range(1500):
            os.mkdir(system.folder / f"{number}")
    requests = found[0].requests()
    in_place = [row for row in requests if row["end_io"] in IN_PLACE and row["op"] == "write"]
    # Before its first commit the journal's thread writes its superblock.
    in_place = [row for row in in_place if not row["comm"].startswith(b"jbd2/")]
    assert {(row["event_kind"], row["why"], row["call"]) for row in in_place} == {
        ("jbd2_checkpoint", "space", "mkdir")
    }
    events = [event for event in rows(found[0].run, "jbd2_checkpoint", system.dev) if event["blocks"]]
    assert {row["event_id"] for row in in_place} == {event["event_id"] for event in events}
    # The kernel counts blocks that another has written meanwhile; the journal's tail moves with each event.
    blocks, tails = sum(event["blocks"] for event in events), len(events)
    written = sum(row["bytes"] for row in in_place) // PAGE_BYTES
    assert 0.8 * blocks <= written <= blocks + tails


def test_direct_reads_are_waited_for(tmp_path: Path) -> None:
    with file_system(tmp_path, "ext4", mount=QUIET) as system:
        write(system.folder / "file", os.urandom(READS * PAGE_BYTES), sync=True)
        with sent_on(tmp_path, system) as found:
            file = os.open(system.folder / "file", os.O_RDONLY | os.O_DIRECT)
            page = mmap.mmap(-1, PAGE_BYTES)
            for number in range(READS):
                assert os.preadv(file, [page], number * PAGE_BYTES) == PAGE_BYTES
            os.close(file)
    data = [row for row in found[0].requests() if row["class"] == "data"]
    kinds = Counter((row["call"], row["call_state"], row["op"], row["waited"]) for row in data)
    # One that completes before its reader sleeps wakes nobody.
    told = kinds["read", "open", "read", "completion"]
    assert told >= READS - 2 and kinds.total() == READS, kinds
    assert found[0].run.source("block")["notes"]["waited: told too late"] <= READS - told


def test_what_the_end_of_a_process_writes_is_told_from_its_last_call(tmp_path: Path) -> None:
    """ext4 writes a file that was cut and written again when it is closed (auto_da_alloc), here by exit."""
    with file_system(tmp_path, "ext4", mount=QUIET) as system:
        write(system.folder / "file", os.urandom(MIB), sync=True)
        text = os.urandom(MIB)
        with sent_on(tmp_path, system) as found:
            child = os.fork()
            if not child:
                os.write(os.open(system.folder / "file", os.O_WRONLY | os.O_TRUNC), text)
                os._exit(0)
            os.waitpid(child, 0)
    data = [row for row in found[0].requests() if row["class"] == "data" and row["op"] == "write"]
    assert sum(row["bytes"] for row in data) == MIB
    assert {(row["call"], row["call_state"]) for row in data} == {("write", "exit")}


# Of XFS's log, and of Btrfs's data: in Linux 6.1 and in 6.12.
END_IO = {"xfs": {"xlog_bio_end_io"}, "btrfs": {"end_bio_extent_writepage", "end_bbio_data_write"}}


@pytest.mark.parametrize("name", sorted(END_IO))
def test_an_fsync_of_other_file_systems_is_charged(name: str, tmp_path: Path) -> None:
    with file_system(tmp_path, name) as system, sent_on(tmp_path, system) as found:
        write(system.folder / "synced", os.urandom(MIB), sync=True)
    writes = [row for row in found[0].requests() if row["op"] == "write"]
    data = [row for row in writes if row["class"] == "data"]
    assert sum(row["bytes"] for row in data) == MIB
    assert {row["call"] for row in data} == {"fsync"}
    ends = {row["end_io"] for row in writes}
    assert ends & END_IO[name], ends
