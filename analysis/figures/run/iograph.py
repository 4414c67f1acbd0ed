# SPDX-License-Identifier: BSD-2-Clause
"""The IO graph: application, disk, queue, locks and memory, a panel each, on one time axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from analysis.figures import disk_panel, save, style
from analysis.figures.axes import say_empty
from analysis.figures.cut_mark import draw_cut
from analysis.figures.device_maps import DeviceMaps, device_label
from analysis.figures.disk_bands import DiskBands
from analysis.figures.disk_panel import DiskPanels
from analysis.figures.panel import Graph, Panel, find_panels
from analysis.figures.panels.throughput import APPLICATION_BOUND
from analysis.figures.phase_strip import draw_phases, make_strip
from analysis.figures.whole_disk import draw_whole_disk
from analysis.measures.device import by_time
from analysis.measures.results import Results
from analysis.render import titles
from analysis.render.output import Drawing, Made, Output, RunSource
from analysis.rundir import devices
from analysis.rundir.run import Run
from analysis.sections.owner_labels import totals
from analysis.tables.load import Tables

# inches
WIDTH_IN = 9.8
LEFT_IN = 0.85
RIGHT_IN = 2.1
PLOT_IN = WIDTH_IN - LEFT_IN - RIGHT_IN
TITLE_GAP_IN = 0.34  # above each panel
HEAD_IN = 0.78  # title and subtitle
BANNER_IN = 0.2
FOOT_IN = 1.05
LINE_IN = 0.1  # a further line of the foot

SUBTITLE_LETTERS = 120
BANNER_LETTERS = 114
BANNERS_SHOWN = 3
CAPTION = "IO graph: disk offset, throughput, rates, latency, queue depth, lock waits, dirty pages over time"


@dataclass(frozen=True)
class _Layout:
    """Heights in inches, from the top: head with banners, strip of phases, panels, foot."""

    panels_in: Sequence[float]
    banners: int
    strip_in: float
    foot_in: float

    @property
    def top_in(self) -> float:
        """The upper edge of the panels and their titles."""
        return HEAD_IN + BANNER_IN * self.banners + self.strip_in

    @property
    def height_in(self) -> float:
        """Height of the whole picture."""
        return self.top_in + sum(height_in + TITLE_GAP_IN for height_in in self.panels_in) + self.foot_in

    @property
    def left(self) -> float:
        """The panels' left edge, in figure coordinates."""
        return LEFT_IN / WIDTH_IN

    def y(self, y_in: float) -> float:
        """Inches from the top in figure coordinates."""
        return 1 - y_in / self.height_in

    def box(self, bottom_in: float, height_in: float) -> tuple[float, float, float, float]:
        """A box as wide as the panels, in figure coordinates. bottom_in: from the top."""
        return (self.left, self.y(bottom_in), PLOT_IN / WIDTH_IN, height_in / self.height_in)


def draw(
    run: Run,
    tables: Tables,
    results: Results,
    title: str,
    subtitle: str,
    banners: Sequence[str],
    by_volume: bool = False,
) -> Figure:
    """The whole graph. by_volume: disk maps of the file system's volumes instead of the disks below."""
    graph = _make_graph(run, tables, results, by_volume)
    panels = [panel for panel in find_panels() if panel.height(graph)]
    shown = _shown_banners(banners)
    phases = tables.phases
    strip = make_strip(phases, results, PLOT_IN) if phases is not None and phases.name else None
    layout = _Layout(
        panels_in=[panel.height(graph) for panel in panels],
        banners=len(shown),
        strip_in=strip.height_in + 0.08 if strip else 0.0,
        foot_in=FOOT_IN + LINE_IN * graph.has_bands + LINE_IN * bool(results.device.series),
    )
    figure = Figure(figsize=(WIDTH_IN, layout.height_in))
    FigureCanvasAgg(figure)
    _draw_head(figure, layout, title, subtitle, shown)
    axes = _draw_panels(figure, layout, panels, graph)
    _draw_time_axis(axes, results)
    in_time = [ax for ax in figure.axes if ax.get_shared_x_axes().joined(ax, axes[0])]
    if graph.disk is not None:
        word = "volume" if graph.map_of else "disk"
        draw_whole_disk(graph.disk, figure, axes[: len(disk_panel.OPS)], word)
    if strip is not None and phases is not None:
        box = layout.box(layout.top_in + 0.02, strip.height_in)
        draw_phases(figure, box, strip, phases, results, in_time)
    draw_cut(run, results, axes)
    foot, y = _foot(graph, panels), 0.1 / layout.height_in
    figure.text(layout.left, y, foot, fontsize=7.2, color=style.QUIET, va="bottom", linespacing=1.35)
    return figure


def _make_graph(run: Run, tables: Tables, results: Results, by_volume: bool) -> Graph:
    """What the panels draw: the results, and the disk maps, which are made of the tables' rows.

    by_volume: maps of the volumes that the file system uses; also without it if no disk is below these.
    """
    below = results.below
    table, what, map_of = tables.block, "disk", ""
    if below is not None and tables.top is not None and (by_volume or not below.has_requests):
        table, what, map_of = tables.top, "volume", f", on the {below.volume}"
    if table is None:
        return Graph(run, results)
    used = devices.with_requests(run, table)
    if len(used) > 1:
        labels = [device_label(device, tables.stack_of_run) for device in used]
        maps = DeviceMaps.make(table, used, labels, results, what)
        return Graph(run, results, devices=maps, plot_in=PLOT_IN)
    disk = DiskPanels.make(table, used, results)
    numbers = [device.number for device in used]
    bands = DiskBands.make(disk, numbers, results.geometry) if disk is not None else None
    return Graph(run, results, disk, bands, map_of=map_of, plot_in=PLOT_IN)


def _shown_banners(banners: Sequence[str]) -> list[str]:
    """The first banners, cut to the picture's width, and how many more there are."""
    cut = [
        banner if len(banner) <= BANNER_LETTERS else banner[: BANNER_LETTERS - 2] + "..."
        for banner in banners[:BANNERS_SHOWN]
    ]
    more = len(banners) - BANNERS_SHOWN
    return [*cut, f"and {more} more, see report.txt"] if more > 0 else cut


def _draw_head(figure: Figure, layout: _Layout, title: str, subtitle: str, banners: Sequence[str]) -> None:
    """Title, subtitle and banners."""
    left, y = layout.left, layout.y
    figure.text(left, y(0.3), title, fontsize=15, fontweight="bold", color=style.INK, va="center")
    figure.text(left, y(0.58), subtitle, fontsize=9.5, color=style.QUIET, va="center")
    for i, banner in enumerate(banners):
        text, at = f"! {banner}", y(0.8 + BANNER_IN * i)
        figure.text(left, at, text, fontsize=9, color=style.ALARM, fontweight="bold", va="center")


def _draw_panels(figure: Figure, layout: _Layout, panels: Sequence[Panel], graph: Graph) -> list[Axes]:
    """All panels from the top, each with its legend or the reason why it is empty."""
    axes: list[Axes] = []
    y_in = layout.top_in
    for panel, height_in in zip(panels, layout.panels_in, strict=True):
        y_in += TITLE_GAP_IN
        y_in += height_in
        ax = figure.add_axes(layout.box(y_in, height_in), sharex=axes[0] if axes else None)
        ax.set_title(panel.full_title(graph))
        ax.grid(True)
        if reason := panel.why_empty(graph):
            say_empty(ax, reason)
        else:
            panel.legend(ax, graph, panel.draw(ax, graph))
        ax.tick_params(axis="x", labelbottom=False)
        axes.append(ax)
    return axes


def _draw_time_axis(axes: Sequence[Axes], results: Results) -> None:
    """One time axis for all panels, its labels below the last."""
    edges_s = results.timeline.edges_s
    axes[0].set_xlim(float(edges_s[0]), float(edges_s[-1]))
    last = axes[-1]
    last.xaxis.set_major_locator(MaxNLocator(nbins=10, steps=[1, 2, 5, 10]))
    last.tick_params(axis="x", labelbottom=True)
    last.set_xlabel(
        "seconds since the workload started" if results.window.stated else "seconds since recording started"
    )


def _foot(graph: Graph, panels: Sequence[Panel]) -> str:
    """Definitions that the graph cannot be read without, and what its marks mean."""
    foot = (
        "Disk offset: bytes per cell, by time of issue; darker is more; classes in one cell are mixed."
        " Device throughput and latency: by time of completion.\n"
        f"Rates: count / real length of the bin ({graph.results.timeline.width_ns / 1e9:g} s). Seek: starts"
        " more than 128 sectors from the end of the previous request of its device, in issue order.\n"
    )
    if graph.results.device.series:
        foot += f"{by_time.DEFINITION[0].upper()}{by_time.DEFINITION[1:]}\n"
    if graph.has_bands:
        foot += (
            "Strip at the right of the offsets: areas of the file system (dark: journal; orange: metadata;"
            " blue: data; grey: any of these; white: unused).\n"
        )
    foot += "Definitions and lost events: report.txt."
    if graph.results.app.uncounted:
        foot += f"  {APPLICATION_BOUND}"
    if any(panel.mark(graph.run) for panel in panels):
        foot += f"  {style.MARKED}"
    return foot


def render(
    run: Run,
    tables: Tables,
    results: Results,
    title: str,
    subtitle: str,
    banners: Sequence[str],
    by_volume: bool = False,
) -> tuple[bytes, bytes]:
    """The graph as PNG and as SVG."""
    with style.applied():
        figure = draw(run, tables, results, title, subtitle, banners, by_volume)
        return save.png(figure, compress_level=4), save.svg(figure, raster_dpi=2 * save.DPI)


def make_subtitle(run: Run, results: Results) -> str:
    """The line below the title: disk, scheduler, kernel, CPUs, what was moved, date."""
    moved = sum(row.bytes for row in results.device_totals if row.op in ("read", "write"))
    requests = sum(row.requests for row in results.device_totals)
    scheduler = run.text("device", "scheduler")
    is_below = results.below is not None and results.below.has_requests  # one disk below a volume
    parts = [
        titles.disk_name(run, len(results.device.series) or int(is_below)),
        f"scheduler {scheduler}" if scheduler else "",
        f"Linux {k}" if (k := run.text("kernel", "release")) else "",
        f"{run.cpus} CPUs" if run.cpus else "",
        totals(results, requests, moved) if results.block is not None else "",
        run.text("start_realtime")[:10],
    ]
    line = " · ".join(part for part in parts if part)
    return line if len(line) <= SUBTITLE_LETTERS else line[: SUBTITLE_LETTERS - 3] + "..."


def make(source: RunSource) -> Made:
    """The graph of the whole recording, mkfs and fsck included."""
    run, results = source.run, source.recorded_results
    subtitle = make_subtitle(run, results)
    png, svg = render(
        run,
        source.recorded_tables,
        results,
        source.title,
        subtitle,
        source.banners,
        source.by_volume,
    )
    return Made({"iograph.png": png, "iograph.svg": svg}, [Drawing(CAPTION, svg)])


OUTPUT = Output("iograph", 10, ("iograph.png", "iograph.svg"), make)
