# SPDX-License-Identifier: BSD-2-Clause
"""Lines of the first screen: whole facts, numbers with their units, commands with their end; the order."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from analysis.answer.answer import Numbered
from analysis.answer.finding_text import levels
from analysis.answer.text import render
from analysis.answer.time_spent import time_spent
from analysis.answer.wrap import lines_of, parts, whole_parts
from analysis.causes.roles import WORKLOAD
from analysis.findings.finding import Evidence
from analysis.findings.order import Kind, ordered
from analysis.measures.critical_path.pieces import Kind as End
from analysis.measures.critical_path.results import NoPath, PathResults
from analysis.measures.ledger import Ledger, Line, measure_ledger, usable_path
from analysis.measures.threads.parts import Part
from analysis.measures.threads.phases import PhaseTime
from analysis.measures.threads.results import Bottleneck, ThreadResults
from tests.analysis.test_answer import answer_of, finding
from tests.analysis.test_answer_run import case_of
from tests.analysis.test_critical_path import fsync_of_a_child, write


@pytest.mark.parametrize("amount", ["(53 %)", "41.8 s", "1.2 MB/s", "12 CPUs", "3.13 ms,", "30,979 ops/s"])
def test_number_and_unit_stay_in_one_line(amount: str) -> None:
    for before in range(60, 80):
        lines = lines_of(f"{'x' * before} {amount} and more", "   ")
        assert any(amount in line for line in lines), lines


def test_texts_that_do_not_fit_are_left_out_whole() -> None:
    facts = ["a fact of 30 letters, all told", "another one, of 38 letters, well counted", "a third"]
    assert whole_parts(facts, "; ", "", 1) == (["; ".join(facts[:2])], 2)
    assert parts("one, two; " + "x" * 75, "", 1) == ["one, two, ..."]


def test_long_title_keeps_how_long_the_run_took() -> None:
    ran = "Seekmeter: xfs dd if=/dev/zero of=/mnt/a/very/long/path/of/a/file bs=1M count=400"
    first = render(answer_of(title=f"{ran}, 8.20 s")).splitlines()[0]
    assert first == f"{ran[:51]}..., 8.20 s  2026-11-22 10:44" and len(first) == 80


def test_long_command_keeps_its_end() -> None:
    command = f"make trace CMD='{'/a/long/path ' * 12}' DIR=/mnt FS=ext4 COLLECT='block perf'"
    one = finding("Took 5.0 s.", 5.0, remedy=None, test=f"{command} (names the functions)")
    shown = " ".join(" ".join(levels(Numbered(1, one, None), 9.0)[1]).split())
    assert "test it: make trace CMD=... DIR=/mnt FS=ext4 COLLECT='block perf' (names the functions)" in shown


def test_seconds_that_are_nothing_beside_the_cost_are_no_evidence() -> None:
    evidence = [
        Evidence("call", {}, "in calls", "s", 4.9, None),
        Evidence("call", {}, "else", "s", 0.01, None),
    ]
    shown = levels(Numbered(1, finding("Took 5.0 s.", 5.0, evidence=evidence), None), 9.0)[3]
    assert "   evidence: in calls 4.90 s (call)" in shown


def test_views_come_after_the_findings_whose_time_they_have() -> None:
    ledger = Ledger("path", "", 40.0, 1, 40_000, [Line("wait", "", 30_000), Line("cpu", "", 10_000)])
    found = [
        replace(finding("View 20 s.", 20.0, lines=frozenset({"wait"})), kind="bound"),
        replace(finding("Wait 30 s.", 30.0, lines=frozenset({"wait"})), kind="loss"),
        replace(finding("Run 9 s.", 9.0, lines=frozenset({"cpu"})), kind="bound"),
        replace(finding("Small 1 s.", 1.0, lines=frozenset({"cpu"})), kind="loss"),
    ]
    kinds = {"bound": Kind(2, True, False), "loss": Kind(1, False, False)}
    in_order, part_of = ordered(found, kinds, ledger)
    assert [one.cost.value_s for one in in_order] == [30.0, 9.0, 20.0, 1.0] and part_of == {3: 1}


@pytest.mark.parametrize(("loss_s", "bound_s"), [(4.1, 27.0), (6.8, 30.0), (13.0, 27.2), (3.0, 2.0)])
def test_a_loss_comes_before_the_bound(loss_s: float, bound_s: float) -> None:
    assert first_of(loss_s, bound_s) == loss_s


@pytest.mark.parametrize(("loss_s", "bound_s"), [(3.9, 4.5), (4.4, 33.0)])
def test_a_loss_that_is_less_and_little_comes_after_the_bound(loss_s: float, bound_s: float) -> None:
    assert first_of(loss_s, bound_s) == bound_s


def first_of(loss_s: float, bound_s: float) -> float:
    """Cost of the first finding of a loss and a bound, in a run of 40 s."""
    ledger = Ledger("path", "", 40.0, 1, 40_000, [Line("wait", "", 20_000), Line("cpu", "", 20_000)])
    found = [
        replace(finding(f"Bound {bound_s} s.", bound_s, lines=frozenset({"cpu"})), kind="bound"),
        replace(finding(f"Loss {loss_s} s.", loss_s, lines=frozenset({"wait"})), kind="loss"),
    ]
    in_order, _ = ordered(found, {"bound": Kind(2, True, False), "loss": Kind(1, False, False)}, ledger)
    return in_order[0].cost.value_s


def of_threads(*phases: PhaseTime) -> ThreadResults:
    """Thread times of the workload alone, which are those of its phases."""
    every = [part for phase in phases for part in phase.parts]
    return ThreadResults(every, [], list(phases), [], [], None, {}, Bottleneck(None, 0.0), 1, 0.0, None)


def test_path_that_is_mostly_unknown_gives_way_to_the_threads(tmp_path: Path) -> None:
    case = case_of(write(tmp_path / "run", fsync_of_a_child()))
    path = case.results.path
    run = PhaseTime("run", [Part(WORKLOAD, "kernel", "", 400_000_000, 1, 1)])
    wait = PhaseTime("wait", [Part(WORKLOAD, "commit", "", 500_000_000, 1, 1)])
    threads = of_threads(run, wait)
    assert isinstance(path, PathResults) and usable_path(path, threads) is path
    lost = replace(path, shares=[replace(share, kind=End.LOST) for share in path.shares])
    found = usable_path(lost, threads)
    assert found == NoPath("100 % of the critical path is not known")
    assert usable_path(lost, None) is lost
    results = replace(case.results, path=found, threads=threads)
    of_run = replace(case, results=results, ledger=measure_ledger(found, threads, case.ledger.wall_s))
    spent = time_spent(of_run)
    assert "100 % of the critical path is not known" in spent.heading
    assert spent.phases == [("run, 0.40 s", "on a CPU 0.40"), ("wait, 0.50 s", "journal or log commit 0.50")]
