# SPDX-License-Identifier: BSD-2-Clause
"""Request: what a command line or a study asks for, before it is checked against this machine.

A sweep has one Part, a study one for each of its tables. The words of a run are variables of make trace.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

LEFT_OUT = "-"  # a value of an axis: the variable is left out
TRACINGS = ("on", "off", "both")
REPS = 5
GOAL_FIRST_LOOK = 10  # runs; the interval of fewer is not to be stopped by (docs/SOURCES.md)
GOAL_MOST = 30  # runs


@dataclass(frozen=True)
class Subject:
    """One thing compared, by the name that tables give it: a file system with its options, for example."""

    label: str
    words: Mapping[str, str]


@dataclass(frozen=True)
class Part:
    """The product of subjects and axes. Later words replace earlier ones: words, subject, axes."""

    name: str
    words: Mapping[str, str]  # of every run
    axes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # the last one varies fastest
    subjects: tuple[Subject, ...] = ()  # vary slowest; none: each value of FS is its own subject
    reps: int = REPS
    title: str = ""
    seconds: float | None = None  # estimate of a run with these ARGS; None: the workload's own


@dataclass(frozen=True)
class Request:
    """A whole sweep."""

    name: str  # of its directory: runs/TIME-sweep-NAME
    command: str  # as the user would type it
    words: Mapping[str, str]  # as typed
    parts: tuple[Part, ...]
    goal_pct: float | None = None
    most_reps: int | None = None  # with goal_pct; reps of a part is then the number of runs at the first look
    order_seed: int | None = None  # None: drawn
    tracing: str = "on"
    out: str | None = None
    study: Mapping[str, Any] | None = None  # for sweep.json
    finding: Mapping[str, Any] | None = None  # for sweep.json: what make verify tests (docs/SCHEMA.md)
    needs_all: bool = False  # a combination that cannot be run is an error, and none is left out
    absent: tuple[Mapping[str, str], ...] = ()  # of a study: {"what", "why"} that no machine of ours has
    old_schedulers: bool = False  # SCHED may be a name of before Linux 5.0
    # Reason why a combination is refused whatever the machine can, "" if none: part, subject, words, axes.
    leave_out: Callable[[str, str, Mapping[str, str], Mapping[str, str]], str] | None = None
