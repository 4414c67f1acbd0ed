# SPDX-License-Identifier: BSD-2-Clause
"""The verdict of make verify: pairs of runs against the prediction, and where it is kept."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.answer.verified import Verified, read_verified
from analysis.errors import ReportError
from analysis.measures.verify.identity import Named, find_same, subject
from analysis.measures.verify.judgement import Pair, Prediction, Verdict, is_narrow, judge, mean_seconds
from analysis.measures.verify.pairs import read_pairs
from analysis.rundir.run import open_run
from analysis.rundir.sweep_dir import open_sweep
from analysis.verify import make_verdict, verify_goal
from tests.analysis.sweeps import configuration, marker, sweep_json
from tests.analysis.synthetic import decaying_ext3
from tests.analysis.test_findings import GOOD

PREDICTION = Prediction(8.0, 10.0, 12.0, 1.5)
WHAT = "The journal was full 15 times: 13.0 s of 41.8 (31 %)."


def pairs_of(*saved_s: float, with_s: float = 40.0, put_off_s: float = 0.0) -> list[Pair]:
    """Pairs that save so many seconds. The runs with the cause differ by a second in turn."""
    walls = [with_s + number % 2 for number in range(len(saved_s))]
    return [
        Pair(wall, wall - saved, 1.0, 1.0 + put_off_s, "with")
        for wall, saved in zip(walls, saved_s, strict=True)
    ]


@pytest.mark.parametrize(
    ("saved_s", "prediction", "verdict", "why"),
    [
        ((10.1, 9.9, 10.3, 9.8), PREDICTION, Verdict.CONFIRMED, "as much as predicted"),
        ((7.9, 8.1, 8.0, 8.2), PREDICTION, Verdict.CONFIRMED, "as much as predicted"),
        ((2.0, 2.1, 1.9, 2.0), PREDICTION, Verdict.REFUTED, "less than predicted"),
        ((20.0, 20.1, 19.9, 20.0), PREDICTION, Verdict.REFUTED, "more than predicted"),
        ((-3.0, -3.1, -2.9, -3.0), PREDICTION, Verdict.REFUTED, "takes longer without the cause"),
        ((0.1, -0.1, 0.2, -0.2), Prediction(0.0, 6.5, 13.0, 2.0), Verdict.REFUTED, "no saving is seen"),
        ((9.0, -2.0, 14.0, 3.0), Prediction(0.0, 6.5, 13.0, 2.0), Verdict.UNKNOWN, "reaches from none"),
        ((11.4, 14.1, 5.7), Prediction(0.0, 6.5, 13.0, 2.0), Verdict.UNKNOWN, "reaches from none"),
        ((9.0, 15.0, 8.0, 14.0), PREDICTION, Verdict.UNKNOWN, "too wide to say how much"),
        ((6.0, 5.0, 7.0, 6.5), Prediction(0.0, 6.5, 13.0, 0.1), Verdict.CONFIRMED, "as much as predicted"),
        ((10.0,), PREDICTION, Verdict.UNKNOWN, "a single pair"),
    ],
)  # fmt: skip
def test_verdict_follows_from_interval_and_prediction(
    saved_s: Sequence[float], prediction: Prediction, verdict: Verdict, why: str
) -> None:
    judgement = judge(prediction, pairs_of(*saved_s))
    assert judgement.verdict == verdict and why in judgement.why
    assert judgement.saved.pairs == len(saved_s)
    assert judgement.saved.value_s == pytest.approx(np.mean(saved_s))


@pytest.mark.parametrize(("wall_s", "verdict"), [(None, "refuted"), (35.0, "refuted"), (25.0, "can't tell")])
def test_runs_unlike_the_recorded_one_refute_nothing(wall_s: float | None, verdict: str) -> None:
    pairs = pairs_of(20.0, 20.1, 19.9, 20.0)  # of 40 s with the cause
    judgement = judge(replace(PREDICTION, wall_s=wall_s), pairs)
    assert judgement.verdict == verdict and judgement.why.startswith("the remedy saves more than predicted")


def test_workload_that_a_clock_ends_has_no_verdict() -> None:
    pairs = [Pair(60.0, 60.01, 0.0, 0.0, "with"), Pair(60.02, 60.0, 0.0, 0.0, "without")] * 2
    judgement = judge(PREDICTION, pairs)
    assert judgement.verdict == Verdict.UNKNOWN and "a clock ends" in judgement.why


def test_interval_of_four_pairs_is_students_at_the_nominal_level() -> None:
    saved = mean_seconds([1.0, 2.0, 3.0, 4.0])
    assert saved.half_s == pytest.approx(4.1765 * np.std([1, 2, 3, 4], ddof=1) / 2, rel=1e-3)  # t(3, 0.9875)


@given(
    st.lists(st.floats(-50, 50), min_size=2, max_size=12),
    st.tuples(st.floats(0, 50), st.floats(0, 50), st.floats(0, 50)).map(sorted),
    st.floats(0.01, 10),
)
@settings(max_examples=200, deadline=None)
def test_no_verdict_contradicts_the_interval(
    saved_s: list[float], predicted: list[float], goal_s: float
) -> None:
    low_s, value_s, high_s = predicted
    prediction = Prediction(low_s, value_s, high_s, goal_s)
    judgement = judge(prediction, pairs_of(*saved_s, with_s=200.0))
    saved = judgement.saved
    if judgement.verdict == Verdict.CONFIRMED:
        assert saved.low_s > 0 and saved.low_s <= prediction.high_s and saved.high_s >= prediction.low_s
    if judgement.verdict == Verdict.REFUTED:
        assert not saved.low_s <= prediction.value_s <= saved.high_s


def test_stopping_when_narrow_keeps_the_coverage() -> None:
    """Looked at after each pair from the fourth to the tenth, as make verify does."""
    random = np.random.default_rng(15)
    covered = total = 0
    for goal in (0.5, 0.7, 1.0):
        for row in random.standard_normal((600, 10)):
            saved = next(
                seen
                for n in range(4, 11)
                if is_narrow(seen := mean_seconds(row[:n].tolist()), goal) or n == 10
            )
            covered += saved.low_s <= 0 <= saved.high_s
            total += 1
    assert covered / total > 0.94  # 1,800 draws: 0.95 less two standard errors


def make_verification(folder: Path, walls: Sequence[tuple[float, float]], **more: Any) -> Path:
    """A run, and a directory of make verify on it with these wall seconds with and without the cause."""
    run, sweep = folder / "run", folder / "verification"
    run.mkdir(exist_ok=True)
    (run / "run.json").write_text("{}")
    finding = {
        "run": str(run), "number": 1, "kind": "log_space", "what": WHAT, "cost_s": [12.9, 13.0, 13.1],
        "wall_s": 41.8, "remedy": {"words": {"MKFS": "-J size=1024"}, "text": "a journal of 1 GB"},
        "predicted_s": [8.0, 10.0, 12.0], "goal_s": 1.95,
    }  # fmt: skip
    sides = [configuration(1, {"FS": "ext4"}), configuration(2, {"FS": "ext4", "MKFS": "-J size=1024"})]
    plan = sweep_json(sides, **{"finding": finding, "goal_pct": 15.0, "most_reps": 10, **more})
    sweep.mkdir()
    (sweep / "sweep.json").write_text(json.dumps(plan))
    for block, of_pair in enumerate(walls, 1):
        for side, wall_s in enumerate(of_pair, 1):
            task = sweep / f"runs/c{side:02}-r{block:02}"
            task.mkdir(parents=True)
            facts = {
                "clock": {"workload_start_ns": 10**9, "workload_end_ns": 10**9 + round(wall_s * 1e9)},
                "timing": {"sync_s": 0.5 if side == 1 else 2.5, "unmount_s": 0.1},
            }
            (task / "run.json").write_text(json.dumps(facts))
            order = 2 * block - 1 + (side - 1 if block % 2 else 2 - side)
            own = {"configuration": f"c{side:02}", "rep": block, "block": block, "machine": "m1"}
            (task / "task.json").write_text(json.dumps(marker(task.name, order, **own)))
    return sweep


WALLS = ((38.0, 28.0), (38.5, 28.3), (39.0, 28.8), (37.6, 27.7))


def test_verdict_is_printed_and_kept_in_the_run(tmp_path: Path) -> None:
    sweep = make_verification(tmp_path, WALLS)
    text, _ = make_verdict(sweep)
    assert "predicted    10.0 s less, between 8.00 and 12.0 s" in text
    assert "measured     10.1 s less, 95 % interval" in text and "(4 pairs)" in text
    assert "verdict      confirmed: " in text and "so much was put off, not saved" in text
    kept = json.loads((tmp_path / "run/verify/1.json").read_text())
    assert (kept["schema"], kept["number"], kept["kind"], kept["what"]) == (1, 1, "log_space", WHAT)
    assert kept["verdict"] == "confirmed" and kept["predicted_s"] == [8.0, 10.0, 12.0]
    low_s, value_s, high_s = kept["measured_s"]
    assert value_s == pytest.approx(10.075) and low_s < value_s < high_s
    assert [pair["first"] for pair in kept["pairs"]] == ["with", "without"] * 2
    assert kept["put_off_s"] == pytest.approx([2.0, 2.0, 2.0])
    assert (
        kept["text"].startswith("10.1 s less in 4 pairs (")
        and "2.00 s of it put off, predicted" in kept["text"]
    )


def test_verdict_of_another_finding_with_the_number_stays(tmp_path: Path) -> None:
    folder = tmp_path / "run/verify"
    folder.mkdir(parents=True)
    (folder / "1.json").write_text(json.dumps({"kind": "commit", "what": "another 1"}))
    sweep = make_verification(tmp_path, WALLS)
    for _ in range(2):
        assert "run/verify/1-2.json" in make_verdict(sweep)[0]
    assert sorted(file.name for file in folder.iterdir()) == ["1-2.json", "1.json"]
    assert json.loads((folder / "1.json").read_text())["kind"] == "commit"


def test_interrupted_pairs_are_judged_and_kept_until_there_are_all(tmp_path: Path) -> None:
    sweep = make_verification(tmp_path, WALLS[:2], state="interrupted")
    text, run = make_verdict(sweep)
    assert "(2 pairs)" in text and "goes on      interrupted; the same command goes on: " in text
    assert run is None  # the report is not made anew
    kept = json.loads((tmp_path / "run/verify/1.json").read_text())
    assert (kept["state"], kept["verdict"], len(kept["pairs"])) == ("interrupted", "can't tell", 2)
    assert "interrupted after 2 pairs" in kept["notes"]
    (tmp_path / "other").mkdir()
    whole = make_verification(tmp_path / "other", WALLS)
    plan = json.loads((whole / "sweep.json").read_text())
    plan["finding"]["run"] = str(tmp_path / "run")
    (whole / "sweep.json").write_text(json.dumps(plan))
    assert "verdict      confirmed" in make_verdict(whole)[0]
    assert json.loads((tmp_path / "run/verify/1.json").read_text())["state"] == "complete"
    text, run = make_verdict(sweep)  # the interrupted one again
    assert "not kept     the run has a verdict on this finding already" in text and run is None
    assert json.loads((tmp_path / "run/verify/1.json").read_text())["state"] == "complete"


def test_verdict_is_for_the_run_s_group_and_follows_no_link(tmp_path: Path) -> None:
    sweep = make_verification(tmp_path, WALLS)
    (tmp_path / "run").chmod(0o750)
    make_verdict(sweep)
    assert (tmp_path / "run/verify").stat().st_mode & 0o777 == 0o750
    assert (tmp_path / "run/verify/1.json").stat().st_mode & 0o777 == 0o640
    shutil.rmtree(tmp_path / "run/verify")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "run/verify").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ReportError, match="the verdict is not kept"):
        make_verdict(sweep)
    assert not list((tmp_path / "elsewhere").iterdir())


def test_interrupted_before_a_pair_is_over_says_what_is_there(tmp_path: Path) -> None:
    sweep = make_verification(tmp_path, WALLS[:1], state="interrupted")
    (sweep / "runs/c02-r01/task.json").unlink()
    text, run = make_verdict(sweep)
    assert "verdict      none: no pair of runs is over" in text and "the same command goes on" in text
    assert run is None and not (tmp_path / "run/verify").exists()


JOURNAL = "The journal of 67.2 MB was full 16 times: 11.5 s of 39.8 s (29 %)."


def named(what: str, kind: str = "log_space", **words: str) -> Named:
    return Named(kind, what, words)


@pytest.mark.parametrize(
    ("now", "index"),
    [
        ([named("A lock 1"), named(JOURNAL)], 1),
        ([named("x 1", "stop"), named(JOURNAL.replace("16", "15").replace("11.5", "9.04"))], 1),
        ([named("The log was full: 1 s", MKFS="-J size=1024")], 0),  # by its remedy
        ([named("The log was full: 1 s", MKFS="-J size=64")], None),
        ([named(JOURNAL, "stop")], None),
        ([named(JOURNAL.replace("16", "15")), named(JOURNAL.replace("16", "14"))], None),  # either
        ([named(JOURNAL), named(JOURNAL.replace("16", "14"))], 0),
        ([], None),
    ],
)
def test_verdict_stays_with_its_finding_whatever_its_number(now: list[Named], index: int | None) -> None:
    assert find_same(named(JOURNAL, MKFS="-J size=1024"), now) == index


def test_names_with_digits_are_no_numbers() -> None:
    assert subject("1,024 requests of loop8 took 4.1 s (29 %).") == "# requests of loop8 took # s (# %)."
    assert subject("A lock of inode-12: 3 s") != subject("A lock of inode-13: 3 s")


def test_newest_of_several_verdicts_is_shown(tmp_path: Path) -> None:
    run = open_run(decaying_ext3(2, 100).write(tmp_path / "r"))
    (run.path / "verify").mkdir()
    finding = replace(GOOD, kind="log_space", what=JOURNAL)
    for name, verdict, made in (("1", "refuted", "2026-01-02"), ("3", "confirmed", "2026-01-01")):
        facts = {"kind": "log_space", "what": JOURNAL.replace("16", name), "verdict": verdict, "text": "x"}
        (run.path / f"verify/{name}.json").write_text(json.dumps(facts | {"made_realtime": made}))
    (run.path / "verify/9.json").write_text('{"kind": {}, "what": [1], "remedy": 7}')
    (run.path / "verify/8.json").write_text("[" * 9999)
    other = replace(GOOD, what="Another 1.")
    assert read_verified(run, [other, finding]) == {2: Verified("refuted", "x")}


def test_pair_with_a_failed_or_missing_run_is_left_out(tmp_path: Path) -> None:
    sweep = make_verification(tmp_path, WALLS)
    marked = sweep / "runs/c02-r01/task.json"
    marked.write_text(json.dumps(json.loads(marked.read_text()) | {"outcome": "failed"}))
    (sweep / "runs/c01-r02/run.json").write_text("{}")
    (sweep / "runs/c01-r04/task.json").unlink()
    pairs = read_pairs(open_sweep(sweep))
    assert (len(pairs.pairs), pairs.broken) == (1, 2)  # the fourth is not over
    assert "2 pairs with a run that failed" in make_verdict(sweep)[0]
    assert json.loads((tmp_path / "run/verify/1.json").read_text())["measured_s"] is None


def test_goal_is_met_when_the_interval_is_narrow(tmp_path: Path) -> None:
    wide = ((38.0, 28.0), (38.5, 20.3), (39.0, 33.8), (37.6, 27.7))
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    assert verify_goal(make_verification(tmp_path / "a", WALLS)) == ("", 0)
    text, code = verify_goal(make_verification(tmp_path / "b", wide))
    assert code == 1 and "1.95 s to each side are wanted" in text


@pytest.mark.parametrize(
    "finding",
    [
        None,
        {},
        [],
        {"run": 7},
        {"predicted_s": [1, 2]},
        {"predicted_s": [3, 2, 1]},
        {"predicted_s": ["a", 2, 3]},
        {"goal_s": 0},
        {"goal_s": 1e999},
        {"remedy": "a larger journal"},
        {"remedy": {"words": 1, "text": "x"}},
        {"number": 10**30},
        {"what": {"a": 1}},
    ],
)
def test_broken_finding_is_an_error_in_a_sentence(tmp_path: Path, finding: Any) -> None:
    sweep = make_verification(tmp_path, WALLS)
    plan = json.loads((sweep / "sweep.json").read_text())
    plan["finding"] = plan["finding"] | finding if isinstance(finding, dict) and finding else finding
    (sweep / "sweep.json").write_text(json.dumps(plan).replace("Infinity", "1e999"))
    with pytest.raises(ReportError):
        make_verdict(sweep)


def test_run_that_is_gone_keeps_no_verdict(tmp_path: Path) -> None:
    sweep = make_verification(tmp_path, WALLS)
    (tmp_path / "run/run.json").unlink()
    with pytest.raises(Exception, match="not a run directory any more"):
        make_verdict(sweep)
