# SPDX-License-Identifier: BSD-2-Clause
"""The first screen: its facts, and at most 40 lines of 80 columns whatever the run and its findings are."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.answer import text
from analysis.answer.answer import Answer, Numbered, next_of
from analysis.answer.evidence import evidence_texts
from analysis.answer.next_steps import Step
from analysis.answer.time_spent import Row, TimeSpent
from analysis.answer.verified import Verified
from analysis.answer.wrap import WIDTH
from analysis.findings.finding import Certainty, Cost, Evidence, Finding, Remedy, Where
from analysis.findings.overlap import parts_of
from analysis.findings.rule import Found
from analysis.measures.ledger import Ledger, Line
from analysis.report import make_report
from tests.analysis.synthetic import START_NS, Spec, decaying_ext3, request

WORDS = st.text(max_size=400)
SOME_WORDS = st.text(min_size=1, max_size=300).map(lambda text: f"{text} 1")
NUMBERS = st.floats(min_value=0, max_value=1e9)


@st.composite
def costs(draw: st.DrawFn) -> Cost:
    low, value, high = sorted(draw(st.tuples(NUMBERS, NUMBERS, NUMBERS)))
    return Cost(value, low, high)


@st.composite
def findings(draw: st.DrawFn) -> Finding:
    certainty = draw(st.sampled_from(Certainty))
    remedy = draw(st.none() | st.builds(Remedy, st.just({"MKFS": "-J size=1024"}), WORDS, costs()))
    return Finding(
        kind="kind",
        what=draw(SOME_WORDS),
        because=draw(st.lists(SOME_WORDS, max_size=4)),
        where=Where(1, 2),
        cost=draw(costs()),
        evidence=draw(
            st.lists(
                st.builds(Evidence, WORDS, st.just({}), WORDS, WORDS, NUMBERS, st.none() | NUMBERS),
                min_size=1,
            )
        ),
        certainty=certainty,
        doubt="" if certainty == Certainty.SURE else draw(SOME_WORDS),
        remedy=remedy,
        test="make x" if remedy is None else "",
    )


ANSWERS = st.builds(
    Answer,
    title=WORDS,
    wall_s=NUMBERS,
    started=st.sampled_from(["", "2026-11-22 10:44"]),
    warnings=st.lists(WORDS, max_size=8),
    ran=WORDS,
    got=WORDS,
    disk=WORDS,
    spent=st.builds(
        TimeSpent,
        WORDS,
        st.lists(st.builds(Row, WORDS, NUMBERS, NUMBERS, WORDS, WORDS), max_size=10),
        WORDS,
        st.lists(WORDS, max_size=5),
        st.lists(st.tuples(WORDS, WORDS), max_size=9),
    ),
    findings=st.lists(
        st.builds(
            Numbered,
            st.integers(1, 99),
            findings(),
            st.none() | st.builds(Verified, WORDS, WORDS),
            st.booleans(),
            st.none() | st.integers(1, 99),
        ),
        max_size=60,
    ),
    sought=st.lists(WORDS, max_size=60),
    not_asked=st.lists(st.tuples(WORDS, WORDS), max_size=40),
    failed=st.lists(st.tuples(WORDS, WORDS), max_size=9),
    lost=st.lists(WORDS, max_size=9),
    whole=st.lists(WORDS, max_size=1),
    others=WORDS,
    steps=st.lists(st.builds(Step, WORDS, WORDS), max_size=3),
)


@settings(max_examples=60, deadline=None)
@given(ANSWERS)
def test_screen_fits_whatever_the_answer_is(answer: Answer) -> None:
    lines = text.render(answer).splitlines()
    assert len(lines) <= text.LINES
    assert max(len(line) for line in lines) <= WIDTH
    assert all(line.isprintable() for line in lines)


def finding(what: str, seconds: float, certainty: Certainty = Certainty.SURE, **more: Any) -> Finding:
    given: dict[str, Any] = {
        "because": [f"That took {seconds} s."],
        "remedy": Remedy({"MKFS": "-J size=1024"}, "with a journal of 1 GB", Cost(seconds / 2, 0, seconds)),
        "evidence": [Evidence("thread_time", {"cause": "space"}, "asleep", "s", seconds, 0.25)],
        "doubt": "" if certainty == Certainty.SURE else "one of 3 lost",
    }
    return Finding(
        kind="log_space",
        what=what,
        where=Where(1, 2),
        cost=Cost(seconds, seconds, seconds),
        certainty=certainty,
        **given | more,
    )


def answer_of(*found: Finding, **more: Any) -> Answer:
    given: dict[str, Any] = {
        "title": "Seekmeter: ext3 compilebench, 41.8 s",
        "wall_s": 41.8,
        "started": "2026-11-22 10:44",
        "warnings": [],
        "ran": "12.9 GB loop disk",
        "got": "141 MB/s",
        "disk": "6.57 GB written",
        "spent": TimeSpent("the critical path", [Row("cpu", 27.4, 0.66, "on a CPU", "kernel 27.2")], ""),
        "findings": [Numbered(n, one, None) for n, one in enumerate(found, 1)],
        "sought": ["a lock"],
        "not_asked": [],
        "failed": [],
        "lost": [],
        "whole": [],
        "others": "",
        "steps": [],
    }
    return Answer(**given | more)


def test_finding_states_sentence_certainty_evidence_prediction_and_test() -> None:
    shown = text.render(answer_of(finding("The journal was full 15 times: 13.0 s of 41.8 (31 %).", 13.0)))
    lines = shown.splitlines()
    (at,) = [n for n, line in enumerate(lines) if line.startswith("1. ")]
    assert lines[at].startswith("1. The journal was full 15 times: 13.0 s of 41.8 (31 %).")
    assert lines[at].endswith("  sure") and len(lines[at]) == 80
    assert "   That took 13.0 s." in lines
    assert "   evidence: asleep 13.0 s, outside 0.250 s (thread_time)" in lines
    assert "   prediction: with a journal of 1 GB: 6.50 s less (0 to 13.0)" in lines
    assert "   test it: make verify RUN=... FINDING=1" in lines


def test_prediction_names_what_may_be_next() -> None:
    full, on_cpu = finding("Full 15 times.", 13.0), finding("On a CPU 27 s.", 27.0)
    found = Found(
        [
            replace(full, lines=frozenset({"log_space"})),
            replace(full, lines=frozenset({"log_space", "lock"})),
            replace(on_cpu, lines=frozenset({"cpu"})),
            replace(finding("Short 1.", 99.0), kind="too_short", lines=frozenset({"x"})),
        ],
        caveats={"too_short"},
    )
    assert [next_of(number, found) for number in (1, 2, 3)] == [3, 3, 1]
    shown = text.render(answer_of(findings=[Numbered(1, full, None, next_number=3)]))
    assert "prediction: with a journal of 1 GB: 6.50 s less (0 to 13.0; 3 may be next)" in shown


def test_verified_finding_states_the_outcome_in_place_of_the_test() -> None:
    one = Numbered(1, finding("Full 15 times.", 13.0), Verified("confirmed", "10.4 s less"))
    shown = text.render(answer_of(findings=[one]))
    assert "   verified: confirmed: 10.4 s less" in shown.splitlines() and "test it" not in shown


def test_sixty_findings_leave_a_line_that_counts_the_rest() -> None:
    shown = text.render(answer_of(*(finding(f"Finding {n} of 60.", 60.0 - n) for n in range(60))))
    lines = shown.splitlines()
    shown_findings = [line for line in lines if line.startswith("Finding ") or " of 60." in line]
    (rest,) = [line for line in lines if " more, each at most " in line]
    assert len(shown_findings) + int(rest.split()[0]) == 60
    assert len(shown_findings) >= 3


def test_small_findings_leave_their_lines_to_the_large_ones() -> None:
    small = [finding(f"Small {n} of 9.", 0.1) for n in range(9)]
    shown = text.render(answer_of(finding("Large 1.", 20.0), *small))
    assert "Small 1 of 9." in shown and "Small 2 of 9." not in shown
    assert "7 more, each at most 0.10 s: report.html, findings.json" in shown.splitlines()


def test_evidence_of_one_measure_names_its_rows() -> None:
    one = [Evidence("call", {"call": name}, "not asleep", "s", 1.5, None) for name in ("write", "open")]
    shown = evidence_texts(finding("Ran 9 s.", 9.0, evidence=one))
    assert shown == ["not asleep (write) 1.50 s (call)", "not asleep (open) 1.50 s (call)"]
    sizes = [
        Evidence("block", {}, "read", "bytes", 2e6, None),
        Evidence("block", {}, "longest", "ns", 5e6, 7.0),
    ]
    shown = evidence_texts(finding("Read 2 MB.", 9.0, evidence=sizes))
    assert shown == ["read 2.00 MB (block)", "longest 5.00 ms, outside 7 ns (block)"]


def test_finding_with_the_time_of_another_says_so() -> None:
    lines = [Line("space", "journal space", 12_000), Line("cpu", "on a CPU", 28_000)]
    ledger = Ledger("path", "", 40.0, 1, 40_000, lines)
    full = finding("Full 15 times.", 12.0, lines=frozenset({"space"}))
    held = finding("Held 8 s.", 8.0, lines=frozenset({"space"}))
    other = finding("CPU 9 s.", 9.0, lines=frozenset({"cpu", "space"}))  # need not be the journal's
    assert parts_of([full, held, other], ledger) == {2: 1}
    shown = text.render(answer_of(findings=[Numbered(1, full, None), Numbered(2, held, None, part_of=1)]))
    (line,) = [line for line in shown.splitlines() if line.startswith("2. ")]
    assert line.startswith("2. Part of 1, 8.00 s: held 8 s") and line.endswith("  sure")


def test_run_without_anything_that_stands_out_says_so() -> None:
    shown = text.render(answer_of())
    assert "  nothing stands out" in shown.splitlines() and "not found:   a lock" in shown.splitlines()


@pytest.mark.usefixtures("words_only")
def test_report_text_mail_page_and_terminal_have_the_same_screen(tmp_path: Path) -> None:
    run = decaying_ext3(13, 400).write(tmp_path / "r")
    terminal = make_report(run)
    screen = (run / "answer.txt").read_text()
    assert screen.startswith("Seekmeter: ") and len(screen.splitlines()) <= 40
    assert (run / "report.txt").read_text().startswith(screen)
    assert terminal.endswith(screen)
    assert "Where the time went" in (run / "report.html").read_text()


@pytest.mark.usefixtures("words_only")
@pytest.mark.parametrize("spec", [Spec(), Spec(block=[request(START_NS, 8)])])
def test_run_with_nearly_nothing_has_a_screen(tmp_path: Path, spec: Spec) -> None:
    run = spec.write(tmp_path / "r")
    make_report(run)
    lines = (run / "answer.txt").read_text().splitlines()
    assert len(lines) <= 40 and any(line.startswith("WHERE THE TIME WENT: not known") for line in lines)


@pytest.mark.usefixtures("words_only")
def test_findings_file_has_what_programs_read(tmp_path: Path) -> None:
    run = decaying_ext3(13, 400).write(tmp_path / "r")
    make_report(run)
    tree = json.loads((run / "findings.json").read_text())
    assert tree["schema"] == 1 and set(tree) >= {
        "basis",
        "wall_s",
        "ledger",
        "findings",
        "sought",
        "not_asked",
    }
    assert tree["failed"] == []
