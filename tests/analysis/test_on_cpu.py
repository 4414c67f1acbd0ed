# SPDX-License-Identifier: BSD-2-Clause
"""CPU samples by phase and function against a count by hand, sample by sample."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest

from analysis.measures.cpu.profile import NO_PATH, measure_profile
from analysis.measures.locks.lock_samples import poisson_95
from analysis.tables.cpu_sample import CpuSample
from analysis.tables.phase import Phases
from analysis.tables.store import Categorical

PERIOD_NS = 5_000_000
CPUS = 2
MODES = ("user", "kernel", "idle")
COMMS = ("dd", "kworker/0:1", "cc1")


def test_profile_equals_a_naive_count() -> None:
    draw = random.Random(5)
    names = ["main", "f", "g_[k]", "h_[k]", "f"]
    stacks = {n: [draw.choice(names) for _ in range(draw.randint(1, 6))] for n in range(40)}
    rows = [
        (draw.randrange(0, 10**9), draw.randrange(-2, 42), draw.randrange(3), draw.random() < 0.4)
        for _ in range(5000)
    ]
    samples = CpuSample(
        t_ns=np.array([row[0] for row in rows], dtype=np.int64),
        stack_id=np.array([row[1] for row in rows], dtype=np.int64),
        mode=Categorical(np.array([row[2] for row in rows], dtype=np.int32), MODES),
        in_workload=np.array([row[3] and row[2] != 2 for row in rows]),
        comm=Categorical(np.array([row[1] % 3 for row in rows], dtype=np.int32), COMMS),
        period_ns=np.full(len(rows), PERIOD_NS, dtype=np.int64),
    )
    # two of one name that overlap, and one in the middle of them
    edges = {
        "write": [(100_000_000, 400_000_000), (300_000_000, 600_000_000)],
        "read": [(350_000_000, 500_000_000)],
    }
    marked = [(name, *edge) for name, several in edges.items() for edge in several]
    phases = Phases(
        name=[name for name, _, _ in marked],
        start_ns=np.array([start for _, start, _ in marked]),
        end_ns=np.array([end for _, _, end in marked]),
        from_ns=np.array([start for _, start, _ in marked]),
        until_ns=np.array([end for _, _, end in marked]),
        ops=np.zeros(3, dtype=np.int64),
        bytes=np.zeros(3, dtype=np.int64),
    )
    found = measure_profile(samples, stacks, phases, None, 0, 10**9, CPUS)

    assert [phase.name for phase in found.phases] == ["write", "read", "(no phase)"]
    for phase in (found.whole, *found.phases):
        if phase.name == "":
            mine = rows
        elif phase.name in edges:
            mine = [row for row in rows if any(a <= row[0] < b for a, b in edges[phase.name])]
        else:
            mine = [row for row in rows if not 100_000_000 <= row[0] < 600_000_000]
        busy = [row for row in mine if row[2] != 2]
        assert phase.samples == len(mine)
        assert phase.busy.samples == len(busy)
        assert phase.busy.ns == len(busy) * PERIOD_NS
        elapsed_ns = {"": 10**9, "write": 500_000_000, "read": 150_000_000}.get(phase.name, 500_000_000)
        assert phase.busy_share == pytest.approx(len(busy) * PERIOD_NS / (CPUS * elapsed_ns))
        assert phase.workload_samples == sum(row[3] for row in busy)
        assert phase.kernel_samples == sum(row[2] == 1 for row in busy)
        for functions, of_workload in ((phase.workload, True), (phase.others, False)):
            own, total = Counter[str](), Counter[str]()
            for _, stack_id, _, inside in busy:
                if inside == of_workload:
                    frames = stacks.get(stack_id, [NO_PATH])
                    own[frames[0]] += 1
                    total.update(set(frames))
            assert {f.name + "_[k]" * f.in_kernel for f in functions} == set(total)
            for f in functions:
                name = f.name + "_[k]" * f.in_kernel
                assert f.own.samples == own[name]
                assert f.total_samples == total[name]
                low, high = poisson_95(own[name])
                assert (f.own.low_ns, f.own.high_ns) == (low * PERIOD_NS, high * PERIOD_NS)
            assert [f.own.samples for f in functions] == sorted(own.get(n, 0) for n in total)[::-1]

    for stacks_found, inside in ((found.stacks_workload, True), (found.stacks_others, False)):
        by_hand = Counter[tuple[str, ...]]()
        for _, stack_id, mode, of_workload in rows:
            if mode != 2 and of_workload == inside:
                by_hand[COMMS[stack_id % 3], *stacks.get(stack_id, [NO_PATH])[::-1]] += PERIOD_NS
        assert {stack.frames: stack.ns for stack in stacks_found} == by_hand


def test_cpu_utilization_is_independent_of_idle_samples() -> None:
    """A CPU that sleeps is hardly sampled: one of two CPUs ran for 0.4 of a second, the other slept."""
    t = np.arange(0, 400_000_000, PERIOD_NS, dtype=np.int64)
    few = np.zeros(t.size, dtype=np.int64)
    for idle in (0, 3):
        mode = few.astype(np.int32)
        mode[mode.size - idle :] = MODES.index("idle")
        samples = CpuSample(
            t,
            few,
            Categorical(mode, MODES),
            few == 0,
            Categorical(few.astype(np.int32), COMMS),
            np.full(t.size, PERIOD_NS),
        )
        found = measure_profile(samples, {}, None, None, 0, 10**9, CPUS)
        assert found.whole.busy_share == pytest.approx((400 - 5 * idle) / 2000)
        assert measure_profile(samples, {}, None, None, 0, 10**9, None).whole.busy_share is None


def test_profile_without_samples_says_so() -> None:
    none = np.zeros(0, dtype=np.int64)
    words = Categorical(none.astype(np.int32), ())
    found = measure_profile(
        CpuSample(none, none, words, none > 0, words, none), {}, None, None, 0, 10**9, CPUS
    )
    assert found.whole.samples == 0
    assert found.whole.workload == found.whole.others == []
    assert found.phases == []


def test_hostile_sample_numbers_are_survived() -> None:
    ids = np.array([-(2**62), 2**62, 5, 7, 7], dtype=np.int64)
    few = np.zeros(ids.size, dtype=np.int64)
    samples = CpuSample(
        t_ns=np.array([-(2**62), 0, 1, 2, 2**62], dtype=np.int64),
        stack_id=ids,
        mode=Categorical(few.astype(np.int32), ("user",)),
        in_workload=few > 0,
        comm=Categorical(few.astype(np.int32), ("",)),
        period_ns=np.full(ids.size, PERIOD_NS),
    )
    found = measure_profile(samples, {2**62: ["f", "main"], 5: [], -9: ["g"]}, None, None, 0, 10**9, CPUS)
    assert {f.name: (f.own.samples, f.total_samples) for f in found.whole.others} == {
        NO_PATH: (4, 4),
        "f": (1, 1),
        "main": (0, 1),
    }
    assert {stack.frames: stack.ns for stack in found.stacks_others} == {
        ("?", NO_PATH): 4 * PERIOD_NS,
        ("?", "main", "f"): PERIOD_NS,
    }
