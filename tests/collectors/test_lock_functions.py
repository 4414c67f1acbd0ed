# SPDX-License-Identifier: BSD-2-Clause
"""The recorder's table of lock functions and the analysis' pattern agree, but for what is listed here."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from analysis.measures.locks.lock_names import PRIMITIVE
from tests.collectors.recording import TREE, compile_program

# Only the recorder passes over these: no argument of theirs leads to the lock's struct. Reports show them as
# callers: releases, halts of a virtual CPU, what a spinning waiter calls, what only traces.
RECORDER_ONLY = re.compile(
    r"up_\w+|(?:__)?mutex_(?:unlock|init|is_locked|get_owner|add_waiter)\w*|downgrade_write|pv_\w+"
    r"|__probestub_\w+|(?:pv_)?native_(?:safe_)?halt|pvm_safe_halt(?:_hc)?|(?:xen|hv)_qlock_wait"
    r"|\w*vcpu_is_preempted|\w*xen_vcpu_stolen"
    r"|(?:native_)?sched_clock\w*|kvm_sched_clock_read|pvclock_clocksource_read\w*|__rcu_read_(?:un)?lock"
    r"|__raw_xsave_addr|resilient_queued_spin_lock_slowpath"
)
# Only the analysis passes over these: the scheduler below a wait; Btrfs' wrappers, whose argument tells the
# recorder the struct; what no wait that a tracepoint shows is in.
ANALYSIS_ONLY = re.compile(
    r"(?:__|preempt_)?schedule\w*|btrfs_tree_(?:read_)?lock\w*|raw_spin_rq_\w+|(?:__)?(?:native_)?queued_spin_unlock"
    r"|__native_queued_spin_unlock|arch_bpf_\w+|do_bpf_\w+|lockdep_\w+|(?:__)?kvm_wait_lapic_expire"
    r"|trace_(?:event_raw_event|raw_output)_contention_\w+|spin_lock_irqsave_(?:check|ssp)_contention"
)

# A function of each family of the table, which goes by the begin of names.
EXAMPLES = {
    "bpf_": "bpf_prog_1234_contention_begin",
    "__bpf_": "__bpf_prog_run",
    "bpf_trace_run": "bpf_trace_run2",
    "__bpf_trace_": "__bpf_trace_contention_begin",
    "__traceiter_": "__traceiter_contention_begin",
    "__probestub_": "__probestub_contention_begin",
    "trace_contention_": "trace_contention_begin",
    "mutex_": "mutex_lock_killable",
    "__mutex_": "__mutex_lock_slowpath",
    "ww_mutex_": "ww_mutex_lock",
    "__ww_mutex_": "__ww_mutex_lock",
    "down": "down_write_killable",
    "__down": "__down_interruptible",
    "rwsem_": "rwsem_down_read_slowpath",
    "_raw_": "_raw_spin_lock_irqsave",
    "__raw_": "__raw_spin_lock",
    "queued_": "queued_write_lock_slowpath",
    "native_queued_": "native_queued_spin_lock_slowpath",
    "__pv_queued": "__pv_queued_spin_lock_slowpath",
    "pv_": "pv_wait_node",
    "percpu_down_": "percpu_down_write",
    "__percpu_down": "__percpu_down_read",
    "percpu_rwsem_": "percpu_rwsem_wait",
    "rt_mutex_": "rt_mutex_slowlock",
    "__rt_mutex_": "__rt_mutex_lock",
    "rtlock_": "rtlock_slowlock",
    "rt_spin_": "rt_spin_lock",
    "do_raw_": "do_raw_spin_lock",
    "up_": "up_write",
}


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile programs/lock_functions.c, which has the table in it."""
    folder = tmp_path_factory.mktemp("lock_functions")
    return compile_program("lock_functions", folder, f"-I{TREE / 'collectors'}", f"-I{TREE / 'bpf'}")


def printed(program: Path, names: list[str]) -> list[list[str]]:
    done = subprocess.run([program], input="\n".join(names), text=True, stdout=subprocess.PIPE, check=True)
    return [line.split() for line in done.stdout.splitlines()]


def test_analysis_knows_every_row_of_the_table(program: Path) -> None:
    """Spinning functions by their names, families by the example that stands for each here."""
    rows = printed(program, [])
    assert sorted(words[1] for words in rows if words[0] == "family") == sorted(EXAMPLES)
    names = [*EXAMPLES.values(), *(words[1] for words in rows if words[0] == "spinning")]
    assert all(words[0] == "is" for words in printed(program, names)[len(rows) :])
    assert [name for name in names if not PRIMITIVE.match(name) and not RECORDER_ONLY.fullmatch(name)] == []


def test_recorder_and_analysis_agree_on_this_kernels_functions(program: Path) -> None:
    """Every function that /proc/kallsyms lists, whose names any user may read."""
    lines = (line.split() for line in Path("/proc/kallsyms").read_text().splitlines())
    names = {words[2].partition(".")[0] for words in lines if words[1] in "tTwW"}
    if not names:
        pytest.skip("/proc/kallsyms lists no functions")
    names = {name for name in names if not name.startswith("__pfx_")}
    recorder = {words[1] for words in printed(program, sorted(names)) if words[0] == "is"}
    analysis = {name for name in names if PRIMITIVE.match(name)}
    assert len(recorder & analysis) > 50
    assert [name for name in sorted(recorder - analysis) if not RECORDER_ONLY.fullmatch(name)] == []
    assert [name for name in sorted(analysis - recorder) if not ANALYSIS_ONLY.fullmatch(name)] == []
