# SPDX-License-Identifier: BSD-2-Clause
"""A thread's times off its CPU, by a naive walk over rows of switch and wake, apart from analysis/."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from tests.collectors.named_rows import named_rows
from tests.collectors.recording import Recording

ASLEEP = ("sleeping", "blocked", "io_wait")


@dataclass(frozen=True)
class Sleep:
    """A thread off its CPU: from its switch out to its switch in, and the wake in between."""

    begin_ns: int
    end_ns: int
    state: str
    wake: dict[str, Any] | None

    @property
    def ns(self) -> int:
        return self.end_ns - self.begin_ns

    @property
    def asleep_ns(self) -> int:
        """Until the wake; none, if that came before the switch."""
        return max(0, (self.wake["t_ns"] if self.wake else self.end_ns) - self.begin_ns)


class Sleeps:
    """All rows of a recording, by thread."""

    def __init__(self, run: Recording) -> None:
        self._switches, self._wakes = defaultdict(list), defaultdict(list)
        for switch in sorted(named_rows(run, "switch"), key=lambda row: int(row["t_ns"])):
            for number in {switch["prev"], switch["next"]}:
                self._switches[number].append(switch)
        for wake in sorted(named_rows(run, "wake"), key=lambda row: int(row["t_ns"])):
            self._wakes[wake["wakee"]].append(wake)

    def left(self, number: int) -> list[Sleep]:
        """Return a thread's times off a CPU, and for each the last wake between its last two switches in."""
        found, came_ns, left = [], 0, None
        for switch in self._switches[number]:
            if switch["next"] == number:
                if left is not None:
                    between = [one for one in self._wakes[number] if came_ns <= one["t_ns"] <= switch["t_ns"]]
                    wake = between[-1] if between else None
                    found.append(Sleep(left["t_ns"], switch["t_ns"], left["state"], wake))
                came_ns, left = switch["t_ns"], None
            if switch["prev"] == number:
                left = switch
        return found

    def unseen_ns(self, number: int) -> int:
        """Return the time between two switches of one kind: one of the other kind was not seen."""
        switches = self._switches[number]
        return sum(
            two["t_ns"] - one["t_ns"]
            for one, two in pairwise(switches)
            if (one["next"] == number) == (two["next"] == number)
        )

    def of(self, number: int) -> list[Sleep]:
        """Return those in which it slept."""
        return [one for one in self.left(number) if one.state in ASLEEP]
