# SPDX-License-Identifier: BSD-2-Clause
"""The IO graph: what the application, the disk, the queue, the locks and memory did, on one time axis.

Layout in inches from the top; a panel whose collector has nothing keeps its place and says why.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from analysis import units
from analysis.figures import disk_panel, panels, save, style
from analysis.figures.disk_bands import DiskBands
from analysis.figures.disk_panel import DiskPanels
from analysis.figures.phase_strip import draw_phases, make_strip
from analysis.measures.results import Results
from analysis.render.output import Drawing, Made, Output, RunSource
from analysis.rundir import devices
from analysis.rundir.run import Run
from analysis.sections import request_owners
from analysis.tables.load import Tables

WIDTH_IN = 9.8
LEFT_IN = 0.85
RIGHT_IN = 2.1
TITLE_GAP_IN = 0.34
SUBTITLE_LETTERS = 120
CAPTION = "IO graph: disk offset, throughput, rates, latency, queue depth, lock waits and memory over time"


@dataclass(frozen=True)
class Panel:
    """One panel: height, title with its unit, who draws it, and the collector it needs."""

    height_in: float
    title: str
    draw: Callable[[Axes], None] | None
    absent: str = ""


def _beside(draw: Callable[[Axes, Results], list[panels.Handle]], results: Results) -> Callable[[Axes], None]:
    """Draw a panel, its legend beside it."""
    return lambda ax: panels.legend(ax, draw(ax, results))


def _disk_panel(disk: DiskPanels, bands: DiskBands | None, op: str) -> Panel:
    """The disk map of one op; its legend keeps clear of the strip of the whole disk."""
    height_in = disk.height_in(op)

    def draw(ax: Axes) -> None:
        handles = disk.draw(ax, op, disk.ranges())
        disk.annotate(ax, height_in)
        if bands is not None:
            bands.draw(ax, disk, op, WIDTH_IN - LEFT_IN - RIGHT_IN, height_in)
        title = f"{units.bytes_(float(disk.bytes_[op]))} in all,\nper cell:"
        panels.legend(ax, handles, title, right=1.09)

    return Panel(height_in, disk.title(op), draw if disk.maps[op] else None, disk.absent(op))


def say(ax: Axes, words: str) -> None:
    """A panel with nothing to draw says why, in its place."""
    ax.set_facecolor("#F4F4F4")
    ax.set_yticks([])
    ax.grid(False)
    ax.text(0.5, 0.5, words, transform=ax.transAxes, ha="center", va="center", color=style.QUIET, wrap=True)


def _panels(
    run: Run, tables: Tables, results: Results, disk: DiskPanels | None, bands: DiskBands | None
) -> list[Panel]:
    def why(collector: str) -> str:
        return f"no {collector} data: {run.absent(collector)}"

    def mark(*collectors: str) -> str:
        return " *" if any(run.lossy(c) for c in collectors) else ""

    block, locks, counters = mark("block"), mark("locks"), mark("counters")
    everybodys = ", everybody's" if results.owners is not None and results.owners.is_shared else ""
    found = []
    if disk is None:
        words = "no request moved any bytes" if tables.block is not None else why("block")
        found.append(Panel(0.6, f"Disk offset{block}", None, words))
    else:
        for op in disk_panel.OPS:
            panel = _disk_panel(disk, bands, op)
            found.append(replace(panel, title=panel.title + everybodys + block))
    has_block = tables.block is not None and tables.block.rows > 0
    none = "no requests" if tables.block is not None else why("block")
    found.append(
        Panel(
            1.45,
            f"Throughput, MB/s (10⁶ bytes): {panels.directions(results)}{everybodys}{mark('block', 'calls')}",
            _beside(panels.throughput, results) if has_block or results.app.mb_s else None,
            none,
        )
    )
    found.append(
        Panel(
            0.95,
            f"Requests and seeks per second{everybodys}{block}",
            _beside(panels.rates, results) if has_block else None,
            none,
        )
    )
    found.append(
        Panel(
            1.35,
            f"Request latency, queued to completed (Q2C){everybodys}{block}",
            _beside(panels.latency, results) if has_block else None,
            none,
        )
    )
    found.append(
        Panel(
            0.75,
            f"Queue depth, requests{everybodys}{block}",
            _beside(panels.depth, results) if has_block else None,
            none,
        )
    )
    found.append(
        Panel(
            0.8,
            f"Asleep on locks, threads (seconds waited a second), by lock{locks}",
            (lambda ax: panels.lock_legend(ax, panels.sleepers(ax, results)))
            if results.locks.sleeping_threads is not None
            else None,
            why("locks"),
        )
    )
    cpus = run.cpus or 1
    no_spin = (
        why("locks")
        if results.locks.sleeping_threads is None
        else "run.json does not say how many CPUs there were"
    )
    found.append(
        Panel(
            0.8,
            f"Spinning on locks, % of CPU time, by lock{locks}",
            (lambda ax: panels.lock_legend(ax, panels.spin(ax, results, cpus)))
            if results.locks.spin_pct is not None
            else None,
            no_spin,
        )
    )
    has_dirty = results.memory is not None and panels.any_finite(results.memory.dirty)
    found.append(
        Panel(
            0.65,
            f"Written data waiting in memory, of the whole machine, MB{counters}",
            _beside(panels.memory, results) if has_dirty else None,
            why("counters"),
        )
    )
    return found


def draw(
    run: Run, tables: Tables, results: Results, title: str, subtitle: str, banners: Sequence[str]
) -> Figure:
    """The whole graph."""
    disk = bands = None
    if tables.block is not None:
        found = devices.with_requests(run, tables.block)
        disk = DiskPanels.make(tables.block, found, results)
        if disk is not None:
            bands = DiskBands.make(disk, [device.number for device in found], results.geometry)
    parts = _panels(run, tables, results, disk, bands)
    shown = [b if len(b) < 115 else b[:112] + "..." for b in banners[:3]]
    if len(banners) > 3:
        shown.append(f"and {len(banners) - 3} more, see report.txt")
    plot_in = WIDTH_IN - LEFT_IN - RIGHT_IN
    strip = None
    if tables.phases is not None and tables.phases.name:
        strip = make_strip(tables.phases, results, plot_in)
    strip_in = strip.height_in + 0.08 if strip else 0.0
    top_in = 0.78 + 0.2 * len(shown) + strip_in
    bottom_in = 1.05 if bands is None else 1.15
    height = top_in + sum(p.height_in + TITLE_GAP_IN for p in parts) + bottom_in
    figure = Figure(figsize=(WIDTH_IN, height))
    FigureCanvasAgg(figure)
    plot_w = plot_in / WIDTH_IN
    left = LEFT_IN / WIDTH_IN

    def at(y_in: float) -> float:
        return 1 - y_in / height

    figure.text(left, at(0.3), title, fontsize=15, fontweight="bold", color=style.INK, va="center")
    figure.text(left, at(0.58), subtitle, fontsize=9.5, color=style.QUIET, va="center")
    for i, banner in enumerate(shown):
        figure.text(
            left,
            at(0.8 + 0.2 * i),
            f"! {banner}",
            fontsize=9,
            color=style.ALARM,
            fontweight="bold",
            va="center",
        )
    start_s, end_s = float(results.timeline.edges_s[0]), float(results.timeline.edges_s[-1])
    y = top_in
    axes: list[Axes] = []
    for part in parts:
        y += TITLE_GAP_IN
        box = (left, at(y + part.height_in), plot_w, part.height_in / height)
        ax = figure.add_axes(box, sharex=axes[0] if axes else None)
        ax.set_title(part.title)
        ax.grid(True)
        if part.draw is None:
            say(ax, part.absent)
        else:
            part.draw(ax)
        ax.tick_params(axis="x", labelbottom=False)
        y += part.height_in
        axes.append(ax)
    axes[0].set_xlim(start_s, end_s)
    last = axes[-1]
    last.xaxis.set_major_locator(MaxNLocator(nbins=10, steps=[1, 2, 5, 10]))
    last.tick_params(axis="x", labelbottom=True)
    last.set_xlabel(
        "seconds since the workload started" if results.window.stated else "seconds since recording started"
    )
    if disk is not None:
        disk.draw_whole_disk(figure, axes[: len(disk_panel.OPS)])
    if strip is not None and tables.phases is not None:
        box = (left, at(top_in + 0.02), plot_w, strip.height_in / height)
        draw_phases(figure, box, strip, tables.phases, results, axes)
    foot = (
        "Offsets: bytes per cell at the time of issue, darker for more; several classes in a cell are mixed."
        " Device throughput and latency: by completion.\n"
        f"Rates: count / real length of the bin ({results.timeline.width_ns / 1e9:g} s). Seek: starts more"
        " than 128 sectors from the end of the request before on its device, in issue order.\n"
    )
    if bands is not None:
        foot += (
            "Strip at the right of the offsets: what the file system keeps there (dark: journal; orange:"
            " metadata; blue: data; grey: any of these; white: nothing).\n"
        )
    foot += "Exact definitions and losses: report.txt."
    if results.app.uncounted:
        foot += f"  {panels.APPLICATION_BOUND}"
    if any(run.lossy(c) for c in ("block", "calls", "locks", "counters")):
        foot += f"  {style.MARKED}"
    figure.text(left, 0.1 / height, foot, fontsize=7.2, color=style.QUIET, va="bottom", linespacing=1.35)
    return figure


def render(
    run: Run, tables: Tables, results: Results, title: str, subtitle: str, banners: Sequence[str]
) -> tuple[bytes, bytes]:
    """The graph as PNG and as SVG."""
    with style.applied():
        figure = draw(run, tables, results, title, subtitle, banners)
        return save.png(figure, compress_level=4), save.svg(figure, raster_dpi=2 * save.DPI)


def make_subtitle(run: Run, results: Results) -> str:
    """The line below the title: disk, scheduler, kernel, CPUs, what was moved, date."""
    size = run.int_("device", "size_bytes")
    moved = sum(row.bytes for row in results.device_totals if row.op in ("read", "write"))
    requests = sum(row.requests for row in results.device_totals)
    scheduler = run.text("device", "scheduler")
    parts = [
        " ".join(p for p in (run.text("device", "name"), f"({units.bytes_(size)})" if size else "") if p),
        f"scheduler {scheduler}" if scheduler else "",
        f"Linux {k}" if (k := run.text("kernel", "release")) else "",
        f"{run.cpus} CPUs" if run.cpus else "",
        request_owners.totals(results, requests, moved) if results.block is not None else "",
        run.text("start_realtime")[:10],
    ]
    line = " · ".join(part for part in parts if part)
    return line if len(line) <= SUBTITLE_LETTERS else line[: SUBTITLE_LETTERS - 3] + "..."


def make(source: RunSource) -> Made:
    """The graph of the whole recording, mkfs and fsck included."""
    run, results = source.run, source.recorded_results
    subtitle = make_subtitle(run, results)
    png, svg = render(run, source.recorded_tables, results, source.title, subtitle, source.banners)
    return Made({"iograph.png": png, "iograph.svg": svg}, [Drawing(CAPTION, svg)])


OUTPUT = Output("iograph", 10, ("iograph.png", "iograph.svg"), make)
