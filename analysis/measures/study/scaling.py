# SPDX-License-Identifier: BSD-2-Clause
"""A subject's figures by the number on an axis (processes, CPUs), and where they stop to grow."""

from __future__ import annotations

from collections.abc import Mapping

from analysis.measures.statistics.differences import compare
from analysis.measures.study.cells import Cells, Measured, Row


def curve(table: Cells, row: Row, subject: str) -> dict[float, Measured]:
    """The subject's configurations by the number that the table's axis has in each, ascending."""
    points: dict[float, Measured] = {}
    for one in table.cell(row, subject).options:
        try:
            points[float(one.option)] = one
        except ValueError:
            continue  # the word left out: no number
    return dict(sorted(points.items()))


def saturation(points: Mapping[float, Measured]) -> float | None:
    """The smallest number whose mean does not differ from the best mean by the rule; None: single runs."""
    if not points:
        return None
    best = max(points.values(), key=lambda measured: measured.mean.value)
    for x, measured in points.items():
        difference = compare(measured.values, best.values)
        if difference is None or difference.rule is None:
            return None
        if not difference.rule:
            return x
    return None
