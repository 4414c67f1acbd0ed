# SPDX-License-Identifier: BSD-2-Clause
"""Runs in which one cause alone can write: all bytes are charged to it, and are those the disk counts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from analysis.measures.origin.waited import NOT_SEEN, Waits
from analysis.rundir.run import open_run
from analysis.tables import event
from analysis.tables.block import Block
from analysis.tables.load import Tables, load_tables
from tests.collectors.event_rows import MKFS, SIZE_BYTES
from tests.collectors.loop_disk import SECTOR_BYTES, LoopDisk, loop_disk, mounted
from tests.collectors.recording import cgroup, needs_btf, recording, run_inside, skip_without_contexts
from tests.marks import needs_root

pytestmark = [needs_root, needs_btf]
FILE_BYTES = 3_000_000
COLLECTORS = ("block", "calls", "events")


@dataclass(frozen=True)
class Recorded:
    """Tables of a recording, and what the disk's own counters say was written meanwhile."""

    tables: Tables
    written_bytes: int

    @property
    def block(self) -> Block:
        assert self.tables.block is not None
        return self.tables.block

    def written(self) -> Counter[str]:
        """Bytes written by cause."""
        why = self.block.read_categorical("why")
        assert why is not None
        sums: Counter[str] = Counter()
        is_write = self.block.op.is_in(("write", "write_zeroes"))
        for code in np.unique(why.codes[is_write]):
            rows = is_write & (why.codes == code)
            sums[why.labels[int(code)]] += int(self.block.bytes[rows].sum())
        return sums

    def waited(self, why: str) -> Counter[int]:
        """Writes of a cause by what waited for them."""
        column = self.block.read_categorical("why")
        assert column is not None
        waits = Waits(self.block, self.tables.get(event.TABLE), np.zeros(0, dtype=np.int64))
        codes = waits.of(slice(0, self.block.rows))
        return Counter(codes[column.is_(why) & self.block.op.is_("write")].tolist())


class Place:
    """A mounted file system whose requests are recorded while commands run in the workload's cgroup."""

    def __init__(self, folder: Path, disk: LoopDisk, group: Path, out: Path) -> None:
        self.folder, self._disk, self._group, self._out = folder, disk, group, out

    def record(self, *scripts: str) -> Recorded:
        """Run these Python programs, one after the other, in the file system's root."""
        recorder = self._out / "raw/recorder"
        recorder.mkdir(parents=True)
        device = (self._disk.sysfs / "dev").read_text().strip()
        words = ("--collect", ",".join(COLLECTORS), "--disk", self._disk.name, "--target-dev", device)
        before = self._disk.idle_stat()
        with recording(recorder, *words, "--cgroup", str(self._group)) as run:
            for script in scripts:
                child = run_inside(self._group, [sys.executable, "-c", script], cwd=self.folder)
                assert child.wait(timeout=60) == 0
            after = self._disk.idle_stat()
        skip_without_contexts(run, "block")
        (self._out / "losses.json").write_bytes((recorder / "losses.json").read_bytes())
        (self._out / "run.json").write_text(
            json.dumps({"schema": 1, "collect": ["block", "calls", "events"]})
        )
        written = (after["write_sectors"] - before["write_sectors"]) * SECTOR_BYTES
        return Recorded(load_tables(open_run(self._out)), written)


@contextmanager
def place(tmp_path: Path, name: str, mkfs: Sequence[str] = (), mount: str = "defaults") -> Iterator[Place]:
    with loop_disk(tmp_path / "disk", SIZE_BYTES) as disk, cgroup() as group:
        subprocess.run([*MKFS[name], *mkfs, disk.path], check=True, capture_output=True)
        with mounted(disk.path, tmp_path / "mnt", "-o", mount) as folder:
            subprocess.run(["sync", "-f", folder], check=True)
            yield Place(folder, disk, group, tmp_path / "run")


WRITE = f"import os; f = os.open('a', os.O_CREAT | os.O_WRONLY); os.write(f, b'x' * {FILE_BYTES})"


# btrfs commits all instead of the file alone in some cases, and has workers that sum.
CAUSES_OF_FSYNC = {
    "ext4": {"fsync()", "commit, fsync", "journal superblock"},
    "xfs": {"fsync()", "log force, fsync"},
    "btrfs": {"fsync()", "commit, fsync", "btrfs worker"},
}


@pytest.mark.parametrize("name", sorted(CAUSES_OF_FSYNC))
def test_one_fsync_is_charged_to_the_call_and_its_commit(name: str, tmp_path: Path) -> None:
    with place(tmp_path, name, mount="defaults" if name == "xfs" else "commit=600") as here:
        recorded = here.record(f"{WRITE}; os.fsync(f)")
    written = recorded.written()
    assert set(written) <= CAUSES_OF_FSYNC[name], written
    assert sum(written.values()) == recorded.written_bytes > FILE_BYTES
    assert written["fsync()"] and not recorded.waited("fsync()")[NOT_SEEN]
    if name == "xfs":
        assert written["log force, fsync"] and not recorded.waited("log force, fsync")[NOT_SEEN]
    if name == "ext4":
        assert written["fsync()"] >= FILE_BYTES
        assert written["commit, fsync"] and not recorded.waited("commit, fsync")[NOT_SEEN]


def test_a_sync_is_charged_to_the_flusher_and_a_commit(tmp_path: Path) -> None:
    with place(tmp_path, "ext4", mount="commit=600") as here:
        recorded = here.record(WRITE, "import os; os.sync()")
    written = recorded.written()
    assert set(written) <= {"writeback, sync", "commit, sync", "sync()", "journal superblock"}, written
    assert written["writeback, sync"] >= FILE_BYTES
    assert sum(written.values()) == recorded.written_bytes


def test_a_full_journal_is_charged_to_checkpoints_in_the_task(tmp_path: Path) -> None:
    make = "import os\nfor n in range(1500): os.mkdir(f'd{n}')"
    with place(tmp_path, "ext4", ("-J", "size=4"), "commit=600") as here:
        recorded = here.record(make)
    written = recorded.written()
    assert set(written) <= {"checkpoint", "commit, size", "commit, checkpoint", "journal superblock"}, written
    assert written["checkpoint"] and written["commit, size"] + written["commit, checkpoint"]
    assert not recorded.waited("checkpoint")[NOT_SEEN]
    assert sum(written.values()) == recorded.written_bytes


def test_reads_are_charged_to_the_call_that_needs_them(tmp_path: Path) -> None:
    with place(tmp_path, "ext4", mount="commit=600") as here:
        (here.folder / "a").write_bytes(os.urandom(FILE_BYTES))
        subprocess.run(["sync", "-f", here.folder], check=True)
        drop = "import os; f = os.open('a', os.O_RDONLY); os.posix_fadvise(f, 0, 0, os.POSIX_FADV_DONTNEED)"
        recorded = here.record(f"{drop}; os.read(f, {FILE_BYTES})")
    why = recorded.block.read_categorical("why")
    assert why is not None
    reads = recorded.block.op.is_("read")
    assert reads.any() and (why.is_in(("read()", "readahead"))[reads]).all()
    assert int(recorded.block.bytes[reads].sum()) >= FILE_BYTES
