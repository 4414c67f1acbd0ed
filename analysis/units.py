# SPDX-License-Identifier: BSD-2-Clause
"""Format numbers with units: decimal prefixes (1 MB = 10**6 bytes), three significant digits."""

from __future__ import annotations

import math

from analysis.measures.common.statistics import Mean


def figures(value: float, digits: int = 3) -> str:
    """About `digits` significant digits, thousands with commas, never an exponent."""
    if not math.isfinite(value):
        return "-"
    if value == 0:
        return "0"
    places = max(digits - 1 - math.floor(math.log10(abs(value))), 0)
    places = min(places, 6)
    text = f"{value:,.{places}f}"
    return "0" if not text.strip("-0.,") else text


def bytes_(value: float | None, digits: int = 3) -> str:
    """Bytes with a decimal prefix: 4.10 GB."""
    if value is None:
        return "-"
    size = abs(value)
    for unit, factor in (("EB", 1e18), ("PB", 1e15), ("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= factor * 0.9995:
            return f"{figures(value / factor, digits)} {unit}"
    return f"{value:,.0f} B"


def ns(value: float | None) -> str:
    """Nanoseconds as ns, us, ms or s: 12.3 ms."""
    if value is None:
        return "-"
    if abs(value) >= 1e15:
        return f"{rate(value / 1e9)}s"
    for unit, factor in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if abs(value) >= factor * 0.9995:
            return f"{figures(value / factor)} {unit}"
    return f"{value:.0f} ns"


def rate(value: float | None) -> str:
    """A rate without its unit; from a million on with a prefix, so that columns stay narrow."""
    if value is None:
        return "-"
    for prefix, factor in (("E", 1e18), ("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6)):
        if abs(value) >= factor * 0.9995:
            return f"{figures(value / factor)} {prefix}"
    return figures(value)


def count(value: int | None) -> str:
    """An integer in full; from 10**12 on, which no run counts, with a prefix."""
    if value is None:
        return "-"
    return f"{value:,}" if abs(value) < 10**12 else rate(float(value))


def counted(number: int, noun: str) -> str:
    """A number of things: 1 sleep, 2,048 sleeps."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def seconds(value: float) -> str:
    """Seconds without the unit."""
    return f"{value:,.1f}" if value >= 10 else f"{value:.2f}"


def percent(value: float | None) -> str:
    """A share (0..1) in percent; <0.1 for smaller ones above zero."""
    if value is None:
        return "-"
    if 0 < value < 0.001:
        return "<0.1"
    return f"{value * 100:.1f}"


def mean(value: Mean | None) -> str:
    """A mean with its 95 % confidence interval, 12.3 +-0.4, or 12.3 (single)."""
    if value is None:
        return "-"
    if value.half_width is None:
        return f"{rate(value.value)} (single)"
    half = figures(value.half_width, 2) if value.half_width < 1e6 else rate(value.half_width)
    return f"{rate(value.value)} +-{half}"
