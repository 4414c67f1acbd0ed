# SPDX-License-Identifier: BSD-2-Clause
"""The time that a sweep still takes: by the measured runs, and by the catalog for what was not run yet."""

from collections import defaultdict
from collections.abc import Iterable

from workloads.sweep.sweep_plan import Task


class Remaining:
    """Measured durations of a sweep's runs."""

    def __init__(self) -> None:
        self._measured: defaultdict[str | None, list[float]] = defaultdict(list)
        self._expected_s = 0.0  # by the catalog, of the measured runs
        self._took_s = 0.0

    def add(self, task: Task, seconds: float) -> None:
        """Add a run that ended."""
        self._measured[task.configuration].append(seconds)
        if task.est_seconds:
            self._expected_s += task.est_seconds
            self._took_s += seconds

    def seconds(self, tasks: Iterable[Task]) -> float | None:
        """Return the seconds that these tasks will take; None: nothing tells.

        A configuration takes its mean so far; one that was not run takes the catalog's time, times how much
        longer the others took than theirs; one without that takes the mean of all runs.
        """
        ratio = self._took_s / self._expected_s if self._expected_s else 1.0
        everything = [seconds for runs in self._measured.values() for seconds in runs]
        total = 0.0
        for task in tasks:
            runs = self._measured.get(task.configuration) or []
            if runs:
                total += sum(runs) / len(runs)
            elif task.est_seconds is not None:
                total += task.est_seconds * ratio
            elif everything:
                total += sum(everything) / len(everything)
            else:
                return None
        return total
