# SPDX-License-Identifier: BSD-2-Clause
"""Verdicts: planted sides against scipy and known answers, error rates by simulation, exit codes, JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from analysis.figures import save
from analysis.figures.compare.verdicts import MOST_ROWS, make_picture, rows_of
from analysis.measures.compare.compared_run import LETTERS, Compared, load_compared
from analysis.measures.compare.verdicts import (
    BETTER,
    CANNOT_TELL,
    NO_WORSE,
    NOT_SEEN,
    SMALL,
    WORSE,
    Figure,
    Pair,
    Verdict,
    Verdicts,
    judge,
)
from analysis.measures.compare.verdicts_of_runs import other_machines, pairs_of_runs
from analysis.render.document import Section
from analysis.render.text import section_lines
from analysis.sections.compare.banners import make_banners
from analysis.sections.compare.verdict_tables import CSV_COLUMNS, as_csv, as_json, fill
from tests.analysis.synthetic import BIN_NS, START_NS, Spec, collector, request, run_json
from tests.analysis.test_compare import compare

SECOND = 1_000_000_000
TCG = {"by": "virtme-ng 1.42", "accel": "tcg", "qemu": "QEMU emulator version 7.2.22"}
TIGHT = (-0.4, -0.2, 0.0, 0.2, 0.4)  # around 100: intervals of +-0.39 %


def figure(first: Sequence[float], other: Sequence[float], **more: Any) -> Figure:
    facts = {"name": "time", "unit": "s", "kind": "metric", "better": "lower", "is_headline": True, **more}
    return Figure(first=first, other=other, **facts)


def about(mean: float, spread: Sequence[float] = TIGHT) -> list[float]:
    return [mean * (1 + one / 100) for one in spread]


def judged(*figures: Figure, causes: Sequence[Figure] = ()) -> Verdicts:
    return judge([Pair("A", "B", "", figures, causes)])


def only(found: Verdicts) -> Verdict:
    (one,) = found.verdicts
    return one


@pytest.mark.parametrize(
    ("better", "other", "word", "overall"),
    [
        ("lower", 120, WORSE, WORSE),
        ("lower", 80, BETTER, NO_WORSE),
        ("higher", 120, BETTER, NO_WORSE),
        ("higher", 80, WORSE, WORSE),
        ("lower", 100.1, NOT_SEEN, NO_WORSE),
        ("lower", 105, SMALL, NO_WORSE),
        ("higher", 95, SMALL, NO_WORSE),
        ("lower", 109.9, SMALL, CANNOT_TELL),  # its interval reaches 10 %
        ("", 120, CANNOT_TELL, CANNOT_TELL),
    ],
)
def test_planted_sides_get_their_verdict(better: str, other: float, word: str, overall: str) -> None:
    found = judged(figure(about(100), about(other), better=better))
    assert (only(found).word, found.overall) == (word, overall), only(found).why


@pytest.mark.parametrize(
    ("first", "other", "word", "why"),
    [
        ([100], about(120), CANNOT_TELL, "single observation"),
        ([], about(120), CANNOT_TELL, "not measured on the first side"),
        ([float("nan")], about(120), CANNOT_TELL, "not measured on the first side"),
        # 3 runs of 30 % spread: not even a doubling would be seen
        ([50, 100, 160], [60, 110, 170], CANNOT_TELL, "too few runs: 3 runs could have seen >= "),
        ([90, 100, 110], [92, 103, 112], NOT_SEEN, "3 runs could have seen >= "),
        ([0, 0, 0], [1, 1, 1], WORSE, "worse by a first mean of 0"),
        ([0, 0, 0], [0, 0, 0], NOT_SEEN, "all runs are equal"),
        ([7, 7], [7, 7], NOT_SEEN, "all runs are equal"),
        ([0, 0, 0], [0, 1, 2], CANNOT_TELL, "the first mean is 0"),
    ],
)
def test_little_evidence_is_named(
    first: Sequence[float], other: Sequence[float], word: str, why: str
) -> None:
    one = only(judged(figure(first, other)))
    assert one.word == word and one.why.startswith(why), one.why


def test_tests_that_disagree_give_no_verdict() -> None:
    # 20 % apart, Welch p 0.04; the intervals of 3 runs are +-20 and overlap
    one = only(judged(figure([92, 100, 108], [112, 120, 128])))
    assert one.word == CANNOT_TELL and one.why.endswith("but the intervals overlap"), one.why
    # apart by the rule, but one of 61 headlines
    others = [figure(about(100), about(100.1)) for _ in range(60)]
    found = judged(figure([96, 100, 104], [119, 122, 127]), *others)
    assert found.verdicts[0].difference is not None and found.verdicts[0].difference.rule
    assert found.verdicts[0].word == CANNOT_TELL and "but p is" in found.verdicts[0].why


def test_p_is_welchs_after_holm_in_two_families() -> None:
    rng = np.random.default_rng(5)
    samples = [(rng.normal(100, 5, 5), rng.normal(mean, 5, 6)) for mean in (120, 108, 104, 100, 130, 101)]
    figures = [figure(list(a), list(b), is_headline=i < 2) for i, (a, b) in enumerate(samples)]
    found = judged(*figures)
    raw = [stats.ttest_ind(a, b, equal_var=False).pvalue for a, b in samples]
    for family, of in ((raw[:2], found.verdicts[:2]), (raw[2:], found.verdicts[2:])):
        highest = 0.0
        for rank, i in enumerate(np.argsort(family)):
            highest = max(highest, min(1.0, family[i] * (len(family) - rank)))
            assert of[i].p == pytest.approx(highest, rel=1e-6)


def test_headlines_come_first_and_the_order_stays() -> None:
    figures = [figure(about(1), about(1), name=name, is_headline=name in "bd") for name in "abcd"]
    assert [one.figure.name for one in judged(*figures).verdicts] == ["b", "d", "a", "c"]


def test_overall_needs_every_headline() -> None:
    good, open_ = figure(about(100), about(100)), figure([80, 100, 120], [80, 100, 120], name="noisy")
    assert judged(good, good).overall == NO_WORSE
    found = judged(good, open_)
    assert found.overall == CANNOT_TELL and "1 of 2 headline figures; noisy, B against A" in found.why
    assert "runs a side would see 10 %" in found.why
    # 5.5 % spread: 5 runs see 12 %, though the interval of equal means, +-8 %, excludes 10 %
    wide = figure(about(100, (-7, -3.5, 0, 3.5, 7)), about(100, (7, 3.5, 0, -3.5, -7)))
    found = judged(wide)
    assert only(found).word == NOT_SEEN and found.overall == CANNOT_TELL
    assert found.why.endswith("5 runs could have seen >= 12 %; about 7 runs a side would see 10 %"), found.why
    assert judged(good, open_, figure(about(100), about(150))).overall == WORSE
    only_others = figure(about(100), about(150), is_headline=False)
    assert judged(good, only_others).overall == NO_WORSE  # phases and outcomes are beside the headline
    assert judged(only_others).overall == judge([]).overall == CANNOT_TELL


def test_better_needs_no_narrow_interval() -> None:
    """20 % spread could not have seen 10 %, but half the time is better all the same."""
    found = judged(figure([80, 95, 100, 105, 120], [40, 45, 50, 55, 60]))
    assert only(found).word == BETTER and found.overall == NO_WORSE


def overall_of(rng: np.random.Generator, other: float, spread: float, n: int, headlines: int) -> Verdicts:
    """A comparison of so many headlines; the other side's true mean is `other`, the first side's 1."""
    return judged(
        *(
            figure(list(rng.normal(1, spread, n)), list(rng.normal(other, spread * other, n)))
            for _ in range(headlines)
        )
    )


def test_identical_sides_are_rarely_called_worse() -> None:
    """60 headlines of one truth: the rule alone would call one in seven such comparisons worse."""
    rng = np.random.default_rng(11)
    found = [overall_of(rng, 1.0, 0.12, 5, 60) for _ in range(80)]
    worse = np.mean([one.overall == WORSE for one in found])
    by_rule = np.mean(
        [
            any(v.difference and v.difference.rule and (v.difference.ratio or 0) > 1 for v in one.verdicts)
            for one in found
        ]
    )
    assert worse <= 0.05 < by_rule


def test_sides_at_the_margin_are_rarely_called_no_worse() -> None:
    """10 % worse in truth: a gate that lets it pass is wrong in at most 1 of 20."""
    rng = np.random.default_rng(12)
    found = [overall_of(rng, 1.1, 0.03, 5, 1).overall for _ in range(1000)]
    assert found.count(NO_WORSE) <= 50


def test_clear_differences_are_found() -> None:
    rng = np.random.default_rng(13)
    assert sum(overall_of(rng, 1.25, 0.04, 5, 4).overall == WORSE for _ in range(200)) >= 190
    assert sum(overall_of(rng, 1.0, 0.02, 5, 4).overall == NO_WORSE for _ in range(200)) >= 190


def test_worse_figures_have_their_causes() -> None:
    causes = [
        figure(about(100), about(200), name="disk write: requests", unit="", kind="cause"),
        figure(about(100), about(900), name="seeks", unit="", kind="cause"),
        figure(about(100), about(880), name="seeks", unit="/s", kind="cause"),
        figure(about(100), about(105), name="queue depth, mean", kind="cause"),
        figure(about(100), about(3000), name="lost", kind="cause", untold="events were lost"),
        figure([100], [5000], name="alone", kind="cause"),
        figure(about(100), about(40), name="in fsync calls", kind="cause"),
    ]
    found = judged(figure(about(100), about(150)), figure(about(100), about(100)), causes=causes)
    worse, other = found.verdicts
    assert [one.figure.name for one in worse.causes] == ["seeks", "in fsync calls", "disk write: requests"]
    assert [one.differs for one in worse.causes] == [True] * 3 and not other.causes
    section = Section()
    fill(section, found)
    said = next(note for note in section.notes if note.startswith("beside"))
    assert said.startswith("beside the worse time (B) differs most: seeks 100 to 900 (ratio 9.00!); ")


def test_table_of_verdicts_fits_and_has_the_numbers() -> None:
    found = judge(
        [
            Pair("A+B+C", side, "ext4:btrfs2007, 128 threads, journal on a second disk", [
                figure(about(100), about(120), name="a long name of an operation, mean", unit="us"),
                figure(about(1e7), about(1e7), name="x" * 200, is_headline=False),
                figure([1], [2], is_headline=False),
            ]) for side in ("D+E+F", "G+H+I")
        ]
    )  # fmt: skip
    section = Section("Verdicts")
    fill(section, found)
    lines = section_lines(section)
    assert max(map(len, "\n".join(lines).split("\n"))) <= 80
    words = " ".join(" ".join(lines).split())
    assert words.count("1.20 (1.19-1.21)") == 2 and words.count("<.001") == 2
    assert words.count("cannot tell, 1 figure: single observation") == 2
    rows = as_csv(found).splitlines()
    assert rows[0] == ",".join(CSV_COLUMNS) and len(rows) == 7


def test_picture_turns_rates_over_and_leaves_none_out_silently() -> None:
    turned = rows_of(judged(figure(about(100), about(50), better="higher")))[0]
    assert turned.worse == pytest.approx(2) and turned.low is not None and turned.high is not None
    assert 1.9 < turned.low < 2 < turned.high < 2.1
    plain = rows_of(judged(figure(about(100), about(50))))[0]
    assert plain.worse == pytest.approx(0.5)
    assert (
        rows_of(judged(figure([1], [2]))) == [] and not make_picture(judged(figure([1], [2])), "", []).files
    )
    many = judged(*(figure(about(100), about(90 + i), name=f"$f{i}^{{") for i in range(MOST_ROWS + 5)))
    before, save.DPI = save.DPI, 30
    try:
        made = make_picture(many, "title", ["a banner " * 30] * 4)
    finally:
        save.DPI = before
    assert set(made.files) == {"verdicts.png", "verdicts.svg"}


# --- runs ----------------------------------------------------------------------------------------


def run_of(seconds: float, requests: int = 100, rate: float | None = None, **facts: Any) -> Spec:
    """A run of so many seconds; rate: the workload's own metric, transactions per second."""
    spec = Spec(run=run_json(seconds))
    spec.run["words"] = {"FS": "ext4", "WL": "filemark"}
    spec.run["workload"] |= {"name": "filemark"}
    for key, value in facts.items():
        spec.run[key] = {**spec.run[key], **value} if isinstance(value, dict) else value
    spec.block = [request(START_NS + i * 1_000_000, i * 8) for i in range(requests)]
    spec.call = [{"bin_ns": START_NS + i * BIN_NS, "bytes": 100_000} for i in range(50)]
    return spec


def sides_of(folder: Path, *sides: Sequence[Spec]) -> list[Path]:
    specs = [spec for side in sides for spec in side]
    return [spec.write(folder / letter) for letter, spec in zip(LETTERS, specs, strict=False)]


def loaded(paths: Sequence[Path]) -> list[Compared]:
    return [load_compared(letter, path) for letter, path in zip(LETTERS, paths, strict=False)]


def kernel(seconds: Sequence[float], release: str, requests: int = 100, **facts: Any) -> list[Spec]:
    return [run_of(one, requests + i, kernel={"release": release}, **facts) for i, one in enumerate(seconds)]


BASE = (10.0, 10.1, 9.9)


@pytest.mark.usefixtures("words_only")
@pytest.mark.parametrize(
    ("seconds", "code", "says"),
    [
        ((15.0, 15.2, 14.9), 1, "verdict: worse: workload, D+E+F against A+B+C: worse by 51 %"),
        ((5.0, 5.1, 4.9), 0, "verdict: no worse: the headline figure is better, or less than 10 % worse"),
        ((10.0, 10.1, 9.9), 0, "verdict: no worse: "),
        ((9.0, 14.0, 10.0), 3, "verdict: cannot tell: workload, D+E+F against A+B+C: 3 runs could have seen"),
        ((15.0,), 3, "verdict: cannot tell: workload, D against A+B+C: single observation"),
    ],
)
def test_gate_is_the_exit_status(tmp_path: Path, seconds: Sequence[float], code: int, says: str) -> None:
    paths = sides_of(tmp_path, kernel(BASE, "6.1"), kernel(seconds, "6.12", requests=300))
    done = compare("--gate=1", f"--out={tmp_path / 'out'}", *paths)
    assert (done.returncode, done.stderr) == (code, "")
    assert done.stdout.splitlines()[-1].startswith(says), done.stdout.splitlines()[-1]
    about = json.loads((tmp_path / "out/compare.json").read_text())
    assert about["schema"] == 3 and about["verdict"]["exit_code"] == code
    assert (
        f"verdict: {about['verdict']['overall']}: {about['verdict']['why']}" == done.stdout.splitlines()[-1]
    )


@pytest.mark.usefixtures("words_only")
def test_json_has_every_verdict_with_its_numbers(tmp_path: Path) -> None:
    paths = sides_of(tmp_path, kernel(BASE, "6.1"), kernel((15.0, 15.2, 14.9), "6.12", requests=300))
    assert compare(f"--out={tmp_path / 'out'}", *paths).returncode == 0  # no gate: the report is made
    text = (tmp_path / "out/compare.json").read_text()

    def no_constant(name: str) -> None:
        raise AssertionError(name)

    about = json.loads(text, parse_constant=no_constant)
    assert about["kind"] == "compare" and [run["letter"] for run in about["runs"]] == list("ABCDEF")
    assert about["verdict"] == {
        "overall": "worse",
        "why": "workload, D+E+F against A+B+C: worse by 51 %",
        "exit_code": 1,
        "margin_pct": 10.0,
    }
    one = about["verdicts"][0]
    assert set(one) == {*CSV_COLUMNS, "causes"}
    assert (one["verdict"], one["figure"], one["unit"], one["kind"]) == ("worse", "workload", "s", "outcome")
    assert (one["better"], one["headline"], one["rule"]) == ("lower", True, True)
    assert (one["n_first"], one["n_other"]) == (3, 3)
    first, other = [9.9, 10.0, 9.8], [14.9, 15.1, 14.8]  # the workload is 0.1 s shorter than its run
    assert one["mean_first"] == pytest.approx(np.mean(first))
    assert one["half_width_95_other"] == pytest.approx(
        stats.t.ppf(0.975, 2) * np.std(other, ddof=1) / np.sqrt(3), rel=1e-5
    )
    assert one["p_holm"] == pytest.approx(stats.ttest_ind(first, other, equal_var=False).pvalue, rel=1e-5)
    assert one["ratio_low_95"] < one["ratio"] == pytest.approx(np.mean(other) / np.mean(first))
    assert one["causes"][0]["figure"].startswith("disk write")
    names = [found["figure"] for found in about["verdicts"]]
    assert "application write" in names and not any("(no phase)" in name for name in names)


@pytest.mark.parametrize("words", [["--gate=2", "a", "b"], ["--gate=yes", "a"]])
def test_wrong_gate_is_refused(words: list[str]) -> None:
    done = compare(*words)
    assert done.returncode == 2 and "is neither 1 (the exit status is the verdict) nor 0" in done.stderr


def only_why(paths: Sequence[Path], name: str) -> str:
    (one,) = [one for one in judge(pairs_of_runs(loaded(paths))).verdicts if one.figure.name == name]
    assert one.word == CANNOT_TELL
    return one.why


SLOW = (15.0, 15.2, 14.9)


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        ({"workload": {"name": "postmark"}}, "the sides did different work"),
        ({"words": {"FS": "ext4", "WL": "filemark", "ARGS": "-n 9"}}, "the sides did different work"),
        ({"workload": {"scale": "quick"}}, "the sides did different work"),
        ({"workload": {"exit_status": 1}}, "a run failed or was interrupted"),
        ({"state": "interrupted"}, "a run failed or was interrupted"),
        ({"machine": {"vm": TCG}}, "times of emulated CPUs"),
        ({"machine": {"vm": {**TCG, "accel": "kvm"}}}, "times in a virtual machine against times outside"),
        ({"workload": {"name": "watch"}}, "a run without a workload"),
    ],
)  # fmt: skip
def test_figures_that_cannot_be_judged_say_why(tmp_path: Path, facts: dict[str, Any], why: str) -> None:
    paths = sides_of(tmp_path, kernel(BASE, "6.1"), kernel(SLOW, "6.12", **facts)[:1])
    assert only_why(paths, "workload") == why


def test_lost_events_give_no_verdict_on_what_they_recorded(tmp_path: Path) -> None:
    slow = kernel(SLOW, "6.12")
    slow[1].losses = {
        "collectors": {
            "block": collector(300), "locks": collector(), "calls": collector(40, lost={"ring full": 10})
        },
        "complete": True,
    }  # fmt: skip
    paths = sides_of(tmp_path, kernel(BASE, "6.1"), slow)
    assert only_why(paths, "application write") == "events of calls were lost"
    assert judge(pairs_of_runs(loaded(paths))).overall == WORSE  # the workload's time is no event


def with_metric(folder: Path, values: Sequence[Sequence[float]], **metric: Any) -> list[Path]:
    """Runs of one length, whose workload states transactions per second."""
    paths = []
    for letter, value, release in zip(
        LETTERS, [v for side in values for v in side], ["6.1"] * 3 + ["6.12"] * 3, strict=False
    ):
        facts = {"name": "transactions", "unit": "/s", "better": "higher", "table": "", "column": "per_s"}
        second = {"name": "calls", "unit": "us", "better": "lower", "table": "", "column": "mean_us"}
        spec = run_of(10.0, kernel={"release": release}, workload={"metrics": [{**facts, **metric}, second]})
        path = spec.write(folder / letter)
        line = {"table": "", "per_s": value, "mean_us": 1e6 / value}
        (path / "raw/figures.jsonl").write_text(json.dumps(line) + "\n")
        paths.append(path)
    return paths


def test_first_metric_of_the_workload_is_the_headline(tmp_path: Path) -> None:
    found = judge(pairs_of_runs(loaded(with_metric(tmp_path, [(100, 101, 99), (70, 71, 69)]))))
    assert [(one.figure.name, one.word) for one in found.verdicts if one.figure.is_headline] == [
        ("transactions", WORSE)
    ]
    words = {one.figure.name: (one.figure.kind, one.word) for one in found.verdicts}
    assert words["calls"] == ("metric", WORSE) and words["workload"] == ("outcome", NOT_SEEN)
    assert found.overall == WORSE
    found = judge(pairs_of_runs(loaded(with_metric(tmp_path / "b", [(100, 101, 99), (140, 141, 139)]))))
    assert found.overall == NO_WORSE


def test_time_is_the_headline_beside_runs_without_metrics(tmp_path: Path) -> None:
    new, old = with_metric(tmp_path / "new", [(100, 101, 99)]), kernel(BASE, "6.12")
    old_paths = [spec.write(tmp_path / f"old{i}") for i, spec in enumerate(old)]
    found = judge(pairs_of_runs(loaded([*new, *old_paths])))
    assert [one.figure.name for one in found.verdicts if one.figure.is_headline] == ["workload"]
    assert found.overall == NO_WORSE


@pytest.mark.usefixtures("words_only")
def test_hostile_metrics_do_no_harm(tmp_path: Path) -> None:
    evil = '=cmd(),"\n<script>\x1b[31m' + "y" * 5000
    paths = with_metric(tmp_path, [(100, 101, 99), (70, 71, 69)], name=evil, unit=evil, better=evil)
    spoilt: list[Any] = ["no list", [5, None, {"name": []}]]
    for path, metrics in zip(paths[:2], spoilt, strict=True):
        facts = json.loads((path / "run.json").read_text())
        facts["workload"]["metrics"] = metrics
        (path / "run.json").write_text(json.dumps(facts))
    (paths[2] / "raw/figures.jsonl").write_bytes(b"\x00nonsense{")
    done = compare("--gate=1", f"--out={tmp_path / 'out'}", *paths)
    assert done.returncode == 3 and "\x1b" not in done.stdout and "Traceback" not in done.stderr
    assert max(map(len, (tmp_path / "out/compare.txt").read_text().splitlines())) <= 80
    assert "<script>\\x1b" not in (tmp_path / "out/compare.html").read_text()
    json.loads((tmp_path / "out/compare.json").read_text())
    hostile = judged(figure([1, 2], [1, 2], name="=cmd()"), figure([1e308] * 2, [1.7e308] * 2, unit=""))
    assert "'=cmd()" in as_csv(hostile) and json.dumps(as_json(hostile), allow_nan=False)


def test_other_machines_are_told(tmp_path: Path) -> None:
    facts: list[dict[str, Any]] = [
        {}, {"machine": {"memory_bytes": 8_500_000_000}}, {"machine": {"cpus": 4}},
        {"machine": {"memory_bytes": 16 << 30}}, {"machine": {"cpu_model": "other"}},
    ]  # fmt: skip
    specs = [run_of(10.0) for _ in range(6)]
    for spec, one in zip(specs, [{}, *facts], strict=True):
        spec.run["machine"] |= {"cpu_model": "one", **one.get("machine", {})}
    runs = loaded(sides_of(tmp_path, specs))
    assert other_machines(runs) == ["D", "E", "F"]
    assert "D, E, F ran on another machine than A: any difference may be the machine's" in make_banners(runs)
    inside = [run_of(10.0, machine={"cpus": n, "vm": {**TCG, "accel": "kvm"}}) for n in (1, 2)]
    assert other_machines(loaded(sides_of(tmp_path / "inside", inside))) == []  # CPUS= sets their number
