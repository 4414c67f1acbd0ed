# SPDX-License-Identifier: BSD-2-Clause
"""Names of locks and of callers, as the reports show them.

A lock's class is its name (all instances of one structure's member are one class); a lock without a name
goes by the first caller outside the locking primitives. Types are written as `perf lock contention` does.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from analysis.tables.lock_wait import NOT_SAMPLED as NOT_SAMPLED_ID

# frames that are never reported as the caller: locking primitives, and frames of tracing above them, some
# without a name
PRIMITIVE = re.compile(
    r"^0x[0-9a-f]+$|^\[unknown\]$|^(?:__)?(?:raw_|arch_|native_|do_|pv_|virt_|_+)*(?:"
    r"queued_(?:spin|read|write)_\w*|spin_lock\w*|read_lock\w*|write_lock\w*|"
    r"raw_spin\w*|raw_read\w*|raw_write\w*|"
    r"mutex_lock\w*|mutex_trylock\w*|mutex_(?:spin|optimistic)\w*|ww_mutex_\w*|rwsem_\w*|down|down_(?:read|write|killable|interruptible|"
    r"timeout|trylock|common)\w*|percpu_(?:down|rwsem)_\w*|percpu_rwsem_\w*|rt_mutex\w*|rtmutex\w*|rtlock_\w*|rt_spin_\w*|"
    r"rwbase_\w*|btrfs_tree_(?:read_)?lock\w*|osq_lock\w*|mcs_\w*|(?:preempt_)?schedule(?:_timeout\w*|_preempt_disabled|_rtlock\w*|_common)?|"
    r"raw_callee_save\w*|kvm_vcpu_is_preempted|trace\w*contention\w*|traceiter_\w*|bpf_\w+|lockdep_\w*|lock_acquire\w*|lock_contended\w*|cpu_relax|pv_wait\w*|kvm_wait\w*"
    r")(?:\.[a-z0-9_.]+)?$"
)
PERF_KIND = {"percpu_rwsem": "pcpu-sem", "rtmutex": "rt-mutex"}
PERF_MODE = {"read": ":R", "write": ":W"}
NO_PATH = "(no call path)"
NOT_SAMPLED = "(call path not sampled)"
# outermost frames that every call path ends in
ENTRY = re.compile(
    r"^(?:entry_\w+|do_syscall_\w*|x64_sys_call|ret_from_fork\w*|kthread|worker_thread|asm_\w+|secondary_startup\w*|"
    r"start_secondary|cpu_startup_entry)$"
)
SYSCALL = re.compile(r"^__(?:x64|ia32|se|do|arm64)_sys_(\w+)$")


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


def perf_type(kind: str, mode: str) -> str:
    """rwsem:W, mutex: kind and mode as `perf lock contention` writes them."""
    return PERF_KIND.get(kind, kind) + PERF_MODE.get(mode, "")


def symbols(frames: Sequence[str], all_frames: bool = False) -> list[str]:
    """Functions from the first caller outward, system calls by name, without the frames of ENTRY."""
    names: list[str] = []
    for frame in frames if all_frames else callers(list(frames)):
        name = symbol(frame)
        if ENTRY.match(name):
            continue
        call = SYSCALL.match(name)
        name = f"{call.group(1)}()" if call else name
        if not names or names[-1] != name:
            names.append(name)
    return names


def path_label(frames: Sequence[str], most: int = 3, all_frames: bool = False) -> str:
    """Short label of a call path, innermost first: the first callers, and the outermost (the system call)."""
    names = symbols(frames, all_frames)
    if not names:
        return NO_PATH
    if len(names) <= most:
        return " < ".join(names)
    # inner wrappers of a system call are left out: the call names them
    return " < ".join([*names[: most - 1], "..", names[-1]])


def stack_label(
    stack_id: int, stacks: Mapping[int, list[str]], most: int = 3, all_frames: bool = False
) -> str:
    """Short label of a stack_id's call path, also of ids that stand for no call path."""
    if stack_id == NOT_SAMPLED_ID:
        return NOT_SAMPLED
    return path_label(stacks.get(stack_id, []), most, all_frames)


def spinning_kind(frames: Sequence[str]) -> tuple[str, str]:
    """Kind and mode of the lock a sampled CPU spins on, by the primitives in its frames; "": not known."""
    kind = mode = ""
    for frame in frames:
        name = symbol(frame).lstrip("_")
        if not PRIMITIVE.match(symbol(frame)):
            break
        if "rwsem" in name or name.startswith("down_"):
            kind = kind if kind in ("percpu_rwsem",) else "rwsem"
            mode = mode or ("read" if "read" in name else "write" if "write" in name else "")
        elif "mutex" in name and "rt" not in name.split("_")[0]:
            kind = kind or "mutex"
        elif "queued_read" in name or "queued_write" in name or "read_lock" in name or "write_lock" in name:
            kind = kind or "rwlock"
            mode = mode or ("read" if "read" in name else "write")
        elif "spin" in name and "osq" not in name:
            kind = kind or "spinlock"
    if kind == "mutex":
        mode = "excl"
    if kind == "spinlock":
        mode = "excl"
    return kind, mode
