# SPDX-License-Identifier: BSD-2-Clause
"""The critical path of programs that know it: chains of threads, a child, a lock, a slowed disk, fsync."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from analysis.measures.common.timeline import make_timeline
from analysis.measures.common.window import QUANTUM_NS, Window
from analysis.measures.critical_path.pieces import Kind
from analysis.measures.critical_path.results import PathResults, PathRows, measure_path
from analysis.rundir import tested
from analysis.rundir.run import open_run
from analysis.tables.load import Tables, load_tables
from tests.collectors.known_times import Known, Piece, run_known, throttled_reads
from tests.collectors.loop_disk import MIB, loop_disk, mounted
from tests.collectors.recording import (
    SLOWER,
    cgroup,
    compile_program,
    needs_btf,
    recording,
)
from tests.marks import needs_root

pytestmark = [needs_root, needs_btf]

MS = 200
READS, READS_A_SECOND = 9, 20
SYNCS = 20
ON_CPU = (Kind.CPU, Kind.READY)  # other programs may take the CPU
# Task storage that a preempted program holds hides a switch or wake now and then.
LOST = (Kind.LOST, Kind.NO_WAKER)
LOST_MOST = 6
OF_REQUEST = (Kind.QUEUE, Kind.DEVICE, Kind.BELOW, Kind.HANDED, Kind.OTHER_DISK, Kind.COMPLETION)
MOMENTS_NS = 2_000_000 * SLOWER  # between a thread's look at its clock and a switch


@dataclass(frozen=True)
class Recorded:
    """One recording in which the program ran in every mode."""

    folder: Path
    known: dict[str, Known]
    tables: Tables

    def path(self, mode: str) -> PathResults:
        """The critical path of the time of the mode's first thread."""
        known = self.known[mode]
        main = known.threads["main"]
        window = Window(self.recorded[0], self.recorded[1], main.begin_ns, main.end_ns, True)
        run = open_run(self.folder)
        timeline = make_timeline(*self.recorded, main.begin_ns, QUANTUM_NS, QUANTUM_NS)
        found = measure_path(self.tables, window, timeline, tested.tested_filesystem(run))
        assert isinstance(found, PathResults), found
        assert found.is_one
        assert found.total_ns == main.end_ns - main.begin_ns == sum(share.ns for share in found.shares)
        return found

    @property
    def recorded(self) -> tuple[int, int]:
        threads = [thread for known in self.known.values() for thread in known.threads.values()]
        first, last = min(t.begin_ns for t in threads), max(t.end_ns for t in threads)
        return first - 1_000_000_000, last + 100_000_000


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recorded]:
    folder = tmp_path_factory.mktemp("path")
    program = compile_program("known_times", folder)
    known: dict[str, Known] = {}
    with ExitStack() as stack:
        group = stack.enter_context(cgroup())
        disk = stack.enter_context(loop_disk(folder / "image", 64 * MIB))
        slow = stack.enter_context(loop_disk(folder / "slow", 16 * MIB))
        reads = stack.enter_context(throttled_reads(slow, READS_A_SECOND))
        subprocess.run(["mkfs.ext4", "-q", disk.path], check=True)
        files = stack.enter_context(mounted(disk.path, folder / "files"))
        out = folder / "run/raw/recorder"
        out.mkdir(parents=True)
        words = ["--collect", "block,threads,sched", "--disk", disk.name, "--disk", slow.name]
        run = stack.enter_context(recording(out, *words, "--cgroup", str(group)))
        for mode in ("chain2", "chain3", "futex", "child"):
            known[mode] = run_known(program, group, mode, MS)
        known["chainread"] = run_known(program, group, "chainread", READS, slow.path, join=reads)
        known["fsync"] = run_known(program, group, "fsync", SYNCS, files / "synced")
        run.stop()
        (folder / "run/losses.json").write_bytes((out / "losses.json").read_bytes())
        facts = {
            "schema": 1,
            "collect": ["block", "threads", "sched"],
            "filesystem": {"name": "ext4", "others_of_kind": 1, "block_device": disk.name},
            "device": {"name": disk.name, "dev": (disk.sysfs / "dev").read_text().strip()},
        }
        (folder / "run/run.json").write_text(json.dumps(facts))
        yield Recorded(folder / "run", known, load_tables(open_run(folder / "run")))


def overlap_ns(rows: PathRows, piece: Piece, kinds: tuple[Kind, ...], tid: int = 0) -> int:
    """Time of the path within a piece of a thread, of these kinds. tid: of pieces of this thread."""
    (pieces,) = rows.pieces
    mine = np.isin(pieces.kind, kinds)
    if tid:
        mine &= (pieces.thread >= 0) & (rows.owners.tid[pieces.thread] == tid)
    ns = np.minimum(pieces.end, piece.end_ns) - np.maximum(pieces.begin, piece.begin_ns)
    return int(np.maximum(ns[mine], 0).sum())


def is_most(rows: PathRows, piece: Piece, kinds: tuple[Kind, ...], tid: int = 0) -> None:
    """A piece of a thread is the path's, but for moments at its edges, and while any thread wants a CPU."""
    found_ns = overlap_ns(rows, piece, kinds, tid) + overlap_ns(rows, piece, LOST)
    if Kind.CPU not in kinds:
        found_ns += overlap_ns(rows, piece, ON_CPU)
    assert piece.ns - found_ns <= 0.01 * piece.ns + MOMENTS_NS, piece


def rows_of(path: PathResults) -> PathRows:
    assert path.rows is not None
    return path.rows


@pytest.mark.parametrize("mode", ["chain2", "chain3"])
def test_chains_end_at_who_sleeps_and_computes(recorded: Recorded, mode: str) -> None:
    known, path = recorded.known[mode], recorded.path(mode)
    sleeper = "second" if mode == "chain2" else "third"
    slept = known.pieces_of(sleeper, "sleep")
    assert sum(piece.ns for piece in slept) >= MS * 1_000_000
    for piece in slept:
        tid = known.threads[sleeper].tid
        is_most(rows_of(path), piece, (Kind.TIMER,), tid)
        asleep_ns = overlap_ns(rows_of(path), piece, (Kind.TIMER,), tid)
        assert asleep_ns + overlap_ns(rows_of(path), piece, LOST) >= 0.9 * MS * 1_000_000
    computed = [piece for piece in known.pieces if piece.what == "compute"]
    assert len({piece.thread for piece in computed}) == (1 if mode == "chain2" else 2)
    for piece in computed:
        is_most(rows_of(path), piece, ON_CPU, known.threads[piece.thread].tid)


def test_child_and_holder_of_a_lock_are_followed(recorded: Recorded) -> None:
    for mode in ("child", "futex"):
        path = recorded.path(mode)
        slept = sum(share.ns for share in path.shares if share.kind == Kind.TIMER)
        slept += path.coverage.unknown_ns
        assert 0.9 * MS * 1_000_000 <= slept <= path.total_ns


def test_reads_of_another_thread_are_named(recorded: Recorded) -> None:
    known, path = recorded.known["chainread"], recorded.path("chainread")
    reads = known.pieces_of("second", "read")
    assert len(reads) == READS
    for piece in reads:
        # blk-throttle's timer, too, holds a read back; it is not always told from other interrupts
        is_most(rows_of(path), piece, (*OF_REQUEST, *ON_CPU, Kind.TIMER, Kind.INTERRUPT))
    named = [share for share in path.requests if share.label.startswith("read")]
    assert sum(share.count for share in named) >= READS // 2


def test_syncs_end_at_requests_and_who_sent_them(recorded: Recorded) -> None:
    """Each sync waits for the journal's thread and its requests; little of it is not known."""
    known, path = recorded.known["fsync"], recorded.path("fsync")
    syncs = known.pieces_of("main", "fsync")
    assert len(syncs) == SYNCS
    named = sum(share.count for share in path.requests)
    assert named >= SYNCS - LOST_MOST
    assert any(share.own.cause == "commit" for share in path.shares)
    assert any(share.name.startswith("jbd2/") and share.kind == Kind.CPU for share in path.shares)


@pytest.mark.parametrize("mode", ["chain2", "chain3", "futex", "child", "chainread", "fsync"])
def test_path_is_known_and_completions_name_requests(recorded: Recorded, mode: str) -> None:
    path = recorded.path(mode)
    coverage = path.coverage
    assert coverage.unrecorded_ns == 0
    (pieces,) = rows_of(path).pieces
    is_lost = np.isin(pieces.kind, LOST)
    assert is_lost.sum() <= LOST_MOST
    if mode == "chainread":  # blk-throttle's timer
        is_lost |= pieces.kind == Kind.INTERRUPT
    assert coverage.unknown_ns - pieces.ns[is_lost].sum() <= 0.005 * path.total_ns + MOMENTS_NS
    assert coverage.completions_named >= 0.99 * coverage.completions > 0
    assert coverage.sleeps_without_waker <= 0.001 * coverage.sleeps + LOST_MOST
