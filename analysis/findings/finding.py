# SPDX-License-Identifier: BSD-2-Clause
"""The type of a finding: one explanation of lost time, with its location, cost, evidence and confidence."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Where:
    """What the finding covers. Times are CLOCK_MONOTONIC ns; an empty tuple: the rule does not limit it."""

    start_ns: int
    end_ns: int
    phase: str = ""  # empty: outside of phases, or over several
    threads: tuple[str, ...] = ()
    files: tuple[str, ...] = ()  # paths from the mount point on

    def __post_init__(self) -> None:
        if self.start_ns >= self.end_ns:
            raise ValueError(f"finding's time ends ({self.end_ns}) before it begins ({self.start_ns})")


@dataclass(frozen=True)
class Cost:
    """Seconds that the finding cost, with the limits of its interval."""

    value_s: float
    low_s: float
    high_s: float

    def __post_init__(self) -> None:
        numbers = (self.low_s, self.value_s, self.high_s)
        if not all(math.isfinite(number) for number in numbers) or list(numbers) != sorted(numbers):
            raise ValueError(f"cost of {self.value_s} s is not within {self.low_s} to {self.high_s} s")


@dataclass(frozen=True)
class Evidence:
    """Rows of one table that the finding rests on, and one number of them inside and outside of `where`."""

    table: str  # as in tables/, without .parquet
    rows: Mapping[str, object]  # the columns' values or limits that select the rows
    measure: str  # what the numbers are: "requests per second"
    unit: str
    inside: float
    outside: float | None  # None: nothing lies outside


@dataclass(frozen=True)
class Finding:
    """One explanation. A rule that cannot state its cost and its evidence states no finding."""

    what: str  # one sentence, made of numbers: "writes wait 41 % of 12.0 s for the journal's commit"
    where: Where
    cost: Cost
    evidence: Sequence[Evidence]
    confidence: float  # 0..1: probability that the explanation holds
    doubt: str  # why the confidence is not higher; empty only with confidence 1
    test: str  # the run that would confirm or refute the finding, as it is typed

    def __post_init__(self) -> None:
        if not any(letter.isdigit() for letter in self.what):
            raise ValueError(f"finding states no number: {self.what!r}")
        if not self.evidence:
            raise ValueError(f"finding has no evidence: {self.what!r}")
        if not 0 < self.confidence <= 1 or bool(self.doubt) == (self.confidence == 1):
            raise ValueError(f"confidence {self.confidence} and doubt {self.doubt!r} contradict each other")
        if not self.test:
            raise ValueError(f"finding names no test: {self.what!r}")
