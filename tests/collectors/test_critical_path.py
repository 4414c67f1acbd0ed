# SPDX-License-Identifier: BSD-2-Clause
"""The critical path of programs that know it: chains of threads, a child, locks, a slowed disk, fsync."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest

from analysis.measures.common.timeline import make_timeline
from analysis.measures.common.window import QUANTUM_NS, Window
from analysis.measures.critical_path.pieces import Kind, Pieces
from analysis.measures.critical_path.results import Coverage, PathResults, PathRows, measure_path
from analysis.rundir import tested
from analysis.rundir.run import open_run
from tests.collectors.known_run import MS, SLOW_READS, SYNCS, KnownRun
from tests.collectors.known_times import Known, Piece
from tests.collectors.recording import SLOWER, needs_btf
from tests.marks import needs_root

pytestmark = [needs_root, needs_btf]

ON_CPU = (Kind.CPU, Kind.READY)  # other programs may take the CPU
OF_REQUEST = (Kind.QUEUE, Kind.DEVICE, Kind.BELOW, Kind.HANDED, Kind.OTHER_DISK, Kind.COMPLETION)
LOST = (Kind.LOST, Kind.NO_WAKER)
MOMENTS_NS = 500_000 * SLOWER  # between a thread's look at its clock and a switch
UNNAMED_NS = 2_000_000 * SLOWER  # of interrupts that name no cause
# Of these modes one thread makes progress at a time; of the others the path is the mean over several.
ONE = ("sleep", "hog", "futex", "child", "chain2", "chain3", "fsync", "flush", "fastread")
SEVERAL = ("hogs", "pingpong", "lock")
ONE_IF_SLOW = ("read", "fault", "chainread", "reclaim", "write")
# The issue's own tolerances.
WITHOUT_WAKER, WITH_REQUEST = 0.001, 0.99


class Paths:
    """The critical path of each mode, over the time of its main thread."""

    def __init__(self, known_run: KnownRun) -> None:
        self.run = known_run
        self._found: dict[str, PathResults] = {}

    def of(self, mode: str) -> PathResults:
        if mode not in self._found:
            self._found[mode] = self._measure(self.run.known[mode])
        return self._found[mode]

    def _measure(self, known: Known) -> PathResults:
        threads = self.run.threads()
        first_ns = min(thread.begin_ns for thread in threads) - 1_000_000_000
        last_ns = max(thread.end_ns for thread in threads) + 100_000_000
        main = known.threads["main"]
        window = Window(first_ns, last_ns, main.begin_ns, main.end_ns, True)
        timeline = make_timeline(first_ns, last_ns, main.begin_ns, QUANTUM_NS, QUANTUM_NS)
        run = open_run(self.run.folder)
        found = measure_path(self.run.tables, window, timeline, tested.tested_filesystem(run))
        assert isinstance(found, PathResults), found
        return found


@pytest.fixture(scope="module")
def paths(known_run: KnownRun) -> Iterator[Paths]:
    yield Paths(known_run)


def rows_of(path: PathResults) -> PathRows:
    assert path.rows is not None
    return path.rows


@dataclass(frozen=True)
class Found:
    """Pieces of the path of a mode."""

    path: PathResults

    @property
    def pieces(self) -> Pieces:
        (pieces,) = rows_of(self.path).pieces
        return pieces

    def ns(self, piece: Piece, kinds: tuple[Kind, ...], tid: int = 0) -> int:
        """Time of the path within a piece of a thread, of these kinds. tid: of this thread's pieces."""
        pieces = self.pieces
        mine = np.isin(pieces.kind, kinds)
        if tid:
            mine &= (pieces.thread >= 0) & (rows_of(self.path).owners.tid[pieces.thread] == tid)
        ns = np.minimum(pieces.end, piece.end_ns) - np.maximum(pieces.begin, piece.begin_ns)
        return int(np.maximum(ns[mine], 0).sum())

    def is_most(self, piece: Piece, kinds: tuple[Kind, ...], tid: int = 0) -> None:
        """A piece of a thread is the path's, but for moments at its edges, and while a thread wants a CPU."""
        begin_ns = max(piece.begin_ns, int(self.pieces.begin.min()))  # main may begin after others
        found_ns = self.ns(piece, kinds, tid) + self.ns(piece, LOST)
        if Kind.CPU not in kinds:
            found_ns += self.ns(piece, ON_CPU)
        assert piece.end_ns - begin_ns - found_ns <= 0.01 * piece.ns + MOMENTS_NS, piece


@pytest.mark.parametrize("mode", [*ONE, *SEVERAL])
def test_path_covers_all_of_the_main_thread_s_time(known_run: KnownRun, paths: Paths, mode: str) -> None:
    covers_all(known_run, paths, mode)


@pytest.mark.parametrize("mode", ONE_IF_SLOW)
def test_path_covers_all_of_a_slowed_thread_s_time(known_run: KnownRun, paths: Paths, mode: str) -> None:
    if mode not in known_run.known:
        pytest.skip("nothing slows this here: use a kernel with blk-throttle, memory cgroups, strict_limit")
    covers_all(known_run, paths, mode)


def covers_all(known_run: KnownRun, paths: Paths, mode: str) -> None:
    """Each instant of each root once, and unknown only where no switch, or no cause of a wake, was seen."""
    path, main = paths.of(mode), known_run.known[mode].threads["main"]
    roots, pieces = rows_of(path).roots, Found(path).pieces
    for root in range(path.roots):
        mine = pieces.root == root
        order = np.argsort(pieces.begin[mine], kind="stable")
        begin, end = pieces.begin[mine][order], pieces.end[mine][order]
        assert (begin[0], end[-1]) == (roots.begin[root], roots.end[root])
        assert (begin[1:] == end[:-1]).all()
    assert path.total_ns == int((roots.end - roots.begin).sum()) == sum(share.ns for share in path.shares)
    coverage = path.coverage
    assert coverage.unrecorded_ns == 0
    is_lost = np.isin(pieces.kind, LOST)
    # Of a thread that waits for main it is then not known that it does no work.
    if mode not in SEVERAL and not is_lost.any():
        assert path.is_one and path.total_ns == main.end_ns - main.begin_ns
    assert is_lost.sum() <= known_run.unseen().total()
    # An interrupt may wake a worker and name no cause.
    is_unnamed = pieces.kind == Kind.INTERRUPT
    kinds = {Kind(kind).name: int(pieces.ns[pieces.kind == kind].sum()) for kind in np.unique(pieces.kind)}
    assert coverage.unknown_ns == int(pieces.ns[is_lost | is_unnamed].sum()), str(kinds)
    assert pieces.ns[is_unnamed].sum() <= UNNAMED_NS, str(kinds)


def test_wakers_and_requests_are_known(paths: Paths) -> None:
    """Of all threads that were logged, in the whole recording."""
    coverage: Coverage = paths.of("sleep").coverage
    assert coverage.sleeps > 2000 and coverage.completions > 500
    unseen = paths.run.run.source("block")["notes"].get("end not seen (no latency)", 0)
    without = coverage.sleeps_without_waker - paths.run.unseen()["wake-ups"]
    assert without <= WITHOUT_WAKER * coverage.sleeps
    assert coverage.completions_named + unseen >= WITH_REQUEST * coverage.completions


@pytest.mark.parametrize("mode", ["chain2", "chain3"])
def test_chains_end_at_who_sleeps_and_computes(known_run: KnownRun, paths: Paths, mode: str) -> None:
    known, found = known_run.known[mode], Found(paths.of(mode))
    sleeper = "second" if mode == "chain2" else "third"
    [slept] = known.pieces_of(sleeper, "sleep")
    assert slept.ns >= MS * 1_000_000
    tid = known.threads[sleeper].tid
    found.is_most(slept, (Kind.TIMER,), tid)
    # The rest: on a busy machine main, or who is between them, gets a CPU late.
    assert found.ns(slept, (Kind.TIMER, *LOST), tid) >= 0.5 * MS * 1_000_000
    computed = [piece for piece in known.pieces if piece.what == "compute"]
    assert len({piece.thread for piece in computed}) == (1 if mode == "chain2" else 2)
    for piece in computed:
        found.is_most(piece, ON_CPU, known.threads[piece.thread].tid)
        # Before its own time nobody is on the path as one who computes.
        assert found.ns(slept, (Kind.CPU,), known.threads[piece.thread].tid) <= 0.01 * slept.ns + MOMENTS_NS


@pytest.mark.parametrize("mode", ["futex", "lock"])
def test_holder_of_a_lock_is_followed_in_its_sleep(known_run: KnownRun, paths: Paths, mode: str) -> None:
    """The holder itself sleeps, or waits for the one that will give it memory: while main wants the lock."""
    known, path = known_run.known[mode], paths.of(mode)
    sleeper = "second" if mode == "futex" else "third"
    tid = known.threads[sleeper].tid
    [slept], [wanted] = known.pieces_of(sleeper, "sleep"), known.pieces_of("main", mode)
    rows, pieces = rows_of(path), Found(path).pieces
    of_main = rows.owners.tid[rows.roots.thread][pieces.root] == known.threads["main"].tid
    if path.is_one:
        of_main |= True
    timed = of_main & (pieces.kind == Kind.TIMER) & (rows.owners.tid[pieces.thread] == tid)
    begin_ns, end_ns = max(slept.begin_ns, wanted.begin_ns), slept.begin_ns + MS * 1_000_000
    ns = np.maximum(np.minimum(pieces.end, slept.end_ns) - np.maximum(pieces.begin, begin_ns), 0)
    on_cpu = of_main & np.isin(pieces.kind, (*ON_CPU, *LOST))
    assert ns[timed].sum() >= 0.5 * (end_ns - begin_ns)
    rest_ns = np.maximum(np.minimum(pieces.end, end_ns) - np.maximum(pieces.begin, begin_ns), 0)[on_cpu].sum()
    assert ns[timed].sum() + rest_ns >= 0.99 * (end_ns - begin_ns) - MOMENTS_NS
    # What main waited for meanwhile is the lock.
    own = {rows.causes.waited[rows.causes.code[one]].cause for one in pieces.own[timed & (ns > 0)].tolist()}
    assert own == {"lock" if mode == "lock" else "sleep"}  # of its own will: the other's sleep is its own


def test_child_is_followed_in_its_sleep(paths: Paths) -> None:
    path = paths.of("child")
    slept = [share for share in path.shares if share.kind == Kind.TIMER]
    assert {share.own.cause for share in slept} == {"sleep"}  # not "child": that is where the child is
    slept_ns = sum(share.ns for share in slept)
    assert slept_ns >= 0.5 * MS * 1_000_000
    assert slept_ns + ready_ns(path) + lost_ns(path) >= path.total_ns - MOMENTS_NS


@pytest.mark.parametrize(("mode", "thread"), [("read", "main"), ("chainread", "second"), ("fault", "main")])
def test_reads_of_a_slowed_disk_are_named(known_run: KnownRun, paths: Paths, mode: str, thread: str) -> None:
    """All of each read is its request's: held back by the throttle, or with the device."""
    if mode not in known_run.known:
        pytest.skip("reads of a disk cannot be slowed here: use a kernel with blk-throttle")
    known, path = known_run.known[mode], paths.of(mode)
    reads = known.pieces_of(thread, "fault" if mode == "fault" else "read")
    assert len(reads) == SLOW_READS
    for piece in reads:
        Found(path).is_most(piece, OF_REQUEST)
    named = [share for share in path.requests if share.label.startswith("read ")]
    assert named == path.requests
    read_ns = sum(share.device_ns + share.queue_ns for share in named)
    rest_ns = ready_ns(path) + lost_ns(path)
    assert read_ns >= 0.98 * sum(piece.ns for piece in reads) - MOMENTS_NS - rest_ns
    if mode != "fault":  # the class of a page of a device without a file system is not known
        assert {share.label for share in named} == {"read data"}


def ready_ns(path: PathResults) -> int:
    return sum(share.ns for share in path.shares if share.kind in ON_CPU)


def lost_ns(path: PathResults) -> int:
    return sum(share.ns for share in path.shares if share.kind in LOST)


def test_syncs_end_at_requests_and_who_sent_them(known_run: KnownRun, paths: Paths) -> None:
    """Each sync waits for the journal's thread and its requests: flushes, and blocks of the journal."""
    known, path = known_run.known["fsync"], paths.of("fsync")
    assert len(known.pieces_of("main", "fsync")) == SYNCS
    flushes = [share for share in path.requests if share.label == "flush"]
    assert sum(share.count for share in flushes) >= SYNCS
    assert all(share.comm.startswith("jbd2/") for share in flushes)
    by_commit = sum(share.ns for share in path.shares if share.own.cause == "commit")
    assert by_commit >= 0.5 * path.total_ns - ready_ns(path)
    assert any(share.name.startswith("jbd2/") and share.kind == Kind.CPU for share in path.shares)
    [commits] = [share for share in path.events if share.kind == "jbd2_commit"]
    assert (commits.why, commits.count) == ("fsync", SYNCS)


def test_reclaim_and_throttling_are_their_events_on_the_path(known_run: KnownRun, paths: Paths) -> None:
    if not {"reclaim", "write"} & known_run.known.keys():
        pytest.skip("nothing slows this here: use a kernel with strict_limit, or memory cgroups of version 1")
    for mode, kind, cause in (
        ("reclaim", "direct_reclaim", "reclaim"),
        ("write", "dirty_throttle", "throttle"),
    ):
        if mode not in known_run.known:
            continue
        path = paths.of(mode)
        waited_ns = sum(wait.ns for wait in path.own_waits if wait.waited.cause == cause)
        event_ns = sum(share.ns for share in path.events if share.kind == kind)
        if mode == "write":  # an event is as long as the pause was to be
            assert 0 < event_ns <= waited_ns + lost_ns(path)
        else:  # an event has its time on the CPU, too
            assert 0 < 0.99 * waited_ns <= event_ns
