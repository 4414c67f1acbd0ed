# SPDX-License-Identifier: BSD-2-Clause
"""Where to look next after a comparison."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from analysis import front
from analysis.answer.next_steps import Step
from analysis.measures.compare.compared_run import Compared
from analysis.measures.compare.differences import MAY_DIFFER
from analysis.measures.compare.time_apart import TimeApart
from analysis.rundir.run import clean, dig

REPS = 5
BARRED = ("ARGS", "MKFS", "DISK", "COLLECT", "WITH")  # whose values make sweep separates by bars
LISTED = (
    *("FS", "WL", "THREADS", "SCHED", "JOURNAL", "SIZE", "SCALE", "CPUS", "MEM", "KERNEL", "MOUNT", "FLUSH"),
    *("DIRTY", "TIME", "CRASH_AT", "CRASH", *BARRED),
)
LEFT_OUT = "-"  # a value of make sweep: the variable is left out


def steps(runs: Sequence[Compared], time: TimeApart) -> list[Step]:
    """What tells whether the difference holds, and where the rest is."""
    found = []
    if time.is_compared and any(len(time.sides[number]) == 1 for number in time.known):
        command = _sweep(runs, time)
        found.append(
            Step(command, "is it more than chance?")
            if command
            else Step(
                front.command("compare RUNS=..."), f"{REPS} runs of each tell whether it is more than chance"
            )
        )
    found.append(Step("compare.html", "all figures side by side, pictures"))
    return found


def _sweep(runs: Sequence[Compared], time: TimeApart) -> str:
    """The sweep of these sides, if they differ in one variable that can be a list; else ""."""
    words = [_words(runs[side[0]]) for side in time.sides]
    if not all(words):
        return ""
    names = dict.fromkeys(name for one in words for name in one)
    differing = [name for name in names if len({one.get(name, "") for one in words}) > 1]
    if len(differing) != 1 or differing[0] not in LISTED:
        return ""
    axis = differing[0]
    values = list(dict.fromkeys(one.get(axis, "") or LEFT_OUT for one in words))
    merged = words[0] | {axis: (" | " if axis in BARRED else " ").join(values)}
    if axis not in BARRED and any(" " in value for value in values):
        return ""
    parts = [f"{name}={shlex.quote(value)}" for name, value in merged.items()]
    return " ".join([front.command("sweep"), *parts, f"REPS={REPS}"])


def _words(compared: Compared) -> dict[str, str]:
    stated = dig(compared.run.facts, "words")
    if not isinstance(stated, Mapping):
        return {}
    return {
        clean(name, 40): clean(value, 400)
        for name, value in stated.items()
        if name not in MAY_DIFFER and value
    }
