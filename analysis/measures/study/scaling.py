# SPDX-License-Identifier: BSD-2-Clause
"""A subject's figures by the number on an axis (processes, CPUs)."""

from __future__ import annotations

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
