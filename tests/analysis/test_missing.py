# SPDX-License-Identifier: BSD-2-Clause
"""Missing collectors: those asked for that are off or died are named first; those not asked for never."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from analysis.__main__ import main
from analysis.figures.run import iograph
from analysis.measures.compare.compared_run import Compared, load_compared
from analysis.measures.results import measure
from analysis.render.document import Document, Section
from analysis.render.text import render
from analysis.rundir.run import open_run
from analysis.sections.banners import make_banners
from analysis.sections.compare.banners import make_banners as compare_banners
from analysis.sections.compare.document import make_document as compared_document
from analysis.sections.compare.spec import Tags
from analysis.sections.compare.warnings import build_warnings
from analysis.sections.document import make_document
from analysis.tables.load import load_tables
from tests.analysis.synthetic import START_NS, Spec, collector, decaying_ext3, request, run_json
from tests.analysis.test_report import folded

# the tables of each collector, as the recorder names its files
FILES = {
    "block": ("block.rec",),
    "locks": ("lock_wait.rec", "lock.jsonl", "stack.jsonl"),
    "calls": ("call.rec",),
    "counters": ("counter.rec",),
}
RECORDER = tuple(FILES)
WHY, REMEDY = "the kernel refused its program: Invalid argument", "use another kernel"
OFF = {"state": "off", "why": WHY, "remedy": REMEDY}
WITHOUT = {
    "block": "no requests",
    "locks": "no lock waits",
    "calls": "no file-system calls, no application throughput",
    "counters": "no counters of CPU, memory and disk",
    "holds": "no hold times of locks",
    "blktrace": "no files for blkparse and btt",
    "perf": "no CPU samples",
}


def run_of(
    path: Path,
    collect: list[str] | None,
    collectors: dict[str, Any] | None,
    complete: bool = True,
    **facts: Any,
) -> Path:
    """A run with these in \"collect\" (None: without the key), and tables of the collectors that are on."""
    spec = decaying_ext3(3, 100)
    spec.run |= facts | ({"collect": collect} if collect is not None else {})
    spec.losses = {"collectors": collectors, "complete": complete}
    spec.write(path)
    for name, files in FILES.items():
        if collectors is None or collectors.get(name, OFF)["state"] != "on":
            for file in files:
                (path / "raw/recorder" / file).unlink()
    if collectors is None:
        (path / "losses.json").unlink()
    return path


def compared_warnings(runs: list[Compared]) -> Section:
    (section,) = build_warnings(runs, Tags([], [], []))
    return section


def document(path: Path) -> Document:
    run = open_run(path)
    tables = load_tables(run)
    return make_document(run, tables, measure(run, tables))


def section(found: Document, title: str) -> Section:
    return next(one for one in found.sections if one.title == title)


def gaps(found: Document) -> list[str]:
    return section(found, "Warnings and gaps").notes


def on(*names: str) -> dict[str, Any]:
    return {name: collector(1) for name in names}


@pytest.mark.parametrize("name", WITHOUT)
def test_collector_that_is_off_is_named_first_and_in_gaps(tmp_path: Path, name: str) -> None:
    asked = list(dict.fromkeys([*RECORDER, name]))
    found = document(run_of(tmp_path / "r", asked, {**on(*RECORDER), name: OFF}))
    words = f"{name} is off ({WITHOUT[name]}): {WHY} (remedy: {REMEDY})"
    assert found.banners == [words]
    assert gaps(found) == [words]
    # and no section asks for it
    assert not any(f"{name} is off" in note for note in section(found, "Lost events and overhead").notes)


def test_terminal_text_and_page_begin_with_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = run_of(tmp_path / "r", [*RECORDER], {**on("locks", "calls", "counters"), "block": OFF})
    assert main(["report", str(path)]) == 0
    words = f"block is off (no requests): {WHY} (remedy: {REMEDY})"
    terminal, report = capsys.readouterr().out, (path / "report.txt").read_text()
    for text in (terminal[terminal.index("Seekmeter: ") :], report):
        lines = text.splitlines()
        assert lines[1].startswith("!! block is off (no requests): ")
        assert words in folded("\n".join(lines[1:4]))
    after = folded(report[report.index("WARNINGS AND GAPS") :])
    assert f"- {words}" in after
    assert "- none" not in after
    page = (path / "report.html").read_text()
    assert f'<p class="banner">{words}</p>' in page
    assert f"<li>{words}</li>" in page
    assert page.index('class="banner"') < page.index("<nav>")


def test_collector_not_asked_for_is_no_gap(tmp_path: Path) -> None:
    found = document(run_of(tmp_path / "r", ["block", "blktrace"], on("block", "blktrace")))
    assert (found.banners, gaps(found)) == ([], ["none"])
    for title, name in (("Lock waits", "locks"), ("File-system calls", "calls")):
        place = section(found, title)
        assert place.absent == f"{name} was not asked for (name it in COLLECT)"
        assert place.mark == ""  # nothing was lost that nobody asked for
    assert section(found, "Throughput").mark == ""
    assert not any(one.title == "CPU profile" for one in found.sections)


def test_series_not_asked_for_is_no_gap_of_correlations(tmp_path: Path) -> None:
    title = "Correlation with application throughput"

    def named(found: Document) -> str:
        return " ".join(section(found, title).notes)

    less = document(run_of(tmp_path / "less", ["block", "calls"], on("block", "calls")))
    assert not any(words in named(less) for words in ("lock wait", "dirty pages, whole machine"))
    off = document(run_of(tmp_path / "off", [*RECORDER], {**on("block", "calls", "counters"), "locks": OFF}))
    assert "lock wait: no coefficient, its collector has nothing" in named(off)
    none = document(run_of(tmp_path / "none", ["block"], on("block")))
    why = "calls was not asked for (name it in COLLECT)"
    assert section(none, title).absent == f"no application throughput: {why}"


def test_each_missing_collector_is_named_others_are_not(tmp_path: Path) -> None:
    collectors = {"block": OFF, "calls": {"state": "off", "why": "no memory", "remedy": ""}}
    found = document(run_of(tmp_path / "r", ["block", "calls"], collectors))
    words = [
        f"block is off (no requests): {WHY} (remedy: {REMEDY})",
        "calls is off (no file-system calls, no application throughput): no memory",
    ]
    assert (found.banners, gaps(found)) == (words, words)
    facts = dict(section(found, "Throughput").facts)
    assert facts == {
        "application": "not available: no memory",
        "device": f"not available: {WHY} (remedy: {REMEDY})",
    }


def test_collector_that_saw_nothing_is_not_off(tmp_path: Path) -> None:
    path = Spec(run={**run_json(3), "collect": [*RECORDER]}).write(tmp_path / "r")
    found = document(path)
    assert (found.banners, gaps(found)) == ([], ["none"])
    assert dict(section(found, "Throughput").facts)["device"] == "no requests were recorded"
    for title in ("Seeks", "Request latency", "Lock waits", "File-system calls"):
        assert section(found, title).absent == "", title


def test_missing_table_of_a_collector_that_is_on_is_a_gap(tmp_path: Path) -> None:
    path = run_of(tmp_path / "r", ["block", "calls", "holds", "perf"], on("block", "calls", "holds", "perf"))
    (path / "raw/recorder/call.rec").unlink()
    found = document(path)
    assert [words.partition(":")[0] for words in gaps(found)] == [
        "no call table",
        "no cpu_sample table",
        "no cpu_stack table",
        "no hold table",
    ]
    assert section(found, "CPU profile").absent == ("the perf collector left nothing (see warnings and gaps)")


def test_recorder_that_died_gets_one_sentence(tmp_path: Path) -> None:
    """One sentence for all of its collectors; perf, a process of its own, went on."""
    early = {name: collector(1, ended_early=True) for name in RECORDER}
    collectors = {**early, "perf": collector(1, ended_early=False)}
    path = run_of(tmp_path / "r", [*RECORDER, "perf"], collectors, complete=False)
    found = document(path)
    words = "block, locks, calls, counters ended early: numbers cover the time until then"
    assert found.banners[0] == words
    assert gaps(found)[0] == words
    assert "perf" not in " ".join(found.banners)
    assert [section(found, t).mark for t in ("Seeks", "Lock waits", "File-system calls")] == ["*"] * 3
    assert section(found, "CPU profile").mark == ""


@pytest.mark.parametrize("name", ["perf", "blktrace", "bpftrace:journal_commits"])
def test_other_process_that_died_is_named(tmp_path: Path, name: str) -> None:
    collectors = {**on(*RECORDER), name: {"state": "on", "why": "", "remedy": "", "ended_early": True}}
    collect = [one for one in (*RECORDER, name) if ":" not in one]
    found = document(run_of(tmp_path / "r", collect, collectors))
    words = f"{name} ended early: numbers cover the time until then"
    assert found.banners == [words]
    assert gaps(found)[0] == words
    assert section(found, "Seeks").mark == ""


def test_with_program_that_did_not_start_is_named(tmp_path: Path) -> None:
    found = document(run_of(tmp_path / "r", ["block"], {**on("block"), "bcc:biotop": OFF}))
    words = f"bcc:biotop is off (no output of this program): {WHY} (remedy: {REMEDY})"
    assert (found.banners, gaps(found)) == ([words], [words])


def test_collector_missing_in_losses_is_named(tmp_path: Path) -> None:
    """As after SIGKILL of the session: the recorder wrote its losses, nobody those of perf."""
    found = document(run_of(tmp_path / "r", ["block", "perf"], on("block")))
    words = "perf: losses.json does not name it: its state and losses are not known"
    assert found.banners == [words]
    assert gaps(found)[0] == words


# An older run only has the variable COLLECT, if that was given.
@pytest.mark.parametrize(
    ("given", "collectors", "asked"),
    [
        ({"COLLECT": "block,blktrace"}, on("block", "blktrace"), {"block", "blktrace"}),
        ({"COLLECT": "perf block"}, on("block"), {"block", "perf"}),  # the session was killed
        ({"COLLECT": "block calls"}, None, {"block", "calls"}),
        ({"COLLECT": "none"}, None, set()),
        ({}, on(*RECORDER), set(RECORDER)),
        ({}, on("block", "locks"), {"block", "locks"}),
        ({}, None, set(RECORDER)),
        ({"WITH": "biotop"}, {**on(*RECORDER), "bcc:biotop": OFF}, {*RECORDER, "bcc:biotop"}),
    ],
)
def test_older_run_states_collectors_in_its_variable(
    tmp_path: Path, given: dict[str, str], collectors: dict[str, Any] | None, asked: set[str]
) -> None:
    run = open_run(run_of(tmp_path / "r", None, collectors, words={"FS": "ext3", **given}))
    assert set(run.asked) == asked


def test_older_run_states_early_end_of_all_collectors(tmp_path: Path) -> None:
    found = document(run_of(tmp_path / "r", None, on("block", "calls"), complete=False))
    words = "block, calls ended early: numbers cover the time until then"
    assert found.banners[0] == words
    assert gaps(found) == [words]


def test_older_run_names_a_collector_that_is_off(tmp_path: Path) -> None:
    found = document(run_of(tmp_path / "r", None, {**on("locks", "calls", "counters"), "block": OFF}))
    words = f"block is off (no requests): {WHY} (remedy: {REMEDY})"
    assert (found.banners, gaps(found)) == ([words], [words])


def test_run_without_collectors_has_no_gaps(tmp_path: Path) -> None:
    workload = {"workload_start_ns": START_NS, "workload_end_ns": START_NS + 10**9}  # and no recording
    found = document(run_of(tmp_path / "r", [], None, clock=workload))
    assert found.banners == []
    recorded = dict(section(found, "What was run").facts)["recorded"]
    assert recorded.startswith("nothing: no collector was asked for (COLLECT=none)")
    assert gaps(found) == ["none"]
    assert "*" not in [one.mark for one in found.sections]


def test_missing_losses_json_is_stated_once(tmp_path: Path) -> None:
    """losses.json is gone: one sentence, and one for each table that is missing."""
    found = document(run_of(tmp_path / "r", ["block", "calls"], None))
    assert [words for words in found.banners if "losses.json states nothing" in words] == found.banners
    said = gaps(found)
    assert [words.partition(":")[0] for words in said[1:]] == ["no block table", "no call table"]
    assert said[0].startswith("losses.json")


@pytest.mark.parametrize(
    "facts",
    [
        {"collect": "block"},
        {"collect": [5, None, {"a": 1}, "x" * 5000, "\x1b[31m"]},
        {"collect": ["block"] * 10_000},
        {"with": "all"},
        {"with": [None, 5, {"label": 7}, {"label": ["a"]}]},
        {"words": {"COLLECT": ["block"]}},
    ],
)
def test_nonsense_in_run_json_breaks_no_report(tmp_path: Path, facts: dict[str, Any]) -> None:
    path = run_of(tmp_path / "r", None, on(*RECORDER))
    stated = json.loads((path / "run.json").read_text())
    (path / "run.json").write_text(json.dumps(stated | facts))
    text = render(document(path))
    assert max(len(line) for line in text.splitlines()) <= 80
    assert "\x1b" not in text
    assert set(RECORDER) <= set(open_run(path).asked)


def lossy_run(path: Path, lost: int, seen: int | None) -> Path:
    """A run that lost so many lock waits, and nothing else."""
    recorded = None if seen is None else seen - lost
    locks = {**collector(1), "seen": seen, "recorded": recorded, "lost": {"ring full": lost}}
    return run_of(path, [*RECORDER], {**on(*RECORDER), "locks": locks})


def panel_titles(path: Path) -> list[str]:
    run = open_run(path)
    tables = load_tables(run)
    drawn = iograph.draw(run, tables, measure(run, tables), "t", "s", make_banners(run, {}))
    return [ax.get_title() for ax in drawn.axes]


@pytest.mark.parametrize(
    ("lost", "seen", "is_marked"),
    [(1, 4188, False), (4, 4188, False), (5, 4188, True), (1, 1000, True), (1, 1001, False), (1, None, True)],
)
def test_loss_of_a_thousandth_is_marked(tmp_path: Path, lost: int, seen: int | None, is_marked: bool) -> None:
    """Above: first lines, stars in text and picture, and a warning; below: the losses section alone."""
    path = lossy_run(tmp_path / "r", lost, seen)
    found = document(path)
    of = f" of {seen:,} seen" if seen else ""
    words = [f"locks: {lost} lost{of}: numbers marked * (from 0.1 % lost on) may be too small"]
    assert (found.banners, gaps(found)) == ((words, words) if is_marked else ([], ["none"]))
    assert {one.mark for one in found.sections} == ({"", "*"} if is_marked else {""})
    assert any(title.endswith(" *") for title in panel_titles(path)) == is_marked
    told = section(found, "Lost events and overhead")
    assert f"locks lost {lost}: ring full" in told.notes
    assert "Numbers are marked *, here and in the pictures, from 0.1 % lost on" in told.definition
    compared = [load_compared("A", path), load_compared("B", path)]
    assert ("none" in compared_warnings(compared).notes) != is_marked
    assert bool(compare_banners(compared)) == is_marked


def test_marks_always_have_a_warning(tmp_path: Path) -> None:
    """losses.json names no collector: the losses are not known, so all results are marked, with a warning."""
    found = document(run_of(tmp_path / "r", ["block"], {}))
    assert "*" in [one.mark for one in found.sections]
    words = "losses.json states nothing: losses are not known, all numbers are marked *"
    assert words in found.banners
    assert words in gaps(found)


def test_imported_trace_states_gaps_in_sections_only(tmp_path: Path) -> None:
    never = {name: {"state": "off", "why": f"a block trace has no {name}"} for name in RECORDER[1:]}
    path = run_of(tmp_path / "r", None, {**on("block"), **never}, imported={"format": "blktrace"}, words={})
    found = document(path)
    assert (found.banners, gaps(found)) == ([], ["none"])
    assert section(found, "Lock waits").absent == "a block trace has no locks"
    assert "calls is off: a block trace has no calls" in section(found, "Lost events and overhead").notes


def test_comparison_names_the_run_of_a_missing_collector(tmp_path: Path) -> None:
    whole = run_of(tmp_path / "a", [*RECORDER], on(*RECORDER))
    less = run_of(tmp_path / "b", ["block", "locks"], {**on("block"), "locks": OFF})
    runs = [load_compared("A", whole), load_compared("B", less)]
    words = f"B: locks is off (no lock waits): {WHY} (remedy: {REMEDY})"
    assert compare_banners(runs) == [words]
    assert compared_warnings(runs).notes == [words]
    assert render(compared_document(runs)).count("locks is off") == 2  # first, and among the gaps


def test_movie_without_requests_states_the_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    off = run_of(tmp_path / "off", ["block", "calls"], {**on("calls"), "block": OFF})
    assert main(["movie", str(off)]) != 0
    assert f"no requests to show: {WHY} (remedy: {REMEDY})" in capsys.readouterr().err
    not_asked = run_of(tmp_path / "not-asked", ["calls"], on("calls"))
    assert main(["movie", str(not_asked)]) != 0
    assert "no requests to show: block was not asked for (name it in COLLECT)" in capsys.readouterr().err


def test_movie_has_no_gaps_of_other_collectors(tmp_path: Path) -> None:
    """A movie shows requests: locks that are off are no gap, a block collector that ended early is."""
    path = tmp_path / "r"
    spec = Spec(run={**run_json(3), "collect": ["block", "locks"]})
    spec.block = [request(START_NS + i * 1_000_000, i * 8) for i in range(100)]
    losses = {"block": collector(100, ended_early=True), "locks": OFF}
    spec.losses = {"collectors": losses, "complete": True}
    spec.write(path)
    assert main(["movie", str(path)]) == 0
    page = (path / "movie.html").read_text()
    assert "block ended early" in page
    assert "locks is off" not in page
