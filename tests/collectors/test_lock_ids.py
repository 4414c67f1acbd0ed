# SPDX-License-Identifier: BSD-2-Clause
"""Locks and stacks have numbers of a run's own: nothing recorded tells where the kernel's memory lies."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.collectors.kernel_addresses import in_text, kernel_addresses
from tests.collectors.recording import (
    EMULATED,
    Recording,
    cgroup,
    compile_program,
    enum_value,
    needs_btf,
    recording,
    run_inside,
)
from tests.collectors.sessions import finished
from tests.collectors.test_holds import probed
from tests.marks import needs_root

pytestmark = [needs_root, needs_btf]
FIGHT = "for i in 1 2 3 4; do (for j in $(seq 100); do mv a$i b$i; mv b$i a$i; done) & done; wait"


@pytest.mark.parametrize(
    "text",
    [
        "0xffffffff830f3100",
        '"ffff88810a2b3c4d"',
        "18446612686386151424",
        "-131387323400192",
        "0xFFFF888100000001",
    ],
)
def test_kernel_address_search_finds_a_planted_address(text: str) -> None:
    assert list(in_text(f"[{text}, 7]"))
    assert not list(
        in_text("0x1234 -1 4294967295 1732212345678901234 ffff 0x0000888100000001 18446744073709551615")
    )


def fight(tmp_path: Path, *words: str, env: dict[str, str] | None = None, seconds: str = "1") -> Recording:
    """Threads at one pipe, under all sources that this kernel lets us have."""
    program = compile_program("pipe_storm", tmp_path)
    collect = "block,locks,calls,counters" + (",holds" if probed()["state"] == "on" else "")
    with (
        cgroup() as group,
        recording(
            tmp_path / "out",
            "--collect",
            collect,
            "--cgroup",
            str(group),
            "--bin-ms",
            "700",
            *words,
            env=env,
        ) as run,
    ):
        child = run_inside(group, [program, "2", "2", seconds])
        child.communicate(timeout=120)
        assert child.returncode == 0
    return run


@pytest.fixture(scope="module")
def fought(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    """A recording without further words, long enough for samples of who holds a lock."""
    return fight(tmp_path_factory.mktemp("fought"), seconds="3")


def numbers(run: Recording) -> set[int]:
    """All ids of locks that are in any table."""
    found: set[int] = set()
    for table in ("lock_wait", "lock_sample", "hold"):
        if (run.out / f"{table}.rec").exists():
            rows = run.table(table)
            for column in ("lock_id", "holder_lock", "root_lock"):
                found |= set(rows[column].tolist()) if column in (rows.dtype.names or ()) else set()
    return found - {0}


def test_recordings_hold_no_kernel_address(fought: Recording) -> None:
    run = fought
    assert kernel_addresses(run.out) == []
    locks = {lock["lock_id"] for lock in run.lines("lock")}
    assert all(lock["address"] is None for lock in run.lines("lock"))
    # As they came, and none left out: an id says nothing but that.
    assert locks <= set(range(1, max(locks) + 1))
    assert len(locks | numbers(run)) == max(locks | numbers(run))
    stacks = [stack["stack_id"] for stack in run.lines("stack")]
    assert len(stacks) > 3
    assert max(stacks) < 2 * len(stacks) + 100, "hashes of addresses are no numbers of our own"


def test_addresses_option_records_addresses(tmp_path: Path) -> None:
    run = fight(tmp_path, "--addresses")
    assert kernel_addresses(run.out)
    lines = run.lines("lock")
    assert all(list(in_text(f"{lock['address']}")) for lock in lines)
    # One lock, one number.
    pairs = {(lock["lock_id"], lock["address"]) for lock in lines}
    assert len(pairs) == len({number for number, _ in pairs}) == len({address for _, address in pairs})


def busiest(rows: Any, column: str) -> int:
    """The lock of which there is most."""
    sums: Counter[int] = Counter()
    for row in rows:
        sums[int(row["lock_id"])] += int(row[column])
    return sums.most_common(1)[0][0]


def test_lock_has_the_same_id_in_every_table(fought: Recording) -> None:
    """The pipe's mutex: taken most, waited for most, and held by whom CPUs are found with."""
    run = fought
    kind = enum_value(run.out / "lock_wait.rec", "lock_kind", "mutex")
    waits = run.table("lock_wait")
    waits = waits[(waits["kind"] == kind) & (waits["in_workload"] == 1)]
    pipe = busiest(waits, "count")
    (line,) = [line for line in run.lines("lock") if line["lock_id"] == pipe][-1:]
    assert line["kind"] == "mutex"
    assert line["name"] in (None, "pipe_inode_info.mutex")
    samples = run.table("lock_sample")
    holding = enum_value(run.out / "lock_sample.rec", "lock_doing", "holding")
    samples = samples[(samples["doing"] == holding) & (samples["in_workload"] == 1)]
    if not EMULATED:  # these are sampled as well, but may never be found so
        assert len(samples)
    if len(samples):
        assert busiest(samples, "count") == pipe
    if run.ready["collectors"].get("holds", {}).get("state") == "on":
        holds = run.table("hold")
        holds = holds[(holds["kind"] == kind) & (holds["in_workload"] == 1)]
        assert busiest(holds, "acquired") == pipe


def test_too_many_locks_are_a_counted_loss(tmp_path: Path) -> None:
    run = fight(tmp_path, env={"SEEKMETER_MOST_LOCKS": "3"})
    assert numbers(run) <= {1, 2, 3}
    assert {lock["lock_id"] for lock in run.lines("lock")} <= {1, 2, 3}
    state = run.source("locks")
    assert state["lost"]["too many locks"] > 0
    assert int(run.table("lock_wait")["count"].sum()) == state["recorded"]
    ended = state["notes"]["contention_end events"] - state["notes"]["open at the start (or begin not seen)"]
    others = sum(state["lost"].get(name, 0) for name in ("map full", "map busy", "recorder late"))
    assert state["recorded"] + state["lost"]["too many locks"] + others == ended


def test_frames_without_a_name_have_no_address(tmp_path: Path) -> None:
    """What the kernel lists is hidden even from root: nothing has a name then."""
    restrict = Path("/proc/sys/kernel/kptr_restrict")
    before = restrict.read_text()
    try:
        restrict.write_text("2")
        run = fight(tmp_path)
    finally:
        restrict.write_text(before)
    stacks = run.lines("stack")
    assert {frame for stack in stacks for frame in stack["frames"]} == {"[unknown]"}
    assert all("kptr_restrict" in stack["note"] for stack in stacks)
    assert kernel_addresses(run.out) == []


def test_run_directory_holds_no_kernel_address(tmp_path: Path) -> None:
    run = finished(tmp_path / "run", FS="ext4", SIZE="256M", CMD=f"touch a1 a2 a3 a4; {FIGHT}; sync").run
    run.report()
    assert (run.path / "tables/lock_wait.parquet").exists()
    assert np.any(read_lock_ids(run.path) > 0)
    assert kernel_addresses(run.path) == []


def read_lock_ids(run: Path) -> Any:
    """Of the lines that name locks."""
    lines = (run / "raw/recorder/lock.jsonl").read_text().splitlines()
    return np.array([json.loads(line)["lock_id"] for line in lines], dtype=np.uint64)
