# SPDX-License-Identifier: BSD-2-Clause
"""Where the time of each phase went, if the phases' causes differ; else one list for all serves."""

from __future__ import annotations

from collections.abc import Mapping

from analysis import units
from analysis.findings.rule import Case
from analysis.measures.app.phases import OUTSIDE
from analysis.measures.ledger import PATH, Ledger, key_of_part
from analysis.measures.threads.parts import VOLUNTARY

LEAST_PHASE = 0.05  # of the time: a shorter phase is not compared
DIFFERENT = 0.25  # part of a phase's time that would have to change its cause to make it like the whole
MOST_CAUSES = 3
LEAST_CAUSE = 0.02  # of the phase


def phase_causes(case: Case, short: Mapping[str, str]) -> list[tuple[str, str]]:
    """Name of each phase and its causes in seconds, in the order of the phases; empty if they are alike.

    short: texts to use instead of the ledger's, by key of the line.
    """
    ledger, phases = case.ledger, case.tables.phases
    by_phase = _by_phase(ledger) if ledger.basis == PATH else _of_threads(case)
    long = {
        name: causes for name, causes in by_phase.items() if _sum(causes) >= LEAST_PHASE * ledger.total_ns
    }
    whole: dict[str, int] = {line.key: line.ns for line in ledger.lines}
    if len(long) < 2 or all(_difference(causes, whole) < DIFFERENT for causes in long.values()):
        return []
    order = list(dict.fromkeys(phases.name)) if phases is not None else []
    texts = {line.key: short.get(line.key, line.text) for line in ledger.lines}
    names = sorted(long, key=lambda name: order.index(name) if name in order else len(order))
    return [(_named(name, long[name], ledger), _causes(long[name], texts, ledger)) for name in names]


def _by_phase(ledger: Ledger) -> dict[str, dict[str, int]]:
    """Time by phase and key of the ledger's lines."""
    found: dict[str, dict[str, int]] = {}
    for line in ledger.lines:
        for share in line.shares:
            causes = found.setdefault(share.phase, {})
            causes[line.key] = causes.get(line.key, 0) + share.ns
    return found


def _of_threads(case: Case) -> dict[str, dict[str, int]]:
    """The same of the threads' time."""
    found: dict[str, dict[str, int]] = {}
    for phase in case.results.threads.phases if case.results.threads is not None else ():
        causes = found.setdefault("" if phase.name == OUTSIDE else phase.name, {})
        for part in phase.parts:
            if part.kind not in VOLUNTARY:
                key = key_of_part(part)
                causes[key] = causes.get(key, 0) + part.ns
    return found


def _sum(causes: dict[str, int]) -> int:
    return sum(causes.values())


def _difference(causes: dict[str, int], whole: dict[str, int]) -> float:
    """Half the sum of the differences of shares: 0 for the same causes, 1 for none in common."""
    one, all_ = _sum(causes), _sum(whole)
    return sum(abs(causes.get(key, 0) / one - whole.get(key, 0) / all_) for key in {*causes, *whole}) / 2


def _named(name: str, causes: dict[str, int], ledger: Ledger) -> str:
    return f"{name or 'no phase'}, {units.seconds(ledger.seconds(_sum(causes)))} s"


def _causes(causes: dict[str, int], texts: dict[str, str], ledger: Ledger) -> str:
    least = LEAST_CAUSE * _sum(causes)
    most = sorted((item for item in causes.items() if item[1] >= least), key=lambda item: -item[1])
    return ", ".join(f"{texts[key]} {units.seconds(ledger.seconds(ns))}" for key, ns in most[:MOST_CAUSES])
