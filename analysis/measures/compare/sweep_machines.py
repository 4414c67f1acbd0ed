# SPDX-License-Identifier: BSD-2-Clause
"""The machines of two sweeps beside each other, with their anchor runs; figures of machines never mix."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pandas as pd

from analysis.measures.common.statistics import Mean, mean_ci
from analysis.measures.compare.verdicts_of_runs import is_like_memory
from analysis.measures.sweep.data import SweepData
from analysis.rundir.sweep_dir import Machine, Sweep


@dataclass(frozen=True)
class ComparedSweep:
    """A sweep under its letter."""

    letter: str
    data: SweepData

    @property
    def sweep(self) -> Sweep:
        """Its plan and tasks."""
        return self.data.sweep

    @property
    def frame(self) -> pd.DataFrame:
        """The figures of its finished runs (measures/sweep/figures.py), anchors too."""
        return self.data.frame


@dataclass(frozen=True)
class Anchors:
    """One figure of the anchor runs on two machines, which tells how fast the machines were meanwhile."""

    measure: str
    unit: str
    first: Mean
    other: Mean

    @property
    def ratio(self) -> float | None:
        """The other over the first."""
        return self.other.value / self.first.value if self.first.value else None


@dataclass(frozen=True)
class MachinePair:
    """The machines that two sweeps, by index, are compared on."""

    first: Machine
    sweep: int
    other: Machine
    is_same: bool
    anchors: Anchors | None


def machine_pairs(first: ComparedSweep, number: int, other: ComparedSweep) -> Iterator[MachinePair]:
    """The machines that both sweeps ran on; if there is none, each machine with each."""
    ours, theirs = _machines(first), _machines(other)
    same = [(a, b) for a in ours for b in theirs if _is_same(a, b)]
    for a, b in same or [(a, b) for a in ours for b in theirs]:
        yield MachinePair(a, number, b, bool(same), _anchors(first, a, other, b))


def _machines(compared: ComparedSweep) -> list[Machine]:
    """The machines whose runs are done, in the plan's order."""
    ran = sorted(set(compared.frame["machine"]))
    known = compared.sweep.machines
    return [known.get(name, Machine(name, "", "", None, None, "")) for name in ran]


def _is_same(a: Machine, b: Machine) -> bool:
    """Whether these are one machine; not, if the plan does not name it."""
    facts_a, facts_b = (a.hostname, a.cpus, a.cpu_model), (b.hostname, b.cpus, b.cpu_model)
    return bool(a.hostname) and facts_a == facts_b and is_like_memory(a.memory_bytes, b.memory_bytes)


def _anchors(first: ComparedSweep, a: Machine, other: ComparedSweep, b: Machine) -> Anchors | None:
    """The headline figure of both machines' anchors; None: no anchor is done on one of them."""
    frames = []
    for compared, machine in ((first, a), (other, b)):
        rows = compared.frame
        frames.append(rows[rows["anchor"] & rows["headline"] & (rows["machine"] == machine.id)])
    for measure, unit in dict.fromkeys(zip(frames[0]["measure"], frames[0]["unit"], strict=True)):
        means = [
            mean_ci(rows["value"][(rows["measure"] == measure) & (rows["unit"] == unit)].to_numpy())
            for rows in frames
        ]
        if means[0] is not None and means[1] is not None:
            return Anchors(measure, unit, means[0], means[1])
    return None


def machines_alone(
    first: ComparedSweep, other: ComparedSweep, on: Sequence[MachinePair]
) -> Iterator[tuple[str, str, str]]:
    """The machines of one sweep that stand beside none of the other, as left_out has them."""
    if not on:
        return
    for compared, beside, of in (
        (first, {pair.first.id for pair in on}, other),
        (other, {pair.other.id for pair in on}, first),
    ):
        for machine in _machines(compared):
            if machine.id not in beside:
                name = f"all, on {machine.hostname or machine.id}"
                yield compared.letter, name, f"sweep {of.letter} has no run on this machine"
