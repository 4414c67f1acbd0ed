# SPDX-License-Identifier: BSD-2-Clause
"""Bytes per second stacked by class, and lines over them: of the disks, and of the volume above them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator

from analysis.figures import style
from analysis.figures.axes import Handle, legend_line, number
from analysis.measures.app.unseen import AT_LEAST
from analysis.measures.common.timeline import F64
from analysis.measures.results import Results
from analysis.tables.block import CLASSES

READS_SHOWN = 0.002  # reads lower than this share of the writes are not drawn below the axis
SIGN = {"write": 1.0, "read": -1.0}  # writes up, reads down
APPLICATION_AT_LEAST = f"application ({AT_LEAST})"
Series = Mapping[str, Mapping[str, F64]]  # by operation and class


def directions(results: Results, asked: bool = False) -> str:
    """What is drawn, for titles. asked: as of heights()."""
    write, read = heights(results, asked)
    both = "writes up, reads down" if read > READS_SHOWN * write else "writes"
    return both if write or read else "none"


def asked_mb_s(results: Results) -> Series:
    """MB/s that the file system asked for: of its bios to volumes, else of the disks' requests."""
    return results.block.throughput.mb_s if results.block is not None else {}


def disks_mb_s(results: Results) -> Series:
    """MB/s of the disks."""
    return results.below.mb_s if results.below is not None else asked_mb_s(results)


def own_mb_s(results: Results) -> Mapping[str, F64]:
    """MB/s of the workload's part of asked_mb_s(), by operation; empty if all of it is the workload's."""
    owners = results.shared_owners
    return owners.own_mb_s if owners is not None else {}


def total(series: Series, op: str, results: Results) -> F64:
    """MB/s of all classes."""
    return np.asarray(sum(series.get(op, {}).values(), np.zeros(results.timeline.bins)))


def heights(results: Results, asked: bool = False) -> tuple[float, float]:
    """The highest MB/s of writes and of reads, of the disks, the volume or the application.

    asked: not of the disks below a volume.
    """
    highest = []
    for op in SIGN:
        lines = [total(asked_mb_s(results), op, results)]
        if not asked:
            lines.append(total(disks_mb_s(results), op, results))
        if results.app.mb_s is not None:
            lines.append(results.app.mb_s[op])
        highest.append(max(float(line.max(initial=0.0)) for line in lines))
    return highest[0], highest[1]


def draw_classes(ax: Axes, results: Results, series: Series, op: str) -> set[str]:
    """Stack the bytes of one operation by class; returns the classes that have any."""
    edges, sign = results.timeline.edges_s, SIGN[op]
    used = set()
    base = np.zeros(results.timeline.bins)
    for class_ in CLASSES:
        values = series.get(op, {}).get(class_)
        if values is None or not values.any():
            continue
        color, low = style.CLASS[class_], sign * base
        ax.stairs(sign * (base + values), edges, baseline=low, fill=True, color=color, lw=0)
        if class_ in style.HATCH:
            ax.stairs(
                sign * (base + values),
                edges,
                baseline=low,
                fill=True,
                facecolor="none",
                edgecolor=style.HATCH_INK[class_],
                hatch=style.HATCH[class_],
                lw=0,
            )
        base = base + values
        used.add(class_)
    return used


def class_entries(used: set[str], of: str) -> list[Handle]:
    """The legend's entries of these classes. of: what the bytes are of."""
    entries: list[Handle] = []
    for class_ in (class_ for class_ in CLASSES if class_ in used):
        color, label = style.CLASS[class_], f"{of}, {class_}"
        if class_ in style.HATCH:
            ink, hatch = style.HATCH_INK[class_], style.HATCH[class_]
            entries.append(Patch(facecolor=color, edgecolor=ink, hatch=hatch, lw=0, label=label))
        else:
            entries.append(Patch(color=color, label=label))
    return entries


def draw_line(
    ax: Axes, results: Results, values: F64, color: str, width: float, halo: float, dash: style.Dash = "-"
) -> None:
    """A line with a white halo, which keeps it apart from the areas below."""
    edges = results.timeline.edges_s
    ax.stairs(values, edges, baseline=None, color="white", lw=halo, alpha=0.7)
    ax.stairs(values, edges, baseline=None, color=color, lw=width, ls=dash)


def draw_own(ax: Axes, results: Results, of: str) -> list[Handle]:
    """Lines of the workload's part, where others use the device too; returns their entry in the legend."""
    own = own_mb_s(results)
    for op, sign in SIGN.items():
        if op in own:
            draw_line(ax, results, sign * own[op], style.OWN, 1.2, 2.2, style.DASHED)
    return [legend_line(style.OWN, f"{of}, workload's", 1.2, style.DASHED)] if own else []


def draw_application(ax: Axes, results: Results, op: str) -> None:
    """The line of the application's bytes, where calls were recorded."""
    if results.app.mb_s is not None:
        draw_line(ax, results, SIGN[op] * results.app.mb_s[op], style.APPLICATION, 1.1, 2.6)


def application_entry(results: Results) -> Handle:
    """The legend's entry of that line."""
    if results.app.mb_s is None:
        return legend_line("none", "application: not recorded")
    return legend_line(style.APPLICATION, APPLICATION_AT_LEAST if results.app.uncounted else "application")


def scale(ax: Axes, top: float, bottom: float) -> None:
    """One scale for both directions; without reads worth showing it begins at 0."""
    span = max(top, bottom)
    reads = bottom > READS_SHOWN * top
    ax.set_ylim(-bottom * 1.08 if reads else 0, max(top * 1.08, span * 0.05 if span else 1))
    ax.yaxis.set_major_locator(MaxNLocator(nbins=5, steps=[1, 2, 2.5, 5, 10]))
    ax.yaxis.set_major_formatter(FuncFormatter(number))
    if reads:
        ax.axhline(0, color="#555555", lw=0.8)
