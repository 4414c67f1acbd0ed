# SPDX-License-Identifier: BSD-2-Clause
"""Locks of several runs: the tables against plain loops over what was put into the runs, growth against numpy
and scipy, and the heat map's cells."""

from __future__ import annotations

import itertools
import json
import math
import random
import re
import struct
from collections import defaultdict
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.colors import LogNorm
from scipy import stats

from analysis.figures import style
from analysis.figures.compare import locks_heatmap
from analysis.measures.compare.compared_locks import (
    ChainedWaits,
    chained_waits,
    next_lock,
    operations,
    top,
)
from analysis.measures.compare.compared_run import LETTERS, Compared, load_compared
from analysis.measures.compare.per_operation import (
    CPU_TIME,
    LOCK_WAIT,
    ONE_LOCK,
    SPIN,
    THREAD_TIME,
    per_operation,
)
from analysis.measures.locks.lock_holders import STATES, Chain, Holders
from analysis.render import text
from analysis.render.document import Section, Table
from analysis.sections.compare.document import make_document
from analysis.sections.compare.facts import stacked, tags
from tests.analysis.synthetic import BIN_NS, MAGIC, START_NS, Spec, collector, run_json
from tests.analysis.test_compare import compare, cut

SECOND = 1_000_000_000
SECONDS = 10
CPUS = 2  # run_json's machine
TCG = {"by": "virtme-ng 1.42", "accel": "tcg", "qemu": "QEMU emulator version 7.2.22"}
EVIL = "<b>&$x^{\x1b[31m\u202e" + "w" * 70
MODES = {"rwsem": ["read", "write"], "rwlock": ["read", "write"]}


@dataclass
class Made:
    """A run to make, and what was put into it: (kind, name) -> spin_ns, sleep_ns, both of the workload."""

    spec: Spec
    sums: dict[tuple[str, str], list[int]] = field(default_factory=lambda: defaultdict(lambda: [0, 0, 0, 0]))
    ops: int = 0

    def wait(self, kind: str, name: str, spin: int, sleep: int, own: bool = True, mode: str = "") -> None:
        """Waits on a lock of this class; every name is that of several locks."""
        lock_id = (
            0xFFFF_0000_0000_0000
            + 4096 * (hash_of(kind, name) % 100_000)
            + 64 * (len(self.spec.lock_wait) % 3)
        )
        if lock_id not in {row["lock_id"] for row in self.spec.lock}:
            self.spec.lock.append({"lock_id": lock_id, "kind": kind, "name": name, "named_by": "slab"})
        self.spec.lock_wait.append(
            {
                "bin_ns": START_NS + len(self.spec.lock_wait) % 90 * BIN_NS,
                "lock_id": lock_id,
                "kind": kind,
                "mode": mode
                or MODES.get(kind, ["excl"])[len(self.spec.lock_wait) % 2 if kind in MODES else 0],
                "spin_ns": spin,
                "sleep_ns": sleep,
                "in_workload": int(own),
            }
        )
        sums = self.sums[kind, name]
        sums[0] += spin
        sums[1] += sleep
        sums[2] += spin if own else 0
        sums[3] += sleep if own else 0


def hash_of(*words: str) -> int:
    """The same number for the same words in every process."""
    return sum(ord(c) * pow(31, i, 99_991) for i, c in enumerate("/".join(words))) % 99_991


def made(fs: str = "ext3", threads: int = 1, ops: int = 0, **facts: Any) -> Made:
    """An empty run of ten seconds on two CPUs; ops: what its workload marks."""
    found = Made(Spec(run=run_json(SECONDS)), ops=ops)
    found.spec.run["filesystem"]["name"] = fs
    found.spec.run["workload"]["threads"] = threads
    for key, value in facts.items():
        found.spec.run[key] = {**found.spec.run.get(key, {}), **value}
    if ops:
        begin = START_NS + SECOND
        for i, part in enumerate((ops // 4, ops - ops // 4)):
            span = {"start_ns": begin + i * 2 * SECOND, "end_ns": begin + (i + 1) * 2 * SECOND}
            found.spec.phases.append({"name": f"part{i}", "ops": part, **span})
        found.spec.phases.append(
            {"name": "sync", "start_ns": begin + 4 * SECOND, "end_ns": begin + 5 * SECOND}
        )
    return found


def load(folder: Path, runs: list[Made]) -> list[Compared]:
    """The runs as they are compared."""
    return [
        load_compared(letter, one.spec.write(folder / letter))
        for letter, one in zip(LETTERS, runs, strict=False)
    ]


def section(runs: list[Compared], title: str) -> Section:
    """One section of the comparison. Its text fits into a mail."""
    found = next(s for s in make_document(runs).sections if s.title == title)
    assert max(map(len, text.section_lines(found))) <= 80
    return found


def filled(table: Table, names: int) -> dict[tuple[str, ...], list[str]]:
    """The rows by their names, those left out as they repeat put back."""
    above = [""] * names
    rows = {}
    for row in table.rows:
        if row[0]:
            above[0] = row[0]
        key = (above[0] if row[1] not in ("all locks",) else "", *row[1:names])
        rows[key] = list(row[names:])
    return rows


def cells(table: Table) -> dict[str, list[str]]:
    """The rows by the lock's name."""
    return {row[1]: list(row[2:]) for row in table.rows}


def number(cell: str) -> float:
    return float(cell.replace(",", ""))


@pytest.fixture(scope="module")
def three() -> list[Made]:
    """Three file systems with random waits on many locks, some in all, some in one."""
    rng = random.Random(7)
    runs = []
    for fs in ("ext3", "xfs", "btrfs"):
        one = made(fs, 4, ops=rng.randrange(1000, 5000))
        locks = [
            ("rwsem", "inode.i_rwsem"),
            ("spinlock", "runqueues.__lock"),
            ("semaphore", "xfs_buf.b_sema"),
        ]
        locks += [(rng.choice(["mutex", "spinlock", "rwlock"]), f"{fs}_thing.lock{i}") for i in range(9)]
        for kind, name in locks:
            for _ in range(rng.randrange(1, 6)):
                spin = int(10 ** rng.uniform(4, 9.2)) if kind != "semaphore" else 0
                sleep = int(10 ** rng.uniform(3, 10)) if kind != "spinlock" else 0
                one.wait(kind, name, spin, sleep, own=rng.random() < 0.7)
        runs.append(one)
    return runs


def expected_shares(runs: list[Made]) -> tuple[list[tuple[str, str]], list[dict[tuple[str, str], float]]]:
    """The locks that deserve a row, and every lock's share of CPU time in percent, by plain loops."""
    shares = []
    chosen: set[tuple[str, str]] = set()
    for one in runs:
        share = {}
        for lock in one.sums:
            share[lock] = one.sums[lock][0] / (CPUS * SECONDS * SECOND) * 100
        shares.append(share)
        ranked = sorted(share, key=lambda lock: share[lock], reverse=True)[:5]
        for lock in ranked:
            if share[lock] > 0:
                chosen.add(lock)
    return [lock for lock in chosen if max(share.get(lock, 0) for share in shares) >= 0.1], shares


def percent(value: float) -> str:
    return "<0.1" if 0 < value < 0.1 else f"{value:.1f}"


def test_spin_share_table_equals_plain_loops(tmp_path: Path, three: list[Made]) -> None:
    runs = load(tmp_path, three)
    found = section(runs, "Spin share by lock")
    chosen, shares = expected_shares(three)
    (table,) = found.tables
    assert list(table.titles) == ["kind", "lock, % of CPU time", "A ext3", "B xfs", "C btrfs"]
    rows = cells(table)
    others = [lock for lock in {lock for share in shares for lock in share} if lock not in chosen]
    others = [lock for lock in others if max(share.get(lock, 0) for share in shares) > 0]
    assert len(chosen) >= 8 and len(others) >= 3  # or this tests little
    assert list(rows) == [
        *[name for _, name in sorted(chosen, key=lambda lock: -max(share.get(lock, 0) for share in shares))],
        f"{len(others)} other locks",
        "all locks",
        "of this by the workload's tasks",
    ]
    own = [sum(s[2] for s in one.sums.values()) / (CPUS * SECONDS * SECOND) * 100 for one in three]
    assert rows["of this by the workload's tasks"] == [percent(value) for value in own]
    for lock in chosen:
        assert rows[lock[1]] == [percent(share.get(lock, 0.0)) for share in shares], lock
    rest = [sum(share.get(lock, 0.0) for lock in others) for share in shares]
    assert rows[f"{len(others)} other locks"] == [percent(value) for value in rest]
    assert rows["all locks"] == [percent(sum(share.values())) for share in shares]
    assert "no CPU samples" in " ".join(found.notes)


def test_locks_below_a_tenth_percent_are_summed(tmp_path: Path) -> None:
    big, small = made(), made("xfs")
    big.wait("spinlock", "big.lock", SECOND, 0)
    small.wait("spinlock", "small.lock", SECOND // 100, 0)  # 0.05 % of 20 s
    rows = cells(section(load(tmp_path / "a", [big, small]), "Spin share by lock").tables[0])
    assert rows["1 other lock"] == ["0.0", "<0.1"] and "small.lock" not in rows
    alone = made()
    alone.wait("spinlock", "small.lock", SECOND // 100, 0)  # unless there is nothing else to show
    rows = cells(section(load(tmp_path / "b", [alone]), "Spin share by lock").tables[0])
    assert rows["small.lock"] == ["<0.1"] and "1 other lock" not in rows


def test_sleep_per_operation_equals_plain_loops(tmp_path: Path, three: list[Made]) -> None:
    found = section(load(tmp_path, three), "Sleeping per operation by lock")
    (table,) = found.tables
    rows = cells(table)
    named = [name for name in rows if "." in name]
    assert "inode.i_rwsem" in named and len(named) >= 5
    every = [{name: sums[3] / 1e3 / one.ops for (_, name), sums in one.sums.items()} for one in three]
    least = 0.001 * max(sum(values.values()) for values in every)
    for values in every:  # the five highest of each run have a row, if they are anything
        for name in sorted(values, key=lambda name: values[name], reverse=True)[:5]:
            assert (name in rows) or values[name] < least
    for name in named:
        for cell, values in zip(rows[name], every, strict=True):
            assert number(cell) == pytest.approx(values.get(name, 0.0), rel=0.006), name
    for cell, one in zip(rows["other tasks, all locks"], three, strict=True):
        others = sum(s[1] - s[3] for s in one.sums.values())
        assert others > 0 and number(cell) == pytest.approx(others / 1e3 / one.ops, rel=0.006)
    for cell, values in zip(rows["all locks"], every, strict=True):
        assert number(cell) == pytest.approx(sum(values.values()), rel=0.006)
    (rest,) = (name for name in rows if name.endswith("other locks"))
    for i, values in enumerate(every):
        left = sum(value for name, value in values.items() if name not in named)
        assert number(rows[rest][i]) == pytest.approx(left, rel=0.006)
    assert found.notes[0] == "A, B, C: per operations the workload marks (part0, part1)"


def test_next_lock_equals_plain_loops(tmp_path: Path, three: list[Made]) -> None:
    (table,) = section(load(tmp_path, three), "Which lock next").tables
    assert len(table.rows) == 6
    for i, one in enumerate(three):
        waits = {f"{kind} {name}": sums[2] + sums[3] for (kind, name), sums in one.sums.items()}
        first, second = sorted(waits, key=lambda lock: waits[lock], reverse=True)[:2]
        total = sum(waits.values())
        spun = {f"{kind} {name}": sums[2] for (kind, name), sums in one.sums.items()}
        above, below = table.rows[2 * i], table.rows[2 * i + 1]
        assert above[0].startswith("ABC"[i]) and (above[2], below[2]) == (first, second)
        assert above[3:] == (
            percent(waits[first] / total * 100),
            "-",
            percent(spun[first] / waits[first] * 100),
        )
        rest = percent(waits[second] / (total - waits[first]) * 100)
        assert below[3:] == (
            percent(waits[second] / total * 100),
            rest,
            percent(spun[second] / waits[second] * 100),
        )


def test_wait_of_the_first_locks_holder_is_found(tmp_path: Path) -> None:
    one = made(ops=1)
    for mode in ("read", "write"):
        one.wait("rwsem", "i.rwsem", 0, 5 * SECOND, mode=mode)
    one.wait("mutex", "j.mutex", 0, SECOND)
    (run,) = load(tmp_path, [one])
    assert chained_waits(run, ("rwsem", "i.rwsem")) is None  # nobody's holder was seen to wait
    rows = run.results.locks.rows
    assert rows is not None
    places = [(row.name, row.mode) for row in rows]
    known = np.zeros((3, len(STATES)))
    known[places.index(("i.rwsem", "read")), STATES.index("lock")] = 4e9
    known[places.index(("i.rwsem", "write")), STATES.index("running")] = 3e9
    known[places.index(("i.rwsem", "write")), STATES.index("lock")] = 1e9
    known[places.index(("i.rwsem", "write")), STATES.index("not_sampled")] = 99e9
    known[places.index(("j.mutex", "excl")), STATES.index("lock")] = 1e9

    def chain(name: str, mode: str, second: str, ns: float) -> Chain:
        return Chain(places.index((name, mode)), second, "last", 2, "io", "path", ns)

    chains = [
        chain("i.rwsem", "read", "mutex a", 1e9),
        chain("i.rwsem", "read", "mutex b", 3e9),
        chain("i.rwsem", "write", "mutex b", 1e9),
        chain("j.mutex", "excl", "mutex c", 1e9),
    ]
    holders = Holders(known, [], chains, [])
    run = replace(run, results=replace(run.results, locks=replace(run.results.locks, holders=holders)))
    assert chained_waits(run, ("rwsem", "i.rwsem")) == ChainedWaits(8e9, 5e9, "mutex b", 4e9)
    words = (
        "A: the first lock's holder waited for another lock in 62.5 % of the waiting time, most for mutex b"
        " (50.0 %)"
    )
    assert words in section([run], "Which lock next").notes


def test_locks_named_by_callers_may_be_the_same(tmp_path: Path) -> None:
    one = made(ops=1)
    for i in range(2):
        one.spec.stack.append({"stack_id": i, "frames": ["mutex_lock+0x1", f"caller{i}+0x{i}2/0x99"]})
        one.spec.lock_wait.append({"bin_ns": START_NS, "lock_id": 64, "stack_id": i, "sleep_ns": 10 - i})
    found = section(load(tmp_path, [one]), "Which lock next")
    assert [row[2] for row in found.tables[0].rows] == ["mutex caller0()+0x02", "mutex caller1()+0x12"]
    assert "A: both locks are named by their callers and may be one lock" in found.notes


def test_watched_system_has_no_workload_tasks(tmp_path: Path) -> None:
    """All tasks count then: there is no workload."""
    one = made(ops=10, workload={"name": "watch"})
    one.wait("mutex", "m.lock", SECOND, SECOND, own=False)
    runs = load(tmp_path, [one])
    assert cells(section(runs, "Sleeping per operation by lock").tables[0])["m.lock"] == ["100,000"]
    assert section(runs, "Which lock next").tables[0].rows[0][2:4] == ("mutex m.lock", "100.0")
    shown = cells(section(runs, "Spin share by lock").tables[0])
    assert (shown["all locks"], shown["of this by the workload's tasks"]) == (["5.0"], ["-"])


def test_modes_of_a_lock_are_one_class(tmp_path: Path) -> None:
    one = made(ops=100)
    one.wait("rwsem", "inode.i_rwsem", 0, 3 * SECOND, mode="read")
    one.wait("rwsem", "inode.i_rwsem", SECOND, SECOND, mode="write")
    one.wait("percpu_rwsem", "super_block.s_writers", 0, SECOND, mode="read")
    runs = load(tmp_path, [one])
    (table,) = section(runs, "Which lock next").tables
    assert [row[2:4] for row in table.rows] == [
        ("rwsem inode.i_rwsem", "83.3"),
        ("pcpu-sem super_block.s_writers", "16.7"),
    ]


def test_single_run_and_single_lock_are_compared(tmp_path: Path) -> None:
    one = made(ops=10)
    one.wait("mutex", "pipe.mutex", SECOND, 3 * SECOND)
    runs = load(tmp_path, [one])
    assert cells(section(runs, "Spin share by lock").tables[0])["pipe.mutex"] == ["5.0"]
    found = section(runs, "Which lock next")
    assert [row[2:] for row in found.tables[0].rows] == [("mutex pipe.mutex", "100.0", "-", "25.0")]
    assert "A: its tasks waited for no other lock" in found.notes
    assert section(runs, "Growth with threads").absent


def test_runs_without_waits_and_without_lock_data(tmp_path: Path) -> None:
    """None is 0 where locks were recorded, and nothing where they were not: then it is said why."""
    waited, none, off = made(ops=50), made("xfs", ops=50), made("jfs", ops=50)
    waited.wait("spinlock", "a.lock", SECOND, 0)
    waited.wait("mutex", "b.lock", 0, SECOND)
    entry = collector(state="off", why="no lock tracepoints", remedy="a kernel from 5.19 on")
    off.spec.losses = {"collectors": {"block": collector(), "locks": entry}, "complete": True}
    runs = load(tmp_path, [waited, none, off])
    (tmp_path / "C" / "raw" / "recorder" / "lock_wait.rec").unlink()
    (tmp_path / "C" / "tables" / "lock_wait.parquet").unlink()
    runs[2] = load_compared("C", tmp_path / "C")
    found = section(runs, "Spin share by lock")
    rows = cells(found.tables[0])
    assert rows["a.lock"] == ["5.0", "0.0", "-"] and rows["all locks"] == ["5.0", "0.0", "-"]
    assert "C: no lock data: no lock tracepoints (remedy: a kernel from 5.19 on)" in found.notes
    slept = section(runs, "Sleeping per operation by lock")
    assert cells(slept.tables[0])["b.lock"] == ["20,000", "0"]  # and no column for C
    assert any(note.startswith("C: no lock data") for note in slept.notes)
    following = section(runs, "Which lock next")
    assert "B: its tasks waited for no lock, as far as this kernel can show" in following.notes
    assert [row[2] for row in following.tables[0].rows] == ["mutex b.lock", "spinlock a.lock"]
    for title in (
        "Spin share by lock",
        "Sleeping per operation by lock",
        "Growth with threads",
        "Which lock next",
    ):
        assert section([runs[2]], title).absent == "no run recorded locks"
    assert locks_heatmap.render([runs[1], runs[2]], ["", ""], "t", []) is None


def test_cpus_not_known_give_no_share(tmp_path: Path) -> None:
    one = made(machine={"cpus": None})
    one.wait("spinlock", "a.lock", SECOND, 0)
    runs = load(tmp_path, [one])
    found = section(runs, "Spin share by lock")
    assert cells(found.tables[0])["all locks"] == ["-"]
    assert "A: run.json lacks the number of CPUs: no share of CPU time" in found.notes
    assert locks_heatmap.panels(runs)[0] == []


def test_only_like_operations_share_a_table(tmp_path: Path) -> None:
    """Another workload, another command, other phases, or calls: tables of their own."""
    runs = [
        made(ops=100),
        made("xfs", ops=200),
        made(ops=100, workload={"name": "fio"}),
        made(),
        made(),
        made(),
    ]
    for i, one in enumerate(runs):
        one.wait("mutex", "m.lock", 0, SECOND)
        if i >= 3:
            one.spec.run["words"] = {"CMD": "make" if i > 3 else "tar x"}
            one.spec.call = [
                {"bin_ns": START_NS, "count": 40, "target": "target"},
                {"bin_ns": START_NS, "count": 9, "target": "elsewhere"},
                {"bin_ns": START_NS, "count": 10, "target": "target", "call": "open"},
            ]
    runs[5].spec.call = []
    found = section(load(tmp_path, runs), "Sleeping per operation by lock")
    heads = [[title[0] for title in table.titles[2:]] for table in found.tables]
    assert heads == [["A", "B"], ["C"], ["D"], ["E"]]
    values = [number(cell) for table in found.tables for cell in cells(table)["m.lock"]]
    assert values == [10_000, 5_000, 10_000, 20_000, 20_000]
    assert "D: per file-system calls on the file system under test" in found.notes
    assert "F: operations not known: the workload marks none and no calls were recorded" in found.notes
    assert any("not alike" in note for note in found.notes)


def test_operation_rate_uses_only_phases_with_operations(tmp_path: Path) -> None:
    one = made(ops=400)  # two phases of 2 s each, then a sync without operations
    one.spec.phases.append(
        {"name": "part1", "ops": 4, "start_ns": START_NS + SECOND, "end_ns": START_NS + 2 * SECOND}
    )
    (run,) = load(tmp_path, [one])
    found = operations(run)
    assert found is not None and (found.count, found.seconds) == (404, 4.0)


def grown(values: list[tuple[int, float]], **facts: Any) -> list[Made]:
    """Runs of so many threads that sleep so many us an operation on one lock, and spin a tenth of that."""
    runs = []
    for threads, us in values:
        one = made(threads=threads, ops=10_000 // threads, **facts)
        one.wait("mutex", "m.lock", int(us * 100) * (10_000 // threads), int(us * 1000) * (10_000 // threads))
        runs.append(one)
    return runs


def growth_rows(table: Table) -> dict[tuple[str, str], list[str]]:
    rows: dict[tuple[str, str], list[str]] = {}
    above = ""
    for row in table.rows:
        above = row[0] or above
        rows[above, row[1]] = list(row[2:])
    return rows


def test_growth_of_a_power_law_is_found(tmp_path: Path) -> None:
    runs = load(tmp_path, grown([(8, 8**1.5), (1, 1.0), (4, 4**1.5), (2, 2**1.5)]))
    found = section(runs, "Growth with threads")
    (table,) = found.tables
    assert table.titles[2:6] == ["B\n1 thr", "D\n2 thr", "C\n4 thr", "A\n8 thr"]
    rows = growth_rows(table)
    slept = rows["mutex m.lock", "sleep us/op"]
    assert slept[:5] == ["1.00", "2.83", "8.00", "22.6", "2.83"] and slept[6] == "4"
    assert re.fullmatch(r"1\.50 \+-0(\.00\d+)?", slept[5])  # but for whole nanoseconds
    # throughput: 10,000 / threads operations in the same 4 s
    assert rows["throughput", "ops/s"][:5] == ["2,500", "1,250", "625", "312", "0.500"]
    assert rows["throughput", "ops/s"][5].startswith("-1.00 +-0") and rows["throughput", "ops/s"][6] == "4"
    # spinning a tenth of 1e7 us x threads**0.5, of 2 CPUs x 10 s
    assert rows["mutex m.lock", "spin %"][:4] == ["<0.1", "<0.1", "<0.1", "<0.1"]
    assert number(rows["mutex m.lock", "wait us/op"][3]) == pytest.approx(22.6 * 1.1, rel=0.01)
    assert any(note.startswith("C, A: more threads than CPUs") for note in found.notes)


def test_trend_needs_three_nonzero_points(tmp_path: Path) -> None:
    runs = load(tmp_path, grown([(1, 0.0), (2, 4.0), (4, 12.0)]))
    rows = growth_rows(section(runs, "Growth with threads").tables[0])
    assert rows["mutex m.lock", "sleep us/op"] == ["0", "4.00", "12.0", "3.00", "two points", "2"]


def test_runs_differing_beyond_threads_have_no_trend(tmp_path: Path) -> None:
    runs = grown([(1, 1.0), (2, 2.0)]) + grown([(4, 4.0)], kernel={"release": "6.1"})
    runs += grown([(2, 1.0)], workload={"name": "fio"})
    runs[3].spec.run["workload"]["threads"] = 2
    off = made(threads=8)
    off.spec.run["workload"]["threads"] = None
    found = section(load(tmp_path, [*runs, off]), "Growth with threads")
    (table,) = found.tables
    assert [title[0] for title in table.titles[2:4]] == ["A", "B"] and table.titles[4] == "x2"
    assert "C, D, E: no other run differs from it in threads alone" in found.notes


def test_costs_per_operation_are_those_of_a_plain_sum(tmp_path: Path) -> None:
    """Two runs of 10 s: 4 threads with 1000 operations and 2.5 s of CPU time; 1 thread, CPU time unknown."""
    first = made(threads=4, ops=1000, others={"cpu_ns": 0, "workload_cpu_ns": 2_500_000_000})
    first.wait("mutex", "m.lock", 300_000_000, 900_000_000)
    first.wait("mutex", "m.lock", 100_000_000, 0)
    first.wait("spinlock", "s.lock", 1_000_000, 0)  # below a thousandth of 4 threads x 10 s
    first.wait("mutex", "m.lock", 0, 700_000_000, own=False)  # another program's
    other = made(threads=1, ops=500)
    found = {measure.name: measure for measure in per_operation(load(tmp_path, [first, other]))}
    assert {name: measure.values for name, measure in found.items()} == {
        THREAD_TIME: [pytest.approx(4 * 10e9 / 1000, rel=0.02), pytest.approx(10e9 / 500, rel=0.02)],
        CPU_TIME: [2_500_000, None],
        LOCK_WAIT: [1_301_000, 0],
        SPIN: [401_000, 0],
        ONE_LOCK + "mutex m.lock": [1_300_000, 0],
    }
    assert all(measure.unit == "ns" and measure.of_time for measure in found.values())


def test_runs_without_operations_have_no_costs(tmp_path: Path) -> None:
    assert not per_operation(load(tmp_path, [made(), made()]))


@pytest.mark.usefixtures("words_only")
def test_emulated_runs_are_marked_in_every_lock_table(tmp_path: Path) -> None:
    runs = [*grown([(1, 1.0), (2, 3.0)]), *grown([(1, 1.0), (2, 3.0)], machine={"vm": TCG})]
    loaded = load(tmp_path, runs)
    for title in ("Spin share by lock", "Sleeping per operation by lock"):
        heads = [head for table in section(loaded, title).tables for head in table.titles]
        assert [head[0] for head in heads if head.endswith("~")] == ["C", "D"]
    heads = [head for table in section(loaded, "Growth with threads").tables for head in table.titles]
    assert [head[0] for head in heads if head.endswith("~")] == ["C", "D"]
    rows = section(loaded, "Which lock next").tables[0].rows
    assert [row[0][0] for row in rows if row[0].endswith("~")] == ["C", "D"]


def samples(*rows: tuple[int, str], period_ns: int = 1_000_000) -> bytes:
    """A lock_sample.rec: (count, doing) each, from the format as it was agreed."""
    doing = ["spin_seen", "spin_unseen", "holding"]
    names = [("bin_ns", 8, "u64"), ("lock_id", 8, "u64"), ("count", 8, "u64"), ("period_ns", 8, "u64")]
    names += [("stack_id", 4, "i32"), ("doing", 1, "u8"), ("in_workload", 1, "u8")]
    fields, offset = [], 0
    for name, size, kind in names:
        fields.append({"name": name, "offset": offset, "bytes": size, "type": kind})
        offset += size
    fields[5]["enum"] = "lock_doing"
    head = json.dumps(
        {
            "table": "lock_sample",
            "record_bytes": 40,
            "byte_order": "little",
            "bin_ns": BIN_NS,
            "fields": fields,
            "enums": {"lock_doing": {str(i): word for i, word in enumerate(doing)}},
        }
    ).encode()
    body = b"".join(
        struct.pack("<QQQQiBB2x", START_NS, 0, count, period_ns, -1, doing.index(what), 1)
        for count, what in rows
    )
    start = MAGIC + struct.pack("<II", len(head), 0) + head
    return start + b"\0" * (-len(start) % 8) + body


def test_sampled_spinning_has_rows_of_its_own(tmp_path: Path) -> None:
    runs = [made(ops=1) for _ in range(4)]
    entry = collector(notes={"CPU sampling is off: no timers": 1})
    runs[2].spec.losses = {
        "collectors": {"locks": entry, "block": collector(), "calls": collector()},
        "complete": True,
    }
    recorded = {
        "B": samples((300, "spin_unseen"), (100, "spin_unseen"), (5000, "spin_seen"), (7000, "holding")),
        "C": samples(),
        "D": samples((10, "spin_seen")),
    }
    for letter, one in zip("ABCD", runs, strict=True):
        one.wait("spinlock", "a.lock", SECOND, 0)
        one.spec.run["words"] = {"ARGS": letter}  # no repetitions
        one.spec.write(tmp_path / letter)
        (tmp_path / letter / "raw" / "recorder" / "lock_sample.rec").unlink(missing_ok=True)
        if letter in recorded:
            (tmp_path / letter / "raw" / "recorder" / "lock_sample.rec").write_bytes(recorded[letter])
    found = section([load_compared(letter, tmp_path / letter) for letter in "ABCD"], "Spin share by lock")
    shown = cells(found.tables[0])
    assert shown["all locks"] == ["5.0"] * 4  # never added silently
    assert shown["unseen, by samples: at least"] == ["-", "2.0", "-", "0.0"]  # 400 ms of 20 s
    assert not any("with the unseen" in name for name in shown)  # what samples show is never added
    low, high = stats.chi2.ppf(0.025, 800) / 2 / 20_000 * 100, stats.chi2.ppf(0.975, 802) / 2 / 20_000 * 100
    assert any(
        f"B: unseen: 400 samples, 95 % interval {low:.1f}..{high:.1f} %" in note for note in found.notes
    )
    words = "spinning that no tracepoint shows is not estimated"
    assert f"A: {words}: no CPU samples" in found.notes
    assert f"C: {words}: CPU sampling is off: no timers" in found.notes


@pytest.mark.usefixtures("words_only")
def test_hostile_names_are_harmless_in_lock_comparison(tmp_path: Path) -> None:
    for i, name in enumerate("ab"):
        one = made(EVIL + name, threads=i + 1, ops=10)
        for k in range(4):
            one.wait("rwsem", f"{EVIL}{k}", 10**8 * k, 10**9)
        one.spec.phases[0]["name"] = EVIL
        one.spec.write(tmp_path / name)
    done = compare(f"--out={tmp_path / 'out'}", tmp_path / "a", tmp_path / "b")
    assert (done.returncode, done.stderr) == (0, "")
    found = (tmp_path / "out" / "compare.txt").read_text("utf-8")
    assert "\x1b" not in found and max(map(len, found.splitlines())) <= 80
    page = (tmp_path / "out" / "compare.html").read_text("utf-8")
    assert "<b>" not in page and page.count('<img alt="Heat map of locks') == 1
    assert (tmp_path / "out" / "locks_heatmap.png").read_bytes()[:4] == b"\x89PNG"


def test_sixteen_runs_fit_and_all_their_columns_are_there(tmp_path: Path) -> None:
    runs = []
    for fs, threads in itertools.product(("ext3", "reiserfs", "xfs", "btrfs"), (1, 4, 16, 64)):
        one = made(fs, threads, ops=100)
        for i in range(8):
            one.wait("mutex", f"{fs}_inode_info.a_long_member_name{i}", 10**8, threads * 10**8 * (i + 1))
        runs.append(one)
    loaded = load(tmp_path, runs)
    assert "".join(one.letter for one in loaded) == LETTERS
    found = section(loaded, "Spin share by lock")
    lines = text.section_lines(found)
    heads = [re.findall(r"\b([A-P]) (?:ext3|reiserfs|xfs|btrfs)\b", line) for line in lines]
    assert [letter for head in heads for letter in head] == list(LETTERS)
    assert sum("64 thr" in line for line in lines) >= 2
    assert len(section(loaded, "Growth with threads").tables) == 4


def test_next_lock_of_repetitions_is_of_their_sum(tmp_path: Path) -> None:
    """Each alone would have another first lock: a 5 and 1, b 3 and 4."""
    runs = [made("ext3", ops=10) for _ in range(2)]
    for one, waits in zip(runs, ((5, 3), (1, 4)), strict=True):
        for name, tenths in zip("ab", waits, strict=True):
            one.wait("mutex", name, 0, tenths * 10**8)
    (table,) = section(load(tmp_path, runs), "Which lock next").tables
    assert [list(row[:4]) for row in table.rows] == [
        ["A+B", "1", "mutex b", "53.8"],
        ["", "2", "mutex a", "46.2"],
    ]


def test_headings_may_have_several_lines() -> None:
    lines = text.table_lines(Table(("<lock", "A ext3\n1 thr", "B xfs\n16 thr*"), [["a", "1.0", "<0.1"]]))
    assert lines == ["  lock  A ext3    B xfs", "         1 thr  16 thr*", "  a        1.0     <0.1"]


def test_top_locks_include_the_highest_of_each_run() -> None:
    a, b, c, d = (("mutex", name) for name in "abcd")
    assert top([{a: 9.0, b: 1.0, c: 0.0}, {c: 5.0, d: 4.0}], 1) == [a, c]
    assert top([{a: 9.0, b: 1.0}, {c: 5.0, d: 0.4}], 2, 0.5) == [a, c, b]
    assert top([{a: 0.2, b: 0.1}], 2, 0.5) == [a, b]  # none reaches it: those there are
    assert top([{a: 0.0}], 2, 0.5) == [] and next_lock({}) is None


def drawn(runs: list[Compared]) -> Any:
    with mpl.rc_context(style.RC):  # type: ignore[arg-type]
        figure = locks_heatmap.draw(runs, stacked(tags(runs)), "Locks: a title", ["a banner " * 40] * 3)
        assert figure is not None
        figure.canvas.draw()
    return figure


def test_heat_map_shows_every_value_in_its_cell(tmp_path: Path, three: list[Made]) -> None:
    runs = load(tmp_path, three)
    figure = drawn(runs)
    assert not cut(figure)
    locks, panels = locks_heatmap.panels(runs)
    maps = [ax for ax in figure.axes if len(ax.patches) == len(locks) * 3]
    assert len(maps) == 2 and len(locks) >= 8
    for ax, at, per in zip(
        maps, (0, 3), ([CPUS * SECONDS * 1e9 / 100] * 3, [o.ops * 1e3 for o in three]), strict=True
    ):
        shown = {t.get_position(): t.get_text() for t in ax.texts}
        for row, lock in enumerate(locks):
            for column, one in enumerate(three):
                value = one.sums[lock][at] / per[column] if lock in one.sums else 0.0
                assert panels[min(at, 1)].values[row, column] == pytest.approx(value)
                cell = shown[column + 0.5, row + 0.52]
                if at == 0:
                    assert cell == percent(value)
                elif value >= 0.01:
                    assert number(cell) == pytest.approx(value, rel=0.06)
    names = [label.get_text() for label in maps[0].get_yticklabels()]
    assert any(name.startswith("inode.i_rwsem") for name in names) and len(names) == len(locks)


def test_heat_map_colours_are_log_and_safe_in_greyscale(tmp_path: Path) -> None:
    steps = [locks_heatmap.lightness(mpl.colors.to_hex(locks_heatmap.COLORS(i / 20))) for i in range(21)]
    assert all(b < a for a, b in itertools.pairwise(steps)) and steps[0] - steps[-1] > 0.6
    wide = locks_heatmap._norm(np.array([[0.0, 0.1, 30.0, np.nan]]), 0.05)
    assert isinstance(wide, LogNorm) and (wide.vmin, wide.vmax) == (0.1, 30.0)
    narrow = locks_heatmap._norm(np.array([[1.0, 30.0]]), 0.05)
    assert narrow is not None and not isinstance(narrow, LogNorm) and (narrow.vmin, narrow.vmax) == (0, 30)
    assert locks_heatmap._norm(np.array([[0.0, np.nan]]), 0.05) is None
    # the words stand out from the cell's colour
    runs = grown([(t, 10.0**k) for k, t in enumerate((1, 2, 4, 8))])
    figure = drawn(load(tmp_path, runs))
    for ax in figure.axes:
        boxes = [(p.get_x(), p.get_y(), mpl.colors.to_hex(p.get_facecolor())) for p in ax.patches]
        for words in ax.texts:
            x, y = words.get_position()
            fill = next(c for bx, by, c in boxes if bx <= x < bx + 1 and by <= y < by + 1)
            ink = locks_heatmap.lightness(mpl.colors.to_hex(words.get_color()))
            assert abs(ink - locks_heatmap.lightness(fill)) > 0.35


def test_heat_map_of_many_different_runs_is_drawn(tmp_path: Path) -> None:
    runs = [made("ext3", t, ops=100, workload={"name": f"w{t % 2}"}) for t in range(1, 13)]
    for t, one in enumerate(runs, 1):
        one.wait("rwsem", "a_rather_long_structure_name.with_a_long_member_name.wait_lock", 10**9, t * 10**9)
        one.spec.run["workload"]["threads"] = t
    loaded = load(tmp_path, runs)
    figure = drawn(loaded)
    assert not cut(figure)
    titles = [t.get_text() for t in figure.texts]
    assert "Threads asleep (s per s)" in titles  # operations are not alike
    _, panels = locks_heatmap.panels(loaded)
    assert panels[1].values[0].tolist() == pytest.approx([t / SECONDS for t in range(1, 13)])
    width, height = figure.get_size_inches()
    assert width < 16 and height < 16


def test_heat_map_is_named_only_where_it_exists(tmp_path: Path) -> None:
    for name in "ab":
        made().spec.write(tmp_path / name)
        one = made()
        one.wait("mutex", "m.lock", 0, SECOND)
        one.spec.write(tmp_path / f"{name}2")
    for suffix, count in (("", 0), ("2", 1)):
        out = tmp_path / f"out{suffix}"
        done = compare(f"--out={out}", tmp_path / f"a{suffix}", tmp_path / f"b{suffix}")
        assert done.returncode == 0
        assert done.stdout.count("locks_heatmap.png") == count
        assert (out / "locks_heatmap.svg").exists() is bool(count)
        assert (out / "compare.html").read_text().count("locks_heatmap.svg") == count
        found = (out / "compare.txt").read_text("utf-8")
        assert "SPIN SHARE BY LOCK" in found and "WHICH LOCK NEXT" in found


def test_value_below_a_nanosecond_is_shown(tmp_path: Path) -> None:
    one = made(ops=10_000_000)
    one.wait("mutex", "m.lock", 0, 5_000)
    (table,) = section(load(tmp_path, [one]), "Sleeping per operation by lock").tables
    assert cells(table)["m.lock"] == ["<0.001"]
    assert math.isclose(5_000 / 1e3 / one.ops, 5e-7)
