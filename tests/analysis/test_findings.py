# SPDX-License-Identifier: BSD-2-Clause
"""A finding states number, cost, evidence and test, or is none; rules are found and asked by the folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from analysis.findings.finding import Cost, Evidence, Finding, Where
from analysis.findings.rule import Rule, find_rules, findings_of
from analysis.measures.results import Results, measure
from analysis.rundir.run import Run, open_run
from analysis.tables.load import Tables, load_tables
from tests.analysis.synthetic import decaying_ext3

GOOD = Finding(
    what="writes wait 41 % of 12.0 s for the journal's commit",
    where=Where(0, 12_000_000_000, phase="create", threads=("compilebench",)),
    cost=Cost(4.9, 4.1, 5.6),
    evidence=(Evidence("call", {"call": "write"}, "mean wait", "ns", 910_000.0, 12_000.0),),
    confidence=0.8,
    doubt="the journal's commits were not recorded",
    test="make trace FS=ext4 WL=compilebench WITH=bpftrace:journal_commits",
)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"what": "many seeks"}, "states no number"),
        ({"evidence": ()}, "no evidence"),
        ({"confidence": 0.0}, "contradict"),
        ({"confidence": 1.5}, "contradict"),
        ({"confidence": 1.0}, "contradict"),
        ({"doubt": ""}, "contradict"),
        ({"test": ""}, "names no test"),
    ],
)
def test_finding_without_its_parts_is_refused(change: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        replace(GOOD, **change)


def test_sure_finding_has_no_doubt() -> None:
    assert replace(GOOD, confidence=1.0, doubt="").confidence == 1


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
    assert find_rules() == []  # the room is empty
    run = open_run(decaying_ext3(2, 100).write(tmp_path / "r"))
    tables = load_tables(run)

    def rule(key: str, collector: str, cost_s: float) -> Rule:
        def find(run: Run, tables: Tables, results: Results) -> Sequence[Finding]:
            return [replace(GOOD, what=f"{key} 1", cost=Cost(cost_s, cost_s, cost_s))]

        return Rule(key, 1, (collector,), find)

    rules = [rule("small", "block", 1.0), rule("large", "block", 2.0), rule("never", "perf", 9.0)]
    found = findings_of(rules, run, tables, measure(run, tables))
    assert [finding.what for finding in found] == ["large 1", "small 1"]
