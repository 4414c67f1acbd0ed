# SPDX-License-Identifier: BSD-2-Clause
"""Make the Request of make sweep VARIABLE="VALUE VALUE"…: lists of values, and how often each is run.

Values are separated by blanks. Values of ARGS, MKFS, DISK, COLLECT and WITH, which have blanks themselves,
are separated by a bar between blanks. `-`, or nothing between two bars, leaves the variable out.
"""

import re
import shlex
from collections.abc import Mapping

from workloads.cli.options import VARIABLES
from workloads.sweep.request import (
    GOAL_FIRST_LOOK,
    GOAL_MOST,
    LEFT_OUT,
    REPS,
    TRACINGS,
    Part,
    Request,
)
from workloads.system.errors import OptionError, nearest

SPLIT_AT_BLANKS = (
    *("FS", "WL", "THREADS", "SCHED", "JOURNAL", "SIZE", "SCALE", "CPUS", "MEM", "KERNEL", "VM", "SEED"),
    *("MOUNT", "FLUSH", "DIRTY", "TIME", "CRASH_AT", "CRASH"),
)
SPLIT_AT_BARS = ("ARGS", "MKFS", "DISK", "COLLECT", "WITH")
OF_SWEEPS = ("REPS", "GOAL", "MOST", "ORDER", "TRACING")
_OF_THE_WHOLE = (*OF_SWEEPS, "OUT", "NAME", "ON", "TLS")
_BAR = re.compile(r"(?:^|\s+)\|(?=\s|$)")
REPS_MOST = 1000
_NAME_LETTERS = 40


def is_sweep(given: Mapping[str, str]) -> bool:
    """Return whether make plan with these variables plans a sweep: one is a list, or says how to repeat."""
    return any(name in OF_SWEEPS or len(split(name, text)) > 1 for name, text in given.items())


def split(name: str, text: str) -> list[str]:
    """Return the values that a variable names; LEFT_OUT for one that leaves it out."""
    if name in SPLIT_AT_BLANKS:
        return text.split()
    if name in SPLIT_AT_BARS:
        return [part.strip() or LEFT_OUT for part in _BAR.split(text)]
    return [text]


def sweep_request(given: Mapping[str, str]) -> Request:
    """Return the request of make sweep with these variables. Raises OptionError.

    Whether each value is right is checked by sweep/planner.py.
    """
    # In the order of make help: make itself has none.
    chosen = [name for name in VARIABLES if name in given and name not in _OF_THE_WHOLE]
    lists = {name: split(name, given[name]) for name in chosen}
    for name, values in lists.items():
        for value in values:
            if values.count(value) > 1:
                raise OptionError(f"{name} names {value} twice: leave one out (REPS= repeats runs)")
    words = {name: values[0] for name, values in lists.items() if len(values) == 1 and values[0] != LEFT_OUT}
    axes = {name: tuple(values) for name, values in lists.items() if len(values) > 1}
    goal, most, reps = _repetitions(given)
    return Request(
        name=_name(given, lists),
        command=" ".join(
            ["make sweep", *(f"{name}={shlex.quote(given[name])}" for name in VARIABLES if name in given)]
        ),
        words=dict(given),
        parts=(Part("main", words, axes, reps=reps),),
        goal_pct=goal,
        most_reps=most,
        order_seed=whole(given, "ORDER", 0, 2**63 - 1) if "ORDER" in given else None,
        tracing=tracing_of(given),
        out=given.get("OUT"),
    )


def tracing_of(given: Mapping[str, str]) -> str:
    """Return TRACING=, on by default. Raises OptionError."""
    tracing = given.get("TRACING", "on")
    if tracing not in TRACINGS:
        raise OptionError(f"TRACING={tracing} is not a way to trace: {nearest(tracing, TRACINGS)}")
    if tracing == "off":
        for name in ("COLLECT", "WITH"):
            if name in given:
                raise OptionError(f"{name} contradicts TRACING=off, which records nothing: drop one")
    return tracing


def _repetitions(given: Mapping[str, str]) -> tuple[float | None, int | None, int]:
    """Return GOAL, MOST and REPS. Raises OptionError."""
    goal: float | None = None
    most: int | None = None
    if "GOAL" in given:
        try:
            goal = float(given["GOAL"].removesuffix("%"))
        except ValueError:
            goal = 0.0
        if not 0.01 <= goal <= 100:
            raise OptionError(f"GOAL={given['GOAL']} is not a percentage: write it like 5")
        most = whole(given, "MOST", GOAL_FIRST_LOOK, REPS_MOST) if "MOST" in given else GOAL_MOST
    elif "MOST" in given:
        raise OptionError("MOST is the limit of GOAL=: add GOAL=5, or give the number of runs by REPS")
    default = REPS if goal is None else GOAL_FIRST_LOOK
    reps = whole(given, "REPS", 1, REPS_MOST) if "REPS" in given else default
    if goal is not None and reps < GOAL_FIRST_LOOK:
        raise OptionError(
            f"REPS={reps} is too few for GOAL, whose first look is at {GOAL_FIRST_LOOK} runs: "
            f"give at least {GOAL_FIRST_LOOK}, or leave REPS out"
        )
    if most is not None and reps > most:
        raise OptionError(f"REPS={reps} is more than MOST={most}: give fewer REPS, or a larger MOST")
    return goal, most, reps


def whole(given: Mapping[str, str], name: str, least: int, most: int) -> int:
    """Return the whole number that a variable gives. Raises OptionError."""
    text = given[name]
    if not (text.isascii() and text.isdigit()) or not least <= int(text) <= most:
        raise OptionError(f"{name}={text} is not a whole number from {least} to {most}")
    return int(text)


def _name(given: Mapping[str, str], lists: Mapping[str, list[str]]) -> str:
    """Return NAME=, or file systems and workloads as in ext4+xfs-filemark; many of them are counted."""
    if "NAME" in given:
        return given["NAME"].strip()
    systems = lists.get("FS") or ["dir"]
    workloads = lists.get("WL") or ["cmd"]
    name = f"{'+'.join(systems)}-{'+'.join(workloads)}".replace(":", "_")
    if len(name) <= _NAME_LETTERS:
        return name
    short = f"{len(systems)}fs" if len(systems) > 1 else systems[0]
    return f"{short}-{f'{len(workloads)}wl' if len(workloads) > 1 else workloads[0]}".replace(":", "_")
