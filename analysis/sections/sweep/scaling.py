# SPDX-License-Identifier: BSD-2-Clause
"""Scaling with threads, CPUs or tasks: throughput by N, saturation, the trend and the law; and what grows."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from analysis import units
from analysis.measures.common.statistics import Interval
from analysis.measures.scaling.growth import ALL_LOCKS, CAUTION, DEFINITION, REST, Cost, Grown, measure_growth
from analysis.measures.scaling.lines import Line, find_lines
from analysis.measures.scaling.saturation import SATURATION, SEES
from analysis.measures.scaling.scaling import Scaling, measure_scaling
from analysis.measures.sweep.data import SweepData
from analysis.render.document import Section, Table
from analysis.sections.sweep import show
from analysis.sections.sweep.spec import SweepSpec

NAME_WIDTH = 16
MOST_LINES = 24
MOST_COSTS = 12
NO_LINES = "no runs differ in the number of threads, CPUs or tasks alone: give THREADS= or CPUS= a list"
LAW = (
    "law: X(N) = gamma N / (1 + alpha (N - 1) + beta N (N - 1)), the Universal Scalability Law (Gunther):"
    " alpha is contention, beta the cost of coherency; least squares of log X over all runs, 0 <= alpha <= 1,"
    " beta >= 0, 95 % intervals by profile; peak: only where its interval lies inside what was measured."
    " trend: a N^b, R2 in logarithms and of the values themselves. residual: mean throughput over the law's."
)


def build_scaling(data: SweepData) -> list[Section]:
    """A section per axis and unit."""
    lines = find_lines(data.frame)
    if not lines:
        return [Section(absent=NO_LINES)]
    sections = []
    for axis, measure, unit in dict.fromkeys((line.axis, line.measure, line.unit) for line in lines):
        own = [line for line in lines if (line.axis, line.measure, line.unit) == (axis, measure, unit)]
        sections.append(_scaling(data, axis, own))
    return sections


def _scaling(data: SweepData, axis: str, lines: Sequence[Line]) -> Section:
    measure, unit = lines[0].measure, lines[0].unit
    section = Section(title=f"Scaling with {axis}", essential=True)
    if lines[0].why:
        section.absent = f"{', '.join(line.name for line in lines)}: {lines[0].why}"
        return section
    section.title += f": {show.heading(measure, unit)}"
    shown = [measure_scaling(line) for line in lines[:MOST_LINES]]
    if len(lines) > MOST_LINES:
        section.notes.append(f"the first {MOST_LINES} of {len(lines)} lines")
    counts = sorted({point.n for one in shown for point in one.points})
    section.tables = [_means(shown, counts), _fits(shown)]
    if any(one.law.residuals for one in shown):
        section.tables.append(_residuals(shown, counts))
    section.notes += _crowded(data, lines)
    for one in shown:
        if one.saturation.why:
            section.notes.append(f"{one.line.name}: no saturation: {one.saturation.why}")
        if not one.law.fitted:
            section.notes.append(f"{one.line.name}: no fit of the law: {one.law.why}")
        elif one.law.why_no_peak:
            section.notes.append(f"{one.line.name}: no peak: {one.law.why_no_peak}")
    section.definition = (
        f"Mean +- 95 % half-width (Student t) of n runs; ^: the best. {SATURATION}; {SEES}. {LAW}"
    )
    return section


def _crowded(data: SweepData, lines: Sequence[Line]) -> list[str]:
    """Which machines have fewer CPUs than a line has threads."""
    notes = []
    for name in dict.fromkeys(line.machine for line in lines if line.axis == "threads"):
        about = data.sweep.machines.get(name)
        most = max((int(line.n.max()) for line in lines if line.machine == name and line.n.size), default=0)
        if about is not None and about.cpus and most > about.cpus:
            notes.append(
                f"{show.machine(data, name)} has {about.cpus} CPUs: of more threads, some wait for a CPU, and"
                " the law's alpha holds that too"
            )
    return notes


def _means(shown: Sequence[Scaling], counts: Sequence[int]) -> Table:
    rows = []
    for one in shown:
        by_n = {point.n: point for point in one.points}
        cells = []
        for n in counts:
            point = by_n.get(n)
            if point is None:
                cells.append("-")
                continue
            about = point.throughput
            text = show.with_half(about.mean, about.half_width, one.line.unit)
            outliers = f" {len(about.outliers)} far out" if about.outliers else ""
            cells.append(f"{text} n={about.n}{outliers}{' ^' if point is one.best else ''}")
        rows.append([one.line.name, *cells])
    return Table([f"<{shown[0].line.axis}", *map(str, counts)], rows, NAME_WIDTH)


def _fits(shown: Sequence[Scaling]) -> Table:
    heads = ["<", "saturation", "&sees", "trend", "&R2 log", "&R2", "gamma", "alpha", "beta", "peak N"]
    rows = []
    for one in shown:
        saturation, trend, law = one.saturation, one.trend, one.law
        cells = [saturation.text, show.percent(saturation.seen_pct)]
        if trend is None:
            cells += ["-"] * 3
        else:
            half = "" if trend.half_width is None else f" +-{units.figures(trend.half_width, 2)}"
            cells += [
                f"{show.number(trend.a, '')} N^{trend.b:.2f}{half}",
                _r2(trend.r2_log),
                _r2(trend.r2_linear),
            ]
        if law.fitted:
            gamma = show.number(law.gamma, one.line.unit)
            cells += [f"{gamma} {_ends(law.gamma_interval, one.line.unit)}"]
            cells += [f"{units.figures(law.alpha, 2)} {_ends(law.alpha_interval)}"]
            cells += [f"{units.figures(law.beta, 2)} {_ends(law.beta_interval)}"]
            peak = "-"
            if law.peak is not None and law.peak_interval is not None:
                peak = f"{units.figures(law.peak, 2)} {_ends(law.peak_interval)}"
            cells.append(peak)
        else:
            cells += ["no fit", "-", "-", "-"]
        rows.append([one.line.name, *cells])
    return Table(heads, rows, NAME_WIDTH)


def _ends(interval: Interval, unit: str = "") -> str:
    ends = (show.number(end, unit) if math.isfinite(end) else "inf" for end in (interval.low, interval.high))
    return f"[{', '.join(ends)}]"


def _r2(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _residuals(shown: Sequence[Scaling], counts: Sequence[int]) -> Table:
    """Mean throughput over the law's at each N, in percent."""
    rows = []
    for one in shown:
        if not one.law.residuals:
            continue
        residuals, n = np.asarray(one.law.residuals), one.line.n
        cells = [
            f"{100 * math.expm1(float(residuals[n == count].mean())):+.1f} %" if (n == count).any() else "-"
            for count in counts
        ]
        rows.append([one.line.name, *cells])
    return Table(["<residual", *map(str, counts)], rows, NAME_WIDTH)


def build_growing(data: SweepData) -> list[Section]:
    """A section with a table per line: each part of an operation's time by N, how it grows, and its share."""
    section = Section()
    lines = [line for line in find_lines(data.frame) if len(line.rows)]
    if len({line.axis for line in lines}) == 1:
        section.title = f"What grows with {lines[0].axis}"
    if not lines:
        section.absent = NO_LINES
        return [section]
    for line in lines[:MOST_LINES]:
        grown = measure_growth(line)
        if grown.costs:
            section.tables.append(_costs(line, grown))
        section.notes.append(f"{line.name}: {_bottleneck(line, grown)}")
        if not any(cost.is_lock or cost.name == ALL_LOCKS for cost in grown.costs):
            section.notes.append(f"{line.name}: no lock waits were recorded")
    section.definition = f"{DEFINITION} {CAUTION}"
    return [section]


def _costs(line: Line, grown: Grown) -> Table:
    counts = sorted({n for cost in grown.costs for n in cost.means})
    rows = []
    for cost in grown.costs[:MOST_COSTS]:
        cells = [show.number(cost.means[n].value, cost.unit) if n in cost.means else "-" for n in counts]
        trend = cost.trend
        exponent = "-"
        if trend is not None:
            half = " (two points)" if trend.half_width is None else f" +-{units.figures(trend.half_width, 2)}"
            exponent = f"{trend.b:.2f}{half}"
        share = units.percent(cost.shares.get(counts[-1])) if cost.shares else ""
        added = units.percent(cost.added / grown.added) if cost.shares and grown.added > 0 else ""
        rows.append([cost.name + (" *" if cost.lossy else ""), *cells, exponent, share, added])
    heads = [f"<{line.name}", *(f"{n}\n{line.axis}" for n in counts), "exponent", "&share %", "&added %"]
    return Table(heads, rows, NAME_WIDTH + 8)


def _bottleneck(line: Line, grown: Grown) -> str:
    """The sentence that names the bottleneck, with its evidence."""
    cost = grown.bottleneck
    if cost is None:
        return f"no bottleneck: {grown.why}"
    last, first = max(cost.shares), min(cost.shares)
    text = (
        f"the bottleneck is {cost.name}: {units.percent(cost.added / grown.added)} % of the time per"
        f" operation that {last} {line.axis} add; {units.percent(cost.shares[last])} % of the whole"
        f" ({units.percent(cost.shares[first])} % at {first}){_exponent(cost)}"
    )
    if cost.name == REST:
        beside = {one.name: one for one in grown.costs}
        active, depth = beside.get("disk active"), beside.get("queue depth, mean")
        if active is not None and last in active.means:
            text += f"; the disk was active {units.percent(active.means[last].value)} % of the time"
        if depth is not None and last in depth.means:
            text += f", with {units.figures(depth.means[last].value)} requests at it on average"
    if grown.next_lock is not None:
        text += (
            f". {'Next' if cost.is_lock else 'First'} lock: {grown.next_lock.name},"
            f" {units.percent(grown.next_lock.added / grown.added)} % of what is added"
        )
    return text


def _exponent(cost: Cost) -> str:
    if cost.trend is None or cost.trend.half_width is None:
        return ""
    return f", growing as N^{cost.trend.b:.2f} +-{units.figures(cost.trend.half_width, 2)}"


SECTIONS = (
    SweepSpec("scaling", "Scaling", 300, build_scaling),
    SweepSpec("growing", "What grows with N", 310, build_growing),
)
