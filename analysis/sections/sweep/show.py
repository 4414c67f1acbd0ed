# SPDX-License-Identifier: BSD-2-Clause
"""Figures of sweeps as text: values and half-widths in one unit, ratios, p, and names of groups."""

from __future__ import annotations

import math
import textwrap

from analysis import units
from analysis.measures.common.statistics import Interval
from analysis.measures.sweep.data import Group, SweepData
from analysis.measures.sweep.ranking import Ranked
from analysis.rundir.sweep_dir import Configuration

HEAD_LETTERS = 14
TITLE_LETTERS = 70
DIFFERS = "!"  # behind a ratio of means that differ by the rule
_PREFIXES = {
    "B": (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3), ("B", 1.0)),
    "ns": (("s", 1e9), ("ms", 1e6), ("us", 1e3), ("ns", 1.0)),
    "share": (("%", 0.01),),
}
_OTHER = (("T", 1e12), ("G", 1e9), ("M", 1e6), ("", 1.0))
IN_CELLS = ("B", "ns", "share")  # units that stand in each cell, as prefixes differ


def _scale(value: float, unit: str) -> tuple[str, float]:
    """Unit or prefix behind the number, and what it stands for."""
    prefixes = _PREFIXES.get(unit, _OTHER)
    return next(((name, factor) for name, factor in prefixes if abs(value) >= 0.9995 * factor), prefixes[-1])


def digits(value: float, count: int = 3) -> str:
    """So many significant digits; from 10**9 on, which no figure is, as a power of ten."""
    return units.figures(value, count) if abs(value) < 1e9 or not math.isfinite(value) else f"{value:.1e}"


def signed(value: float | None, places: int) -> str:
    """A change in percent, with its sign."""
    if value is None:
        return "-"
    return f"{value:+.{places}f} %" if abs(value) < 1e6 else f"{value:+.1e} %"


def number(value: float, unit: str) -> str:
    """A value: 12.3; 4.1 GB; 1.2 ms; 3.4 %."""
    name, factor = _scale(value, unit)
    return f"{digits(value / factor)} {name}".rstrip()


def with_half(value: float, half: float | None, unit: str) -> str:
    """A mean with its 95 % half-width, both in the unit of the mean: 12.3 +-0.42."""
    if half is None:
        return number(value, unit)
    name, factor = _scale(value, unit)
    return f"{digits(value / factor)} +-{digits(half / factor, 2)} {name}".rstrip()


def mean(row: Ranked, unit: str) -> str:
    """The configuration's mean with its half-width; >= before a lower bound, * behind if runs lost events."""
    text = with_half(row.description.mean, row.description.half_width, unit)
    return f"{'>=' if row.is_bound else ''}{text}{'*' if row.lossy else ''}"


def heading(measure: str, unit: str) -> str:
    """Name and unit of a measure, as a heading."""
    last = measure.rpartition(" ")[2]
    is_named = (
        last == unit or (unit.startswith("/") and last.endswith(unit)) or f"{unit} {last}" == "s seconds"
    )
    return measure if not unit or is_named or unit in IN_CELLS else f"{measure}, {unit}"


def head(configuration: Configuration) -> str:
    """A configuration's label as the heading of a column, folded to be narrow."""
    return "\n".join(textwrap.wrap(configuration.label, HEAD_LETTERS)) or configuration.id


def ratio(value: float | None) -> str:
    """A ratio: 1.23."""
    if value is None:
        return "-"
    return f"{value:.2f}" if 0.1 <= abs(value) < 100 or value == 0 else digits(value)


def interval(value: Interval | None) -> str:
    """An interval of a ratio: [0.63, 0.69]."""
    return "-" if value is None else f"[{ratio(value.low)}, {ratio(value.high)}]"


def p(value: float | None) -> str:
    """A p: 0.012, or <0.001."""
    if value is None:
        return "-"
    return "<0.001" if value < 0.001 else f"{value:.3f}"


def percent(value: float | None) -> str:
    """A number that is in percent already."""
    return "-" if value is None else f"{digits(value, 2)} %"


def better(direction: str) -> str:
    """Which values are better, as words."""
    return f"{direction} is better" if direction else "neither high nor low is better"


def machine(data: SweepData, name: str) -> str:
    """A machine by its host name, with its number if there are several."""
    about = data.sweep.machines.get(name)
    host = about.hostname if about else ""
    return f"{host} ({name})" if host and len(data.machines) > 1 else host or name


def title(text: str, name: str) -> str:
    """A section's title with the name of its group, short enough for a line."""
    return f"{text} ({name})"[:TITLE_LETTERS] if name else text


def group(data: SweepData, one: Group) -> str:
    """What tells the group from the others: part, workload, machine, virtual, tracing; "" if nothing does."""
    words = []
    if len({other.part for other in data.groups}) > 1:
        words.append(one.part)
    if len({other.wl for other in data.groups if other.part == one.part}) > 1:
        words.append(one.wl)
    if len({other.machine for other in data.groups}) > 1:
        words.append(f"on {machine(data, one.machine)}")
    if one.virtual:
        words.append("in a virtual machine")
    if len({other.traced for other in data.groups}) > 1:
        words.append("with tracing" if one.traced else "without tracing")
    return ", ".join(words)
