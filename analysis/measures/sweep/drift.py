# SPDX-License-Identifier: BSD-2-Clause
"""What a machine did during a sweep: drift of the headlines with the order of runs, and its anchor runs."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.measures.statistics.holm import holm
from analysis.measures.statistics.order import SURE, Drift, drift
from analysis.measures.sweep.data import SweepData
from analysis.rundir.sweep_dir import Task

FIRST, LAST = "anchor-first", "anchor-last"


@dataclass(frozen=True)
class Anchors:
    """The headline of the first and the last anchor run of a machine; None: not done."""

    measure: str
    unit: str
    better: str
    first: float | None
    last: float | None

    @property
    def ratio(self) -> float | None:
        """last / first; None without both."""
        return self.last / self.first if self.first and self.last is not None else None


@dataclass(frozen=True)
class MachineDrift:
    """One machine. p: corrected over the machines (Holm)."""

    machine: str
    drift: Drift
    p: float | None
    runs: int  # with a headline
    spread: float | None  # typical standard deviation of repetitions, as a share of their mean
    anchors: Anchors | None

    @property
    def is_sure(self) -> bool:
        """Whether the drift is a drift, by its p."""
        return self.p is not None and self.p < SURE


def machine_drifts(data: SweepData) -> list[MachineDrift]:
    """Drift and anchors of every machine that finished a run."""
    found = [(machine, *_drift(data, machine)) for machine in data.machines]
    corrected = holm([one.p for _, one, _ in found])
    return [
        MachineDrift(machine, one, p, runs, _spread(data, machine), _anchors(data, machine))
        for (machine, one, runs), p in zip(found, corrected, strict=True)
    ]


def headlines(data: SweepData, machine: str) -> pd.DataFrame:
    """Headlines of a machine's runs, without anchors, in the order run; `relative`: over the mean of its
    configuration, above 1 is better."""
    frames = [
        group.frame[group.frame.measure == group.headline]
        for group in data.groups
        if group.machine == machine
    ]
    frame = pd.concat(frames) if frames else data.frame[:0]
    means = frame.groupby("configuration").value.transform("mean")
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.where(frame.better == "lower", means / frame.value, frame.value / means)
    return frame.assign(relative=relative).sort_values("order")


def _drift(data: SweepData, machine: str) -> tuple[Drift, int]:
    frame = headlines(data, machine)
    if frame.empty:
        return Drift(None, None, "no run is done"), 0
    return drift(
        frame.relative.to_numpy(), list(frame.configuration), list(frame.block), list(frame.order)
    ), len(frame)


def _spread(data: SweepData, machine: str) -> float | None:
    """Root mean square of the relative standard deviations, by their degrees of freedom."""
    squares, freedom = 0.0, 0
    for group in data.groups:
        for row in group.ranking.rows if group.machine == machine else ():
            if row.spread is not None:
                squares += row.spread**2 * (row.n - 1)
                freedom += row.n - 1
    return math.sqrt(squares / freedom) if freedom else None


def _anchors(data: SweepData, machine: str) -> Anchors | None:
    own = [task for task in data.sweep.tasks if task.is_anchor and task.machine == machine]
    which = {task.task: _which(task) for task in own}
    rows = data.anchors[data.anchors.task.isin(list(which))].to_dict("records")
    if not rows:
        return None
    some = rows[0]
    values = {which[row["task"]]: float(row["value"]) for row in rows if row["measure"] == some["measure"]}
    measure, unit, better = str(some["measure"]), str(some["unit"]), str(some["better"])
    return Anchors(measure, unit, better, values.get(FIRST), values.get(LAST))


def _which(task: Task) -> str:
    return FIRST if task.task.startswith(FIRST) else LAST
