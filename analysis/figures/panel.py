# SPDX-License-Identifier: BSD-2-Clause
"""The interface of the IO graph's panels: a module of figures/panels/ states PANEL, one question each.

The IO graph finds the modules by folder and draws their panels by order. It adds "all programs" and the mark
of lossy collectors to a title, and writes into an empty panel why there is nothing. A comparison draws the
panels that state compared_height_in.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from matplotlib.axes import Axes

from analysis.discovery import find_parts
from analysis.figures import axes
from analysis.figures import panels as panels_folder
from analysis.figures.axes import Handle
from analysis.figures.device_maps import DeviceMaps
from analysis.figures.disk_bands import DiskBands
from analysis.figures.disk_panel import DiskPanels
from analysis.measures.results import Results
from analysis.rundir.run import Run


@dataclass(frozen=True)
class Graph:
    """What the panels of one run are drawn from.

    disk and bands: of a single device; devices: of several. Without either no request moved bytes.
    """

    run: Run
    results: Results
    disk: DiskPanels | None = None
    bands: DiskBands | None = None  # None: the file system's layout is not known
    devices: DeviceMaps | None = None
    map_of: str = ""  # in titles: what the offsets are of, if they are not the disk's
    plot_in: float = 0.0  # width of a panel, in inches

    @property
    def map(self) -> DiskPanels | DeviceMaps | None:
        """The maps of one device, or of several."""
        return self.disk if self.disk is not None else self.devices

    @property
    def all_disks(self) -> str:
        """At the end of a title: the values are of all disks together; "" if there is one disk."""
        disks = self.results.device.series
        return ", all disks" if disks else ""

    @property
    def disks(self) -> str:
        """The disks below a volume, in titles."""
        return "the disks" if self.results.device.series else "the disk"

    @property
    def has_bands(self) -> bool:
        """Whether a map has the file system's areas beside it."""
        several = self.devices.maps if self.devices is not None else []
        return self.bands is not None or any(one.bands is not None for one in several)


def _no_reason(_: Graph) -> str:
    return ""


def _legend_beside(ax: Axes, _: Graph, handles: list[Handle]) -> None:
    axes.legend(ax, handles)


@dataclass(frozen=True)
class Panel:
    """One question over time.

    height_in, compared_height_in: in inches; 0 leaves the panel out of the IO graph, or of a comparison.
    collectors: whose data is drawn; a loss of any of them marks the title.
    needs: the results that are drawn; None if the first collector left nothing.
    empty: why there is nothing to draw although the results are there; "" if there is.
    per_second: the values depend on the length of a time bin, so runs of very different lengths are compared
    on scales of their own.
    """

    key: str
    order: int
    height_in: float | Callable[[Graph], float]
    collectors: tuple[str, ...]
    needs: Callable[[Results], object]
    title: Callable[[Graph], str]
    draw: Callable[[Axes, Graph], list[Handle]]  # returns the legend's entries
    empty: Callable[[Graph], str] = _no_reason
    legend: Callable[[Axes, Graph, list[Handle]], None] = _legend_beside
    compared_height_in: float = 0.0
    per_second: bool = False

    def height(self, graph: Graph) -> float:
        """Height in inches, 0: left out."""
        return self.height_in if isinstance(self.height_in, float) else self.height_in(graph)

    def full_title(self, graph: Graph) -> str:
        """The title, with "all programs" where others may use the disk, and the mark of a lossy collector."""
        owners = graph.results.owners
        shared = "block" in self.collectors and owners is not None and owners.is_shared
        return self.title(graph) + (", all programs" if shared else "") + self.mark(graph.run)

    def mark(self, run: Run) -> str:
        """ " *" if a collector lost enough to be marked."""
        return " *" if any(run.lossy(collector) for collector in self.collectors) else ""

    def why_empty(self, graph: Graph) -> str:
        """Why there is nothing to draw; "" if there is."""
        if self.needs(graph.results) is None:
            collector = self.collectors[0]
            return f"no {collector} data: {graph.run.absent(collector)}"
        return self.empty(graph)


def no_requests(graph: Graph) -> str:
    """The reason of a panel of requests: none was recorded."""
    return "" if graph.results.device_totals else "no requests"


def no_disk_requests(graph: Graph) -> str:
    """The reason of a panel of the disks' requests: none was recorded, or the volume has no disk below it."""
    below = graph.results.below
    return (
        "no disk is below the volume" if below is not None and not below.has_requests else no_requests(graph)
    )


def find_panels() -> list[Panel]:
    """All panels, from the top."""
    return find_parts(panels_folder, "PANEL", Panel)
