# SPDX-License-Identifier: BSD-2-Clause
"""Cumulative distributions: request latency by operation, seek distance and request size by class.

The lines go through exact quantiles of all requests, which are dense towards the largest values. Seaborn is
imported inside functions, as that takes longer than drawing, and 100 MB; so the output is forked.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import ModuleType

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.figures import save, style
from analysis.measures.block.distribution import SHARES, Quantiles
from analysis.measures.results import Results
from analysis.render.output import Drawing, Made, Output, RunSource

DPI = 110
CAPTION = "Cumulative distributions: request latency by operation, seek distance and request size by class"
DECIMAL = {1: "B", 10**3: "kB", 10**6: "MB", 10**9: "GB", 10**12: "TB"}
TIMES = {1: "ns", 10**3: "µs", 10**6: "ms", 10**9: "s"}
# Seaborn draws lines without them, and their import takes as long as the rest of seaborn's.
NOT_NEEDED = ("scipy.stats", "scipy.cluster")


def _seaborn() -> ModuleType:
    """Import seaborn without NOT_NEEDED."""
    absent = [name for name in NOT_NEEDED if name not in sys.modules]
    sys.modules.update(dict.fromkeys(absent))  # type: ignore[arg-type]  # None: the import fails
    try:
        import seaborn
    finally:
        for name in absent:
            del sys.modules[name]
    return seaborn


def _draw(axes: Axes, lines: Mapping[str, Quantiles], title: str, units: dict[int, str]) -> None:
    """One panel, a line per operation or class."""
    import pandas as pd

    sns = _seaborn()
    axes.set_title(title)
    axes.set_ylim(0, 101)
    if not lines:
        axes.set_xticks([])
        axes.text(0.5, 0.5, "none", transform=axes.transAxes, ha="center", color=style.QUIET)
        return
    colors = {**style.CLASS, **style.OP, "flush": style.OTHER_OPS}
    labels = {name: f"{name} ({quantiles.requests:,})" for name, quantiles in lines.items()}
    frame = pd.concat(
        pd.DataFrame({"value": quantiles.values, "share_pct": SHARES * 100, "label": labels[name]})
        for name, quantiles in lines.items()
    )
    sns.lineplot(
        data=frame, x="value", y="share_pct", hue="label", style="label", estimator=None, sort=False,
        linewidth=1.8,
        palette={label: colors[name] for name, label in labels.items()}, ax=axes,
    )  # fmt: skip
    axes.set_xlabel("")
    axes.set_ylabel("")
    axes.set_xscale("log")
    axes.grid(visible=True)
    axes.xaxis.set_major_formatter(lambda value, _: _unit(value, units))
    axes.legend(title=None, loc="upper left", bbox_to_anchor=(0, -0.12))


def _unit(value: float, units: dict[int, str]) -> str:
    """A tick label: the value in the largest unit that fits."""
    size = max((size for size in units if value >= size), default=1)
    return f"{value / size:g} {units[size]}"


def render(results: Results) -> tuple[bytes, bytes] | None:
    """The picture as PNG and as SVG; None for a run without requests."""
    if results.block is None or not results.device_totals:
        return None
    sns = _seaborn()
    with style.applied(), sns.axes_style(None, style.RC):
        figure = Figure(figsize=(11.6, 4.1))
        figure.subplots_adjust(left=0.055, right=0.985, top=0.93, bottom=0.28, wspace=0.06)
        latency, distance, size = figure.subplots(1, 3, sharey=True)
        _draw(
            latency,
            results.block.distributions.latency,
            "Request latency (Q2C)",
            TIMES,
        )
        _draw(distance, results.block.distributions.distance, "Seek distance", DECIMAL)
        _draw(size, results.block.distributions.size, "Request size", DECIMAL)
        latency.set_ylabel("requests with at most this value, %")
        return save.png(figure, DPI), save.svg(figure)


def make(source: RunSource) -> Made:
    """The distributions of the workload's requests; nothing for a run without requests."""
    pictures = render(source.results)
    if pictures is None:
        return Made()
    png, svg = pictures
    return Made({"distributions.png": png}, [Drawing(CAPTION, svg)])


OUTPUT = Output("distributions", 20, ("distributions.png",), make, forked=True)
