# SPDX-License-Identifier: BSD-2-Clause
"""A finding states number, cost, evidence and test, or is none; rules are found and asked by the folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from analysis.findings.finding import Certainty, Cost, Evidence, Finding, Remedy, Where
from analysis.findings.rule import Case, Rule, find_all
from analysis.measures.ledger import measure_ledger
from analysis.measures.results import measure
from analysis.rundir.run import open_run
from analysis.tables.load import load_tables
from tests.analysis.synthetic import decaying_ext3

GOOD = Finding(
    kind="commit",
    what="Writes waited 4.9 s of 12.0 s (41 %) for the journal's commit.",
    because=("Another process asked for 80 of the 82 commits.",),
    where=Where(0, 12_000_000_000, phases=("create",), threads=("compilebench",)),
    cost=Cost(4.9, 4.1, 5.6),
    evidence=(Evidence("call", {"call": "write"}, "mean wait", "ns", 910_000.0, 12_000.0),),
    certainty=Certainty.LIKELY,
    doubt="the journal's commits were not recorded",
    remedy=Remedy({"MKFS": "-J size=1024"}, "a journal of 1 GB", Cost(2.0, 0.0, 4.9)),
)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"what": "many seeks"}, "states no number"),
        ({"because": ("a background writer",)}, "states no number"),
        ({"evidence": ()}, "no evidence"),
        ({"certainty": Certainty.SURE}, "contradict"),
        ({"doubt": ""}, "contradict"),
        ({"remedy": None}, "names no test"),
    ],
)
def test_finding_without_its_parts_is_refused(change: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        replace(GOOD, **change)


def test_sure_finding_has_no_doubt() -> None:
    assert replace(GOOD, certainty=Certainty.SURE, doubt="").certainty == "sure"


@pytest.mark.parametrize(
    ("value", "low", "high"), [(1.0, 2.0, 3.0), (3.0, 2.0, 1.0), (1.0, 0.0, float("inf"))]
)
def test_cost_lies_within_its_interval(value: float, low: float, high: float) -> None:
    with pytest.raises(ValueError, match="is not within"):
        Cost(value, low, high)


def test_time_of_a_finding_is_not_empty() -> None:
    with pytest.raises(ValueError, match="before it begins"):
        Where(5, 5)


def test_rules_are_asked_whose_collectors_were_on(tmp_path: Path) -> None:
    run = open_run(decaying_ext3(2, 100).write(tmp_path / "r"))
    tables = load_tables(run)
    results = measure(run, tables)
    ledger = measure_ledger(results.path, results.threads, results.window.work_s)

    def rule(key: str, collector: str, cost_s: float, is_bound: bool = False) -> Rule:
        def find(case: Case) -> Sequence[Finding]:
            if not cost_s:
                return []
            return [replace(GOOD, kind=key, what=f"{key} 1", cost=Cost(cost_s, cost_s, cost_s))]

        return Rule(key, 1, f"a {key} one", (collector,), find, is_bound)

    rules = [
        rule("small", "block", 1.0),
        rule("large", "block", 2.0),
        rule("no", "block", 0.0),
        rule("never", "perf", 9.0),
    ]
    found = find_all(rules, Case(run, tables, results, ledger))
    assert [finding.what for finding in found.findings] == ["large 1", "small 1"]
    assert found.sought == ["a no one"]
    assert found.not_asked == [("a never one", "perf")]
    bounds = [rule("bound", "block", 1.9), rule("work", "block", 1.8, True), rule("tiny", "block", 0.05)]
    found = find_all(bounds, Case(run, tables, results, ledger))
    assert [finding.kind for finding in found.findings] == ["bound", "work", "tiny"]
    found = find_all(bounds[::-1], Case(run, tables, results, ledger))
    assert [finding.kind for finding in found.findings] == ["bound", "work", "tiny"]
    case = Case(run, tables, results, replace(ledger, wall_s=41.8))
    assert case.of_wall(13.0) == "13.0 s of 41.8 s (31 %)"
    assert not case.counts(0.4) and case.counts(0.42) and not replace(case, ledger=ledger).counts(0.009)
