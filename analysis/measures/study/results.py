# SPDX-License-Identifier: BSD-2-Clause
"""All results of one study on one machine: tables, agreement, evidence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from analysis.measures.study.agreement import Agreement, measure_agreement
from analysis.measures.study.cells import Cells
from analysis.measures.study.evidence import Evidence, measure_evidence
from analysis.measures.study.make_cells import machines_of, make_cells
from analysis.measures.study.published import Needs, Study, read_study
from analysis.rundir.sweep_dir import Sweep


@dataclass(frozen=True)
class StudyResults:
    """One machine's results. Figures of different machines are never averaged."""

    study: Study
    sweep: Sweep
    figures: pd.DataFrame
    machine: str
    tables: tuple[Cells, ...]
    agreement: Agreement
    evidence: tuple[Evidence, ...]


def section_key(number: int) -> str:
    """Key of the section of the number-th table, from 1: the table's pictures stand below it."""
    return f"study-{number:02}"


def measure_study(sweep: Sweep, figures: pd.DataFrame, shapes: Mapping[str, Needs]) -> list[StudyResults]:
    """The results by machine, the one with most runs first; empty if the sweep is no study's.

    shapes: the known shapes by name. Without any figure there is one machine, "m1", with empty cells.
    """
    study = read_study(sweep, shapes)
    if study is None:
        return []
    results = []
    for machine in machines_of(figures) or ["m1"]:
        tables = tuple(make_cells(study, spec, sweep, figures, machine) for spec in study.tables)
        agreement = measure_agreement(tables)
        evidence = tuple(measure_evidence(agreement, figures, machine))
        results.append(StudyResults(study, sweep, figures, machine, tables, agreement, evidence))
    return results
