# SPDX-License-Identifier: BSD-2-Clause
"""Events of file systems whose causes are planted: reason, asker, phases, and the kernel's own counters."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path

import pytest

from tests.collectors.event_rows import FileSystem, events_of, file_system, rows, shown, write
from tests.collectors.loop_disk import MIB
from tests.collectors.recording import EMULATED, Recording, needs_btf, recording, skip_without_contexts
from tests.marks import needs_root

pytestmark = [needs_root, needs_btf]
NS_A_SECOND = 1_000_000_000
COMMIT_S = 1  # the interval of ext4's timer, at least
PAGE_BYTES = 4096
SYNCS = 4


def journal_counts(system: FileSystem) -> tuple[int, int]:
    """Commits of the journal so far, and how many of them were asked for."""
    text = Path(f"/proc/fs/jbd2/{system.disk}-8/info").read_text()
    found = re.match(r"(\d+) transactions \((\d+) requested\)", text)
    assert found, text
    return int(found[1]), int(found[2])


def assert_nothing_lost(run: Recording) -> None:
    state = run.source("events")
    assert not any(state["lost"].values()), state["lost"]
    assert state["seen"] == state["recorded"]


@contextmanager
def memory_cgroup(limit_bytes: int) -> Iterator[Path]:
    """A memory cgroup of this size, of whichever version the machine has."""
    first, second = Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")
    with ExitStack() as stack:
        if (first / "memory.limit_in_bytes").exists():
            root, limit = first, "memory.limit_in_bytes"
        elif "memory" in (second / "cgroup.controllers").read_text().split():
            root, limit = second, "memory.max"
            control = second / "cgroup.subtree_control"
            if "memory" not in control.read_text().split():  # a guest without systemd
                control.write_text("+memory")
                stack.callback(control.write_text, "-memory")
        else:
            pytest.skip("no memory cgroups: mount them")
        group = root / f"seekmeter-test-{os.getpid()}"
        group.mkdir()
        stack.callback(group.rmdir)
        (group / limit).write_text(str(limit_bytes))
        yield group


def test_each_sync_of_ext4_has_a_commit_with_its_asker_and_phases(tmp_path: Path) -> None:
    with file_system(tmp_path, "ext4", mount="commit=600") as system:
        before = journal_counts(system)
        with events_of(tmp_path, system) as run:
            for number in range(SYNCS):
                write(system.folder / f"synced{number}", b"x" * 10_000, sync=True)
            file = os.open(system.folder / "o_sync", os.O_CREAT | os.O_WRONLY | os.O_SYNC, 0o600)
            os.write(file, b"x")
            os.close(file)
            write(system.folder / "more", b"x")
            os.sync()
        after = journal_counts(system)
    commits = rows(run, "jbd2_commit", system.dev)
    me = os.getpid()
    asked = [(row["why"], row["asker_call"], row["asker_tid"]) for row in commits]
    assert asked == [("fsync", "fsync", me)] * SYNCS + [("fsync", "write", me), ("sync", "sync", me)]
    assert (after[0] - before[0], after[1] - before[1]) == (len(commits), len(commits))
    for row in commits:
        assert row["p3_ns"] + row["p4_ns"] + row["p5_ns"] == row["end_ns"] - row["start_ns"]
        assert row["bytes"] == row["blocks"] * PAGE_BYTES > 0
        # Asked for after the transaction began; without the asker's wake in whole jiffies.
        assert EMULATED or 0 < row["p1_ns"] < row["p2_ns"]
        assert row["comm"] == f"jbd2/{system.disk}-8".encode()
    numbers = [row["sequence"] for row in commits]
    assert numbers == list(range(numbers[0], numbers[0] + len(commits)))
    assert_nothing_lost(run)


def test_commits_after_a_remount_have_their_askers(tmp_path: Path) -> None:
    """The new journal may lie where the old one did, with another thread."""
    with file_system(tmp_path, "ext4", mount="commit=600") as system, events_of(tmp_path, system) as run:
        for number in range(SYNCS):
            write(system.folder / f"synced{number}", b"x", sync=True)
            subprocess.run(["umount", system.folder], check=True)
            disk = f"/dev/{system.disk}"
            subprocess.run(["mount", "-o", "commit=600", disk, system.folder], check=True)
    commits = rows(run, "jbd2_commit", system.dev)
    synced = [row for row in commits if row["asker_call"] == "fsync"]
    assert [(row["why"], row["asker_tid"]) for row in synced] == [("fsync", os.getpid())] * SYNCS
    assert {row["why"] for row in commits} <= {"fsync", "sync", "umount"}


def test_a_commit_by_the_timer_has_no_asker(tmp_path: Path) -> None:
    with file_system(tmp_path, "ext4", mount=f"commit={COMMIT_S}") as system:
        before = journal_counts(system)
        with events_of(tmp_path, system) as run:
            (system.folder / "made").mkdir()
            begin = time.monotonic_ns()
            while journal_counts(system)[0] == before[0] and time.monotonic_ns() < begin + 10 * NS_A_SECOND:
                time.sleep(0.05)
        after = journal_counts(system)
    (row,) = rows(run, "jbd2_commit", system.dev)
    assert (row["why"], row["asker_tid"], row["asker_call"]) == ("timer", 0, "none")
    assert row["p2_ns"] >= COMMIT_S * NS_A_SECOND - 20_000_000  # jiffies
    assert (after[0] - before[0], after[1] - before[1]) == (1, 0)


def test_a_full_journal_makes_commits_for_size_and_checkpoints_in_the_task(tmp_path: Path) -> None:
    with file_system(tmp_path, "ext4", ("-J", "size=4"), "commit=600") as system:
        before = journal_counts(system)
        with events_of(tmp_path, system) as run:
            for number in range(1500):
                (system.folder / f"d{number}").mkdir()
        after = journal_counts(system)
    commits = rows(run, "jbd2_commit", system.dev)
    checkpoints = rows(run, "jbd2_checkpoint", system.dev)
    assert after[0] - before[0] == len(commits) >= 3
    assert {row["why"] for row in commits} <= {"size", "checkpoint"}
    # A commit that is asked for during the one before has no asker: its wake has no sleeper.
    askers = {(row["asker_tid"], row["asker_call"]) for row in commits} - {(0, "none")}
    assert askers == ({(os.getpid(), "mkdir")} if not EMULATED else set())  # wakes are not traced there
    assert checkpoints
    assert {(row["why"], row["tid"], row["asker_call"]) for row in checkpoints} == {
        ("space", os.getpid(), "mkdir")
    }
    assert all(row["count"] > 0 and row["blocks"] > 0 for row in checkpoints)
    # A checkpoint's transactions were committed before it, and written once.
    written = {row["sequence"]: row["end_ns"] for row in commits}
    known = [row for row in checkpoints if row["sequence"] in written]
    assert known and all(written[row["sequence"]] <= row["end_ns"] for row in known)
    assert_nothing_lost(run)


def test_each_checkpoint_ends_with_its_task_s_handle(tmp_path: Path) -> None:
    """Of several tasks, some wait for a commit that makes the room which they want."""
    makers, made = 6, 500
    script = f"""cd "$0" && i=0; while [ $i -lt {made} ]; do i=$((i+1)); echo d$i; done | xargs -n 20 mkdir"""
    with file_system(tmp_path, "ext4", ("-J", "size=4"), "commit=600") as system:
        for number in range(makers):
            (system.folder / str(number)).mkdir()
        with events_of(tmp_path, system) as run:
            running = [
                subprocess.Popen(["/bin/sh", "-c", script, system.folder / str(number)])
                for number in range(makers)
            ]
            assert [maker.wait() for maker in running] == [0] * makers
    checkpoints = rows(run, "jbd2_checkpoint", system.dev)
    assert checkpoints and not any(row["is_open"] for row in checkpoints)
    # They were written or, if not, waited for.
    assert any(row["blocks"] for row in checkpoints)
    assert all(row["start_ns"] < row["end_ns"] for row in checkpoints)


def test_requests_are_charged_to_the_commit_and_the_checkpoint_that_sent_them(tmp_path: Path) -> None:
    """To the byte: the journal's blocks to each commit, buffers and superblock to each checkpoint."""
    words = ("--collect", "events,calls,block")
    with file_system(tmp_path, "ext4", ("-J", "size=4"), "commit=600") as system:
        more = (*words, "--target-dev", system.device, "--disk", system.disk)
        with recording(tmp_path / "out", *more) as run:
            for number in range(SYNCS):
                write(system.folder / f"synced{number}", b"x", sync=True)
            for number in range(1500):
                (system.folder / f"d{number}").mkdir()
    charged: Counter[int] = Counter()
    for row in run.table("block"):
        charged[int(row["event_id"])] += int(row["bytes"])
    commits = rows(run, "jbd2_commit", system.dev)
    checkpoints = [row for row in rows(run, "jbd2_checkpoint", system.dev) if row["count"] > 1]
    assert len(commits) > SYNCS and checkpoints
    assert [charged[row["event_id"]] for row in commits] == [row["bytes"] for row in commits]
    superblock = 1
    assert [charged[row["event_id"]] for row in checkpoints] == [
        (row["count"] + superblock) * PAGE_BYTES for row in checkpoints
    ]


@pytest.mark.long
@pytest.mark.skipif(EMULATED, reason="emulated CPUs do not fill the log")
def test_waits_for_room_in_the_log_of_xfs_are_those_the_kernel_counts(tmp_path: Path) -> None:
    makers = 4
    with file_system(tmp_path, "xfs", ("-l", "size=64m", "-i", "maxpct=80")) as system:
        stats = Path(f"/sys/fs/xfs/{system.disk}/stats/stats")

        def counts() -> list[int]:
            found = re.search(r"^push_ail (.*)$", stats.read_text(), re.MULTILINE)
            assert found
            return [int(number) for number in found[1].split()]

        numbers = "i=0; while [ $i -lt 40000 ]; do i=$((i+1))"
        make = f'mkdir "$0" && cd "$0" && {{ {numbers}; echo d$i; done; }} | xargs mkdir'
        script = f"{make} && {numbers}; : >d$i/x; done"
        before = counts()
        with events_of(tmp_path, system) as run:
            running = [
                subprocess.Popen(["/bin/sh", "-c", script, system.folder / f"m{number}"])
                for number in range(makers)
            ]
            assert [maker.wait() for maker in running] == [0] * makers
            after = counts()
    sleeps = rows(run, "xfs_grant_sleep", system.dev)
    pushes = [row for row in rows(run, "xfs_ail_push", system.dev) if not row["is_open"]]
    assert sleeps
    assert {(row["why"], row["asker_call"]) for row in sleeps} <= {("space", "mkdir"), ("space", "open")}
    assert {row["comm"] for row in pushes} == {f"xfsaild/{system.disk}".encode()}
    if not any(run.source("events")["lost"].values()):
        assert len(sleeps) == after[1] - before[1]
    # What was pushed while the counters were read may be in one of them only.
    pushed, pinned = after[3] - before[3], after[5] - before[5]
    assert abs(sum(row["count"] for row in pushes) - pushed) <= pushed * 0.05
    assert abs(sum(row["blocks"] for row in pushes) - pinned) <= max(pinned * 0.05, 100)


def test_log_forces_of_xfs_are_those_the_kernel_counts(tmp_path: Path) -> None:
    with file_system(tmp_path, "xfs") as system:
        stats = Path(f"/sys/fs/xfs/{system.disk}/stats/stats")

        def forces() -> int:
            found = re.search(r"^log \d+ \d+ \d+ (\d+)", stats.read_text(), re.MULTILINE)
            assert found
            return int(found[1])

        before = forces()
        borders: list[int] = []
        with events_of(tmp_path, system) as run:
            for number in range(SYNCS):
                borders.append(time.monotonic_ns())
                write(system.folder / f"synced{number}", b"x", sync=True)
            borders.append(time.monotonic_ns())
            subprocess.run(["sync", "-f", system.folder], check=True)
        counted = forces() - before
    events = rows(run, "xfs_log_force", system.dev)
    mine = [row for row in events if row["tid"] == os.getpid()]
    assert [(row["why"], row["asker_call"]) for row in mine] == [("fsync", "fsync")] * SYNCS
    assert ("sync", "syncfs") in {(row["why"], row["asker_call"]) for row in events}
    assert len(events) == counted
    if "no tracepoint" in next(
        line["why"] for line in run.lines("event_kind") if line["kind"] == "xfs_log_force"
    ):
        return
    # Each write was synced by a force of some length, and the thread went on as that had ended.
    for row, (begin_ns, end_ns) in zip(mine, pairwise(borders), strict=True):
        assert begin_ns < row["start_ns"] < row["end_ns"] < end_ns
        assert row["p1_ns"] + row["p2_ns"] == row["end_ns"] - row["start_ns"]
        assert not row["is_open"]


def test_commits_of_btrfs_are_those_the_kernel_counts(tmp_path: Path) -> None:
    with file_system(tmp_path, "btrfs", mount="commit=600") as system:
        stats = next(Path("/sys/fs/btrfs").glob(f"*/devices/{system.disk}")).parents[1] / "commit_stats"

        def commits() -> tuple[int, int]:
            found = dict(line.split() for line in stats.read_text().splitlines())
            return int(found["commits"]), int(found["total_commit_ms"])

        if not stats.exists():
            pytest.skip("the kernel counts no commits of Btrfs: use 6.1 or newer")
        before = commits()
        with events_of(tmp_path, system) as run:
            for number in range(SYNCS):
                write(system.folder / f"file{number}", b"x" * 10_000)
                subprocess.run(["sync", "-f", system.folder], check=True)
        after = commits()
    events = rows(run, "btrfs_commit", system.dev)
    asked = [row for row in events if row["why"] == "syncfs"]
    assert len(events) == after[0] - before[0]
    assert len(asked) == SYNCS and all(row["asker_tid"] == row["tid"] for row in asked)
    lasted_ms = sum(row["end_ns"] - row["start_ns"] for row in events) / 1e6
    # The kernel's are whole ms; where it reports each state, an event begins earlier than what it counts.
    more_ms = sum(row["p1_ns"] + row["p2_ns"] for row in events) / 1e6
    assert -len(events) <= lasted_ms - (after[1] - before[1]) <= more_ms + len(events)
    assert [row["sequence"] for row in asked] == sorted({row["sequence"] for row in asked})


@pytest.mark.parametrize("name", ["ext4", "xfs", "btrfs"])
def test_a_sync_writes_what_became_dirty(name: str, tmp_path: Path) -> None:
    """Pages in rounds of writeback, and bytes dirtied, are those of the files written."""
    size_bytes = 6 * MIB
    with file_system(tmp_path, name) as system:
        with events_of(tmp_path, system) as run:
            write(system.folder / "file", b"x" * size_bytes)
            subprocess.run(["sync", "-f", system.folder], check=True)
        rounds = rows(run, "writeback", system.dev)
        ino = (system.folder / "file").stat().st_ino
    asked = [row for row in rounds if row["why"] == "sync"]
    # Kernels that can keep no data with a task do not tell its call; another program may sync everything.
    assert asked and {row["asker_call"] for row in asked} <= {"syncfs", "sync", "none"}
    assert {row["why"] for row in rounds} <= {"sync", "background"}  # others may dirty most of memory
    dirtied = run.table("dirtied")
    assert dirtied["bytes"].sum() == size_bytes
    assert (dirtied["large_folio_bytes"] <= dirtied["bytes"]).all()
    inodes = [row for row in rows(run, "writeback_inode", system.dev) if row["ino"] == ino]
    counted = sum(row["bytes"] for row in inodes)
    # Btrfs of 7.2 has large folios, and its flusher counts each as one page.
    assert 0 < counted <= size_bytes if name == "btrfs" else counted == size_bytes
    assert {row["parent_id"] for row in inodes} <= {row["event_id"] for row in rounds}
    # Beside the file, the rounds have what the file system keeps in inodes of its own.
    assert sum(row["pages"] for row in rounds) * PAGE_BYTES >= counted


def test_the_metadata_of_ext4_is_flushed_by_the_inode_of_its_device(tmp_path: Path) -> None:
    with file_system(tmp_path, "ext4") as system, events_of(tmp_path, system) as run:
        for number in range(50):
            (system.folder / f"d{number}").mkdir()
        # Committed blocks are dirty in the device's inode; sync() first wakes the flusher.
        write(system.folder / "file", b"x", sync=True)
        os.sync()
    flushes = rows(run, "bdev_flush", system.dev)
    assert flushes and sum(row["pages"] for row in flushes) > 0
    skip_without_contexts(run, "events")  # which know their parents
    parents = {row["event_id"]: row for row in rows(run, "writeback")}
    assert all(parents[row["parent_id"]]["tid"] == row["tid"] for row in flushes)


@contextmanager
def few_dirty_bytes(system: FileSystem) -> Iterator[None]:
    """Let the file system's disk have a megabyte of dirty pages only."""
    bdi = Path("/sys/class/bdi") / system.device
    if not (bdi / "max_bytes").exists():
        pytest.skip("the kernel has no limit of dirty bytes by disk: use 6.2 or newer")
    try:
        (bdi / "strict_limit").write_text("1")
        (bdi / "max_bytes").write_text(str(MIB))
        yield
    finally:
        (bdi / "max_ratio").write_text("100")
        (bdi / "strict_limit").write_text("0")


def test_a_writer_above_the_limit_of_its_disk_is_throttled(tmp_path: Path) -> None:
    with file_system(tmp_path, "ext4") as system, few_dirty_bytes(system), events_of(tmp_path, system) as run:
        begin = time.monotonic_ns()
        write(system.folder / "file", b"x" * (24 * MIB))
        lasted_ns = time.monotonic_ns() - begin
    pauses = [row for row in rows(run, "dirty_throttle", system.dev) if row["tid"] == os.getpid()]
    assert pauses
    paused_ns = sum(row["end_ns"] - row["start_ns"] for row in pauses)
    assert 0 < paused_ns <= lasted_ns
    # One after the other: a pause ends before the next begins, but for the jiffies in which it is planned.
    assert all(a["end_ns"] <= b["start_ns"] + 20_000_000 for a, b in pairwise(pauses))


@pytest.mark.parametrize("name", ["ext4", "btrfs"])
def test_windows_of_readahead_are_what_was_read(name: str, tmp_path: Path) -> None:
    """A file read from begin to end: one miss, then windows ahead, one behind the other."""
    with file_system(tmp_path, name) as system:
        path = system.folder / "file"
        write(path, b"x" * MIB, sync=True)
        ino = path.stat().st_ino
        file = os.open(path, os.O_RDONLY)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        with events_of(tmp_path, system) as run:
            for page in range(MIB // PAGE_BYTES):
                os.pread(file, PAGE_BYTES, page * PAGE_BYTES)
        os.close(file)
    windows = [row for row in rows(run, "readahead", system.dev) if row["ino"] == ino]
    assert [row["why"] for row in windows] == ["miss"] + ["ahead"] * (len(windows) - 1)
    assert len(windows) > 2
    assert windows[0]["sequence"] == 0
    assert all(a["sequence"] + a["pages"] == b["sequence"] for a, b in pairwise(windows))
    assert {(row["tid"], row["asker_call"]) for row in windows} == {(os.getpid(), "read")}


def test_reclaim_in_a_small_memory_cgroup_is_the_readers_own(tmp_path: Path) -> None:
    with file_system(tmp_path, "ext4") as system:
        path = system.folder / "file"
        write(path, b"x" * (64 * MIB), sync=True)
        file = os.open(path, os.O_RDONLY)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)  # these pages are another cgroup's
        os.close(file)
        with memory_cgroup(24 * MIB) as group, events_of(tmp_path, system) as run:
            script = f"echo $$ >{group}/cgroup.procs; exec dd if={path} of=/dev/null bs=1M"
            reader = subprocess.Popen(["/bin/sh", "-c", script], stderr=subprocess.DEVNULL)
            assert reader.wait() == 0
    reclaims = [row for row in rows(run, "direct_reclaim") if row["tid"] == reader.pid]
    assert reclaims and {row["why"] for row in reclaims} == {"memcg"}
    assert sum(row["pages"] for row in reclaims) * PAGE_BYTES >= 32 * MIB
    assert all(row["start_ns"] < row["end_ns"] and not row["is_open"] for row in reclaims)


@pytest.mark.skipif(EMULATED, reason="emulated CPUs are too slow for so many events at once")
def test_events_beyond_the_budget_are_counted_by_kind(tmp_path: Path) -> None:
    with (
        file_system(tmp_path, "xfs") as system,
        events_of(tmp_path, system, SEEKMETER_EVENTS_AT_ONCE="1") as run,
    ):
        for number in range(400):
            write(system.folder / f"f{number}", b"x", sync=True)
    state = run.source("events")
    lost = {name: count for name, count in state["lost"].items() if count}
    assert lost["too many at once: xfs_log_force"] > 0
    assert all(name.startswith("too many at once: ") for name in lost)
    assert state["seen"] >= state["recorded"] + sum(lost.values())


def test_the_recording_says_which_kinds_the_kernel_shows(tmp_path: Path) -> None:
    with file_system(tmp_path, "ext4") as system, events_of(tmp_path, system) as run:
        pass
    lines = run.lines("event_kind")
    assert all(line["shown"] or line["why"] for line in lines)
    kinds = Counter(line["kind"] for line in lines)
    assert max(kinds.values()) == 1
    for kind in ("writeback", "dirty_throttle", "direct_reclaim"):
        assert shown(run, kind), kind
    types = Path("/sys/kernel/btf")
    is_known = b"btf_trace_jbd2_start_commit" in (types / "vmlinux").read_bytes() or (types / "jbd2").exists()
    assert shown(run, "jbd2_commit") is is_known
