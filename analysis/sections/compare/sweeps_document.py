# SPDX-License-Identifier: BSD-2-Clause
"""The content of a comparison of sweeps: what is compared, the verdicts, and what is not compared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from analysis import units
from analysis.measures.compare.compared_sweeps import ComparedSweeps
from analysis.measures.compare.sweep_machines import ComparedSweep, MachinePair
from analysis.measures.compare.verdicts import Verdicts
from analysis.render.document import Document, Section, Table
from analysis.rundir.run import clean
from analysis.rundir.sweep_dir import Machine
from analysis.sections.compare.table import without_repeats
from analysis.sections.compare.verdict_tables import factor, fill
from analysis.sections.sweep.banners import make_banners

NONE = "(none)"
MOST_LEFT_OUT = 200


def make_sweeps_document(compared: ComparedSweeps, verdicts: Verdicts) -> Document:
    """Title, banners and sections."""
    names = dict.fromkeys(one.sweep.name for one in compared.sweeps)
    return Document(
        title=f"Seekmeter: {len(compared.sweeps)} sweeps compared: {' and '.join(names)}",
        banners=_banners(compared),
        sections=[_compared(compared), _verdicts(verdicts), _machines(compared), _left_out(compared)],
    )


def _banners(compared: ComparedSweeps) -> list[str]:
    banners = []
    strange = sorted({compared.sweeps[pair.sweep].letter for pair in compared.machines if not pair.is_same})
    if strange:
        banners.append(
            f"{', '.join(strange)} ran on another machine than {compared.sweeps[0].letter}: any difference"
            " may be the machine's (see machines and anchors)"
        )
    for one in compared.sweeps:
        sentences = [*make_banners(one.data), *one.sweep.missing]
        banners += [f"{one.letter}: {sentence}" for sentence in sentences]
    return banners


def _compared(compared: ComparedSweeps) -> Section:
    """The sweeps, and the words and kernels that differ."""
    section = Section("What is compared", key="compared", essential=True)
    rows: list[tuple[str, str, str]] = []
    for name, values in {**compared.differing, "kernel": _kernels(compared.sweeps)}.items():
        for one, value in zip(compared.sweeps, values, strict=True):
            if len(set(values)) > 1:
                rows.append((name, one.letter, value or NONE))
    for one in compared.sweeps:
        runs = one.frame.loc[~one.frame["anchor"].astype(bool), "task"].nunique()
        started = clean(one.sweep.facts.get("created_realtime") or "at an unknown time", 40)
        section.facts.append((one.letter, f"{runs} runs, {started}: {clean(one.sweep.path)}"))
    if rows:
        section.tables.append(Table(("<differs", "<sweep", "<is"), without_repeats(rows, 2)))
    else:
        section.notes.append("the same words and kernels in all sweeps: only the time differs")
    section.definition = (
        "Configurations are the same if their words are. A word that has one value in each sweep, and not"
        " the same in all, is what is compared; WL, ARGS, CMD and SCALE never are."
    )
    return section


def _kernels(sweeps: Sequence[ComparedSweep]) -> list[str]:
    return [", ".join(sorted({clean(kernel, 80) for kernel in one.frame["kernel"]})) for one in sweeps]


def _verdicts(verdicts: Verdicts) -> Section:
    section = Section("Verdicts", key="verdicts", essential=True)
    fill(section, verdicts)
    return section


def _machines(compared: ComparedSweeps) -> Section:
    """Which machines stand beside each other, and how fast their anchors were."""
    section = Section("Machines and anchors", key="machines", essential=True)
    first = compared.sweeps[0].letter
    for pair in compared.machines:
        other = compared.sweeps[pair.sweep].letter
        named = f"{first} {_named(pair.first)}, {other} {_named(pair.other)}"
        section.notes.append(f"{named}: {'the same' if pair.is_same else 'OTHER MACHINES'}; {_anchor(pair)}")
    if not section.notes:
        section.absent = "no run is done"
    section.definition = (
        "Anchors are the same short run before the first and after the last run of a machine. They tell what"
        " the machine did meanwhile, and are in no other figure. Machines are the same if host name, CPUs,"
        " CPU model and memory are. Runs of several machines are never averaged."
    )
    return section


def _named(machine: Machine) -> str:
    memory = units.bytes_(machine.memory_bytes) if machine.memory_bytes else ""
    cpus = f"{machine.cpus} CPUs" if machine.cpus else ""
    return " ".join(part for part in (machine.hostname or machine.id, cpus, memory) if part)


def _anchor(pair: MachinePair) -> str:
    anchors = pair.anchors
    if anchors is None:
        return "no anchor is done on both"
    ratio = f", ratio {factor(anchors.ratio)}" if anchors.ratio is not None else ""
    return (
        f"anchor {anchors.measure}, {anchors.unit}: {units.mean(anchors.first)} and"
        f" {units.mean(anchors.other)}{ratio}"
    )


def _left_out(compared: ComparedSweeps) -> Section:
    """Configurations that stand in no verdict, with the reason."""
    section = Section("Not compared", key="left_out", essential=True)
    if not compared.left_out:
        section.notes.append("none: every configuration is in all sweeps")
        return section
    rows = compared.left_out[:MOST_LEFT_OUT]
    section.tables.append(Table(("<sweep", "<configuration", "<why"), [list(row) for row in rows]))
    if len(compared.left_out) > MOST_LEFT_OUT:
        section.notes.append(f"{len(compared.left_out) - MOST_LEFT_OUT:,} more in compare.json")
    return section


def sweep_facts(compared: ComparedSweeps) -> dict[str, Any]:
    """The keys of compare.json that only a comparison of sweeps has."""
    return {
        "sweeps": [
            {
                "letter": one.letter,
                "name": one.sweep.name,
                "path": clean(one.sweep.open_path.resolve()),
                "state": one.sweep.state,
                "command": one.sweep.command,
                "kernel": kernel,
            }
            for one, kernel in zip(compared.sweeps, _kernels(compared.sweeps), strict=True)
        ],
        "differing": {name: list(values) for name, values in compared.differing.items()},
        "machines": [
            {
                "first": pair.first.hostname or pair.first.id,
                "sweep": compared.sweeps[pair.sweep].letter,
                "other": pair.other.hostname or pair.other.id,
                "same": pair.is_same,
                "anchor_ratio": pair.anchors.ratio if pair.anchors else None,
            }
            for pair in compared.machines
        ],
        "not_compared": [
            {"sweep": letter, "configuration": label, "why": why} for letter, label, why in compared.left_out
        ],
    }
