# SPDX-License-Identifier: BSD-2-Clause
"""The first screen of runs with a known path: rows of time, phases, folded sections, verified findings."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analysis.answer import findings_json
from analysis.answer.detail import NOT_RECORDED, arranged
from analysis.answer.next_steps import steps
from analysis.answer.phase_causes import phase_causes
from analysis.answer.time_spent import time_spent
from analysis.answer.verified import read_verified
from analysis.findings.rule import Case, Found
from analysis.measures.common.window import Window
from analysis.measures.critical_path import results
from analysis.measures.critical_path.pieces import Kind
from analysis.measures.critical_path.results import NoPath
from analysis.measures.critical_path.roots import Roots
from analysis.measures.ledger import measure_ledger
from analysis.measures.results import measure
from analysis.report import make_answer_alone, make_report
from analysis.rundir.run import open_run
from analysis.sections.document import find_sections, make_document
from analysis.tables.load import load_tables
from tests.analysis.cpu_cases import path_of, share
from tests.analysis.test_answer import finding
from tests.analysis.test_critical_path import BEGIN, MS, fsync_of_a_child, two_writers, write

ROW = re.compile(r" +([\d.]+) s +(?:<1|\d+) %  ")


def case_of(path: Path) -> Case:
    run = open_run(path)
    tables = load_tables(run)
    results = measure(run, tables)
    return Case(run, tables, results, measure_ledger(results.path, results.threads, results.window.work_s))


@pytest.mark.usefixtures("words_only")
def test_rows_of_time_sum_to_the_path_and_end_with_what_is_not_known(tmp_path: Path) -> None:
    path = write(tmp_path / "run", fsync_of_a_child())
    spent = time_spent(case_of(path))
    assert sum(row.seconds for row in spent.rows) == pytest.approx(0.9)
    assert sum(row.share for row in spent.rows) == pytest.approx(1)
    assert spent.rows[-1].text == "not explained" and spent.heading == "the critical path of 1 thread, 0.90 s"
    (commit,) = [row for row in spent.rows if row.key == "commit"]
    assert "device" in commit.detail and "wait" in commit.detail
    make_report(path)
    rows = [float(m[1]) for line in (path / "answer.txt").read_text().splitlines() if (m := ROW.match(line))]
    assert sum(rows) == pytest.approx(0.9, abs=0.02)


def test_answer_alone_is_the_report_s_first_screen(tmp_path: Path) -> None:
    path = write(tmp_path / "run", fsync_of_a_child())
    shown = make_answer_alone(path)
    assert (path / "answer.txt").read_text() == shown
    assert not (path / "report.html").exists()
    make_report(path)
    assert (path / "answer.txt").read_text() == shown


def test_several_threads_are_a_mean_with_their_number_at_once(tmp_path: Path) -> None:
    spent = time_spent(case_of(write(tmp_path / "run", two_writers())))
    assert spent.heading == "the critical path of 2 threads (mean), 0.90 s"
    assert sum(row.seconds for row in spent.rows) == pytest.approx(0.9)
    assert any(re.match(r"\d\.\d of 2 threads at once", row.detail) for row in spent.rows)


def test_path_of_a_watched_system_names_its_threads(tmp_path: Path) -> None:
    path = write(tmp_path / "run", two_writers())
    facts = json.loads((path / "run.json").read_text())
    facts["workload"] = {"name": "watch", "argv": []}
    (path / "run.json").write_text(json.dumps(facts))
    spent = time_spent(case_of(path))
    assert re.fullmatch(r"the critical path of [\w, ]+ \(2 threads, mean\), 0\.90 s", spent.heading)


def phases(*marks: tuple[str, int, int]) -> list[dict[str, Any]]:
    return [{"name": name, "start_ns": BEGIN + a * MS, "end_ns": BEGIN + b * MS} for name, a, b in marks]


def test_phases_are_listed_only_if_their_causes_differ(tmp_path: Path) -> None:
    case = case_of(write(tmp_path / "a", fsync_of_a_child(), phases=phases(("all", 0, 900))))
    assert phase_causes(case, {}) == []
    whole = {line.key: line.ns for line in case.ledger.lines}
    # the child waits for a commit in the middle of the run, and runs before and after
    marks = phases(("first", 0, 90), ("second", 90, 900))
    case = case_of(write(tmp_path / "b", fsync_of_a_child(), phases=marks))
    found = phase_causes(case, {})
    assert [name.partition(",")[0] for name, _ in found] == ["first", "second"], whole
    assert "commit" not in found[0][1] and "commit" in found[1][1]


def test_sections_stand_in_the_order_of_what_they_explain(tmp_path: Path) -> None:
    case = case_of(write(tmp_path / "run", fsync_of_a_child()))
    document = make_document(case.run, case.tables, case.results)
    found = arranged(document, case, [])
    assert {one.key for one in found.sections} == {one.key for one in document.sections}
    keys = [one.key for one in found.sections if not one.folded]
    specs = {spec.key: spec for spec in find_sections()}
    explaining = [bool(specs[key].explains) for key in keys]
    assert explaining == sorted(explaining, reverse=True)  # facts for reference last
    assert keys.index("critical_path") < keys.index("latency") < keys.index("run")
    folded = {one.key: one.folded for one in found.sections if one.folded}
    quiet = {section.key: section.quiet for section in document.sections}
    assert quiet["losses"] == folded["losses"] == "nothing lost"
    assert set(folded) <= {key for key, spec in specs.items() if spec.explains or quiet.get(key)}
    news = [why for key, why in folded.items() if not quiet[key]]
    assert all(why == NOT_RECORDED or why.endswith(" s of the time") for why in news)


def test_evidence_of_a_finding_is_not_folded(tmp_path: Path) -> None:
    case = case_of(write(tmp_path / "run", fsync_of_a_child()))
    document = make_document(case.run, case.tables, case.results)
    one = finding("Slept 1 s.", 1.0)
    locks = replace(one, evidence=[replace(one.evidence[0], table="lock_wait")])

    def folded(*found: Any) -> set[str]:
        return {
            section.key
            for section in arranged(document, case, found).sections
            if section.folded.startswith("locks")
        }

    assert folded(one) >= folded(locks) == set()


@pytest.mark.usefixtures("words_only")
def test_folded_sections_are_named_and_whole_elsewhere(tmp_path: Path) -> None:
    path = write(tmp_path / "run", fsync_of_a_child())
    make_report(path)
    report, detail, page = ((path / name).read_text() for name in ("report.txt", "detail.txt", "report.html"))
    assert report.index("WITHOUT NEWS, IN detail.txt") > report.index("WHAT WAS RUN")
    listed = " ".join(report[report.index("WITHOUT NEWS") :].split())
    case = case_of(path)
    found = arranged(make_document(case.run, case.tables, case.results), case, [])
    for section in (one for one in found.sections if one.folded):
        assert section.title in listed and section.title.upper() in detail
        assert f"{section.title} <span" in page
    assert "WITHOUT NEWS" not in detail


def test_outcome_of_verify_belongs_to_the_same_finding(tmp_path: Path) -> None:
    path = write(tmp_path / "run", fsync_of_a_child())
    first, second = finding("Full 15 times.", 13.0), finding("Full 2 times.", 1.0)
    (path / "verify").mkdir()
    outcome = {"kind": second.kind, "what": second.what, "verdict": "confirmed", "text": "10 s \x1b[31m less"}
    (path / "verify/7.json").write_text(json.dumps(outcome))
    (path / "verify/8.json").write_text("{")
    (path / "verify/9.json").write_text(json.dumps(outcome | {"what": "Full 3 times.", "text": 5}))
    found = read_verified(open_run(path), [first, second])
    assert set(found) == {2} and found[2].text == "10 s \\x1b[31m less"


def test_docs_describe_each_key_of_the_findings_file(tmp_path: Path) -> None:
    case = case_of(write(tmp_path / "run", fsync_of_a_child()))
    tree = json.loads(findings_json.encoded(case, Found([finding("Full 15 times.", 13.0)])))
    (one,) = tree["findings"]
    written = {*tree, *one, *one["where"], *one["evidence"][0], *one["remedy"], *tree["ledger"][0]}
    schema = (Path(__file__).parents[2] / "docs/SCHEMA.md").read_text()
    page = schema.partition("\n## The findings\n")[2].partition("\n## ")[0]
    described = set(re.findall(r"`\.?(\w+)`", page))
    assert written - {"schema"} <= described


def test_watched_threads_of_short_life_have_their_own_seconds(tmp_path: Path) -> None:
    """Two programs of 50 ms each in a watch of 0.9 s: their waits are no seconds of the watch."""
    case = case_of(write(tmp_path / "run", two_writers()))
    short = replace(path_of([share(0.06), share(0.04, Kind.DEVICE)], roots=2), names=("dd",))
    ledger = measure_ledger(short, None, 0.9)
    assert sum(ledger.seconds(line.ns) for line in ledger.lines) == pytest.approx(0.05)
    of_short = replace(case, results=replace(case.results, path=short), ledger=ledger)
    spent = time_spent(of_short)
    assert spent.heading == "the critical path of dd (2 threads, mean), 0.05 s of 0.90 s"
    assert sum(row.seconds for row in spent.rows) == pytest.approx(0.05)
    whole = replace(path_of([share(1.8)], roots=2), names=("dd",))
    assert measure_ledger(whole, None, 0.9).wall_s == 0.9


def test_watch_of_many_short_threads_has_no_path(tmp_path: Path) -> None:
    """Few of many that come and go do not tell where the system's time went, nor does any thread's own."""
    path = NoPath("168 threads used the device, the longest for 0.01 s each", is_of_many=True)
    case = case_of(write(tmp_path / "run", two_writers()))
    of_many = replace(
        case,
        results=replace(case.results, path=path),
        ledger=measure_ledger(path, case.results.threads, 0.9),
    )
    assert of_many.ledger.lines == []
    assert "168 threads used the device" in time_spent(of_many).why_not
    assert [
        step for step in steps(of_many, Found([]), [], []) if step.shows == "with threads and switches"
    ] == []


@pytest.mark.parametrize(
    ("lived_s", "theirs_ns", "is_of_many"),
    [(0.1, 10, True), (0.1, 60, False), (0.8, 10, False)],
)
def test_roots_stand_for_others_by_life_or_calls(lived_s: float, theirs_ns: int, is_of_many: bool) -> None:
    window = Window(0, 10**9, 0, 10**9, True)
    begin = np.zeros(2, dtype=np.int64)
    roots = Roots(np.arange(2, dtype=np.int32), begin, begin + round(lived_s * 1e9), False, 1.0)
    why = results._why_of_many(roots, range(theirs_ns), dict.fromkeys(range(100), 1), window)
    assert bool(why) is is_of_many
    assert not why or why == "100 threads used the device, the longest for 0.10 s each"
