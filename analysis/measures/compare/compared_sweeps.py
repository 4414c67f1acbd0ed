# SPDX-License-Identifier: BSD-2-Clause
"""Sweeps as sides: each configuration of the first sweep against the same one of each other sweep.

Configurations are the same if their words are. A word that never varies within a sweep and differs between
the sweeps, such as KERNEL, is what is compared: it is left out of the match. Machines are never mixed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from analysis.errors import ReportError
from analysis.measures.compare.compared_run import EMULATED, INSIDE_AND_OUTSIDE, LETTERS
from analysis.measures.compare.sweep_machines import (
    ComparedSweep,
    MachinePair,
    machine_pairs,
    machines_alone,
)
from analysis.measures.compare.verdicts import Figure, Pair
from analysis.measures.compare.verdicts_of_runs import BETTER_BY_UNIT
from analysis.measures.sweep.data import load_data
from analysis.rundir.run import open_run
from analysis.rundir.sweep_dir import RUNS, Configuration, Machine, Sweep

WORK = ("WL", "ARGS", "CMD", "SCALE")  # words that say what was done: never left out of the match
WITHOUT_TIME = ("", "B", "share")  # units of figures that a machine inside does not distort
KINDS = ("metric", "phase", "outcome")
Key = tuple[str, bool, tuple[tuple[str, str], ...]]  # part, traced, words
MeasureKey = tuple[str, str, str]  # measure, unit, kind


class OneValue(NamedTuple):
    """One run's value of a measure; the columns of measures/sweep/figures.py."""

    value: float
    better: str
    headline: bool
    bound: bool
    lossy: bool


@dataclass(frozen=True)
class ComparedSweeps:
    """Several sweeps, matched. differing: by word the value in each sweep. left_out: what is not compared."""

    sweeps: Sequence[ComparedSweep]
    differing: Mapping[str, Sequence[str]]
    machines: Sequence[MachinePair]
    pairs: Sequence[Pair]
    left_out: Sequence[tuple[str, str, str]]  # sweep's letter, configuration, reason


def load_compared_sweeps(paths: Sequence[Path]) -> ComparedSweeps:
    """Open, measure and match sweeps. Raises what open_sweep raises."""
    named = zip(LETTERS, paths, strict=False)
    return match([ComparedSweep(letter, load_data(path)) for letter, path in named])


def match(sweeps: Sequence[ComparedSweep]) -> ComparedSweeps:
    """Match configurations and machines of the first sweep with those of each other sweep."""
    differing = _differing(sweeps)
    keyed = [_keyed(one.sweep, differing) for one in sweeps]
    machines: list[MachinePair] = []
    pairs: list[Pair] = []
    left_out: list[tuple[str, str, str]] = []
    first, first_keys = sweeps[0], keyed[0]
    for number, (other, keys) in enumerate(zip(sweeps[1:], keyed[1:], strict=True), 1):
        on = list(machine_pairs(first, number, other))
        machines += on
        left_out += machines_alone(first, other, on)
        for key, configuration in first_keys.items():
            if key not in keys:
                left_out.append((first.letter, configuration.label, f"not in sweep {other.letter}"))
                continue
            found = [_pair(first, other, configuration, keys[key], these, len(on) > 1) for these in on]
            measured = [pair for pair in found if pair is not None]
            pairs += measured
            if not measured:
                both = ((first, configuration), (other, keys[key]))
                without = [one.letter for one, its in both if not _has_run(one, its)]
                left_out.append(("+".join(without), configuration.label, "no run of it is done"))
        for key, configuration in keys.items():
            if key not in first_keys:
                left_out.append((other.letter, configuration.label, f"not in sweep {first.letter}"))
    for one in sweeps:
        left_out += [
            (one.letter, refused.subject, f"refused: {refused.why}") for refused in one.sweep.refused
        ]
    return ComparedSweeps(sweeps, differing, machines, pairs, list(dict.fromkeys(left_out)))


def _has_run(compared: ComparedSweep, configuration: Configuration) -> bool:
    """Whether a run of the configuration is done."""
    return bool((compared.frame["configuration"] == configuration.id).any())


def _differing(sweeps: Sequence[ComparedSweep]) -> dict[str, list[str]]:
    """The words with one value in each sweep, and not the same one in all; empty: the word is missing."""
    of_sweep = [[one.words for one in compared.sweep.configurations] for compared in sweeps]
    differing = {}
    for name in dict.fromkeys(name for every in of_sweep for words in every for name in words):
        values = [{words.get(name, "") for words in every} for every in of_sweep]
        if name not in WORK and all(len(one) == 1 for one in values) and len(set.union(*values)) > 1:
            differing[name] = [next(iter(one)) for one in values]
    return differing


def _keyed(sweep: Sweep, differing: Mapping[str, Sequence[str]]) -> dict[Key, Configuration]:
    """The configurations by what makes them the same in several sweeps."""
    keyed: dict[Key, Configuration] = {}
    for one in sweep.configurations:
        words = tuple(sorted((name, word) for name, word in one.words.items() if name not in differing))
        keyed.setdefault((one.part, one.traced, words), one)
    return keyed


def _pair(
    first: ComparedSweep,
    other: ComparedSweep,
    ours: Configuration,
    theirs: Configuration,
    on: MachinePair,
    are_several: bool,
) -> Pair | None:
    """One configuration in both sweeps; None: no run of it is done on either machine."""
    a, b = _rows(first, ours, on.first), _rows(other, theirs, on.other)
    if a.empty and b.empty:
        return None
    untold = _failed(first, ours) or _failed(other, theirs) or _kernels(a, b)
    inside = _inside(first, ours, a, other, theirs, b)
    where = f"{ours.label}, on {on.first.hostname or on.first.id}" if are_several else ours.label
    if are_several and not on.is_same:
        where += f" against {on.other.hostname or on.other.id}"
    measures_a, measures_b = _measures(a), _measures(b)
    figures = [
        _figure(name, measures_a.get(name, []), measures_b.get(name, []), untold, inside)
        for name in dict.fromkeys((*measures_a, *measures_b))
    ]
    return Pair(
        first.letter,
        other.letter,
        where,
        [figure for figure in figures if figure.kind in KINDS],
        [figure for figure in figures if figure.kind == "cause"],
    )


def _rows(compared: ComparedSweep, configuration: Configuration, machine: Machine) -> pd.DataFrame:
    rows = compared.frame
    is_its = (rows["configuration"] == configuration.id) & ~rows["anchor"].astype(bool)
    return rows[is_its & (rows["machine"] == machine.id)]


def _measures(rows: pd.DataFrame) -> dict[MeasureKey, list[OneValue]]:
    """The values of each measure, in the order of the frame. Plain lists: pandas takes 1 ms for a group."""
    found: dict[MeasureKey, list[OneValue]] = {}
    keys = zip(rows["measure"], rows["unit"], rows["kind"], strict=True)
    values = zip(rows["value"], rows["better"], rows["headline"], rows["bound"], rows["lossy"], strict=True)
    for (measure, unit, kind), one in zip(keys, values, strict=True):
        found.setdefault((str(measure), str(unit), str(kind)), []).append(OneValue(*one))
    return found


def _failed(compared: ComparedSweep, configuration: Configuration) -> str:
    """Why the configuration's figures get no verdict: a run of it failed twice, or can't be read."""
    tasks = [one for one in compared.sweep.tasks if one.configuration == configuration]
    without = sum(one.outcome == "failed" or one.task in compared.data.unreadable for one in tasks)
    if not without:
        return ""
    return f"{without} of {len(tasks)} runs failed or can't be read in sweep {compared.letter}"


def _kernels(*sides: pd.DataFrame) -> str:
    """Why the figures get no verdict: the runs of one side ran on several kernels."""
    for rows in sides:
        kernels = sorted(set(rows["kernel"]))
        if len(kernels) > 1:
            return f"runs of one side were made on several kernels ({', '.join(kernels)})"
    return ""


def _inside(
    first: ComparedSweep,
    ours: Configuration,
    a: pd.DataFrame,
    other: ComparedSweep,
    theirs: Configuration,
    b: pd.DataFrame,
) -> str:
    """Why times get no verdict: a virtual machine on one side only, or emulated CPUs; else empty."""
    virtual = {bool(inside) for rows in (a, b) for inside in rows["virtual"]} | {ours.virtual, theirs.virtual}
    if len(virtual) > 1:
        return INSIDE_AND_OUTSIDE
    if True in virtual and (_is_emulated(first, a) or _is_emulated(other, b)):
        return EMULATED
    return ""


def _is_emulated(compared: ComparedSweep, rows: pd.DataFrame) -> bool:
    """Whether a run of these had emulated CPUs."""
    for task in sorted(set(rows["task"])):
        try:
            if open_run(compared.sweep.open_path / RUNS / task).emulated:
                return True
        except ReportError:
            continue
    return False


def _figure(
    name: MeasureKey, first: Sequence[OneValue], other: Sequence[OneValue], untold: str, inside: str
) -> Figure:
    """One measure's figure from its values on both sides."""
    measure, unit, kind = name
    both, why = [*first, *other], untold
    if not why and unit not in WITHOUT_TIME:
        why = inside
    if not why and any(one.bound for one in both):
        why = "a lower bound"
    if not why and any(one.lossy for one in both):
        why = "events were lost"
    stated = next((one.better for one in both if one.better), "")
    return Figure(
        name=measure,
        unit=unit,
        kind=kind,
        better=stated or BETTER_BY_UNIT.get(unit, ""),
        is_headline=any(one.headline for one in both),
        first=[one.value for one in first],
        other=[one.value for one in other],
        untold=why,
    )
