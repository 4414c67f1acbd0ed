# SPDX-License-Identifier: BSD-2-Clause
"""Requests by operation, class, reason and owner: counts, bytes, times and seeks of each fine time bin."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analysis.measures.block import seeks
from analysis.page import request_bins as binned
from analysis.page.columns import Column
from analysis.page.data import Asked, Content, Cube, Entries, Part, Ratio, Value
from analysis.page.request_bins import Sums
from analysis.page.requests import Requests, asked_of_volumes, disks_of
from analysis.page.static import mark_of

SHARE = 0.25  # of the page's bytes
BIOS_SHARE = 0.1  # of the same, for the file system's view
DEFINITION = (
    "requests that were issued in the window. timed: those whose queue, issue and completion are known and in"
    " order; Q2C, Q2D and D2C are of these. " + seeks.DEFINITION
)
BIOS_DEFINITION = (
    "bios that the file system submitted to its volumes in the window. timed: those whose end was seen; Q2C"
    " is of these."
)
Values = Callable[[slice], npt.NDArray[np.signedinteger]]


@dataclass(frozen=True)
class _Figure:
    """One value of the cube, of a slice of the requests."""

    value: Value
    of: Values


def _ones(requests: Requests) -> Values:
    ones = np.ones(1, dtype=np.int8)
    return lambda at: np.broadcast_to(ones, (at.stop - at.start,))


def _figures(requests: Requests) -> list[_Figure]:
    """The values that the run has."""
    block = requests.block
    figures = [
        _Figure(Value("requests", "count"), _ones(requests)),
        _Figure(Value("bytes", "bytes"), lambda at: block.bytes[at]),
        _Figure(Value("timed", "count"), lambda at: block.timed[at].view(np.int8)),
    ]
    if not requests.is_bios:
        figures.append(_Figure(Value("seeks", "count"), lambda at: requests.is_seek[at].view(np.int8)))
    if requests.has_queue:
        figures.append(_Figure(Value("Q2C", "ns"), requests.q2c_ns))
    if requests.has_queue and not requests.is_bios:
        figures.append(_Figure(Value("Q2D", "ns"), requests.q2d_ns))
    if not requests.is_bios:
        figures.append(_Figure(Value("D2C", "ns"), requests.d2c_ns))
    return figures


def _ratios(values: list[Value]) -> list[Ratio]:
    """Rates and means of the values."""
    at = {value.name: i for i, value in enumerate(values)}
    ratios = [Ratio(f"{name}/s", f"{unit}/s", at[name], None) for name, unit in _RATES if name in at]
    means = [
        Ratio(f"mean {name}", "ns", at[name], at["timed"]) for name in ("Q2C", "Q2D", "D2C") if name in at
    ]
    return [*ratios, *means]


_RATES = (("requests", "count"), ("bytes", "bytes"), ("seeks", "count"))


def request_cube(asked: Asked, requests: Requests, share: float) -> tuple[Cube, list[str]]:
    """The cube of these requests, and what it leaves out."""
    rows = requests.block.rows
    figures, left_out = [], []
    for figure in _figures(requests):
        if binned.is_exact(rows, figure.of):
            figures.append(figure)
        else:
            left_out.append(
                f"{figure.value.name} of requests: their sum is beyond 2^53, which a page cannot hold"
            )
    keys = requests.keys
    grid = binned.make_grid(asked.start_ns, asked.end_ns, asked.budget.most_bins)
    sums = binned.sum_up(
        grid,
        requests.block.issue_ns,
        requests.zero_ns,
        keys.codes,
        keys.count,
        [figure.of for figure in figures],
    ).fit(int(asked.budget.bytes * share))
    if keys.folded:
        left_out.append(
            f"{keys.folded:,} combinations of class, why and owner of few requests are one, others"
        )
    if requests.outside:
        what = "bios" if requests.is_bios else "requests"
        left_out.append(f"{requests.outside:,} {what} that were issued outside of the time shown")
    values = [figure.value for figure in figures]
    cube = Cube(
        key="bios" if requests.is_bios else "requests",
        order=110 if requests.is_bios else 100,
        title="Bios to volumes, by class and origin" if requests.is_bios else "Requests, by class and origin",
        definition=BIOS_DEFINITION if requests.is_bios else DEFINITION,
        edges=sums.grid.edges(),
        labels=keys.labels,
        values=values,
        entries=sums.entries(),
        ratios=_ratios(values),
        sort=next((i for i, value in enumerate(values) if value.name == "bytes"), 0),
        mark=mark_of(asked, "block"),
        bin_text=bin_text(sums),
    )
    return cube, left_out


def bin_text(sums: Sums) -> str:
    """How long the bins are that a window snaps to."""
    return f"bins of {sums.grid.width_ns / 1e6:g} ms"


def empty_cube(key: str, order: int, title: str, why: str) -> Cube:
    """A cube without data, and why."""
    none = Column(np.zeros(0, dtype=np.int64))
    return Cube(key, order, title, "", none, (), (), Entries(none, none, ()), why=why)


def make(asked: Asked) -> Content:
    """The cube of the disks' requests and, on volumes, the one of the file system's bios."""
    cubes, left_out = [], []
    disks, bios = disks_of(asked), asked_of_volumes(asked)
    if disks is None or not disks.block.rows:
        why = asked.source.run.off("block") or "no requests were recorded"
        cubes.append(empty_cube("requests", 100, "Requests, by class and origin", why))
    for requests, share in ((disks, SHARE), (bios, BIOS_SHARE)):
        if requests is not None and requests.block.rows:
            cube, texts = request_cube(asked, requests, share)
            cubes.append(cube)
            left_out += texts
    return Content(cubes=cubes, left_out=left_out)


PART = Part("requests", 100, make)
