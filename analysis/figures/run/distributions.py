# SPDX-License-Identifier: BSD-2-Clause
"""How fast, how far, how big: the distributions behind the percentiles, as small multiples.

Latency from queue to completion by operation, seek distance and request size by class, each as the share of
requests at most so slow, far, big. A line is drawn through exact quantiles of all requests (none is left out
or sampled), close together towards the slow end, where it matters. Seaborn is imported where something is
drawn: that takes longer than drawing, and 100 MB; the report does both in a process beside its own.
"""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.figures import save, style
from analysis.measures.block.distribution import SHARES, Quantiles
from analysis.measures.results import Results
from analysis.render.output import Drawing, Made, Output, RunSource

DPI = 110
CAPTION = "Distributions of request latency by operation, of seek distance and of request size by class"
DECIMAL = {1: "B", 10**3: "kB", 10**6: "MB", 10**9: "GB", 10**12: "TB"}
TIMES = {1: "ns", 10**3: "µs", 10**6: "ms", 10**9: "s"}


def _draw(axes: Axes, found: Mapping[str, Quantiles], title: str, units: dict[int, str]) -> None:
    import pandas as pd
    import seaborn as sns

    axes.set_title(title)
    axes.set_ylim(0, 101)
    if not found:
        axes.set_xticks([])
        axes.text(0.5, 0.5, "none", transform=axes.transAxes, ha="center", color=style.QUIET)
        return
    colours = {**style.CLASS, **style.OP, "flush": style.OTHER_OPS}
    labels = {name: f"{name} ({one.requests:,})" for name, one in found.items()}
    frame = pd.concat(
        pd.DataFrame({"value": one.values, "share_pct": SHARES * 100, "of": labels[name]})
        for name, one in found.items()
    )
    sns.lineplot(
        data=frame, x="value", y="share_pct", hue="of", style="of", estimator=None, sort=False, linewidth=1.8,
        palette={label: colours[name] for name, label in labels.items()}, ax=axes,
    )  # fmt: skip
    axes.set_xlabel("")
    axes.set_ylabel("")
    axes.set_xscale("log")
    axes.grid(visible=True)
    axes.xaxis.set_major_formatter(lambda value, _: _unit(value, units))
    axes.legend(title=None, loc="upper left", bbox_to_anchor=(0, -0.12))


def _unit(value: float, units: dict[int, str]) -> str:
    size = max((size for size in units if value >= size), default=1)
    return f"{value / size:g} {units[size]}"


def render(results: Results) -> tuple[bytes, bytes] | None:
    """The picture as PNG and as SVG; None without a request."""
    if results.block is None or not results.device_totals:
        return None
    import seaborn as sns

    with style.applied(), sns.axes_style(None, style.RC):
        figure = Figure(figsize=(11.6, 4.1))
        figure.subplots_adjust(left=0.055, right=0.985, top=0.93, bottom=0.28, wspace=0.06)
        latency, distance, size = figure.subplots(1, 3, sharey=True)
        _draw(latency, results.block.distributions.latency, "Latency, queued to completed", TIMES)
        _draw(distance, results.block.distributions.distance, "Seek distance", DECIMAL)
        _draw(size, results.block.distributions.size, "Request size", DECIMAL)
        latency.set_ylabel("share of requests at most that, %")
        return save.png(figure, DPI), save.svg(figure)


def make(source: RunSource) -> Made:
    """The distributions of the workload's requests; nothing for a run without requests."""
    pictures = render(source.results)
    if pictures is None:
        return Made()
    png, svg = pictures
    return Made({"distributions.png": png}, [Drawing(CAPTION, svg)])


OUTPUT = Output("distributions", 20, ("distributions.png",), make, forked=True)
