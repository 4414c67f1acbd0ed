# SPDX-License-Identifier: BSD-2-Clause
"""Panels of the disks' requests: bytes by class, requests and seeks per second, of the cube of requests."""

from __future__ import annotations

from collections.abc import Mapping

from analysis.figures import panel as static
from analysis.figures import style
from analysis.figures.panels import request_rates
from analysis.measures.block.throughput import OPS
from analysis.page.data import Asked, Content, Cube, FromCube, Panel, Part, Series
from analysis.page.labels import words_of
from analysis.page.series import line
from analysis.page.static import as_static, mark_of
from analysis.tables.block import CLASSES

MB = 1e-6
WORDS = {"write": "Writes", "read": "Reads"}


def _cube(asked: Asked, key: str) -> Cube | None:
    """A cube of the modules before; None: it is not there, or empty."""
    return next((cube for cube in asked.cubes if cube.key == key and not cube.why), None)


def _values(cube: Cube) -> Mapping[str, int]:
    return {value.name: number for number, value in enumerate(cube.values)}


def _keys(cube: Cube, **wanted: str) -> list[int]:
    """The keys whose labels have these words."""
    words = {label.name: words_of(label) for label in cube.labels}
    keys = range(cube.labels[0].codes.count)
    return [key for key in keys if all(words[name][key] == word for name, word in wanted.items())]


def _throughput(asked: Asked, cube: Cube, op: str, order: int, of: str) -> Panel | None:
    """MB/s of one operation, by class. None: there is nothing of it."""
    at = _values(cube).get("bytes")
    if at is None:
        return None
    series = [
        line(
            class_,
            style.CLASS[class_],
            FromCube(cube.key, at, keys, None, MB),
            hatch=style.HATCH.get(class_, ""),
        )
        for class_ in CLASSES
        if (keys := _keys(cube, op=op, **{"class": class_}))
    ]
    if not series:
        return None
    graph = static.Graph(asked.source.run, asked.source.results)
    owners = asked.source.results.owners
    shared = ", all programs" if owners is not None and owners.is_shared else ""
    return Panel(
        key=f"{cube.key}_{op}",
        order=order,
        title=f"{WORDS[op]} of {of or graph.disks}, MB/s (10⁶ bytes), by class and time of issue{shared}",
        unit="MB/s",
        kind="stacked",
        series=series,
        mark=mark_of(asked, "block"),
    )


def _rates(asked: Asked, cube: Cube | None) -> list[Panel]:
    """Requests per second by operation, and seeks."""
    series: list[Series] = []
    if cube is not None:
        at = _values(cube)
        if "seeks" in at:
            series.append(line("seeks", style.OWN_SEEKS, FromCube(cube.key, at["seeks"])))
        series += [
            line(op, style.OP[op], FromCube(cube.key, at["requests"], keys), style.OP_DASH[op])
            for op in OPS
            if (keys := _keys(cube, op=op))
        ]
        moved = {key for op in OPS for key in _keys(cube, op=op)}
        others = [key for key in range(cube.labels[0].codes.count) if key not in moved]
        if others:
            ops = words_of(next(label for label in cube.labels if label.name == "op"))
            name = ", ".join(dict.fromkeys(ops[key] for key in others))
            series.append(
                line(name, style.OTHER_OPS, FromCube(cube.key, at["requests"], others), style.DASHED)
            )
    return as_static(request_rates.PANEL, asked, "1/s", "lines", series)


def make(asked: Asked) -> Content:
    """The panels; without requests that of rates, with the reason."""
    disks, volumes = _cube(asked, "requests"), _cube(asked, "bios")
    below = asked.source.results.below
    panels = _rates(asked, disks)
    wanted = [(volumes, 28, below.volume if below is not None else "the volume"), (disks, 30, "")]
    for cube, order, of in wanted:
        for number, op in enumerate(WORDS):
            panel = _throughput(asked, cube, op, order + number, of) if cube is not None else None
            panels += [panel] if panel is not None else []
    return Content(panels=panels)


PART = Part("device", 400, make)
