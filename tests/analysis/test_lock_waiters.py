# SPDX-License-Identifier: BSD-2-Clause
"""Whose a lock wait is: told by task, a kernel thread's name, the lock's inode; and what is shown of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from analysis.measures.clip import measure_clipped
from analysis.measures.locks import lock_waiters
from analysis.measures.results import measure
from analysis.render import text
from analysis.rundir import tested
from analysis.rundir.run import open_run
from analysis.sections.document import make_document
from analysis.tables.load import load_tables
from tests.analysis.synthetic import START_NS, Spec, run_json

MS = 1_000_000
BELOW = {"dev": "254:1", "name": "vda1"}


def facts(**filesystem: Any) -> dict[str, Any]:
    """run.json of ext4 on /dev/loop3, whose file lies on /dev/vda1."""
    found = run_json()
    found["device"]["below"] = BELOW
    found["filesystem"] = {
        "name": "ext4",
        "numbers": ["7:3"],
        "block_device": "loop3",
        "bdi": "7:3",
        "others_of_kind": 1,
        **filesystem,
    }
    return found


def wait(name: str, ns: int, lock_id: int = 1, waiter: str = "kernel_thread") -> dict[str, Any]:
    return {
        "bin_ns": START_NS + 1000 * MS,
        "lock_id": lock_id,
        "sleep_ns": ns,
        "max_ns": ns,
        "waiter": waiter,
        "waiter_name": name.encode(),
        "in_workload": int(waiter == "workload"),
    }


LOCKS = [
    {"lock_id": 1, "kind": "mutex", "name": "a_lock"},
    {"lock_id": 2, "kind": "rwsem", "name": "inode.i_rwsem", "ino": 12, "dev": "7:3"},
    {"lock_id": 3, "kind": "rwsem", "name": "ext4_inode_info.i_data_sem", "ino": 771605, "dev": "254:1"},
    {"lock_id": 4, "kind": "rwsem", "name": "inode.i_rwsem", "ino": 9, "dev": "254:7"},
    {
        "lock_id": 5,
        "kind": "rwsem",
        "slab": "bdev_cache",
        "name": "inode.i_rwsem",
        "ino": 7340035,
        "dev": "0:3",
    },
]


def owner(waiter: dict[str, Any], folder: Path, **filesystem: Any) -> str:
    """Of one wait."""
    path = Spec(run=facts(**filesystem), lock=LOCKS, lock_wait=[waiter]).write(folder)
    run = open_run(path)
    tables = load_tables(run)
    assert tables.lock_wait is not None
    found = lock_waiters.measure_waiters(tables.lock_wait, tables.lock_names, tested.tested_filesystem(run))
    (one,) = found.owners
    return one.owner


@pytest.mark.parametrize(
    ("name", "lock_id", "whose"),
    [
        ("jbd2/loop3-8", 1, "filesystem"),
        ("xfs-conv/loop3", 1, "filesystem"),
        ("flush-7:3", 1, "filesystem"),
        ("f2fs_gc-7:3", 1, "filesystem"),
        ("loop3", 3, "disk"),
        ("loop3", 1, "disk"),
        ("jbd2/vda1-8", 1, "disk"),
        ("flush-254:1", 3, "disk"),
        ("kblockd", 1, "disk"),
        ("loop31", 1, "others"),
        ("jbd2/loop31-8", 1, "others"),
        ("flush-7:31", 1, "others"),
        ("flush-254:16", 1, "others"),
        ("events_unbound", 2, "filesystem"),
        ("events_unbound", 5, "filesystem"),
        ("events_unbound", 3, "disk"),
        ("events_unbound", 4, "others"),
        ("events_unbound", 1, "others"),
        ("ext4-rsv-conversion", 1, "others"),  # there is another ext4
    ],
)
def test_kernel_thread_is_assigned_by_name_or_inode(
    name: str, lock_id: int, whose: str, tmp_path: Path
) -> None:
    assert owner(wait(name, 5, lock_id), tmp_path / "r") == whose


def test_thread_name_counts_with_one_file_system_of_its_kind(tmp_path: Path) -> None:
    assert owner(wait("ext4-rsv-conversion", 5), tmp_path / "r", others_of_kind=0) == "filesystem"


@pytest.mark.parametrize(
    ("waiter", "lock_id", "whose"),
    [
        ("workload", 3, "workload"),
        ("recorder", 2, "recorder"),
        ("other", 2, "others"),
        ("interrupt", 2, "filesystem"),
        ("interrupt", 1, "others"),
    ],
)
def test_process_is_assigned_by_the_recorder(waiter: str, lock_id: int, whose: str, tmp_path: Path) -> None:
    assert owner(wait("", 5, lock_id, waiter), tmp_path / "r") == whose


def report(folder: Path, everyones_locks: bool = False) -> str:
    spec = Spec(
        run=facts(),
        lock=LOCKS,
        lock_wait=[
            wait("", 30 * MS, 2, "workload"),
            wait("jbd2/loop3-8", 10 * MS),
            wait("loop3", 900 * MS, 3),
            wait("", 2 * MS, 1, "recorder"),
            wait("postgres", 50 * MS, 4, "other"),
        ],
    )
    run = open_run(spec.write(folder))
    tables = load_tables(run)
    whole = measure(run, tables, everyones_locks=everyones_locks)
    tables, m = measure_clipped(run, tables, whole, everyones_locks)
    return " ".join(text.render(make_document(run, tables, m)).split())


def test_report_shows_workload_waits_and_a_line_per_other_group(tmp_path: Path) -> None:
    said = report(tmp_path / "r")
    assert "total: 2 waits, spinning 0 ns, sleeping 40.0 ms" in said
    assert (
        "of this by the file system's own threads: 1 waits, spinning 0 ns, sleeping 10.0 ms (jbd2/loop3-8"
        in said
    )
    driver = "not shown: block layer and disk driver: 1 waits, spinning 0 ns, sleeping 900 ms (loop3 900 ms)"
    assert driver in said
    assert "not shown: Seekmeter's own tasks: 1 waits, spinning 0 ns, sleeping 2.00 ms" in said
    assert "not shown: other tasks: 1 waits, spinning 0 ns, sleeping 50.0 ms (postgres 50.0 ms)" in said
    assert "make report RUN=... LOCKS=all" in said
    assert "i_data_sem" not in said


def test_all_waits_are_shown_on_request(tmp_path: Path) -> None:
    said = report(tmp_path / "r", everyones_locks=True)
    assert "total: 5 waits" in said
    assert "i_data_sem" in said
    assert "not shown" not in said


def test_block_device_inode_is_named(tmp_path: Path) -> None:
    spec = Spec(run=facts(), lock=LOCKS, lock_wait=[wait("", 30 * MS, 5, "workload")])
    run = open_run(spec.write(tmp_path / "r"))
    tables = load_tables(run)
    said = " ".join(text.render(make_document(run, tables, measure(run, tables))).split())
    assert "(the page cache of the disk loop3 itself)" in said
