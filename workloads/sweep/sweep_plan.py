# SPDX-License-Identifier: BSD-2-Clause
"""SweepPlan: the configurations of a sweep, the refused ones, and the tasks of each block.

A task is one run. A block has each configuration once, in an order shuffled by the kept seed: what the
machine does meanwhile (a disk that fills, another program) then favours no configuration.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

FIRST_MACHINE = "m1"
_NOT_OF_ANCHORS = ("WITH", "SCALE", "CRASH_AT", "CRASH")


@dataclass(frozen=True)
class Configuration:
    """One combination of values, which is run several times."""

    id: str  # c01
    part: str
    subject: str
    label: str  # ext4, 8 threads
    words: Mapping[str, str]  # variables of make trace
    axes: Mapping[str, str]  # values of the words that vary, as typed; "-": left out
    reps: int
    traced: bool
    virtual: bool  # in a virtual machine: its times are not comparable with others
    est_seconds: float | None  # of one run; None: CMD=, as long as the command takes
    size_bytes: int  # of the disk files and RAM disks that a run makes
    left_out: Mapping[str, str]  # options of a study that are not applied: the reason of each
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Refused:
    """A combination that cannot be run."""

    part: str
    subject: str
    label: str
    words: Mapping[str, str]
    axes: Mapping[str, str]
    why: str
    kind: str  # "option": the words contradict each other; "machine": this machine or kernel lacks something


@dataclass(frozen=True)
class Task:
    """One run of a sweep. id is the name of its directory below runs/."""

    id: str
    configuration: str | None  # None: an anchor
    rep: int
    block: int
    words: Mapping[str, str]
    est_seconds: float | None
    label: str


@dataclass(frozen=True)
class SweepPlan:
    """A whole sweep: everything that its runs and their order follow from."""

    name: str
    command: str
    words: Mapping[str, str]
    parts: tuple[Mapping[str, Any], ...]  # name, title, reps
    axes: tuple[str, ...]
    configurations: tuple[Configuration, ...]
    refused: tuple[Refused, ...]
    order_seed: int
    goal_pct: float | None
    most_reps: int | None
    tracing: str
    study: Mapping[str, Any] | None = None
    absent: tuple[Mapping[str, str], ...] = ()
    finding: Mapping[str, Any] | None = None  # of make verify
    to_install: tuple[str, ...] = field(default=(), compare=False)  # packages; of make plan only

    @property
    def has_anchors(self) -> bool:
        """Whether anchors are run: pairs of make verify are judged among themselves and need none."""
        return self.finding is None

    @property
    def reps(self) -> int:
        """The number of blocks; with GOAL, of those before the first look."""
        return max(configuration.reps for configuration in self.configurations)

    def block(self, block: int, machine: str = FIRST_MACHINE) -> list[Task]:
        """Return the tasks of one block, numbered from 1, in the order in which this machine runs them."""
        chosen = [each for each in self.configurations if block <= each.reps or self.goal_pct is not None]
        random.Random(f"{self.order_seed}:{machine}:{block}").shuffle(chosen)
        end = "" if machine == FIRST_MACHINE else f"-{machine}"
        return [
            Task(
                f"{each.id}-r{block:02}{end}",
                each.id,
                block,
                block,
                each.words,
                each.est_seconds,
                each.label,
            )
            for each in chosen
        ]

    def anchor(self, which: str, machine: str = FIRST_MACHINE) -> Task:
        """Return the run of the same words before the first block ("first") or after the last ("last").

        The first configuration at the quick scale, untraced, with no power cut: what changes between the two
        is the machine.
        """
        first = self.configurations[0]
        words = {name: text for name, text in first.words.items() if name not in _NOT_OF_ANCHORS}
        if "WL" in words:
            words["SCALE"] = "quick"
        words["COLLECT"] = "none"
        label = f"{first.subject}, {'quick and ' if 'WL' in words else ''}untraced"
        end = "" if machine == FIRST_MACHINE else f"-{machine}"
        return Task(f"anchor-{which}{end}", None, 0, 0, words, None, label)
