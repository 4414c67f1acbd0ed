# SPDX-License-Identifier: BSD-2-Clause
"""Throughput: bytes per second of the device, stacked by class, and of the application, a line."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator

from analysis.figures import style
from analysis.figures.axes import Handle, legend_line, number
from analysis.figures.panel import Graph, Panel, no_requests
from analysis.measures.app.unseen import AT_LEAST
from analysis.measures.common.timeline import F64
from analysis.measures.results import Results
from analysis.tables.block import CLASSES

READS_SHOWN = 0.002  # reads lower than this share of the writes are not drawn below the axis
SIGN = {"write": 1.0, "read": -1.0}  # writes up, reads down
APPLICATION_AT_LEAST = f"application ({AT_LEAST})"
APPLICATION_BOUND = f"{APPLICATION_AT_LEAST}: a lower bound, some of its bytes are not counted."


def _title(graph: Graph) -> str:
    write, read = _heights(graph.results)
    directions = "writes up, reads down" if read > READS_SHOWN * write else "writes"
    return f"Throughput, MB/s (10⁶ bytes): {directions if write or read else 'none'}"


def _device_mb_s(results: Results) -> dict[str, dict[str, F64]]:
    """By operation and class."""
    return results.block.throughput.mb_s if results.block is not None else {}


def _heights(results: Results) -> tuple[float, float]:
    """The highest MB/s of writes and of reads, of the device or the application."""
    highest = []
    for op in SIGN:
        device = sum(_device_mb_s(results).get(op, {}).values(), np.zeros(results.timeline.bins))
        application = results.app.mb_s[op] if results.app.mb_s is not None else device
        highest.append(max(float(device.max(initial=0.0)), float(application.max(initial=0.0))))
    return highest[0], highest[1]


def _empty(graph: Graph) -> str:
    return no_requests(graph) if graph.results.app.mb_s is None else ""


def _draw(ax: Axes, graph: Graph) -> list[Handle]:
    results = graph.results
    own = results.owners.own_mb_s if results.owners is not None and results.owners.is_shared else {}
    used: set[str] = set()
    for op, sign in SIGN.items():
        used |= _draw_device(ax, results, op)
        if results.app.mb_s is not None:
            _draw_line(ax, results, sign * results.app.mb_s[op], style.APPLICATION, 1.1, 2.6)
    for op, sign in SIGN.items():
        if op in own:
            _draw_line(ax, results, sign * own[op], style.OWN, 1.2, 2.2, style.DASHED)
    _scale(ax, *_heights(results))
    handles: list[Handle] = [_application_entry(results)]
    device = "disks" if graph.all_disks else "device"
    handles += [_class_entry(c, f"{device}, {c}") for c in CLASSES if c in used]
    if own:
        handles.append(legend_line(style.OWN, f"{device}, workload's", 1.2, style.DASHED))
    return handles


def _draw_device(ax: Axes, results: Results, op: str) -> set[str]:
    """The device's bytes of one operation, stacked by class; returns the classes that have any."""
    edges, sign = results.timeline.edges_s, SIGN[op]
    used = set()
    base = np.zeros(results.timeline.bins)
    for class_ in CLASSES:
        values = _device_mb_s(results).get(op, {}).get(class_)
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


def _draw_line(
    ax: Axes, results: Results, values: F64, color: str, width: float, halo: float, dash: style.Dash = "-"
) -> None:
    """A line with a white halo, which keeps it apart from the areas below."""
    edges = results.timeline.edges_s
    ax.stairs(values, edges, baseline=None, color="white", lw=halo, alpha=0.7)
    ax.stairs(values, edges, baseline=None, color=color, lw=width, ls=dash)


def _scale(ax: Axes, top: float, bottom: float) -> None:
    """One scale for both directions; without reads worth showing it begins at 0."""
    span = max(top, bottom)
    reads = bottom > READS_SHOWN * top
    ax.set_ylim(-bottom * 1.08 if reads else 0, max(top * 1.08, span * 0.05 if span else 1))
    ax.yaxis.set_major_locator(MaxNLocator(nbins=5, steps=[1, 2, 2.5, 5, 10]))
    ax.yaxis.set_major_formatter(FuncFormatter(number))
    if reads:
        ax.axhline(0, color="#555555", lw=0.8)


def _class_entry(class_: str, label: str) -> Patch:
    color = style.CLASS[class_]
    if class_ not in style.HATCH:
        return Patch(color=color, label=label)
    ink, hatch = style.HATCH_INK[class_], style.HATCH[class_]
    return Patch(facecolor=color, edgecolor=ink, hatch=hatch, lw=0, label=label)


def _application_entry(results: Results) -> Handle:
    if results.app.mb_s is None:
        return legend_line("none", "application: not recorded")
    return legend_line(style.APPLICATION, APPLICATION_AT_LEAST if results.app.uncounted else "application")


PANEL = Panel(
    key="throughput",
    order=30,
    height_in=1.45,
    collectors=("block", "calls"),
    needs=lambda results: results.block if results.block is not None else results.app.mb_s,
    title=_title,
    draw=_draw,
    empty=_empty,
    compared_height_in=1.45,
    per_second=True,
)
