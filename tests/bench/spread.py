# SPDX-License-Identifier: BSD-2-Clause
"""Medians and spread of repeated measurements, as text."""

import statistics
from collections.abc import Mapping, Sequence


def table(values: Mapping[str, Sequence[float]], base: str) -> list[str]:
    """Return one line per mode: median, minimum, maximum, and the ratio to the mode base.

    The ratio is the median of the ratios within each repetition, because a slow moment of the machine affects
    all modes of a repetition alike. Its minimum and maximum follow.
    """
    lines = [f"  {'':<18}{'median':>12}{'min':>12}{'max':>12}{'of ' + base:>10}   (min-max)"]
    for mode, rates in values.items():
        ratios = [rate / none for rate, none in zip(rates, values[base], strict=True)]
        lines.append(
            f"  {mode:<18}{statistics.median(rates):>12,.0f}{min(rates):>12,.0f}{max(rates):>12,.0f}"
            f"{statistics.median(ratios):>10.3f}   ({min(ratios):.3f}-{max(ratios):.3f})"
        )
    return lines
