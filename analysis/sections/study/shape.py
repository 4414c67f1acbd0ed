# SPDX-License-Identifier: BSD-2-Clause
"""What a module of shapes/ states: SHAPE, which turns the cells of a table into a section of the report.

A new shape is one module with SHAPE and a test; no list names it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache

from analysis.discovery import find_parts
from analysis.measures.study.cells import Cells
from analysis.measures.study.published import Needs
from analysis.measures.study.results import StudyResults
from analysis.render.document import Section
from analysis.sections.study import shapes as folder


@dataclass(frozen=True)
class Shape:
    """One shape. key: `shape` of the TOML. build: the section of one table."""

    key: str
    order: int  # unique; as the README lists them
    build: Callable[[Cells, StudyResults], Section]
    needs: Needs = field(default_factory=Needs)


@cache
def find_shapes() -> Mapping[str, Shape]:
    """All shapes by name."""
    return {shape.key: shape for shape in find_parts(folder, "SHAPE", Shape)}


def needs() -> dict[str, Needs]:
    """What each shape takes, for measure_study()."""
    return {key: shape.needs for key, shape in find_shapes().items()}
