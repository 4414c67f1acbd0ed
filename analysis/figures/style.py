# SPDX-License-Identifier: BSD-2-Clause
"""Colours, fonts and lines of all pictures: one colour means one thing everywhere.

Hues follow Okabe and Ito (safe for colour-blind readers); the classes also differ in lightness (data light,
metadata middle, journal dark), so they stay apart in greyscale, and lines differ in width or dash as well.
What a volume writes on its own (class volume) and parity have hatches, too, where areas are drawn.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Literal

import matplotlib as mpl

from analysis import units
from analysis.rundir.run import LEAST_MARKED_SHARE

# below pictures with a mark at a title
MARKED = f"* a source lost {units.percent(LEAST_MARKED_SHARE)} % of its events or more, or ended early."
DATA = "#56B4E9"
METADATA = "#D55E00"
JOURNAL = "#4B2A84"
UNKNOWN = "#9A9A9A"
DISCARD = "#E3D36B"
VOLUME = "#00665A"  # a volume's own I/O: resync, superblocks, bitmaps
PARITY = "#F2A9D3"
CLASS = {
    "data": DATA,
    "metadata": METADATA,
    "journal": JOURNAL,
    "volume": VOLUME,
    "parity": PARITY,
    "unknown": UNKNOWN,
    "discard": DISCARD,
}
HATCH = {"volume": "xxxx", "parity": "////"}  # of areas in the class's colour
HATCH_INK = {"volume": "#9CCFC8", "parity": "#8E3A70"}
# the ink of a cell from few to many bytes; the lightness ranges of the classes do not overlap
CLASS_RAMP = {
    "data": ("#86CBF2", "#4AA8E0", "#0B5E9E"),
    "metadata": ("#F0914A", "#D55E00", "#8F3700"),
    "journal": ("#7C5CB8", "#4B2A84", "#1F0A47"),
    "volume": ("#4D9C90", "#00665A", "#00352E"),
    "parity": ("#F8CDE4", "#F2A9D3", "#C56CA2"),
    "unknown": ("#C4C4C4", "#9A9A9A", "#5F5F5F"),
    "discard": ("#F2E9B0", "#E3D36B", "#B9A63A"),
}
Dash = Literal["-"] | tuple[float, tuple[float, ...]]
APPLICATION = "#111111"
ABOVE = "#1B3A5C"  # the volume's bytes, over those of its disks
ABOVE_DASH: Dash = (0, (4, 1, 1, 1))
OWN = "#B0006D"  # the workload's share of the device's bytes, where others use the device too
READ = "#009E73"
WRITE = "#A0195E"
OP = {"read": READ, "write": WRITE}
OP_DASH: dict[str, Dash] = {"read": (0, (3, 1)), "write": "-"}
DASHED: Dash = (0, (2, 1))
OTHER_OPS = "#8C8C8C"
SEEKS = "#D0D0D0"
OWN_SEEKS = "#8A8A8A"
DEPTH = "#4D4D4D"
DEPTH_HIGHEST = "#A6A6A6"
QUEUED = "#D6D6D6"
# assigned by lock_colors()
LOCKS = (
    "#3B1C5A",
    "#D9822B",
    "#0B5E9E",
    "#E6C229",
    "#B2312A",
    "#8FC1A9",
    "#1B7A5A",
    "#C3A6D8",
)
OTHER_LOCKS = "#BDBDBD"
# lines of up to four disks, by the disk's place in the picture; apart in greyscale by lightness and dash
DISKS: tuple[tuple[str, Dash], ...] = (
    ("#1B3A5C", "-"),
    ("#C4661F", (0, (4, 1.2))),
    ("#5FA8A0", "-"),
    ("#9B3A8C", (0, (1.2, 1))),
)
DISK_SPREAD = "#D3DAE2"  # from the lowest to the highest of more disks
DISK_MIDDLE = "#1B3A5C"
DISK_BUSIEST = "#C4661F"
HEAD_MIDDLE = "#9FB1C4"  # where the head is four fifths of the time; between the two above
# what an emulated disk does: darker is farther from moving data
DISK_STATE = {
    "seeking": "#7A2E12",
    "rotating": "#D98B5F",
    "transferring": "#8CC5E8",
    "overhead": "#E9DFA6",
    "idle": "#F7F7F7",
}
DISK_STATE_HATCH = {"overhead": "////"}
# what the workload's threads do
THREADS = {
    "user": "#EFEFEF",
    "kernel": "#B9C3CC",
    "ready": "#FFE68A",
    "read": READ,
    "write": WRITE,
    "journal": JOURNAL,
    "lock": "#B07A00",
    "throttle": "#8A7A4A",
    "memory": "#DDBDF0",
    "other": UNKNOWN,
}
THREADS_HATCH = {"ready": "////", "throttle": "....", "memory": "xxxx", "other": "\\\\\\\\"}
# where the critical path ends; no colour that has another meaning in the panel of the threads
PATH = {
    "own CPU": "#EFEFEF",
    "others' CPU": "#CFDAE6",
    "fs CPU": "#B9C3CC",
    "ready": THREADS["ready"],
    "device": DISK_MIDDLE,
    "queue": "#A9BFD6",
    "pause": "#CFE3C8",
    "apparatus": "#A3552B",
    "unknown": UNKNOWN,
    "not recorded": "#FFFFFF",
}
PATH_HATCH = {
    "ready": "////",
    "queue": "xxxx",
    "pause": "....",
    "unknown": "\\\\\\\\",
    "not recorded": "----",
}
SLEEP = "#B07A00"
SPIN = "#7A1F1F"
DIRTY = "#8A7A4A"
WRITEBACK = "#2F6F6F"
INK = "#1A1A1A"
QUIET = "#666666"
GRID = "#E4E4E4"
ALARM = "#A00000"
PHASE_BANDS = ("#ECEFF3", "#D9DFE7")

RC: dict[str, object] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9.5,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 5,
    "axes.edgecolor": "#888888",
    "axes.linewidth": 0.7,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.unicode_minus": True,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "xtick.color": "#444444",
    "ytick.color": "#444444",
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "xtick.major.size": 3,
    "ytick.major.size": 3,
    "xtick.major.width": 0.7,
    "ytick.major.width": 0.7,
    "legend.fontsize": 8.5,
    "legend.frameon": False,
    "legend.handlelength": 1.3,
    "legend.labelspacing": 0.25,
    "legend.borderaxespad": 0.0,
    "legend.borderpad": 0.0,
    "text.parse_math": False,  # a dollar sign in a file name is no formula
    "svg.fonttype": "path",
    "svg.hashsalt": "seekmeter",  # the same run gives the same file
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
}


@contextmanager
def applied() -> Iterator[None]:
    """Draw with these settings, whatever matplotlib's own configuration is."""
    with mpl.rc_context(RC):  # type: ignore[arg-type]
        yield


def lock_colors(locks: Iterable[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """A colour for each lock (type and name), from a checksum of its name: the same in all graphs.

    Of two locks with the same checksum, the later in the alphabet takes the next free colour.
    """
    colors: dict[tuple[str, str], str] = {}
    for lock in sorted(set(locks)):
        first = zlib.crc32(" ".join(lock).encode()) % len(LOCKS)
        in_turn = LOCKS[first:] + LOCKS[:first]
        colors[lock] = next((color for color in in_turn if color not in colors.values()), LOCKS[first])
    return colors
