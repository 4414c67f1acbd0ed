# SPDX-License-Identifier: BSD-2-Clause
"""Dips and stops of known cause are found, with their seconds; without, and in shuffled time, none are."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from analysis.findings import dips, steady, stops
from analysis.findings.rule import find_all
from analysis.measures.dips.levels import account_of_change
from analysis.sections.dips import build_dips
from tests.analysis.dip_runs import CHILD, DEVICE_READ, LOG_SPACE, Bin, DipRun, case_of, noisy
from tests.analysis.synthetic import BIN_NS, START_NS

RULES = (*dips.RULES, *stops.RULES)


def with_dip(seed: int, first: int = 120, last: int = 150, stack: int = LOG_SPACE) -> DipRun:
    """400 bins, of which 30 have calls that wait 500 us."""
    bins = noisy(400, seed)
    for one in bins[first:last]:
        one.wait_us, one.stack = 500, stack
    return DipRun(bins)


@pytest.mark.parametrize(("stack", "key"), [(LOG_SPACE, "log_space"), (DEVICE_READ, "device_read")])
def test_dip_costs_what_its_waits_cost(tmp_path: Path, stack: int, key: str) -> None:
    run = with_dip(1, stack=stack)
    case = run.case(tmp_path / "r")
    found = find_all(RULES, case)
    (finding,) = found.findings
    per_s = (sum(run.writes) - sum(run.writes[120:150])) / 37
    lost_s = 3 - sum(run.writes[120:150]) / per_s
    assert finding.kind == "dip"
    assert finding.cost.value_s == pytest.approx(lost_s, rel=0.1)
    assert finding.cost.low_s <= lost_s <= finding.cost.high_s
    assert abs(finding.where.start_ns - START_NS - 120 * BIN_NS) <= 2 * BIN_NS
    assert abs(finding.where.end_ns - START_NS - 150 * BIN_NS) <= 2 * BIN_NS
    assert finding.lines == {key}
    assert finding.certainty == "sure", finding.doubt
    assert not found.failed and found.sought == ["a stop of all calls"]


def test_lines_of_an_account_add_up_to_the_loss(tmp_path: Path) -> None:
    (of_track,) = dips.measured(with_dip(2).case(tmp_path / "r"))
    (dip,) = of_track.dips
    assert dip.account is not None
    assert sum(line.excess_s for line in dip.account.lines) == pytest.approx(dip.account.loss_s, abs=1e-9)
    assert all(line.low_s <= line.excess_s <= line.high_s for line in dip.account.lines)


def test_run_without_a_dip_has_no_finding(tmp_path: Path) -> None:
    found = find_all(RULES, DipRun(noisy(300, 3)).case(tmp_path / "r"))
    assert not found.findings and not found.failed and not found.no_verdict
    assert found.sought == ["a dip of throughput", "a stop of all calls"]


@pytest.mark.parametrize("seed", range(4))
def test_shuffled_time_has_no_dip(tmp_path: Path, seed: int) -> None:
    run = with_dip(seed)
    bins = list(run.bins)
    random.Random(seed).shuffle(bins)
    assert not find_all(RULES, DipRun(bins).case(tmp_path / "r")).findings


def test_two_dips_of_one_cause_are_one_finding(tmp_path: Path) -> None:
    bins = noisy(600, 4)
    for one in (*bins[100:130], *bins[400:430]):
        one.wait_us = 900
    (finding,) = find_all(RULES, DipRun(bins).case(tmp_path / "r")).findings
    assert finding.what.startswith("2 dips")
    assert finding.cost.value_s == pytest.approx(2 * 3 * (1 - 520 / 1400), rel=0.1)


def test_other_calls_are_no_lost_time(tmp_path: Path) -> None:
    """The dip is fsyncs that the workload makes there: 20 of 2 ms in each bin."""
    bins = noisy(300, 5)
    for one in bins[120:150]:
        one.fsyncs, one.fsync_us = 20, 2000
    case = DipRun(bins).case(tmp_path / "r")
    (of_track,) = dips.measured(case)
    (dip,) = of_track.dips
    assert dip.account is not None and not dip.account.is_matched
    assert dip.account.mix_s == pytest.approx(dip.account.loss_s, rel=0.1)
    assert not find_all(dips.RULES, case).findings


def test_short_run_gives_no_verdict(tmp_path: Path) -> None:
    bins = noisy(90, 6)
    for one in bins[40:60]:
        one.wait_us = 900
    found = find_all(RULES, DipRun(bins).case(tmp_path / "r"))
    assert not found.findings
    assert found.no_verdict == [("a dip of throughput", "90 bins, of at least 100")]


def test_phases_are_searched_one_by_one(tmp_path: Path) -> None:
    """A slower phase is no dip; a dip in it is one, though the other phase is slower still."""
    bins = noisy(450, 7)
    for one in bins[150:300]:
        one.cpu_us *= 4
    for one in bins[200:220]:
        one.wait_us = 2500
    run = DipRun(bins, phases=[("create", 0, 150), ("delete", 150, 300), ("create", 300, 450)])
    (finding,) = find_all(RULES, run.case(tmp_path / "r")).findings
    assert finding.where.phases == ("delete",)


def stopping(*stops: tuple[int, int], bins: int = 80, stack: int = LOG_SPACE) -> DipRun:
    made = noisy(bins, 8)
    for first, last in stops:
        for one in made[first:last]:
            one.is_empty, one.stack = True, stack
    return DipRun(made)


def test_stops_are_counted_to_the_bin(tmp_path: Path) -> None:
    found = find_all(RULES, stopping((10, 15), (30, 39)).case(tmp_path / "r"))
    (finding,) = found.findings
    assert finding.what.startswith("2 stops of 0.5 to 0.9 s: no call returned for 1.40 s of 8.00 s (18 %)")
    assert finding.cost.value_s == pytest.approx(1.4)
    assert finding.certainty == "sure" and finding.lines == {"log_space"}
    assert (finding.where.start_ns - START_NS, finding.where.end_ns - START_NS) == (10 * BIN_NS, 39 * BIN_NS)
    assert any("2 of 2 were in one call: write()" in text for text in finding.because)


def test_two_causes_of_stops_are_two_findings(tmp_path: Path) -> None:
    run = stopping((10, 15), (30, 39))
    for one in run.bins[30:39]:
        one.stack = DEVICE_READ
    found = find_all(RULES, run.case(tmp_path / "r")).findings
    assert [(sorted(finding.lines), round(finding.cost.value_s, 1)) for finding in found] == [
        (["device_read"], 0.9),
        (["log_space"], 0.5),
    ]


def test_pause_of_own_will_is_no_stop(tmp_path: Path) -> None:
    assert not find_all(RULES, stopping((10, 30), stack=CHILD).case(tmp_path / "r")).findings


def test_few_long_calls_are_no_stops(tmp_path: Path) -> None:
    """Three calls a second leave most bins empty."""
    bins = [Bin(cpu_us=1000, wait_us=60_000, is_empty=bool(i % 3)) for i in range(120)]
    assert not find_all(RULES, DipRun(bins).case(tmp_path / "r")).findings


def test_stop_beside_a_dip_is_told_apart(tmp_path: Path) -> None:
    run = with_dip(9)
    for one in run.bins[200:206]:
        one.is_empty = True
    found = {finding.kind: finding for finding in find_all(RULES, run.case(tmp_path / "r")).findings}
    assert found["stop"].cost.value_s == pytest.approx(0.6)
    assert found["dip"].where.end_ns < found["stop"].where.start_ns


def test_run_without_threads_names_no_cause(tmp_path: Path) -> None:
    run = stopping((10, 15), (30, 39))
    spec = run.spec()
    spec.thread_time = spec.thread = None
    spec.losses = None
    spec.run["collect"] = ["calls"]
    case = case_of(spec.write(tmp_path / "r"))
    (finding,) = find_all(stops.RULES, case).findings
    assert finding.certainty == "likely" and "cause is not known" in finding.doubt
    assert not finding.lines


def test_search_of_a_thousand_bins_is_fast(tmp_path: Path) -> None:
    """0.5 s on an idle CPU, by its own time: what this process was given of it."""
    run = with_dip(10)
    case = DipRun([*run.bins, *noisy(600, 11)]).case(tmp_path / "r")
    start = time.process_time()
    (of_track,) = dips.measured(case)
    assert of_track.dips and of_track.track.start_ns.size == 1000
    assert time.process_time() - start < 1.0


def test_slower_rest_of_a_phase_names_what_took_longer(tmp_path: Path) -> None:
    bins = noisy(300, 12)
    for number, one in enumerate(bins):
        one.wait_us += 2.5 * number
    case = DipRun(bins).case(tmp_path / "r")
    (finding,) = find_all(steady.RULES, case).findings
    assert finding.because[0].startswith("Against as much work in the first fifth: journal or log space +")
    found = account_of_change(case.tables, case.results, "", falls=True)
    assert found is not None
    assert found[0].loss_s == pytest.approx(finding.cost.value_s, rel=0.02)
    assert sum(line.excess_s for line in found[0].lines) == pytest.approx(found[0].loss_s)


def test_section_states_dips_and_what_would_be_seen(tmp_path: Path) -> None:
    case = with_dip(1).case(tmp_path / "r")
    (section,) = build_dips(case.run, case.tables, case.results)
    ((name, _, stopped, _, bins, found, _, seen),) = section.tables[0].rows
    assert (name, stopped, bins, found) == ("(all)", "0", "400", "1")
    assert 5 < int(seen.removesuffix(" %")) < 40
    ((_, kind, begin, end, *_),) = section.tables[1].rows
    assert kind == "dip" and abs(float(begin) - 12) <= 0.2 and abs(float(end) - 15) <= 0.2


def test_section_says_why_there_is_no_verdict(tmp_path: Path) -> None:
    case = stopping((10, 15)).case(tmp_path / "r")
    (section,) = build_dips(case.run, case.tables, case.results)
    assert section.notes == ["(all): no verdict on dips, 75 bins, of at least 100"]
    assert section.tables[0].rows[0][2:4] == ("1", "0.50")
