# SPDX-License-Identifier: BSD-2-Clause
"""Panels of the page that ask what a panel of the static IO graph asks: the same title, order and mark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from analysis.figures import panel as static
from analysis.page.data import Asked, Panel, Series
from analysis.visible import clean


def as_static(
    of: static.Panel,
    asked: Asked,
    unit: str,
    kind: Literal["lines", "stacked"],
    series: Sequence[Series],
    height_px: int = 110,
) -> list[Panel]:
    """The panel with these series, or the reason why not; none where the static graph leaves it out."""
    graph = static.Graph(asked.source.run, asked.source.results)
    if not of.height(graph):
        return []
    why = of.why_empty(graph)
    return [
        Panel(
            key=of.key,
            order=of.order,
            title=clean(of.title(graph)),
            unit=unit,
            kind=kind,
            series=() if why else series,
            height_px=height_px,
            mark=of.mark(asked.source.run),
            why=clean(why) or ("" if series else "none"),
        )
    ]


def mark_of(asked: Asked, *collectors: str) -> str:
    """ " *" if one of the collectors lost enough to be marked."""
    return " *" if any(asked.source.run.lossy(collector) for collector in collectors) else ""
