# SPDX-License-Identifier: BSD-2-Clause
"""One measure over the configurations of a sweep: each one's figures, and its difference from the best.

The unit is the run. The best is chosen by the same runs that it is then compared with: among many equal
configurations the best looks better than it is. Holm's correction covers all comparisons of the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from analysis.measures.statistics.differences import Difference, compare
from analysis.measures.statistics.holm import holm
from analysis.measures.statistics.samples import Description, describe
from analysis.rundir.sweep_dir import Configuration


@dataclass(frozen=True)
class Ranked:
    """One configuration's runs. against: compared with the table's reference; None: it is the reference."""

    configuration: Configuration
    values: tuple[float, ...]  # by repetition
    tasks: tuple[str, ...]
    description: Description
    against: Difference | None
    holm_p: float | None
    lossy: int  # runs in which a collector behind the figure lost events
    is_bound: bool  # a value is a lower bound: no verdict

    @property
    def n(self) -> int:
        """Runs with a value."""
        return self.description.n

    @property
    def spread(self) -> float | None:
        """Standard deviation over the mean; None: a single run, or the mean is 0."""
        sd, mean = self.description.sd, self.description.mean
        return None if sd is None or mean == 0 else sd / abs(mean)


@dataclass(frozen=True)
class Ranking:
    """All configurations with values, best first; with no better direction, in the plan's order."""

    measure: str
    unit: str
    better: str
    rows: tuple[Ranked, ...]
    lacking: tuple[Configuration, ...]  # that have runs, but no value of the measure

    @property
    def reference(self) -> Ranked | None:
        """The configuration that the others are compared with: the best, or the first."""
        return self.rows[0] if self.rows else None


def rank(
    frame: pd.DataFrame,
    measure: str,
    configurations: Sequence[Configuration],
    first: Configuration | None = None,
) -> Ranking:
    """Rank the configurations by one measure. frame: figures of runs that may be compared.

    first: the reference, whichever is best; the others then stay in the order given.
    """
    values = frame[frame.measure == measure]
    better = str(values.better.iloc[0]) if len(values) else ""
    unit = str(values.unit.iloc[0]) if len(values) else ""
    rows, lacking = [], []
    present = set(frame.configuration)
    by_configuration = dict(list(values.groupby("configuration", sort=False)))
    for configuration in (first, *(one for one in configurations if one is not first)):
        if configuration is None:
            continue
        own = by_configuration.get(configuration.id)
        row = _row(configuration, own.sort_values("rep")) if own is not None else None
        if row is not None:
            rows.append(row)
        elif configuration.id in present:
            lacking.append(configuration)
    if better and first is None:
        rows.sort(key=lambda row: row.description.mean, reverse=better == "higher")
    return Ranking(measure, unit, better, _compared(rows), tuple(lacking))


def _row(configuration: Configuration, own: pd.DataFrame) -> Ranked | None:
    values = own.value.to_numpy(dtype=np.float64)
    description = describe(values)
    if description is None:
        return None
    return Ranked(
        configuration,
        tuple(map(float, values)),
        tuple(own.task),
        description,
        None,
        None,
        int(own.lossy.sum()),
        bool(own.bound.any()),
    )


def _compared(rows: list[Ranked]) -> tuple[Ranked, ...]:
    """The rows, all but the first compared with it."""
    if not rows:
        return ()
    first = rows[0]
    against = [
        None if row.is_bound or first.is_bound else compare(first.values, row.values) for row in rows[1:]
    ]
    corrected = holm([None if one is None else one.welch_p for one in against])
    others = zip(rows[1:], against, corrected, strict=True)
    return (first, *(replace(row, against=one, holm_p=p) for row, one, p in others))
