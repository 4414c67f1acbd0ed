# SPDX-License-Identifier: BSD-2-Clause
"""Differences between runs, measure by measure, each with an interval and a verdict.

Runs with the same options, kernel and machine that ended with exit status 0 are repetitions: they form one
side of the comparison, with a mean and its 95 % confidence interval. A run without repetition is a single
observation: no verdict.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass

from analysis.measures.common.statistics import (
    Interval,
    Mean,
    differ,
    difference_interval,
    mean_ci,
    ratio_interval,
)
from analysis.measures.compare.compared_measures import Measure
from analysis.measures.compare.compared_run import Compared
from analysis.rundir.run import dig

Side = list[int]  # indexes of the runs
THEY_DIFFER = "they differ"
ALIKE = "no difference by the rule"
MAY_DIFFER = ("OUT", "SEED", "NAME")  # options that may differ between repetitions


def _identity(compared: Compared) -> str | None:
    """Text that is equal for repetitions: options, kernel, machine; None: the run cannot have repetitions."""
    run = compared.run
    options = dig(run.facts, "words")
    if (
        run.state != "complete"
        or run.int_("workload", "exit_status") != 0
        or not isinstance(options, dict)
        or not options
    ):
        return None
    shared_options = {key: value for key, value in options.items() if key not in MAY_DIFFER}
    facts = ("release", "version", "build_id")
    machine = ("cpus", "memory_bytes", "cpu_model", "virtualization")
    kernel_and_machine = [run.text("kernel", key) for key in facts] + [
        run.text("machine", key) for key in machine
    ]
    workload = [run.text("workload", key) for key in ("name", "variant", "scale", "threads")]
    workload += [run.text("filesystem", "name"), run.text("device", "kind")]
    vm = [run.text("machine", "vm", key) for key in ("accel", "qemu")]
    return json.dumps([shared_options, kernel_and_machine, workload, vm], sort_keys=True, default=str)


def sides(runs: Sequence[Compared]) -> list[Side]:
    """The runs in groups of repetitions, in the order of their first one."""
    groups: dict[str, Side] = {}
    for i, compared in enumerate(runs):
        groups.setdefault(_identity(compared) or f"alone {i}", []).append(i)
    return list(groups.values())


def mean_of(measure: Measure, side: Side) -> Mean | None:
    """The mean over the side's runs; None: no run has a value."""
    values = [value for i in side if (value := measure.values[i]) is not None]
    return mean_ci(values)


@dataclass(frozen=True)
class Difference:
    """One side against the first side, in one measure."""

    first: Mean | None
    other: Mean | None
    is_judged: bool  # false for times and rates of emulated CPUs
    is_bound: bool = False  # first or other is a lower bound: no ratio or difference is known

    @property
    def value(self) -> float | None:
        """The other minus the first."""
        if self.first is None or self.other is None or self.is_bound:
            return None
        return self.other.value - self.first.value

    @property
    def interval(self) -> Interval | None:
        """The interval of the difference; None for single observations."""
        if self.first is None or self.other is None or self.is_bound:
            return None
        return difference_interval(self.first, self.other)

    @property
    def ratio(self) -> float | None:
        """The other over the first; None: the first is 0 or missing."""
        if self.first is None or self.other is None or self.is_bound or not self.first.value:
            return None
        return self.other.value / self.first.value

    @property
    def ratio_interval(self) -> Interval | None:
        """The interval of the ratio; None for single observations, or if the first may be 0."""
        if self.first is None or self.other is None or self.is_bound:
            return None
        return ratio_interval(self.first, self.other)

    @property
    def weight(self) -> float:
        """The larger value over the smaller one, which sorts the table. 1: equal."""
        if self.first is None or self.other is None:
            return 0.0
        a, b = abs(self.first.value), abs(self.other.value)
        if a == b:
            return 1.0
        return max(a, b) / min(a, b) if min(a, b) > 0 else math.inf

    @property
    def verdict(self) -> str:
        """The verdict, as compare.csv has it."""
        if self.first is None or self.other is None:
            return "not measured in both"
        if self.is_bound:
            return "not judged: a lower bound"
        if not self.is_judged:
            return "not judged: emulated CPUs"
        is_different = differ(self.first, self.other)
        if is_different is None:
            return "single observation"
        return THEY_DIFFER if is_different else ALIKE


def difference(measure: Measure, runs: Sequence[Compared], first: Side, other: Side) -> Difference:
    """The other side against the first."""
    emulated = any(runs[i].emulated for i in (*first, *other))
    is_judged = not (measure.of_time and emulated)
    is_bound = measure.is_bound(first, other)
    return Difference(mean_of(measure, first), mean_of(measure, other), is_judged, is_bound)


def by_weight(
    measures: Sequence[Measure], runs: Sequence[Compared], sides_in_order: Sequence[Side]
) -> list[Measure]:
    """The measures, first those that differ by the rule, then by weight, largest first."""

    def key(measure: Measure) -> tuple[bool, float]:
        differences = [difference(measure, runs, sides_in_order[0], other) for other in sides_in_order[1:]]
        is_different = any(
            d.is_judged and d.first and d.other and differ(d.first, d.other) for d in differences
        )
        return not is_different, -max((d.weight for d in differences), default=1.0)

    return sorted(measures, key=key)
