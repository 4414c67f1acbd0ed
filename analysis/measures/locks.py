# SPDX-License-Identifier: BSD-2-Clause
"""Which locks were waited on, from where, and how much of it was spinning?

Wait: contention begin to contention end, split into spinning and sleeping. Spin share: time spent spinning
/ (CPUs x elapsed), in percent (Bryant 2002, table 1). Sleeping waiters: time slept / elapsed, that is the
mean number of threads asleep on a lock. Waits count in the bin where they end.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from analysis.measures.timeline import F64, Timeline
from analysis.tables.lock import LockName
from analysis.tables.lock_wait import LockWait

DEFINITION = (
    "wait: contention begin to end, split into spinning and sleeping, counted where it ends."
    " Spin share: time spinning / (CPUs x elapsed). Named by the lock, else by kind and"
    " the first caller outside the locking primitives."
)
# the locking primitives themselves, and what tracing puts above them: never the caller one wants to know
PRIMITIVE = re.compile(
    r"^(?:__)?(?:raw_|arch_|native_|do_|pv_|virt_|_+)*(?:"
    r"queued_(?:spin|read|write)_\w*|spin_lock\w*|read_lock\w*|write_lock\w*|"
    r"raw_spin\w*|raw_read\w*|raw_write\w*|"
    r"mutex_lock\w*|mutex_trylock\w*|ww_mutex_\w*|rwsem_\w*|down|down_(?:read|write|killable|interruptible|"
    r"timeout|trylock|common)\w*|percpu_(?:down|rwsem)_\w*|percpu_rwsem_\w*|rt_mutex\w*|rtmutex\w*|rt_spin_\w*|"
    r"rwbase_\w*|btrfs_tree_(?:read_)?lock\w*|osq_lock\w*|mcs_\w*|(?:preempt_)?schedule(?:_timeout\w*|_preempt_disabled|_rtlock\w*|_common)?|"
    r"trace\w*contention\w*|traceiter_\w*|bpf_\w+|lockdep_\w*|lock_acquire\w*|lock_contended\w*"
    r")(?:\.[a-z0-9_.]+)?$"
)


@dataclass(frozen=True)
class LockRow:
    """Waits on the locks of one name (or one kind and caller)."""

    kind: str
    name: str
    callers: str  # the frames outside of the first caller, innermost first
    locks: int
    waits: int
    failed: int
    spin_ns: int
    sleep_ns: int
    max_ns: int

    @property
    def total_ns(self) -> int:
        """Spinning and sleeping together."""
        return self.spin_ns + self.sleep_ns


def symbol(frame: str) -> str:
    """The function's name without its offset and module."""
    return frame.split("+")[0].split(" ")[0]


def callers(frames: list[str]) -> list[str]:
    """The frames from the first one outside the locking primitives on; all of them if there is none."""
    for i, frame in enumerate(frames):
        if not PRIMITIVE.match(symbol(frame)):
            return frames[i:]
    return frames


def caller_name(frame: str) -> str:
    """function()+offset, as lock reports write it."""
    name, plus, offset = frame.partition("+")
    return f"{name}()+{offset.split('/')[0]}" if plus else f"{name}()"


def by_lock(waits: LockWait, names: dict[int, LockName], stacks: dict[int, list[str]]) -> list[LockRow]:
    """One row per lock name, or per kind and caller for locks without one; longest total wait first."""
    # group by the few different (kind, lock, stack) in numpy; give names to those only
    keys = np.stack([waits.kind.codes.astype(np.uint64), waits.lock_id, waits.stack_id.astype(np.uint64)])
    unique, group = np.unique(keys, axis=1, return_inverse=True)
    group = np.asarray(group).reshape(-1)
    n = unique.shape[1]
    total = np.zeros((4, n), dtype=np.int64)
    for row, values in enumerate((waits.count, waits.failed, waits.spin_ns, waits.sleep_ns)):
        np.add.at(total[row], group, values)
    longest = np.zeros(n, dtype=np.int64)
    np.maximum.at(longest, group, waits.max_ns)
    merged: dict[tuple[str, str], list[int]] = {}
    ids: dict[tuple[str, str], set[int]] = {}
    outer: dict[tuple[str, str], tuple[int, str]] = {}
    for g in range(n):
        kind = waits.kind.labels[int(unique[0, g])]
        lock_id = int(unique[1, g])
        frames = callers(stacks.get(int(unique[2, g].astype(np.int64)), []))
        known = names.get(lock_id, LockName("", ""))
        inside = f" [{known.slab}]" if known.slab else ""
        name = known.name or (caller_name(frames[0]) if frames else f"at {lock_id:#x}") + inside
        key = (kind, name)
        sums = merged.setdefault(key, [0, 0, 0, 0, 0])
        for i in range(4):
            sums[i] += int(total[i, g])
        sums[4] = max(sums[4], int(longest[g]))
        ids.setdefault(key, set()).add(lock_id)
        weight = int(total[2, g] + total[3, g])
        rest = frames if known.name else frames[1:]
        if key not in outer or weight > outer[key][0]:
            outer[key] = (weight, " < ".join(symbol(frame) for frame in rest[:4]))
    rows = [
        LockRow(
            kind=kind,
            name=name,
            callers=outer[kind, name][1],
            locks=len(ids[kind, name]),
            waits=sums[0],
            failed=sums[1],
            spin_ns=sums[2],
            sleep_ns=sums[3],
            max_ns=sums[4],
        )
        for (kind, name), sums in merged.items()
    ]
    return sorted(rows, key=lambda row: (-row.total_ns, row.kind, row.name))


@dataclass(frozen=True)
class KindSum:
    """Waits on all locks of one kind."""

    waits: int
    spin_ns: int
    sleep_ns: int


def by_kind(rows: list[LockRow] | None) -> dict[str, KindSum] | None:
    """The sums by kind of lock, longest total wait first; None without a recording."""
    if rows is None:
        return None
    sums = {
        kind: KindSum(
            sum(r.waits for r in rows if r.kind == kind),
            sum(r.spin_ns for r in rows if r.kind == kind),
            sum(r.sleep_ns for r in rows if r.kind == kind),
        )
        for kind in dict.fromkeys(row.kind for row in rows)
    }
    return dict(sorted(sums.items(), key=lambda item: -(item[1].spin_ns + item[1].sleep_ns)))


def _middle(waits: LockWait) -> np.ndarray:
    return waits.bin_ns + waits.bin_length_ns // 2


def sleepers(waits: LockWait, timeline: Timeline) -> F64:
    """Mean number of threads asleep on a lock, per time bin."""
    return timeline.rates(_middle(waits), waits.sleep_ns) / 1e9


def spin_share_pct(waits: LockWait, timeline: Timeline, cpus: int) -> F64:
    """Spin share per time bin, in percent of all CPU time."""
    return timeline.rates(_middle(waits), waits.spin_ns) / 1e9 / cpus * 100


def wait_s_per_s(waits: LockWait, timeline: Timeline) -> F64:
    """Spinning and sleeping together, seconds of waiting per second."""
    return timeline.rates(_middle(waits), waits.spin_ns + waits.sleep_ns) / 1e9
