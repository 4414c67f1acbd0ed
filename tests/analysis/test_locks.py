# SPDX-License-Identifier: BSD-2-Clause
"""Lock measures of one run against plain loops over the rows that were written, and cases made by hand."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from scipy.stats import chi2

from analysis.measures.locks import lock_holders, lock_names, lock_samples, lock_stacks, lock_waits
from analysis.measures.locks.lock_waits import LockWaits
from analysis.measures.results import Results, measure
from analysis.report import make_report
from analysis.rundir.run import open_run
from analysis.sections import lock_waits as lock_sections
from analysis.tables.load import Tables, load_tables
from tests.analysis.synthetic import BIN_NS, OLD_LOCK_WAIT, START_NS, Spec, collector, rec_bytes

Row = dict[str, Any]
STACKS = {
    i: [
        "rwsem_down_write_slowpath+0x31",
        "down_write+0x4f",
        f"inner_{i % 5}+0x{i:x}",
        f"outer_{i % 3}+0x9",
        "do_syscall_64+0x1",
    ]
    for i in range(12)
}
STATES = ["unknown", "not_sampled", "nobody", "readers", "running", "runnable", "io", "lock", "sleeping"]
TASKS = {"running", "runnable", "io", "lock", "sleeping"}


def load(spec: Spec, path: Path) -> tuple[Tables, Results]:
    run = open_run(spec.write(path))
    tables = load_tables(run)
    return tables, measure(run, tables)


def waits_of(m: Results) -> LockWaits:
    assert m.locks.waits is not None
    return m.locks.waits


def random_spec(seed: int, sampled: bool) -> Spec:
    """Rows of all kinds. Locks 1 to 9 have a name (shared by three each), 10 to 15 none."""
    rng = random.Random(seed)
    spec = Spec(stack=[{"stack_id": i, "frames": frames} for i, frames in STACKS.items()])
    for lock_id in range(1, 16):
        named = lock_id < 10
        spec.lock.append(
            {
                "lock_id": lock_id,
                "kind": "rwsem",
                "name": f"thing.lock_{lock_id % 3}" if named else None,
                "named_by": "slab" if named else None,
                "slab": "kmalloc-64" if lock_id in (10, 11) else None,
                "ino": 500 + lock_id if lock_id % 4 == 1 else None,
                "dev": "7:3" if lock_id % 4 == 1 else None,
            }
        )
    for _ in range(800):
        lock_id = rng.randrange(1, 16)
        kind = ["mutex", "rwsem"][lock_id % 2]
        state = rng.choice(STATES)
        spec.lock_wait.append(
            {
                "bin_ns": START_NS + BIN_NS * rng.randrange(20),
                "lock_id": lock_id,
                "spin_ns": rng.randrange(10_000) if kind == "mutex" else 0,
                "sleep_ns": rng.randrange(1_000_000),
                "count": rng.randrange(1, 9),
                "max_ns": rng.randrange(10**6),
                "failed": rng.randrange(2),
                "stack_id": -2 if sampled and rng.random() < 0.3 else rng.randrange(-1, 12),
                "kind": kind,
                "mode": rng.choice(["read", "write"]) if kind == "rwsem" else "excl",
                "in_workload": rng.randrange(2),
                "holder_state": state,
                "holder_stack_id": rng.randrange(12) if state in TASKS else -1,
                "holder_comm": rng.choice([b"alice", b"bob"]) if state in TASKS else b"",
                "holder_lock": 3 if state == "lock" else 0,
                "chain": (2 if state == "lock" else 1) if state in TASKS else 0,
                "root_lock": 3 if state == "lock" else 0,
                "root_state": "io" if state == "lock" else "unknown",
                "root_stack_id": 4 if state == "lock" else -1,
            }
        )
    return spec


def name_of(spec: Spec, row: Row) -> str:
    """The class's name, written anew from the rules."""
    lock = spec.lock[row["lock_id"] - 1]
    if lock["name"]:
        return str(lock["name"])
    suffix = f" [{lock['slab']}]" if lock["slab"] else ""
    if row["stack_id"] == -2:
        return "(call path not sampled)" + suffix
    if row["stack_id"] == -1:
        return f"(no call path){suffix}"
    function, offset = STACKS[row["stack_id"]][2].split("+")
    return f"{function}()+{offset}{suffix}"


def type_of(row: Row) -> str:
    return str(row["kind"]) + {"excl": "", "read": ":R", "write": ":W"}[row["mode"]]


def test_lock_classes_equal_plain_loops(tmp_path: Path) -> None:
    spec = random_spec(1, sampled=False)
    _, m = load(spec, tmp_path / "r")
    truth: dict[tuple[str, str], list[Any]] = defaultdict(lambda: [0, 0, 0, 0, 0, set(), 0, 0, 0])
    for row in spec.lock_wait:
        sums = truth[type_of(row), name_of(spec, row)]
        for i, key in enumerate(("count", "failed", "spin_ns", "sleep_ns")):
            sums[i] += row[key]
        sums[4] = max(sums[4], row["max_ns"])
        sums[5].add(row["lock_id"])
        if row["in_workload"]:
            for i, key in enumerate(("count", "spin_ns", "sleep_ns"), 6):
                sums[i] += row[key]
    assert m.locks.rows is not None
    found = {
        r.key: [
            r.waits, r.failed, r.spin_ns, r.sleep_ns, r.max_ns, r.locks,
            r.workload_waits, r.workload_spin_ns, r.workload_sleep_ns,
        ]
        for r in m.locks.rows
    }  # fmt: skip
    assert found == {key: [*s[:5], len(s[5]), *s[6:]] for key, s in truth.items()}
    assert [r.total_ns for r in m.locks.rows] == sorted((r.total_ns for r in m.locks.rows), reverse=True)
    unnamed = sum(s[2] + s[3] for (_, name), s in truth.items() if not name.startswith("thing"))
    total = sum(s[2] + s[3] for s in truth.values())
    assert lock_waits.unnamed_share(m.locks.rows) == pytest.approx(unnamed / total)


def test_series_by_lock_add_up_to_every_wait(tmp_path: Path) -> None:
    spec = random_spec(2, sampled=False)
    _, m = load(spec, tmp_path / "r")
    for series, key in ((waits_of(m).sleep_series, "sleep_ns"), (waits_of(m).spin_series, "spin_ns")):
        assert len(series) == lock_waits.TOP_SERIES + 1 and lock_waits.OTHERS in series
        seconds = sum(values for values in series.values()) * m.timeline.lengths_s
        for b in range(20):
            at = m.timeline.index(np.array([START_NS + b * BIN_NS + BIN_NS // 2]))[0]
            truth = sum(r[key] for r in spec.lock_wait if r["bin_ns"] == START_NS + b * BIN_NS)
            assert seconds[at] * 1e9 == pytest.approx(truth)
    top = max(m.locks.rows or [], key=lambda r: r.sleep_ns)
    slept = (waits_of(m).sleep_series[top.key] * m.timeline.lengths_s).sum() * 1e9
    assert slept == pytest.approx(top.sleep_ns)


def naive_scale(rows: list[Row], key: str) -> Iterator[tuple[Row, float]]:
    """Each row's share of what was sampled in its cell, times all of the cell."""

    def cell(r: Row) -> tuple[Any, ...]:
        return (r["lock_id"], r["kind"], r["mode"], r["in_workload"], r["bin_ns"])

    whole: dict[Any, int] = defaultdict(int)
    part: dict[Any, int] = defaultdict(int)
    for r in rows:
        whole[cell(r)] += r[key]
        part[cell(r)] += r[key] if r["stack_id"] != -2 else 0
    for r in rows:
        if part[cell(r)] == 0:
            yield r, r[key]
        else:
            yield r, 0.0 if r["stack_id"] == -2 else r[key] * whole[cell(r)] / part[cell(r)]


def test_sampled_call_paths_are_scaled_by_lock_and_bin(tmp_path: Path) -> None:
    spec = random_spec(3, sampled=True)
    _, m = load(spec, tmp_path / "r")
    found = waits_of(m)
    truth: dict[tuple[int, int], float] = defaultdict(float)
    for row, ns in naive_scale(spec.lock_wait, "sleep_ns"):
        truth[row["lock_id"], row["stack_id"]] += ns
    have: dict[tuple[int, int], float] = defaultdict(float)
    for lock, stack, ns in zip(found.paths.lock_id, found.paths.stack_id, found.paths.sleep_ns, strict=True):
        have[int(lock), int(stack)] += float(ns)
    assert have == pytest.approx(dict(truth))
    # sums by lock stay exact
    for lock_row in m.locks.rows or []:
        if lock_row.named_by:
            mine = [r for r in spec.lock_wait if (type_of(r), name_of(spec, r)) == lock_row.key]
            assert (lock_row.waits, lock_row.sleep_ns) == (
                sum(r["count"] for r in mine),
                sum(r["sleep_ns"] for r in mine),
            )
            seen = sum(r["sleep_ns"] + r["spin_ns"] for r in mine if r["stack_id"] != -2)
            assert lock_row.sampled_share == pytest.approx(seen / lock_row.total_ns)
            assert not lock_row.is_estimate
    assert any(r.is_estimate for r in m.locks.rows or [])


def test_scaled_waits_equal_those_by_hand(tmp_path: Path) -> None:
    wait = {"bin_ns": START_NS, "lock_id": 7, "kind": "mutex"}
    spec = Spec(
        lock_wait=[
            {**wait, "stack_id": 1, "sleep_ns": 10, "count": 1},
            {**wait, "stack_id": 2, "sleep_ns": 30, "count": 1},
            {**wait, "stack_id": -2, "sleep_ns": 60, "count": 8},
            {
                **wait,
                "stack_id": -2,
                "sleep_ns": 5,
                "bin_ns": START_NS + BIN_NS,
            },  # a bin of which nothing is known
        ],
        stack=[{"stack_id": i, "frames": ["mutex_lock+0x1", f"f{i}+0x2", "g+0x3"]} for i in (1, 2)],
    )
    tables, m = load(spec, tmp_path / "r")
    assert {r.name: (r.sleep_ns, r.waits) for r in m.locks.rows or []} == {
        "f1()+0x2": (25, 5),
        "f2()+0x2": (75, 5),
        "(call path not sampled)": (5, 1),
    }
    folded = {s.frames: s.sleep_ns for s in lock_stacks.waiting(waits_of(m), tables.stacks)}
    assert folded == {
        ("g", "f1", "mutex:f1()+0x2"): 25,
        ("g", "f2", "mutex:f2()+0x2"): 75,
        ("(call path not sampled)", "mutex:(call path not sampled)"): 5,
    }


def test_holders_edges_and_chains_equal_plain_loops(tmp_path: Path) -> None:
    spec = random_spec(4, sampled=False)
    _, m = load(spec, tmp_path / "r")
    found, holders = waits_of(m), m.locks.holders
    assert holders is not None
    states: dict[tuple[Any, str], float] = defaultdict(float)
    edges: dict[Any, float] = defaultdict(float)
    chains: dict[Any, float] = defaultdict(float)

    def label(i: int) -> str:
        return f"inner_{i % 5} < outer_{i % 3}" if i >= 0 else "(no call path)"

    for row in spec.lock_wait:
        key, ns = (type_of(row), name_of(spec, row)), row["spin_ns"] + row["sleep_ns"]
        state = row["holder_state"]
        states[key, state] += ns
        if state in TASKS or state == "readers":
            holder = label(row["holder_stack_id"]) if state in TASKS else ""
            edges[label(row["stack_id"]), key, row["holder_comm"].decode(), state, holder] += ns
        if row["chain"] > 1:
            chains[key, "io", label(4)] += ns
    for i, r in enumerate(found.rows):
        for j, state in enumerate(lock_holders.STATES):
            assert holders.state_ns[i, j] == pytest.approx(states[r.key, state])
    have: dict[Any, float] = defaultdict(float)
    for e in holders.edges:
        have[e.waiter, found.rows[e.row].key, e.comm, e.state, e.holder] += e.ns
        assert e.wants == ("rwsem thing.lock_0" if e.state == "lock" else "")
    assert have == pytest.approx(edges)
    assert {
        (found.rows[c.row].key, c.root_state, c.root_path): c.ns for c in holders.chains
    } == pytest.approx(chains)
    assert all(c.second == c.last == "rwsem thing.lock_0" and c.length == 2 for c in holders.chains)
    assert sum(h.ns for h in holders.holders) == pytest.approx(
        sum(ns for (_, state), ns in states.items() if state in TASKS)
    )


def test_inode_locks_have_their_number_and_path(tmp_path: Path) -> None:
    spec = random_spec(5, sampled=False)
    spec.paths = [{"dev": "7:3", "ino": 505, "path": "dir/file"}, {"dev": "8:0", "ino": 501, "path": "no"}]
    spec.lock.append({**spec.lock[4], "inodes": 3})  # a later line of lock 5
    _, m = load(spec, tmp_path / "r")
    truth: dict[int, int] = defaultdict(int)
    for row in spec.lock_wait:
        if row["lock_id"] % 4 == 1:
            truth[500 + row["lock_id"]] += row["sleep_ns"] + row["spin_ns"]
    have: dict[int, int] = defaultdict(int)
    for i in waits_of(m).instances:
        have[i.ino] += i.spin_ns + i.sleep_ns
        assert i.path == ("dir/file" if i.ino == 505 else "")
        assert i.inodes == (3 if i.ino == 505 else 0)
    assert have == truth


def test_last_line_of_a_lock_counts(tmp_path: Path) -> None:
    spec = Spec(
        lock_wait=[{"bin_ns": START_NS, "lock_id": 5, "sleep_ns": 10}],
        lock=[
            {"lock_id": 5, "kind": "mutex", "name": None},
            {"lock_id": 5, "kind": "mutex", "name": "late.name", "named_by": "call path"},
        ],
    )
    _, m = load(spec, tmp_path / "r")
    assert [(r.name, r.named_by) for r in m.locks.rows or []] == [("late.name", "call path")]


def test_older_run_has_unknown_holders(tmp_path: Path) -> None:
    spec = random_spec(6, sampled=False)
    path = spec.write(tmp_path / "r")
    (path / "raw" / "recorder" / "lock_wait.rec").write_bytes(
        rec_bytes("lock_wait", spec.lock_wait, OLD_LOCK_WAIT)
    )
    run = open_run(path)
    tables = load_tables(run)
    m = measure(run, tables)
    assert m.locks.holders is not None and m.locks.holders.known_ns == 0 and m.locks.samples is None
    assert waits_of(m).total_ns == sum(r["spin_ns"] + r["sleep_ns"] for r in spec.lock_wait)
    assert not [gap for gap in run.missing if "lock" in gap]
    stored = pq.read_table(path / "tables" / "lock_wait.parquet")
    assert set(stored.column("holder_state").to_pylist()) == {"unknown"}
    assert set(stored.column("root_stack_id").to_pylist()) == {-1}


def test_older_tables_are_remade_or_completed(tmp_path: Path) -> None:
    spec = random_spec(7, sampled=False)
    path = spec.write(tmp_path / "r")
    load_tables(open_run(path))
    file = path / "tables" / "lock_wait.parquet"
    new = pq.read_table(file)
    pq.write_table(new.drop_columns(["holder_state", "chain", "holder_comm"]), file)
    again = load_tables(open_run(path)).lock_wait
    assert again is not None and again.chain.max() == 2  # from raw/
    pq.write_table(new.drop_columns(["holder_state", "chain", "holder_comm"]), file)
    (path / "raw" / "recorder" / "lock_wait.rec").unlink()
    filled = load_tables(open_run(path)).lock_wait
    assert filled is not None and filled.chain.max() == 0
    assert filled.holder_state.present() == ["unknown"]


@pytest.mark.parametrize("n", [1, 2, 5, 30, 199, 200, 201, 1000, 50_000])
def test_sample_interval_is_garwoods(n: int) -> None:
    low, high = lock_samples.poisson_95(n)
    assert low == pytest.approx(chi2.ppf(0.025, 2 * n) / 2, rel=1e-4)
    assert high == pytest.approx(chi2.ppf(0.975, 2 * n + 2) / 2, rel=1e-4)


def test_zero_samples_have_an_upper_bound_of_three() -> None:
    assert lock_samples.poisson_95(0) == (0.0, 3.0)
    nothing = lock_samples.estimate(0, 0.0, 1e6)
    assert (nothing.low_ns, nothing.high_ns) == (0.0, 3e6)


SPINS = {
    1: [
        "rwsem_spin_on_owner+0x1",
        "rwsem_down_write_slowpath+0x2",
        "down_write+0x3",
        "rename_it+0x4",
        "top+0x1",
    ],
    2: ["osq_lock+0x1", "rwsem_optimistic_spin+0x2", "rwsem_down_write_slowpath+0x9", "other+0x4"],
    3: ["native_queued_spin_lock_slowpath+0x1", "_raw_spin_lock+0x3", "rename_it+0x9"],
    4: ["rwsem_down_write_slowpath+0x2", "down_write+0x3", "rename_it+0x44", "top+0x1"],
    5: ["rwsem_down_read_slowpath+0x2", "down_read+0x3", "rename_it+0x44", "top+0x1"],
    6: ["work+0x1", "rename_it+0x50"],
}


def test_sampled_spinning_goes_to_the_one_class_that_fits(tmp_path: Path) -> None:
    spec = Spec(
        lock_wait=[
            {
                "bin_ns": START_NS,
                "lock_id": 1,
                "kind": "rwsem",
                "mode": "write",
                "sleep_ns": 9,
                "stack_id": 4,
            },
            {"bin_ns": START_NS, "lock_id": 1, "kind": "rwsem", "mode": "read", "sleep_ns": 5, "stack_id": 5},
        ],
        lock=[{"lock_id": 1, "kind": "rwsem", "name": "inode.i_rwsem", "named_by": "slab"}],
        stack=[{"stack_id": i, "frames": frames} for i, frames in SPINS.items()],
        lock_sample=[
            {"bin_ns": START_NS, "stack_id": 1, "count": 3, "doing": "spin_unseen"},
            {
                "bin_ns": START_NS + BIN_NS,
                "stack_id": 1,
                "count": 2,
                "doing": "spin_unseen",
                "in_workload": 0,
            },
            {"bin_ns": START_NS, "stack_id": 2, "count": 4, "doing": "spin_unseen"},
            {"bin_ns": START_NS, "stack_id": 3, "count": 1, "doing": "spin_unseen"},
            {"bin_ns": START_NS, "stack_id": 4, "count": 6, "doing": "spin_seen"},
            {"bin_ns": START_NS, "stack_id": 6, "count": 7, "doing": "holding", "lock_id": 1},
        ],
    )
    tables, m = load(spec, tmp_path / "r")
    s = m.locks.samples
    assert s is not None
    assert [(r.type, r.name, r.key, r.seen.samples, r.workload_samples) for r in s.spins] == [
        ("rwsem:W", "inode.i_rwsem", ("rwsem:W", "inode.i_rwsem"), 5, 3),
        ("rwsem:W", "other()", None, 4, 4),
        ("spinlock", "rename_it()", None, 1, 1),
    ]
    assert (s.unseen.samples, s.unseen.ns, s.also_traced.samples, s.holding.samples) == (10, 10e6, 6, 7)
    assert [(h.name, h.seen.ns) for h in s.holds] == [("rwsem inode.i_rwsem", 7e6)]
    # never added to the traced spinning
    assert [r.spin_ns for r in m.locks.rows or []] == [0, 0]
    ran = lock_stacks.ran(s, tables.stacks)
    assert [(r.frames, r.ns) for r in ran] == [(("rename_it", "work", "rwsem inode.i_rwsem"), 7e6)]


@pytest.mark.parametrize(("traced_ns", "missed"), [(197_000_000, True), (7_000_000, False)])
@pytest.mark.usefixtures("words_only")
def test_samples_refuted_by_tracepoints_say_so(tmp_path: Path, traced_ns: int, missed: bool) -> None:
    """Seven samples of a millisecond, of 197 ms that were traced: scipy's interval of 7 ends below."""
    assert (chi2.ppf(0.975, 2 * 8) / 2 < traced_ns / 1e6) == missed
    spec = Spec(
        lock_wait=[
            {"bin_ns": START_NS, "lock_id": 1, "kind": "spinlock", "spin_ns": traced_ns, "stack_id": 3}
        ],
        lock=[{"lock_id": 1, "kind": "spinlock", "name": "l"}],
        stack=[{"stack_id": i, "frames": frames} for i, frames in SPINS.items()],
        lock_sample=[
            {"bin_ns": START_NS, "stack_id": 3, "count": 7, "doing": "spin_seen"},
            {"bin_ns": START_NS, "stack_id": 2, "count": 4, "doing": "spin_unseen"},
        ],
    )
    make_report(spec.write(tmp_path / "r"))
    text = " ".join((tmp_path / "r/report.txt").read_text().split())
    assert "unseen >=" in text and "unseen spinning, which no tracepoint shows, at least: 4.00 ms" in text
    assert ("samples missed 96.4 %, likely also of the unseen" in text) == missed
    assert ("samples missed" in text) == missed


def test_ambiguous_lock_class_is_not_guessed(tmp_path: Path) -> None:
    wait = {"bin_ns": START_NS, "kind": "rwsem", "mode": "write", "sleep_ns": 9, "stack_id": 4}
    spec = Spec(
        lock_wait=[{**wait, "lock_id": 1}, {**wait, "lock_id": 2}],
        lock=[{"lock_id": i, "kind": "rwsem", "name": f"n{i}"} for i in (1, 2)],
        stack=[{"stack_id": i, "frames": frames} for i, frames in SPINS.items()],
        lock_sample=[{"bin_ns": START_NS, "stack_id": 1, "doing": "spin_unseen"}],
    )
    _, m = load(spec, tmp_path / "r")
    assert m.locks.samples is not None
    assert [(r.name, r.key) for r in m.locks.samples.spins] == [("rename_it()", None)]


@pytest.mark.parametrize(
    ("notes", "mode", "said"),
    [
        ({lock_sections.UNTRIED_WRITERS: 3}, "write", "this kernel reports every writer of a percpu rwsem"),
        ({lock_sections.UNTRIED_WRITERS: 0}, "write", None),
        ({}, "write", "was not recorded (an older run)"),
        ({}, "read", None),
    ],
)
def test_percpu_writers_are_judged_by_what_was_recorded(
    tmp_path: Path, notes: dict[str, int], mode: str, said: str | None
) -> None:
    """By the recorder's note, on any kernel; without the note the report says so where it matters."""
    spec = Spec(
        lock_wait=[{"bin_ns": START_NS, "lock_id": 1, "kind": "percpu_rwsem", "mode": mode, "sleep_ns": 9}],
        lock=[{"lock_id": 1, "kind": "percpu_rwsem", "name": "file_rwsem"}],
        losses={"collectors": {"locks": collector(1, notes=notes)}, "complete": True},
    )
    run = open_run(spec.write(tmp_path / "r"))
    rows = measure(run, load_tables(run)).locks.rows
    assert rows
    text = lock_sections.percpu_writers(run, rows)
    assert len(text) == (said is not None)
    assert said is None or said in text[0]


@pytest.mark.parametrize(
    ("kind", "mode", "shown"),
    [
        ("spinlock", "excl", "spinlock"),
        ("rwlock", "read", "rwlock:R"),
        ("rwlock", "write", "rwlock:W"),
        ("rwsem", "read", "rwsem:R"),
        ("rwsem", "write", "rwsem:W"),
        ("mutex", "excl", "mutex"),
        ("percpu_rwsem", "read", "pcpu-sem:R"),
        ("percpu_rwsem", "write", "pcpu-sem:W"),
        ("rtmutex", "excl", "rt-mutex"),
        ("semaphore", "excl", "semaphore"),
    ],
)
def test_lock_types_equal_perfs(kind: str, mode: str, shown: str) -> None:
    assert lock_names.perf_type(kind, mode) == shown


def test_call_paths_are_shortened() -> None:
    frames = [
        "mutex_lock+0x1",
        "a+0x1",
        "b+0x1",
        "c+0x1",
        "__x64_sys_unlinkat+0x2",
        "do_syscall_64+0x1",
        "entry_SYSCALL_64+0x1",
    ]
    assert lock_names.path_label(frames) == "a < b < .. < unlinkat()"
    assert lock_names.path_label(frames, 9) == "a < b < c < unlinkat()"
    assert lock_names.path_label([]) == lock_names.NO_PATH


def test_spin_share_has_machine_and_workload_columns(tmp_path: Path) -> None:
    wait = {"bin_ns": START_NS, "lock_id": 1, "kind": "spinlock"}
    spec = Spec(
        lock_wait=[
            {**wait, "spin_ns": 10**9, "in_workload": 1},
            {**wait, "spin_ns": 3 * 10**9, "in_workload": 0},
        ]
    )
    _, m = load(spec, tmp_path / "r")
    share = lock_waits.spin_share(m.locks.rows or [], 2, 10.0)
    assert share.machine == pytest.approx(0.2)
    assert share.workload == pytest.approx(0.05)
