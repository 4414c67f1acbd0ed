# SPDX-License-Identifier: BSD-2-Clause
"""A sweep with its figures, in groups of runs that may be compared.

Runs of different machines, of different workloads, inside and outside of a virtual machine, and with and
without tracing are in groups of their own: their figures are never averaged, and never compared in time.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pandas as pd

from analysis.errors import ReportError
from analysis.measures.sweep.figures import read_figures
from analysis.measures.sweep.ranking import Ranking, rank
from analysis.rundir.run import open_run
from analysis.rundir.sweep_dir import RUNS, Configuration, Sweep, Task, open_sweep

KEYS = ["machine", "part", "wl", "virtual", "traced"]


@dataclass(frozen=True)
class Group:
    """Runs that may be compared with each other. frame: their figures, without anchors."""

    machine: str
    part: str
    wl: str
    virtual: bool
    traced: bool
    configurations: tuple[Configuration, ...]  # in the plan's order
    frame: pd.DataFrame
    headline: str  # the measure that most of its runs have as headline; "": none has one

    @cached_property
    def ranking(self) -> Ranking:
        """The configurations by the headline."""
        return self.rank(self.headline)

    @cached_property
    def _ranked(self) -> dict[tuple[str, bool], Ranking]:
        return {}

    def rank(self, measure: str, against_best: bool = False) -> Ranking:
        """The configurations by one measure. against_best: compared with the best by the headline."""
        key = (measure, against_best)
        if key not in self._ranked:
            reference = self.ranking.reference if against_best else None
            first = reference.configuration if reference else None
            ordered = [row.configuration for row in self.ranking.rows] if first else self.configurations
            self._ranked[key] = rank(self.frame, measure, ordered, first)
        return self._ranked[key]


@dataclass(frozen=True)
class SweepData:
    """A sweep and what its runs say."""

    sweep: Sweep
    frame: pd.DataFrame  # figures of all runs (measures/sweep/figures.py), anchors too
    unreadable: Mapping[str, str]  # task: why
    groups: tuple[Group, ...]
    losses: Mapping[
        str, tuple[str, ...]
    ]  # task: what its collectors lost, for tasks whose figures are marked
    emulated: frozenset[str] = frozenset()  # configurations whose runs had emulated CPUs

    @property
    def anchors(self) -> pd.DataFrame:
        """Headlines of the anchor runs."""
        return self.frame[self.frame.anchor & self.frame.headline]

    @property
    def done(self) -> tuple[Task, ...]:
        """Runs that are done and readable, without anchors."""
        return tuple(
            task
            for task in self.sweep.tasks
            if task.outcome == "done" and not task.is_anchor and task.task not in self.unreadable
        )

    @property
    def machines(self) -> tuple[str, ...]:
        """Machines that ran something, in order."""
        return tuple(dict.fromkeys(task.machine for task in self.sweep.tasks))


def load_data(path: Path) -> SweepData:
    """Open a sweep and read its figures. Raises what open_sweep raises."""
    sweep = open_sweep(path)
    read = read_figures(sweep)
    groups = make_groups(sweep.configurations, read.frame)
    return SweepData(
        sweep, read.frame, read.unreadable, groups, _losses(sweep, read.frame), _emulated(sweep, read.frame)
    )


def _emulated(sweep: Sweep, frame: pd.DataFrame) -> frozenset[str]:
    """Configurations that ran on emulated CPUs, as the first virtual run of each says."""
    virtual = frame[frame.virtual & ~frame.anchor].drop_duplicates("configuration")
    first = dict(zip(virtual.task, virtual.configuration, strict=True))
    emulated = set()
    for task in sweep.tasks:
        if task.task in first:
            with suppress(ReportError):
                if open_run(sweep.open_path / RUNS / task.path.name).emulated:
                    emulated.add(str(first[task.task]))
    return frozenset(emulated)


def _losses(sweep: Sweep, frame: pd.DataFrame) -> dict[str, tuple[str, ...]]:
    """What was lost in the runs that have marked figures."""
    lossy = set(frame[frame.lossy].task)
    losses: dict[str, tuple[str, ...]] = {}
    for task in sweep.tasks:
        if task.task in lossy:
            try:
                run = open_run(sweep.open_path / RUNS / task.path.name)
            except ReportError as error:
                losses[task.task] = (str(error),)
            else:
                losses[task.task] = tuple(why for name in run.losses if (why := run.lossy(name)))
    return losses


def make_groups(configurations: tuple[Configuration, ...], frame: pd.DataFrame) -> tuple[Group, ...]:
    """The groups, in the order of the plan, then of the machines."""
    own = frame[~frame.anchor]
    place = {one.id: number for number, one in enumerate(configurations)}
    groups: list[tuple[tuple[str, int], Group]] = []
    for key, part in own.groupby(KEYS, sort=False):
        machine, part_name, wl, virtual, traced = key
        names = set(part.configuration)
        of_group = tuple(one for one in configurations if one.id in names)
        group = Group(
            str(machine),
            str(part_name),
            str(wl),
            bool(virtual),
            bool(traced),
            of_group,
            part,
            _headline(part),
        )
        first = min((place[one.id] for one in of_group), default=0)
        groups.append(((str(machine), first), group))
    return tuple(group for _, group in sorted(groups, key=lambda item: item[0]))


def _headline(frame: pd.DataFrame) -> str:
    counts = frame[frame.headline].measure.value_counts()
    return str(min(counts[counts == counts.max()].index)) if len(counts) else ""
