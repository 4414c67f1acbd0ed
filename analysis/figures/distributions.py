# SPDX-License-Identifier: BSD-2-Clause
"""How fast, how far, how big: the distributions behind the percentiles, as small multiples.

Latency from queue to completion by operation, seek distance and request size by class, each as the share of
requests at most so slow, far, big. A line is drawn through exact quantiles of all requests (none is left out
or sampled), close together towards the slow end, where it matters.
"""

from __future__ import annotations

import io
from collections.abc import Iterator

import matplotlib as mpl
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.figures import style
from analysis.measures.measured import Measured
from analysis.measures.timeline import F64
from analysis.tables.block import SECTOR_BYTES, Block
from analysis.tables.load import Tables
from analysis.tables.store import Ints

# Shares of the requests: even steps, then finer and finer ones towards all of them.
SHARES: F64 = np.unique(
    np.concatenate([np.linspace(0, 0.99, 100), 1 - np.logspace(-2, -5, 31), np.array([1.0])])
)
DPI = 110
DECIMAL = {1: "B", 10**3: "kB", 10**6: "MB", 10**9: "GB", 10**12: "TB"}
TIMES = {1: "ns", 10**3: "µs", 10**6: "ms", 10**9: "s"}


def _quantiles(values: Ints, label: str, of: str) -> pd.DataFrame:
    found = np.quantile(values, SHARES, method="inverted_cdf")
    return pd.DataFrame(
        {"value": found, "share_pct": SHARES * 100, of: f"{label} ({values.size:,})", "key": label}
    )


def _latencies(block: Block) -> Iterator[pd.DataFrame]:
    latency = block.complete_ns - block.queue_ns
    for op in ("read", "write", "flush"):
        rows = block.op.is_(op) & block.timed
        if rows.any():
            yield _quantiles(latency[rows], op, "operation")


def _distances(block: Block, m: Measured) -> Iterator[pd.DataFrame]:
    if m.moves is None:
        return
    seeks = m.moves.is_seek
    rows = m.moves.rows[seeks]
    distance = np.abs(m.moves.distance_sectors[seeks]) * SECTOR_BYTES
    for name in style.CLASS:
        among = block.class_.is_(name)[rows]
        if among.any():
            yield _quantiles(distance[among], name, "class")


def _sizes(block: Block) -> Iterator[pd.DataFrame]:
    for name in style.CLASS:
        rows = block.class_.is_(name) & block.moves_data
        if rows.any():
            yield _quantiles(block.bytes[rows], name, "class")


def _draw(axes: Axes, parts: Iterator[pd.DataFrame], hue: str, title: str, units: dict[int, str]) -> None:
    frames = list(parts)
    axes.set_title(title)
    axes.set_ylim(0, 101)
    axes.set_ylabel("")
    axes.set_xlabel("")
    if not frames:
        axes.set_xticks([])
        axes.text(0.5, 0.5, "none", transform=axes.transAxes, ha="center", color=style.QUIET)
        return
    frame = pd.concat(frames, ignore_index=True)
    colours = {**style.CLASS, **style.OP, "flush": style.OTHER_OPS}
    palette = {label: colours[key] for label, key in zip(frame[hue], frame["key"], strict=True)}
    sns.lineplot(
        data=frame, x="value", y="share_pct", hue=hue, style=hue, palette=palette, estimator=None, sort=False,
        linewidth=1.8, ax=axes,
    )  # fmt: skip
    axes.set_xscale("log")
    axes.set_ylabel("")
    axes.set_xlabel("")
    axes.grid(visible=True)
    axes.xaxis.set_major_formatter(lambda value, _: _unit(value, units))
    axes.legend(title=None, loc="upper left", bbox_to_anchor=(0, -0.12))


def _unit(value: float, units: dict[int, str]) -> str:
    size = max((size for size in units if value >= size), default=1)
    return f"{value / size:g} {units[size]}"


def render(tables: Tables, m: Measured) -> tuple[bytes, bytes] | None:
    """The picture as PNG and as SVG; None without a block table."""
    if tables.block is None or not tables.block.rows:
        return None
    with mpl.rc_context(style.RC), sns.axes_style(None, style.RC):  # type: ignore[arg-type]
        figure = Figure(figsize=(11.6, 4.1))
        figure.subplots_adjust(left=0.055, right=0.985, top=0.93, bottom=0.28, wspace=0.06)
        latency, distance, size = figure.subplots(1, 3, sharey=True)
        _draw(latency, _latencies(tables.block), "operation", "Latency, queued to completed", TIMES)
        _draw(distance, _distances(tables.block, m), "class", "Seek distance", DECIMAL)
        _draw(size, _sizes(tables.block), "class", "Request size", DECIMAL)
        latency.set_ylabel("share of requests at most that, %")
        png, svg = io.BytesIO(), io.BytesIO()
        figure.savefig(png, format="png", dpi=DPI, metadata={"Software": "Seekmeter"})
        figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": "Seekmeter"})
    return png.getvalue(), svg.getvalue()
