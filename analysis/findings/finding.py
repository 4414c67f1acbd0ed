# SPDX-License-Identifier: BSD-2-Clause
"""A finding: one explanation of lost time, with place, cost, evidence, certainty, and what would test it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum


class Certainty(StrEnum):
    """How sure a finding is. The finding's doubt says why it is not surer."""

    SURE = "sure"  # exact accounting, and the cause itself was seen
    LIKELY = "likely"  # exact accounting; the cause is concluded from it
    POSSIBLE = "possible"  # the interval of the cost reaches nearly zero, or another cause fits as well


@dataclass(frozen=True)
class Where:
    """What the finding covers. Times are CLOCK_MONOTONIC ns; an empty tuple: the rule does not limit it."""

    start_ns: int
    end_ns: int
    phases: tuple[str, ...] = ()  # empty: all of the run
    threads: tuple[str, ...] = ()
    files: tuple[str, ...] = ()  # paths from the mount point on

    def __post_init__(self) -> None:
        if self.start_ns >= self.end_ns:
            raise ValueError(f"finding's time ends ({self.end_ns}) before it begins ({self.start_ns})")


@dataclass(frozen=True)
class Cost:
    """Seconds of the workload's wall time, with the limits of an interval."""

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
class Remedy:
    """What takes the cause away, and what that is predicted to save: a prediction until it is verified."""

    words: Mapping[str, str]  # variables of make trace that differ; "": the variable is left out
    text: str  # "a journal of 1 GB"
    saved: Cost  # of the run's wall time


@dataclass(frozen=True)
class Finding:
    """One explanation. A rule that cannot state its cost and its evidence states no finding.

    The cost is what was lost or waited for. What is to be had by taking the cause away is the remedy's.
    """

    kind: str  # the rule's key
    what: str  # one sentence, made of numbers: "The journal was full 15 times: 13.0 s of 41.8 (31 %)."
    because: Sequence[str]  # sentences on how that comes about, each with a number of this run
    where: Where
    cost: Cost
    evidence: Sequence[Evidence]
    certainty: Certainty
    doubt: str  # why not surer; empty only if sure
    remedy: Remedy | None = None  # None: nothing that make verify could change, and why:
    no_remedy: str = ""  # "other programs are not the run's to end"; of no account beside a remedy
    test: str = ""  # the command that would confirm or refute it; empty: make verify, by the remedy
    lines: frozenset[str] = frozenset()  # keys of the ledger's lines whose time this is
    line_s: Mapping[str, float] = field(default_factory=dict)  # of these lines, at least, where that is known

    def __post_init__(self) -> None:
        for sentence in (self.what, *self.because):
            if not any(letter.isdigit() for letter in sentence):
                raise ValueError(f"finding states no number: {sentence!r}")
        if not self.evidence:
            raise ValueError(f"finding has no evidence: {self.what!r}")
        if bool(self.doubt) == (self.certainty == Certainty.SURE):
            raise ValueError(f"{self.certainty} and doubt {self.doubt!r} contradict each other")
        if self.remedy is None and not self.test:
            raise ValueError(f"finding names no test: {self.what!r}")
