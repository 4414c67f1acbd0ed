# SPDX-License-Identifier: BSD-2-Clause
"""The panels drawn from series over time bins. Each draws one question into the axes it is given and returns
what its legend shows."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from analysis.figures import style
from analysis.measures.app.unseen import AT_LEAST
from analysis.measures.block.throughput import OPS
from analysis.measures.common.timeline import F64
from analysis.measures.locks.lock_waits import OTHERS
from analysis.measures.results import Results
from analysis.tables.block import CLASSES

Handle = Line2D | Patch
LockKey = tuple[str, str]  # type and name
LOCK_LETTERS = 33  # of a legend's label


def any_finite(values: F64) -> bool:
    """Is there any value at all?"""
    return bool(np.isfinite(values).any())


def legend(ax: Axes, handles: list[Handle], title: str = "", right: float = 1.02) -> None:
    """ForkedTask the panel (`right`: of its width), never on the data."""
    if not handles:
        return
    box = ax.legend(handles=handles, loc="upper left", bbox_to_anchor=(right, 1.04), title=title or None)
    box.get_title().set_fontsize(8.5)
    box._legend_box.align = "left"  # type: ignore[attr-defined]


def number(value: float, _: object = None) -> str:
    """Tick label: plain, with thousands separated, no sign (an axis may point both ways)."""
    return f"{abs(value):,.10g}"


def time_tick(value: float, _: object = None) -> str:
    """Tick label of nanoseconds: 500 µs."""
    for unit, factor in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if value >= factor * 0.999:
            return f"{value / factor:,.4g} {unit}"
    return f"{value:.4g} ns"


def from_zero(ax: Axes, top: float, ticks: int = 4) -> None:
    """A linear axis from 0 to a little above the top, with round ticks."""
    ax.set_ylim(0, top * 1.08 if top > 0 else 1)
    if not top > 0:
        ax.text(0.5, 0.5, "none", transform=ax.transAxes, ha="center", va="center", color=style.QUIET)
    ax.yaxis.set_major_locator(MaxNLocator(nbins=ticks, steps=[1, 2, 2.5, 5, 10]))
    ax.yaxis.set_major_formatter(FuncFormatter(number))


def times(ax: Axes, low_ns: float, high_ns: float) -> None:
    """A log axis of times from low to high."""
    ax.set_yscale("log")
    ax.set_ylim(low_ns, high_ns)
    subs = (1.0, 2.0, 5.0) if high_ns < 256 * low_ns else (1.0,)
    ax.yaxis.set_major_locator(LogLocator(subs=subs, numticks=9))
    ax.yaxis.set_major_formatter(FuncFormatter(time_tick))
    ax.yaxis.set_minor_formatter(NullFormatter())


def line(color: str, label: str, width: float = 1.4, dash: style.Dash = "-") -> Line2D:
    """A legend entry for a line."""
    return Line2D([], [], color=color, linewidth=width, linestyle=dash, label=label)


READS_SHOWN = 0.002  # reads of less than this share of the writes' height would be a line nobody sees


APPLICATION_AT_LEAST = f"application ({AT_LEAST})"
APPLICATION_BOUND = f"{APPLICATION_AT_LEAST}: a lower bound, part of what it moved is not seen."


def directions(results: Results) -> str:
    """What the throughput panel's two directions mean, for its title."""
    if not any(_heights(results)):
        return "none"
    write, read = _heights(results)
    return "writes up, reads down" if read > READS_SHOWN * write else "writes"


def _heights(results: Results) -> tuple[float, float]:
    """The highest MB/s of writes and of reads, of the device or the application."""
    high = []
    device_mb_s = results.block.throughput.mb_s if results.block is not None else {}
    for op in ("write", "read"):
        device = sum(device_mb_s.get(op, {}).values(), np.zeros(results.timeline.bins))
        application = results.app.mb_s[op] if results.app.mb_s is not None else device
        high.append(max(float(device.max(initial=0.0)), float(application.max(initial=0.0))))
    return high[0], high[1]


def throughput(ax: Axes, results: Results) -> list[Handle]:
    """Writes up, reads down on one scale: the device's bytes stacked by class, the application's a line."""
    edges = results.timeline.edges_s
    used: dict[str, None] = {}
    device_mb_s = results.block.throughput.mb_s if results.block is not None else {}
    for op, sign in (("write", 1.0), ("read", -1.0)):
        base = np.zeros(results.timeline.bins)
        for class_ in CLASSES:
            values = device_mb_s.get(op, {}).get(class_)
            if values is None or not values.any():
                continue
            ax.stairs(
                sign * (base + values),
                edges,
                baseline=sign * base,
                fill=True,
                color=style.CLASS[class_],
                lw=0,
            )
            base = base + values
            used[class_] = None
        if results.app.mb_s is not None:
            ax.stairs(sign * results.app.mb_s[op], edges, baseline=None, color="white", lw=2.6, alpha=0.7)
            ax.stairs(sign * results.app.mb_s[op], edges, baseline=None, color=style.APPLICATION, lw=1.1)
    own = results.owners.own_mb_s if results.owners is not None and results.owners.is_shared else {}
    for op, sign in (("write", 1.0), ("read", -1.0)):
        if op in own:
            ax.stairs(sign * own[op], edges, baseline=None, color="white", lw=2.2, alpha=0.7)
            ax.stairs(sign * own[op], edges, baseline=None, color=style.OWN, lw=1.2, ls=style.DASHED)
    top, bottom = _heights(results)
    span = max(top, bottom)
    reads = bottom > READS_SHOWN * top
    ax.set_ylim(-bottom * 1.08 if reads else 0, max(top * 1.08, span * 0.05 if span else 1))
    ax.yaxis.set_major_locator(MaxNLocator(nbins=5, steps=[1, 2, 2.5, 5, 10]))
    ax.yaxis.set_major_formatter(FuncFormatter(number))
    if reads:
        ax.axhline(0, color="#555555", lw=0.8)
    handles: list[Handle] = []
    if results.app.mb_s is not None:
        label = APPLICATION_AT_LEAST if results.app.uncounted else "application"
        handles.append(line(style.APPLICATION, label))
    else:
        handles.append(line("none", "application: not recorded"))
    handles += [Patch(color=style.CLASS[c], label=f"device, {c}") for c in CLASSES if c in used]
    if own:
        handles.append(line(style.OWN, "device, own", 1.2, style.DASHED))
    return handles


def rates(ax: Axes, results: Results) -> list[Handle]:
    """Requests per second by op, and seeks per second: where they meet, every request seeks."""
    if results.block is None:
        return []
    edges = results.timeline.edges_s
    seeks_per_s, iops = results.block.seeks.per_s, results.block.throughput.iops
    ax.stairs(seeks_per_s, edges, fill=True, color="#D0D0D0", lw=0)
    handles: list[Handle] = [Patch(color="#D0D0D0", label="seeks")]
    top = float(seeks_per_s.max(initial=0.0))
    if results.owners is not None and results.owners.is_shared:
        ax.stairs(results.owners.own_seeks_per_s, edges, fill=True, color="#8A8A8A", lw=0)
        handles.append(Patch(color="#8A8A8A", label="seeks, own"))
    other = np.zeros(results.timeline.bins)
    for op, values in iops.items():
        if op in OPS:
            ax.stairs(values, edges, baseline=None, color=style.OP[op], lw=1.2, ls=style.OP_DASH[op])
            handles.append(line(style.OP[op], op, 1.2, style.OP_DASH[op]))
            top = max(top, float(values.max(initial=0.0)))
        else:
            other = other + values
    if other.any():
        ax.stairs(other, edges, baseline=None, color=style.OTHER_OPS, lw=1.0, ls=style.DASHED)
        handles.append(line(style.OTHER_OPS, ", ".join(o for o in iops if o not in OPS), 1.0, style.DASHED))
        top = max(top, float(other.max()))
    from_zero(ax, top)
    return handles


def latency(ax: Axes, results: Results) -> list[Handle]:
    """Median, 99th percentile and longest per bin, by op, on a log axis."""
    middles = results.timeline.middles_s
    handles: list[Handle] = []
    low, high = np.inf, 0.0
    for op, series in results.block.latency.series.items() if results.block is not None else ():
        if not any_finite(series.p50_ns):
            continue
        color = style.OP[op]
        edges = results.timeline.edges_s
        ax.stairs(series.p50_ns, edges, baseline=None, color=color, lw=1.6, ls=style.OP_DASH[op])
        ax.stairs(series.p99_ns, edges, baseline=None, color=color, lw=0.8, ls=style.OP_DASH[op], alpha=0.85)
        marker = "." if op == "write" else "x"
        ax.plot(middles, series.max_ns, marker, color=color, ms=2.6, alpha=0.7, mew=0.6)
        handles += [
            line(color, f"{op} p50", 2.0, style.OP_DASH[op]),
            line(color, f"{op} p99", 0.8, style.OP_DASH[op]),
            Line2D([], [], color=color, marker=marker, ms=4, lw=0, label=f"{op} max"),
        ]
        low = min(low, float(np.nanmin(series.p50_ns)))
        high = max(high, float(np.nanmax(series.max_ns)))
    if not handles:
        ax.set_yticks([])
        return []
    low = max(low, 100.0)
    times(ax, low / 1.6, max(high, low * 10) * 1.6)
    return handles


def depth(ax: Axes, results: Results) -> list[Handle]:
    """Mean requests at the device and in all, and the highest moment at the device."""
    if results.device.depth is None:
        return []
    at_device, queued = results.device.depth.at_device, results.device.depth.queued
    edges = results.timeline.edges_s
    ax.stairs(queued.mean, edges, fill=True, color="#D6D6D6", lw=0)
    ax.stairs(at_device.mean, edges, baseline=None, color=style.DEPTH, lw=1.3)
    ax.stairs(at_device.highest, edges, baseline=None, color=style.DEPTH_ALL, lw=0.8, ls=style.DASHED)
    from_zero(ax, float(max(queued.mean.max(), at_device.highest.max())), 3)
    return [
        line(style.DEPTH, "at device, mean"),
        line(style.DEPTH_ALL, "at device, highest", 0.8, style.DASHED),
        Patch(color="#D6D6D6", label="queued too, mean"),
    ]


def lock_colors(results: Results) -> dict[LockKey, str]:
    """One colour for one lock in both panels, and in other runs' too."""
    if results.locks.waits is None:
        return {}
    drawn = results.locks.waits.sleep_series.keys() | results.locks.waits.spin_series.keys()
    return style.lock_colors(drawn - {OTHERS}) | {OTHERS: style.OTHER_LOCKS}


def _lock_label(key: LockKey) -> str:
    label = " ".join(part for part in key if part)
    return label if len(label) <= LOCK_LETTERS else label[: LOCK_LETTERS - 2] + ".."


def _stacked(ax: Axes, results: Results, series: dict[LockKey, F64], factor: float) -> list[Handle]:
    """The locks on top of each other, the costliest at the bottom."""
    colors = lock_colors(results)
    base = np.zeros(results.timeline.bins)
    handles: list[Handle] = []
    for key, values in series.items():
        top = base + values * factor
        ax.stairs(top, results.timeline.edges_s, baseline=base, fill=True, color=colors[key], lw=0)
        # Neighbours may be equally dark where there are no colours.
        ax.stairs(base, results.timeline.edges_s, baseline=None, color="white", lw=0.4)
        handles.append(Patch(color=colors[key], label=_lock_label(key)))
        base = top
    from_zero(ax, float(base.max(initial=0.0)), 3)
    return handles


def lock_legend(ax: Axes, handles: list[Handle]) -> None:
    """Names are long: a smaller letter."""
    ax.legend(handles=handles, loc="upper left", bbox_to_anchor=(1.01, 1.06), fontsize=7, handlelength=1.0)


def sleepers(ax: Axes, results: Results) -> list[Handle]:
    """Mean number of threads asleep on a lock, by lock."""
    return (
        _stacked(ax, results, results.locks.waits.sleep_series, 1.0)
        if results.locks.waits is not None
        else []
    )


def spin(ax: Axes, results: Results, cpus: int) -> list[Handle]:
    """Share of all CPU time spent spinning, by lock."""
    return (
        _stacked(ax, results, results.locks.waits.spin_series, 100 / cpus)
        if results.locks.waits is not None
        else []
    )


def memory(ax: Axes, results: Results) -> list[Handle]:
    """Dirty pages and pages under writeback."""
    if results.memory is None:
        return []
    edges = results.timeline.edges_s
    handles: list[Handle] = [Patch(color=style.DIRTY, alpha=0.45, label="dirty")]
    ax.stairs(results.memory.dirty / 1e6, edges, fill=True, color=style.DIRTY, alpha=0.45, lw=0)
    top = float(np.nanmax(results.memory.dirty)) / 1e6
    if any_finite(results.memory.writeback):
        ax.stairs(results.memory.writeback / 1e6, edges, baseline=None, color=style.WRITEBACK, lw=1.2)
        handles.append(line(style.WRITEBACK, "in writeback"))
        top = max(top, float(np.nanmax(results.memory.writeback)) / 1e6)
    from_zero(ax, top, 3)
    return handles
