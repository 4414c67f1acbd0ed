# SPDX-License-Identifier: BSD-2-Clause
"""What a run's findings say of a plant: the kind that is first, and the seconds of its cause."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.planted.plant import Plant

CLOSE = 0.15  # of the measured difference


@dataclass(frozen=True)
class Seen:
    """One run: wall time in s, and its findings as (kind, seconds), the costliest first."""

    wall_s: float
    findings: tuple[tuple[str, float], ...]

    @property
    def first(self) -> str:
        """The kind of the first finding; "": there is none."""
        return self.findings[0][0] if self.findings else ""

    def of(self, plant: Plant) -> float | None:
        """Seconds of the costliest finding that names the plant's cause."""
        return next((seconds for kind, seconds in self.findings if kind in plant.kinds), None)


@dataclass(frozen=True)
class Row:
    """All pairs of a plant on a file system."""

    plant: Plant
    filesystem: str
    pairs: Sequence[tuple[Seen, Seen]]  # with, without

    @property
    def differences_s(self) -> list[float]:
        """With minus without, of each pair."""
        return [there.wall_s - not_there.wall_s for there, not_there in self.pairs]

    @property
    def right(self) -> int:
        """Runs with the cause whose first finding names it."""
        return sum(there.first in self.plant.kinds for there, _ in self.pairs)

    @property
    def false(self) -> int:
        """Runs without the cause that have a finding of its kinds."""
        return sum(not_there.of(self.plant) is not None for _, not_there in self.pairs)

    @property
    def found_s(self) -> float | None:
        """Mean of the seconds found; of a graded plant, less those of the run without."""
        found = []
        for there, not_there in self.pairs:
            seconds = there.of(self.plant)
            if seconds is not None:
                found.append(seconds - ((not_there.of(self.plant) or 0) if self.plant.is_graded else 0))
        return statistics.mean(found) if found else None

    @property
    def others(self) -> list[str]:
        """First kinds of the runs with the cause that do not name it."""
        return sorted({there.first or "none" for there, _ in self.pairs} - self.plant.kinds)


def read_run(folder: Path) -> Seen:
    """Read the wall time and the findings of a reported run."""
    wall_s = json.loads((folder / "run.json").read_text())["timing"]["workload_s"]
    findings = json.loads((folder / "findings.json").read_text())["findings"]
    return Seen(wall_s, tuple((finding["kind"], finding["cost_s"][1]) for finding in findings))


HEAD = (
    "| plant | on | first finding right | seconds found | measured difference | within 15 % "
    "| false without | first instead |\n"
    "|---|---|---|---|---|---|---|---|"
)


def line(row: Row) -> str:
    """A row of the table, as Markdown."""
    mean_s = statistics.mean(row.differences_s)
    spread_s = statistics.stdev(row.differences_s) if len(row.pairs) > 1 else 0.0
    found_s = row.found_s
    is_close = found_s is not None and abs(found_s - mean_s) <= CLOSE * abs(mean_s)
    count = len(row.pairs)
    return (
        f"| {row.plant.name} | {row.filesystem} | {row.right} of {count} "
        f"| {'none' if found_s is None else f'{found_s:.1f} s'} | {mean_s:.1f} +-{spread_s:.1f} s "
        f"| {'yes' if is_close else 'no'} "
        f"| {'same kind, less' if row.plant.is_graded else f'{row.false} of {count}'} "
        f"| {', '.join(row.others)} |"
    )
