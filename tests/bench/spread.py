# SPDX-License-Identifier: BSD-2-Clause
"""Medians and spread of repeated measurements, as text."""

import statistics
from collections.abc import Mapping, Sequence


def table(values: Mapping[str, Sequence[float]], base: str) -> list[str]:
    """One line a mode: median, least and most, and the ratio to the base.

    The ratio is the median of the ratios within each repetition, as a slow moment of the machine hits all of
    one repetition alike; its own spread stands beside it.
    """
    lines = [f"  {'':<18}{'median':>12}{'min':>12}{'max':>12}{'of ' + base:>10}   (min-max)"]
    for mode, rates in values.items():
        ratios = [rate / none for rate, none in zip(rates, values[base], strict=True)]
        lines.append(
            f"  {mode:<18}{statistics.median(rates):>12,.0f}{min(rates):>12,.0f}{max(rates):>12,.0f}"
            f"{statistics.median(ratios):>10.3f}   ({min(ratios):.3f}-{max(ratios):.3f})"
        )
    return lines
