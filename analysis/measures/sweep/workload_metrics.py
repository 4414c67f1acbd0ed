# SPDX-License-Identifier: BSD-2-Clause
"""The workload's own metrics: run.json's workload.metrics, taken from its tables and phases.

workloads/catalog/README.md defines their keys. Older runs state none. Broken entries give no figure.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from analysis.measures.app.phases import PhaseRow
from analysis.measures.sweep.figure import METRIC, Figure
from analysis.rundir.run import Run, clean, dig
from analysis.tables.result import Figures, Value

MOST_METRICS = 200  # entries of run.json that are read
MOST_FIGURES = 2_000
_NAME_LETTERS, _UNIT_LETTERS = 120, 20


def workload_metrics(run: Run, tables: Figures | None, phases: Sequence[PhaseRow]) -> list[Figure]:
    """The figures, the headline first; each name once."""
    stated = dig(run.facts, "workload", "metrics")
    figures: dict[str, Figure] = {}
    for metric in stated[:MOST_METRICS] if isinstance(stated, list) else []:
        if not isinstance(metric, Mapping):
            continue
        for name, value in _values(metric, tables, phases):
            if name and name not in figures and len(figures) < MOST_FIGURES and math.isfinite(value):
                figures[name] = Figure(
                    name, _text(metric, "unit", _UNIT_LETTERS), value, METRIC, _better(metric), not figures
                )
    return list(figures.values())


def _values(
    metric: Mapping[str, Any], tables: Figures | None, phases: Sequence[PhaseRow]
) -> list[tuple[str, float]]:
    """Names and values of one metric."""
    name = _text(metric, "name", _NAME_LETTERS)
    if isinstance(metric.get("phase"), str):
        phase = next((one for one in phases if one.name == metric["phase"]), None)
        value = _of_phase(phase, metric.get("value")) if phase is not None else None
        return [] if value is None else [(name, value)]
    rows = tables.tables.get(str(metric.get("table")), []) if tables else []
    where = metric.get("where")
    where = where if isinstance(where, Mapping) else {}
    columns, each = _texts(metric.get("column")), _texts(metric.get("each"))
    values: dict[str, list[float]] = {}
    for row in rows:
        if any(str(row.get(column)) != str(wanted) for column, wanted in where.items()):
            continue
        value = _sum(row, columns, metric.get("zero_is_absent") is True)
        if value is None or any(column not in row for column in each):
            continue
        named = name
        for column in each:
            named = named.replace(f"{{{column}}}", clean(row[column], 60))
        values.setdefault(named[: 2 * _NAME_LETTERS], []).append(value)
    return [(named, found[0]) for named, found in values.items() if len(found) == 1]


def _of_phase(row: PhaseRow, value: object) -> float | None:
    if value == "seconds":
        return row.elapsed_s
    if value == "ops_per_s":
        return row.rate(float(row.ops))
    return row.own_mb_s.value if value == "own_mb_s" and row.own_mb_s is not None else None


def _sum(row: Mapping[str, Value], columns: Sequence[str], zero_is_absent: bool) -> float | None:
    """Sum of the row's columns; None: one of them is no number, or stands for "not measured"."""
    total = 0.0
    for column in columns:
        value = row.get(column)
        if not isinstance(value, (int, float)) or (zero_is_absent and value == 0):
            return None
        total += value
    return total if columns else None


def _text(metric: Mapping[str, Any], key: str, letters: int) -> str:
    value = metric.get(key)
    return clean(value, letters) if isinstance(value, str) else ""


def _texts(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    return [text for text in value[:32] if isinstance(text, str)] if isinstance(value, list) else []


def _better(metric: Mapping[str, Any]) -> str:
    return metric["better"] if metric.get("better") in ("higher", "lower") else ""
