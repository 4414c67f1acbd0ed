# SPDX-License-Identifier: BSD-2-Clause
"""The strip of the whole disk (or volume) at the right of a disk map, and which part of it the map shows."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import ConnectionPatch, Rectangle

from analysis import units
from analysis.figures import style
from analysis.figures.disk_panel import DiskPanels, Rgb, ink, mix
from analysis.tables.block import SECTOR_BYTES

TIE_FROM = 1.016  # in panel widths: right of the strip of disk_bands.py


def draw_whole_disk(disk: DiskPanels, figure: Figure, panels: list[Axes], word: str = "disk") -> None:
    """Draw a slim strip of the whole disk beside the taller panel, with frames around what it shows.

    word: what the strip is named; without one, its ends have no names either.
    """
    panel = max(panels, key=lambda ax: ax.get_position().height)
    box = panel.get_position()
    width = 0.012
    ax = figure.add_axes((box.x1 + 0.022, box.y0, width, box.height))
    ax.set_xlim(0, 1)
    ax.set_ylim(0, disk.axis.end)
    inks: list[Rgb] = []
    for class_, values in disk.strip.items():
        some = values[values > 0]
        if some.size:
            cells = values.reshape(-1, 1)
            inks.append(ink(cells, float(some.min()), float(some.max()), style.CLASS_RAMP[class_]))
    ax.imshow(
        mix(inks),
        origin="lower",
        aspect="auto",
        interpolation="nearest",
        extent=(0, 1, 0, disk.axis.end),
    )
    ax.set_xticks([])
    ax.set_yticks([])
    for spine in ax.spines.values():
        spine.set_visible(True)
    if word:
        _write_ends(disk, ax, word)
    for begin, end in disk.axis.stretches:
        ax.add_patch(
            Rectangle((-0.18, begin), 1.36, end - begin, fill=False, ec=style.INK, lw=0.9, clip_on=False)
        )
        for sector in (begin, end):
            tie = ConnectionPatch(
                xyA=(TIE_FROM, disk.row_of(sector)),
                coordsA=panel.get_yaxis_transform(),
                xyB=(-0.18, sector),
                coordsB=ax.transData,
                color="#999999",
                lw=0.6,
            )
            figure.add_artist(tie)


def _write_ends(disk: DiskPanels, ax: Axes, word: str) -> None:
    """Name the strip of the whole disk, its end and its begin."""
    total = units.bytes_(float(disk.axis.end * SECTOR_BYTES))
    ax.set_title(
        word if disk.sizes_known else "used",
        fontsize=7.5,
        fontweight="normal",
        loc="center",
        pad=12,
    )
    ax.text(
        0.5,
        1.012,
        total,
        transform=ax.transAxes,
        ha="center",
        va="bottom",
        fontsize=7.5,
        color=style.QUIET,
    )
    ax.text(0.5, -0.012, "0", transform=ax.transAxes, ha="center", va="top", fontsize=7.5, color=style.QUIET)
