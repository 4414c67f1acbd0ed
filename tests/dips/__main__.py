# SPDX-License-Identifier: BSD-2-Clause
"""False alarms and power of the finder of dips, as the table in analysis/measures/dips/README.md.

.venv/bin/python -m tests.dips [SERIES [POWER [N [NOISE...]]]]    series without a dip, and with one, per cell
"""

from __future__ import annotations

import sys
import time

import numpy as np
from scipy.stats import binomtest

from analysis.measures.dips.finder import search
from tests.dips.noise import KINDS, series, with_dip

SIZES = (200, 1000)
DEPTHS = (0.3, 0.6)
SHARE = 0.05


def _found(dips: list[tuple[int, int]], first: int, last: int) -> bool:
    """At least half of the dip is covered, by a window at most three times as long."""
    return any(
        min(b, last) - max(a, first) >= (last - first) / 2 and b - a <= 3 * (last - first) for a, b in dips
    )


def _cell(kind: str, n: int, depth: float, times: int) -> tuple[int, int, int]:
    """Series with a dip reported (at the right place, if one is there), with no verdict, with a candidate."""
    hits = silent = candidates = 0
    for i in range(times):
        random = np.random.default_rng([n, list(KINDS).index(kind), round(100 * depth), i])
        rate, first, last = series(kind, n, random), 0, n
        if depth:
            rate, first, last = with_dip(rate, depth, SHARE, random)
        result = search(rate, seed=i)
        dips = [(dip.first, dip.last) for dip in result.dips]
        hits += _found(dips, first, last) if depth else bool(dips)
        silent += bool(result.why_not)
        candidates += bool(result.candidates) and not dips
    return hits, silent, candidates


def main(arguments: list[str]) -> int:
    """Print the table, a line a cell as it is done."""
    times = int(arguments[0]) if arguments else 2000
    power = int(arguments[1]) if len(arguments) > 1 else 200
    heads = (
        "n",
        "noise",
        "false alarms",
        "95 % limits",
        "no verdict",
        "candidates",
        "30 % found",
        "60 %",
        "s",
    )
    print(f"| {' | '.join(heads)} |\n{'|---' * len(heads)}|", flush=True)
    sizes = [int(arguments[2])] if len(arguments) > 2 else SIZES
    for n in sizes:
        for kind in arguments[3:] or KINDS:
            start = time.perf_counter()
            alarms, silent, candidates = _cell(kind, n, 0, times)
            took = (time.perf_counter() - start) / times
            limits = binomtest(alarms, times).proportion_ci()
            found = [_cell(kind, n, depth, power)[0] / power for depth in DEPTHS]
            print(
                f"| {n} | {kind} | {alarms / times:.2%} | {limits.low:.1%} to {limits.high:.1%} |"
                f" {silent / times:.1%} | {candidates / times:.1%} |"
                + "".join(f" {share:.0%} |" for share in found)
                + f" {took:.3f} |",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
