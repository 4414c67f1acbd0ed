# SPDX-License-Identifier: BSD-2-Clause
"""What tracing costs, by TRACING=both: each configuration with tracing against the same without."""

from __future__ import annotations

from dataclasses import dataclass

from analysis.measures.statistics.differences import Difference, compare
from analysis.measures.sweep.data import SweepData
from analysis.measures.sweep.ranking import Ranked
from analysis.rundir.sweep_dir import Configuration

_OF_TRACING = ("COLLECT", "WITH")


@dataclass(frozen=True)
class TracingPair:
    """One configuration on one machine. difference: the traced runs against the untraced."""

    machine: str
    measure: str
    unit: str
    better: str
    untraced: Ranked
    traced: Ranked
    difference: Difference | None

    @property
    def cost_pct(self) -> float | None:
        """How much worse the figure is with tracing, in percent; None: no ratio, or no better direction."""
        ratio = self.difference.ratio if self.difference else None
        if ratio is None or not self.better:
            return None
        return 100 * (1 - ratio if self.better == "higher" else ratio - 1)


def _same(configuration: Configuration) -> tuple[object, ...]:
    """What the traced and the untraced configuration share."""
    words = {name: word for name, word in configuration.words.items() if name not in _OF_TRACING}
    return configuration.part, configuration.subject, tuple(sorted(words.items()))


def tracing_pairs(data: SweepData) -> list[TracingPair]:
    """All pairs, in the order of the plan; empty if every run was traced, or none."""
    untraced: dict[tuple[object, ...], Ranked] = {}
    for group in data.groups:
        if not group.traced:
            for row in group.ranking.rows:
                untraced[(group.machine, group.headline, *_same(row.configuration))] = row
    pairs = []
    for group in data.groups:
        if not group.traced:
            continue
        rows = {row.configuration.id: row for row in group.ranking.rows}
        for configuration in group.configurations:
            traced = rows.get(configuration.id)
            other = untraced.get((group.machine, group.headline, *_same(configuration)))
            if traced is not None and other is not None:
                ranking = group.ranking
                difference = compare(other.values, traced.values)
                pairs.append(
                    TracingPair(
                        group.machine,
                        ranking.measure,
                        ranking.unit,
                        ranking.better,
                        other,
                        traced,
                        difference,
                    )
                )
    return pairs
