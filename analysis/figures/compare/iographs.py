# SPDX-License-Identifier: BSD-2-Clause
"""IO graphs of several runs side by side: a column per run, a row per question, one scale along a row.

Rows are the disk maps and the panels that state a compared_height_in. The ink of a cell means the same
bytes in all runs. Where one run is more than MOST_TIMES_LONGER times as long as another, each run has its own
scales of time and of rates, and the picture says so.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from analysis import units
from analysis.figures import disk_panel, save, style
from analysis.figures.axes import Handle, legend, log_times, say_empty
from analysis.figures.disk_bands import DiskBands
from analysis.figures.disk_panel import DiskPanels
from analysis.figures.panel import Graph, Panel, find_panels
from analysis.figures.panels.throughput import APPLICATION_BOUND
from analysis.figures.phase_strip import draw_phases, make_strip
from analysis.figures.run.iograph import TITLE_GAP_IN
from analysis.measures.block import disk_map
from analysis.measures.clip import clip_table
from analysis.measures.compare.compared_run import Compared
from analysis.render import titles
from analysis.render.output import CompareSource, Drawing, Made, Output
from analysis.rundir.devices import Device
from analysis.rundir.run import Run
from analysis.rundir.stack import read_stack
from analysis.tables.block import TABLE as BLOCK
from analysis.tables.block import Block
from analysis.tables.load import load_table
from analysis.tables.top import top_view
from analysis.tables.volume import TABLE as VOLUME

CAPTION = "IO graphs of the runs side by side: disk offset, throughput, rates and latency over time"
REPORT = "compare.txt"
LEFT_IN = 0.85
RIGHT_IN = 1.75
BETWEEN_IN = 0.2
COLUMN_IN = {2: 3.5, 3: 2.7, 4: 2.25}
NARROW_IN = 1.8  # a column of more runs
MOST_TIMES_LONGER = 8  # of the longest run to the shortest, for one scale of time
APART_IN = 0.6  # between columns with scales of their own
OWN_SCALE = "each run on its own scale"
DISK_IN = {"write": 2.3, "read": 1.3}
LITTLE_IN = 0.75  # a disk map of an op with few bytes
TOTAL_IN = 0.15  # room above a disk map for its total
NAMES_IN = 0.68  # the lines above a column
BANNER_IN = 0.2
FOOT_IN = 1.15
CHARACTER_IN = 0.088  # of a column's title


def _role(device: Device) -> str:
    """What the device is to the file system: "disk" (or a volume), "journal", ...; else its name."""
    return device.role.replace("volume", "disk") or device.name


def _roles(runs: Sequence[Compared]) -> list[str]:
    """The roles of all runs' devices."""
    return list(dict.fromkeys(_role(device) for one in runs for device in one.devices))


def _by_role(one: Compared, roles: Sequence[str]) -> list[Device]:
    """The run's devices in the order of the roles; a device number of -1, no request's, where it has none."""
    have = {_role(device): device for device in one.devices}
    return [
        Device(have[role].number, role, "", have[role].facts) if role in have else Device(-1, role, "", {})
        for role in roles
    ]


def _asked(run: Run) -> Block | None:
    """What the file system asked for: the bios to its volumes, or the disks' requests."""
    return top_view(load_table(run, BLOCK), load_table(run, VOLUME), read_stack(run))


def disk_maps(runs: Sequence[Compared]) -> list[DiskPanels | None]:
    """The disk map of each run, all on one axis. One block table is in memory at a time."""
    roles = _roles(runs)
    by_role = [_by_role(one, roles) for one in runs]
    used: list[disk_map.Stretches] = []
    for role in roles:
        begins, ends = [], []
        for one in runs:
            for device, some in zip(one.devices, one.used, strict=True):
                if _role(device) == role:
                    begins += [begin for begin, _ in some]
                    ends += [end for _, end in some]
        used.append(disk_map.stretches(np.array(begins, dtype=np.int64), np.array(ends, dtype=np.int64)))
    sizes = [
        max(of_role) for of_role in zip(*(disk_panel.sizes(devices) for devices in by_role), strict=True)
    ]
    axis = disk_map.make_axis(used, sizes, disk_panel.ROWS)
    maps: list[DiskPanels | None] = []
    for one, devices in zip(runs, by_role, strict=True):
        block = _asked(one.run) if axis is not None and one.has_block else None
        if block is not None and one.results.outside.requests is not None:
            block = clip_table(BLOCK, block, one.results.window)
        maps.append(DiskPanels.make(block, devices, one.results, axis) if block is not None else None)
    return maps


Draw = Callable[[Axes], list[Handle]]


@dataclass(frozen=True)
class Row:
    """One question: its title, and for each run a function that draws it, or why there is nothing to draw."""

    height_in: float
    title: str
    draw: Sequence[Draw | str]
    legend_title: str = ""
    per_second: bool = False


def _draw_map(
    one: DiskPanels, bands: DiskBands | None, ax: Axes, op: str, ranges: disk_panel.Ranges, height_in: float
) -> list[Handle]:
    """Draw one run's map of an op, and above it the bytes it moved."""
    handles = one.draw(ax, op, ranges)
    one.annotate(ax, height_in)
    if bands is not None:
        bands.draw_strip(ax, one, height_in)
    bottom, top = ax.get_ylim()
    ax.set_ylim(bottom, top + (top - bottom) * TOTAL_IN / height_in)  # room for the total above the map
    total = units.bytes_(float(one.bytes_[op]))
    ax.text(0.985, 0.98, total, transform=ax.transAxes, fontsize=7.5, ha="right", va="top")
    return handles


def _bands(runs: Sequence[Compared], maps: Sequence[DiskPanels | None]) -> list[DiskBands | None]:
    """The areas of each run's file system, at the heights of its map."""
    roles = _roles(runs)
    return [
        DiskBands.make(of, [device.number for device in _by_role(one, roles)], one.results.geometry)
        if of is not None
        else None
        for one, of in zip(runs, maps, strict=True)
    ]


def _mark(runs: Sequence[Compared], collectors: Sequence[str]) -> str:
    return " *" if any(one.run.lossy(collector) for one in runs for collector in collectors) else ""


def _disk_rows(runs: Sequence[Compared], maps: Sequence[DiskPanels | None]) -> list[Row]:
    """The disk maps of writes and of reads; an operation that no run has is left out."""
    known = [disk for disk in maps if disk is not None]
    ranges, strips = disk_panel.joined_ranges(disk.ranges() for disk in known), _bands(runs, maps)
    moved = {op: max((disk.bytes_[op] for disk in known), default=0) for op in disk_panel.OPS}
    rows = []
    for op in disk_panel.OPS:
        title = next((disk.title(op) for disk in known if disk.maps[op]), None)
        if title is None:
            continue
        height_in = DISK_IN[op] if moved[op] >= 0.02 * max(moved.values()) else LITTLE_IN
        draw = partial(_draw_map, op=op, ranges=ranges, height_in=height_in)
        cells: list[Draw | str] = [
            partial(draw, disk, bands)
            if disk is not None and disk.maps[op]
            else f"no {disk_panel.PLURAL[op]}"
            for disk, bands in zip(maps, strips, strict=True)
        ]
        rows.append(Row(height_in, title + _mark(runs, ("block",)), cells, "per cell, all runs:"))
    return rows


def _panel_row(panel: Panel, runs: Sequence[Compared]) -> Row:
    """A panel of the IO graph, of all runs."""
    graphs = [Graph(one.run, one.results) for one in runs]
    # titles of one panel differ in what they have to name: the longest names all, but no volume of one run
    found = {panel.title(graph) for graph in graphs}
    if len(found) > 1:
        found = {panel.title(replace(graph, results=replace(graph.results, below=None))) for graph in graphs}
    title = max(found, key=len)
    cells = [_cell(panel, graph) for graph in graphs]
    mark = _mark(runs, panel.collectors)
    return Row(panel.compared_height_in, title + mark, cells, per_second=panel.per_second)


def _cell(panel: Panel, graph: Graph) -> Draw | str:
    """Draws one run's part of a panel, or why it is empty, in the few words that fit into a column."""
    if panel.needs(graph.results) is None:
        return "not recorded"
    return panel.empty(graph) or (lambda ax: panel.draw(ax, graph))


def _rows(runs: Sequence[Compared], maps: Sequence[DiskPanels | None]) -> list[Row]:
    compared = [panel for panel in find_panels() if panel.compared_height_in]
    return [*_disk_rows(runs, maps), *(_panel_row(panel, runs) for panel in compared)]


def _same_height(axes: Sequence[Axes]) -> None:
    """Give all panels of a row one vertical axis."""
    limits = [ax.get_ylim() for ax in axes]
    low, high = min(bottom for bottom, _ in limits), max(top for _, top in limits)
    for ax in axes:
        if ax.get_yscale() == "log":
            log_times(ax, low, high)
        else:
            ax.set_ylim(low, high)


def _appearance(handle: Handle) -> tuple[object, ...]:
    """Colour and style of a legend's entry, by which entries of several runs are matched."""
    if isinstance(handle, Line2D):
        return (handle.get_color(), handle.get_linestyle(), handle.get_linewidth(), handle.get_marker())
    return (handle.get_facecolor(),)


def _together(handles: Sequence[list[Handle]]) -> list[Handle]:
    """The legend entries of all runs, one per appearance, labelled with all its names."""
    merged: dict[tuple[object, ...], Handle] = {}
    for handle in (handle for some in handles for handle in some):
        known = merged.setdefault(_appearance(handle), handle)
        names = [*str(known.get_label()).split(", "), *str(handle.get_label()).split(", ")]
        known.set_label(", ".join(dict.fromkeys(names)))
    return list(merged.values())


def _fit(text: str, width_in: float, character_in: float = CHARACTER_IN) -> str:
    """The text, cut to the width."""
    most = int(width_in / character_in)
    return text if len(text) <= most else text[: max(most - 3, 1)] + "..."


@dataclass(frozen=True)
class Layout:
    """Sizes and positions, in inches from the top and the left."""

    columns: int
    rows: Sequence[Row]
    head_in: float  # title, banners, and the lines above the columns
    strip_in: float  # the strips of phases
    same_scale: bool  # one scale of time and of rates for all runs

    @property
    def column_in(self) -> float:
        """Width of a column."""
        return COLUMN_IN.get(self.columns, NARROW_IN)

    @property
    def step_in(self) -> float:
        """Distance of two columns' left edges."""
        return self.column_in + (BETWEEN_IN if self.same_scale else APART_IN)

    @property
    def width_in(self) -> float:
        """Width of the picture."""
        return LEFT_IN + self.columns * self.step_in + RIGHT_IN

    @property
    def height_in(self) -> float:
        """Height of the picture."""
        rows_in = sum(row.height_in + TITLE_GAP_IN for row in self.rows)
        return self.head_in + self.strip_in + rows_in + FOOT_IN

    def left(self, column: int) -> float:
        """Left edge of a column, in figure coordinates."""
        return (LEFT_IN + column * self.step_in) / self.width_in

    def at(self, y_in: float) -> float:
        """Inches from the top in figure coordinates."""
        return 1 - y_in / self.height_in

    def box(self, column: int, bottom_in: float, height_in: float) -> tuple[float, float, float, float]:
        """A box of a column's width, in figure coordinates."""
        size = (self.column_in / self.width_in, height_in / self.height_in)
        return (self.left(column), self.at(bottom_in), *size)


def _draw_head(
    figure: Figure, layout: Layout, title: str, banners: Sequence[str], runs: Sequence[Compared],
    names: Sequence[Sequence[str]],
) -> None:  # fmt: skip
    """Title, banners, and above each column the run's name, kernel and length."""
    left, at = layout.left(0), layout.at
    figure.text(left, at(0.3), title, fontsize=15, weight="bold", color=style.INK, va="center")
    for i, banner in enumerate(banners):
        y = at(0.6 + BANNER_IN * i)
        figure.text(left, y, banner, fontsize=9, color=style.ALARM, weight="bold", va="center")
    for i, (one, lines) in enumerate(zip(runs, names, strict=True)):
        first, *others = lines
        x, y_in = layout.left(i), layout.head_in - NAMES_IN + 0.1
        figure.text(x, at(y_in), _fit(first, layout.column_in), fontsize=10.5, weight="bold", va="center")
        for k, line in enumerate(others, 1):
            color = style.ALARM if one.emulated and line is others[-1] else style.QUIET
            line = _fit(line, layout.column_in, 0.07)
            figure.text(x, at(y_in + 0.02 + 0.18 * k), line, fontsize=8.5, color=color, va="center")


def _draw_rows(figure: Figure, layout: Layout) -> list[list[Axes]]:
    """Draw all panels; returns them by column."""
    columns: list[list[Axes]] = [[] for _ in range(layout.columns)]
    y = layout.head_in + layout.strip_in
    for row in layout.rows:
        y += TITLE_GAP_IN + row.height_in
        handles, drawn = [], []
        own_scale = row.per_second and not layout.same_scale
        for i, column in enumerate(columns):
            shared = column[0] if column else None
            ax = figure.add_axes(layout.box(i, y, row.height_in), sharex=shared)
            ax.grid(True)
            ax.tick_params(axis="x", labelbottom=row is layout.rows[-1])
            column.append(ax)
            cell = row.draw[i]
            if isinstance(cell, str):
                say_empty(ax, cell)
                continue
            handles.append(cell(ax))
            drawn.append(ax)
            ax.tick_params(axis="y", labelleft=i == 0 or own_scale, which="both")
        columns[0][-1].set_title(f"{row.title}, {OWN_SCALE}" if own_scale else row.title)
        if drawn and not own_scale:
            drawn[0].tick_params(axis="y", labelleft=True, which="both")
            _same_height(drawn)
        legend(columns[-1][-1], _together(handles), row.legend_title, right=1.05)
    return columns


def draw(
    runs: Sequence[Compared],
    maps: Sequence[DiskPanels | None],
    title: str,
    names: Sequence[Sequence[str]],
    banners: Sequence[str],
    report: str = REPORT,
) -> Figure:
    """The whole picture. names: for each run, the lines above its column. report: where definitions are."""
    starts = [float(one.results.timeline.edges_s[0]) for one in runs]
    ends = [float(one.results.timeline.edges_s[-1]) for one in runs]
    lengths = [end - start for start, end in zip(starts, ends, strict=True)]
    same_scale = max(lengths) <= MOST_TIMES_LONGER * min(lengths)
    spans = [(min(starts), max(ends))] * len(runs) if same_scale else list(zip(starts, ends, strict=True))
    bare = Layout(len(runs), _rows(runs, maps), 0.0, 0.0, same_scale)
    strips = [
        make_strip(one.phases, one.results, bare.column_in * length / (end - start))
        if one.phases is not None and one.phases.name
        else None
        for one, length, (start, end) in zip(runs, lengths, spans, strict=True)
    ]
    most = int((bare.width_in - LEFT_IN) / 0.078)
    shown = [line for banner in banners[:3] for line in textwrap.wrap(f"! {banner}", most)[:2]]
    if len(banners) > 3:
        shown.append(f"and {len(banners) - 3} more, see {report}")
    layout = replace(
        bare,
        head_in=0.56 + BANNER_IN * len(shown) + NAMES_IN,
        strip_in=max((strip.height_in + 0.08 for strip in strips if strip is not None), default=0.0),
    )
    figure = Figure(figsize=(layout.width_in, layout.height_in))
    FigureCanvasAgg(figure)
    _draw_head(figure, layout, title, shown, runs, names)
    columns = _draw_rows(figure, layout)
    ticks = max(int(layout.column_in * 1.6), 3)
    for i, (column, span, strip, one) in enumerate(zip(columns, spans, strips, runs, strict=True)):
        column[0].set_xlim(span)
        column[-1].xaxis.set_major_locator(MaxNLocator(nbins=ticks, steps=[1, 2, 5, 10]))
        if strip is not None and one.phases is not None:
            box = layout.box(i, layout.head_in + layout.strip_in + 0.02, strip.height_in)
            draw_phases(figure, box, strip, one.phases, one.results, column)
    middle = (layout.left(0) + layout.box(len(runs) - 1, 0, 0)[0] + layout.column_in / layout.width_in) / 2
    time_axis, y = "seconds since the workload started", 0.83 / layout.height_in
    time_axis += "" if same_scale else f", {OWN_SCALE}"
    figure.text(middle, y, time_axis, ha="center", va="top", color=style.INK)
    foot, y = _foot(runs, same_scale, report), 0.1 / layout.height_in
    figure.text(layout.left(0), y, foot, fontsize=7.2, color=style.QUIET, va="bottom", linespacing=1.35)
    return figure


def _foot(runs: Sequence[Compared], same_scale: bool, report: str) -> str:
    foot = (
        "All runs have the same scale along a row."
        if same_scale
        else "SCALES DIFFER: one run is much longer than another; offsets and latency have one scale."
    )
    of = " (of the volume, if there is one)" if any(one.results.below for one in runs) else ""
    foot += (
        f"\nDisk offset{of}: bytes per cell, by time of issue; darker is more."
        f" Throughput, latency{of}: by time of completion."
        "\nStrip beside the offsets: areas of the file system (dark: journal; orange: metadata; blue: data;"
        " grey: any of these; white: unused)."
        f"\nRates: count / real length of the bin. Definitions and lost events: {report}."
    )
    if any(one.results.app.uncounted for one in runs):
        foot += f"  {APPLICATION_BOUND}"
    if any(one.run.lossy(c) for one in runs for c in ("block", "calls")):
        foot += f"  {style.MARKED}"
    return foot


def render(
    runs: Sequence[Compared],
    title: str,
    heads: Sequence[Sequence[str]],
    banners: Sequence[str],
    dpi: float | None = None,
    report: str = REPORT,
) -> tuple[bytes, bytes]:
    """The picture as PNG and as SVG. heads: for each run, the lines above its column.

    dpi: of the PNG. report: where the definitions are.
    """
    with style.applied():
        figure = draw(runs, disk_maps(runs), title, heads, banners, report)
        return save.png(figure, dpi), save.svg(figure, raster_dpi=2 * save.DPI)


def _head(one: Compared, tag: str) -> tuple[str, str, str]:
    """The lines above a run's column: its name, its kernel, its length."""
    kernel = one.run.text("kernel", "release")
    length = f"{units.seconds(one.results.window.work_s)} s"
    return (
        f"{one.letter}  {tag or titles.run_title(one.run)}",
        f"Linux {kernel}" if kernel else "",
        f"{length}, EMULATED CPUs" if one.emulated else length,
    )


def make(source: CompareSource) -> Made:
    """The IO graphs of all runs."""
    heads = [_head(one, tag) for one, tag in zip(source.runs, source.tags, strict=True)]
    png, svg = render(source.runs, source.title, heads, source.banners)
    return Made(dict(zip(NAMES, (png, svg), strict=True)), [Drawing(CAPTION, svg)])


NAMES = ("compare.png", "compare.svg")
OUTPUT = Output("iographs", 10, NAMES, make)
