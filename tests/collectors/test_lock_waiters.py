# SPDX-License-Identifier: BSD-2-Clause
"""Who waited for a lock, as the recorder says, against the kernel's own event tracer, thread by thread."""

from __future__ import annotations

import subprocess
import time
from collections import Counter
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tests.collectors.lock_events import Event, kind_of
from tests.collectors.lock_waits import recording_between
from tests.collectors.loop_disk import loop_disk, mounted
from tests.collectors.recording import Recording, cgroup, compile_program, enum_value, needs_btf, run_inside
from tests.marks import needs_root

pytestmark = [needs_root, needs_btf]
SLEEPS = ("mutex", "rwsem", "percpu_rwsem", "rtmutex", "semaphore")


def of_waiter(run: Recording, waiter: str) -> npt.NDArray[np.void]:
    """The rows of this kind of waiter."""
    table = run.table("lock_wait")
    rows: npt.NDArray[np.void] = table[
        table["waiter"] == enum_value(run.out / "lock_wait.rec", "lock_waiter", waiter)
    ]
    return rows


def ended(events: list[Event], pids: set[int]) -> Counter[str]:
    """How many waits of these threads ended, by kind of lock; what began before the tracer is left out."""
    open_kinds: dict[tuple[int, int], str] = {}
    found: Counter[str] = Counter()
    for event in events:
        if event.pid not in pids:
            continue
        key = (event.pid, event.lock)
        if event.begin:
            open_kinds.setdefault(key, kind_of(event.flags))
        elif key in open_kinds:
            found[open_kinds.pop(key)] += 1
    return found


def counted(run: Recording, rows: npt.NDArray[np.void], kinds: tuple[str, ...]) -> Counter[str]:
    """The same of the recorder's rows."""
    return Counter(
        {
            kind: int(
                rows["count"][rows["kind"] == enum_value(run.out / "lock_wait.rec", "lock_kind", kind)].sum()
            )
            for kind in kinds
        }
    )


def test_each_wait_has_the_group_of_its_thread(tmp_path: Path) -> None:
    """ext4 on a loop device: programs in the cgroup and outside, the journal's thread, the disk's worker."""
    program = compile_program("fsync_storm", tmp_path)
    with (
        loop_disk(tmp_path / "disk", 256 << 20, "--direct-io=on") as disk,
        cgroup() as group,
        recording_between(tmp_path, "--cgroup", str(group), "--bin-ms", "2000") as (run, stream),
    ):
        subprocess.run(["mkfs.ext4", "-q", disk.path], check=True)
        with mounted(disk.path, tmp_path / "mnt") as mount:
            (mount / "own").mkdir()
            (mount / "other").mkdir()
            # not our own child, as the recorder's parent's are taken for the session's
            words = ["sh", "-c", '"$0" "$@"; exit $?', str(program), str(mount / "other"), "2", "200"]
            outside = subprocess.Popen(words, stdout=subprocess.DEVNULL)
            inside = run_inside(group, [program, mount / "own", "4", "400"])
            inside.communicate(timeout=300)
            assert outside.wait(timeout=300) == inside.returncode == 0
            time.sleep(0.1)
    pids: dict[str, set[int]] = {}
    for event in stream.events:
        pids.setdefault(event.comm, set()).add(event.pid)
    lost = sum(run.source("locks")["lost"].values())

    # A thread that sleeps for a lock is no interrupt: each such wait is in its own rows.
    threads = [name for name in pids if name.startswith(f"jbd2/{disk.name}-")]
    assert threads, sorted(pids)
    rows = of_waiter(run, "kernel_thread")
    journal = rows[np.char.startswith(rows["waiter_name"].astype(bytes), f"jbd2/{disk.name}-".encode())]
    true = ended(stream.events, pids[threads[0]])
    mine = counted(run, journal, (*SLEEPS, "spinlock", "rwlock"))
    for kind in SLEEPS:
        assert true[kind] - lost <= mine[kind] <= true[kind], (kind, true, mine)
    for kind in ("spinlock", "rwlock"):  # of the tracer's, some were of interrupts over it
        assert mine[kind] <= true[kind], (kind, true, mine)

    storms = ended(stream.events, pids["fsync_storm"])
    own = counted(run, of_waiter(run, "workload"), SLEEPS)
    other_rows = of_waiter(run, "other")
    others = counted(run, other_rows[other_rows["waiter_name"] == b"fsync_storm"], SLEEPS)
    assert sum(own.values()) > 0
    for kind in SLEEPS:
        assert storms[kind] - lost <= own[kind] + others[kind] <= storms[kind], (kind, storms, own, others)
    assert not (of_waiter(run, "workload")["in_workload"] == 0).any()
    for waiter in ("other", "kernel_thread", "interrupt", "recorder"):
        assert not of_waiter(run, waiter)["in_workload"].any()
    # The loop device's worker waits for locks of the file system that its file lies on.
    assert (rows["waiter_name"] == disk.name.encode()).any(), Counter(rows["waiter_name"].tolist())
