# SPDX-License-Identifier: BSD-2-Clause
"""The cause of a wait: by the kernel stack that the thread slept with, and by what the task says itself.

1. Frames of the scheduler, of tracing and of the generic ways to wait are left out.
2. A rule that holds anywhere in the stack wins: memory reclaim, dirty throttling, room in the journal.
   Of several, the outermost.
3. A lock that the task itself names (task_struct.blocker) is the cause. A semaphore is not: buffers have one.
4. Else the innermost frame that a rule knows is what was waited for; of a lock, the caller is the place. Some
   callers take a kind of lock for one purpose: their rules name another cause, by the lock and the caller.
5. Without a rule: I/O if the task says so (in_iowait), else unknown. Nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from analysis.causes.rules import IO, LOCK, NO_STACK, STOPPED, UNKNOWN, Rule, Rules, rules

NO_LOCK = "none"
SEMAPHORE = "semaphore"
IO_WAIT, OTHER = "io_wait", "other"  # states of the thread_time table
KTHREAD = "kthread"
PLACE_LETTERS = 60


@dataclass(frozen=True, slots=True)
class Waited:
    """The cause of a wait, and the function that told it; of an unknown stack its innermost function."""

    cause: str
    place: str


def function_name(frame: str) -> str:
    """The function of a frame, without offset, module and the compiler's suffixes (.isra.0, .constprop.0)."""
    return frame.split("+", 1)[0].split(" ", 1)[0].split(".", 1)[0]


def _place(rule: Rule, names: Sequence[str], at: int, in_io: bool) -> str | None:
    """The function by which a rule holds at a frame: the outer one that it asks for, or the frame's own."""
    if rule.lock or (rule.io is not None and rule.io != in_io):
        return None
    if (rule.first or rule.main) and at:
        return None
    if rule.main and list(names[at + 1 : at + 2]) != [KTHREAD]:
        return None
    if not rule.functions.match(names[at]):
        return None
    if rule.under is None:
        return names[at]
    return next((name for name in names[at + 1 :] if rule.under.match(name)), None)


def _anywhere(names: Sequence[str], known: Rules, in_io: bool) -> Waited | None:
    """The cause by the rules that hold anywhere; the place is the innermost function of that cause."""
    found = [
        Waited(rule.cause, place)
        for at in range(len(names))
        for rule in known.rules
        if rule.anywhere and (place := _place(rule, names, at, in_io)) is not None
    ]
    return next((one for one in found if one.cause == found[-1].cause), None)


def _lock(names: Sequence[str], at: int, known: Rules) -> Waited:
    """The cause of a wait for a lock, whose primitives begin at a frame; the place is the first caller."""
    end = next((i for i in range(at, len(names)) if not known.locks.match(names[i])), len(names))
    outside = names[end] if end < len(names) else ""
    for rule in known.rules:
        is_callers = rule.lock and rule.under is not None and rule.under.match(outside)
        if is_callers and any(rule.functions.match(name) for name in names[at:end]):
            return Waited(rule.cause, outside)
    return Waited(LOCK, outside or names[at])


def _innermost(names: Sequence[str], known: Rules, in_io: bool) -> Waited | None:
    """The cause of the innermost frame that has one. Of a frame, the first rule that holds."""
    for at, name in enumerate(names):
        if known.locks.match(name):
            return _lock(names, at, known)
        for rule in known.rules:
            if not rule.anywhere and (place := _place(rule, names, at, in_io)) is not None:
                return Waited(rule.cause, place)
    return None


@lru_cache(maxsize=1 << 16)
def classify(frames: tuple[str, ...], state: str = "", lock_kind: str = NO_LOCK) -> Waited:
    """The cause of a wait. frames: innermost first. state, lock_kind: of the thread_time table."""
    known = rules()
    names = tuple(name for frame in frames if (name := function_name(frame)) and not known.skip.match(name))
    if state == OTHER:
        return Waited(STOPPED, names[0][:PLACE_LETTERS] if names else "")
    found = _anywhere(names, known, state == IO_WAIT)
    is_lock = lock_kind not in ("", NO_LOCK)
    if found is None and is_lock and lock_kind != SEMAPHORE:
        outside = [name for name in names if not known.locks.match(name)]
        found = Waited(LOCK, outside[0] if outside else "")
    if found is None:
        found = _innermost(names, known, state == IO_WAIT)
    if found is None and is_lock:
        found = Waited(LOCK, names[0] if names else "")
    if found is None and state == IO_WAIT:
        found = Waited(IO, names[0] if names else "")
    if found is None:
        found = Waited(UNKNOWN, names[0]) if names else Waited(NO_STACK, "")
    return Waited(found.cause, found.place[:PLACE_LETTERS])
