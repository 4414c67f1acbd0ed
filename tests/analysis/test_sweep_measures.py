# SPDX-License-Identifier: BSD-2-Clause
"""Measures of sweeps on known figures: rankings, groups, goals, tracing's cost, causes, drift."""

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from analysis.measures.sweep.causes import compare_causes
from analysis.measures.sweep.data import SweepData
from analysis.measures.sweep.drift import headlines, machine_drifts
from analysis.measures.sweep.goal import short_of_goal
from analysis.measures.sweep.ranking import Ranking, rank
from analysis.measures.sweep.tracing_pairs import tracing_pairs
from tests.analysis.sweep_data import make_data
from tests.analysis.sweeps import FIGURE_COLUMNS, configuration, figures

A, B, C = [98.0, 100.0, 102.0], [78.0, 80.0, 82.0], [99.0, 101.0, 103.0]


def _ranking(tmp_path: Path, frame: pd.DataFrame) -> Ranking:
    [group] = make_data(tmp_path / "s", frame).groups
    return group.ranking


def test_ranking_has_the_figures_computed_by_hand(tmp_path: Path) -> None:
    ranking = _ranking(tmp_path, figures({"a": A, "b": B}))
    best, other = ranking.rows
    assert (best.configuration.id, best.description.mean, best.n) == ("a", 100.0, 3)
    # sd 2, n 3: t(0.975, 2) = 4.302653, half-width 4.302653 * 2 / sqrt(3)
    assert best.description.half_width == pytest.approx(4.968277)
    assert best.against is None and best.spread == pytest.approx(0.02)
    assert other.against is not None
    assert other.against.ratio == pytest.approx(0.8)
    assert other.against.rule is True
    assert other.holm_p == pytest.approx(stats.ttest_ind(A, B, equal_var=False).pvalue)


def test_lower_is_better_reverses_the_ranking(tmp_path: Path) -> None:
    ranking = _ranking(tmp_path, figures({"a": A, "b": B}, better="lower"))
    assert [row.configuration.id for row in ranking.rows] == ["b", "a"]
    assert ranking.rows[1].against is not None
    assert ranking.rows[1].against.ratio == pytest.approx(1.25)


def test_measure_without_direction_keeps_the_plans_order(tmp_path: Path) -> None:
    ranking = _ranking(tmp_path, figures({"a": B, "b": A}, better=""))
    assert [row.configuration.id for row in ranking.rows] == ["a", "b"]


def test_holms_correction_covers_the_table(tmp_path: Path) -> None:
    ranking = _ranking(tmp_path, figures({"a": A, "b": B, "c": C}))
    _, second, third = ranking.rows
    assert [row.configuration.id for row in ranking.rows] == ["c", "a", "b"]
    raw = [stats.ttest_ind(C, other, equal_var=False).pvalue for other in (A, B)]
    assert third.holm_p == pytest.approx(2 * raw[1])
    assert second.holm_p == pytest.approx(max(raw[0], 2 * raw[1]))
    assert second.against is not None and second.against.rule is False


def test_single_runs_get_no_verdict(tmp_path: Path) -> None:
    other = _ranking(tmp_path, figures({"a": [100.0], "b": [50.0]})).rows[1]
    assert other.against is not None
    assert (other.against.rule, other.against.welch_p, other.against.ratio) == (None, None, 0.5)


def test_lower_bound_is_not_judged(tmp_path: Path) -> None:
    frame = figures({"a": A, "b": B})
    frame.loc[frame.configuration == "b", "bound"] = True
    other = _ranking(tmp_path, frame).rows[1]
    assert other.is_bound and other.against is None


def test_lossy_runs_are_counted(tmp_path: Path) -> None:
    frame = figures({"a": A, "b": B})
    frame.loc[frame.task == "b-r02", "lossy"] = True
    assert [row.lossy for row in _ranking(tmp_path, frame).rows] == [0, 1]


def test_configuration_without_the_figure_is_named(tmp_path: Path) -> None:
    frame = pd.concat([figures({"a": A}), figures({"b": B}, measure="other", headline=False)])
    ranking = _ranking(tmp_path, frame)
    assert [row.configuration.id for row in ranking.rows] == ["a"]
    assert [one.id for one in ranking.lacking] == ["b"]


def test_given_reference_stays_first(tmp_path: Path) -> None:
    frame = figures({"a": A, "b": B, "c": C})
    configurations = make_data(tmp_path / "s", frame).sweep.configurations
    ranking = rank(frame, "transactions", configurations, configurations[1])
    assert [row.configuration.id for row in ranking.rows] == ["b", "a", "c"]
    assert ranking.rows[1].against is not None
    assert ranking.rows[1].against.ratio == pytest.approx(1.25)


def test_runs_that_may_not_be_compared_are_in_groups_apart(tmp_path: Path) -> None:
    frame = pd.concat(
        [
            figures({"a": A, "b": B}),
            figures({"a": B, "b": A}, machine="m2").assign(task=lambda f: f.task + "-m2"),
            figures({"v": [500.0, 510.0]}, virtual=True),
            figures({"u": [99.0, 98.0]}, traced=False),
            figures({"w": [1.0, 2.0]}, wl="postmark"),
        ]
    )
    groups = make_data(tmp_path / "s", frame).groups
    assert [(group.machine, sorted(one.id for one in group.configurations)) for group in groups] == [
        ("m1", ["a", "b"]),
        ("m1", ["u"]),
        ("m1", ["v"]),
        ("m1", ["w"]),
        ("m2", ["a", "b"]),
    ]
    first, *_, other = groups
    assert [row.configuration.id for row in first.ranking.rows] == ["a", "b"]
    assert [row.configuration.id for row in other.ranking.rows] == ["b", "a"]
    assert all(row.n == 3 for row in (*first.ranking.rows, *other.ranking.rows))


def test_headline_is_that_of_most_runs(tmp_path: Path) -> None:
    frame = figures({"a": A, "b": B})
    frame.loc[frame.task == "a-r01", ["measure", "unit"]] = ["workload", "s"]
    [group] = make_data(tmp_path / "s", frame).groups
    assert group.headline == "transactions"
    assert [row.n for row in group.ranking.rows] == [2, 3]


def _short(data: SweepData, goal: float) -> dict[str, str]:
    return {one.id: why for one, why in short_of_goal(data, goal)}


def test_goal_needs_ten_certain_runs_of_each_configuration(tmp_path: Path) -> None:
    level = [100.0, 101.0] * 5
    wide = [100.0, 140.0] * 5
    frame = figures({"few": level[:9], "level": level, "wide": wide})
    plan = [configuration(i, {}, id=name) for i, name in enumerate(("few", "level", "wide", "none"))]
    data = make_data(tmp_path / "s", frame, plan)
    half = float(stats.t.ppf(0.975, 9) * np.std(wide, ddof=1) / math.sqrt(10) / 120 * 100)
    assert _short(data, 5.0) == {
        "few": "n=9: at least 10 are looked at",
        "wide": f"half-width {half:.1f} % of the mean",
        "none": "no run is done",
    }
    assert set(_short(data, half + 0.1)) == {"few", "none"}


def test_tracing_cost_is_the_loss_with_tracing(tmp_path: Path) -> None:
    traced, untraced = [90.0, 91.0, 89.0], [100.0, 101.0, 99.0]
    frame = pd.concat([figures({"c01": traced}), figures({"c02": untraced}, traced=False)])
    plan = [
        configuration(1, {"FS": "ext4"}, label="ext4, traced"),
        configuration(2, {"FS": "ext4", "COLLECT": "none"}, traced=False),
    ]
    [pair] = tracing_pairs(make_data(tmp_path / "s", frame, plan, tracing="both"))
    assert (pair.traced.configuration.id, pair.untraced.configuration.id) == ("c01", "c02")
    assert pair.difference is not None and pair.difference.ratio == pytest.approx(0.9)
    assert pair.cost_pct == pytest.approx(10.0)
    [pair] = tracing_pairs(make_data(tmp_path / "t", frame.assign(better="lower"), plan))
    assert pair.cost_pct == pytest.approx(-10.0)


def test_other_words_make_no_pair(tmp_path: Path) -> None:
    frame = pd.concat([figures({"c01": A}), figures({"c02": B}, traced=False)])
    plan = [configuration(1, {"FS": "ext4"}), configuration(2, {"FS": "xfs"}, traced=False)]
    assert tracing_pairs(make_data(tmp_path / "s", frame, plan)) == []


def _cause(values: dict[str, list[float]], measure: str, unit: str = "") -> pd.DataFrame:
    return figures(values, measure=measure, unit=unit, kind="cause", better="", headline=False)


def test_causes_are_compared_with_the_best_and_ordered(tmp_path: Path) -> None:
    frame = pd.concat(
        [
            figures({"a": B, "b": A}),
            _cause({"a": [500.0, 510.0, 490.0], "b": [100.0, 101.0, 99.0]}, "seeks"),
            _cause({"a": [7.0, 7.1, 6.9], "b": [7.0, 7.1, 6.9]}, "bytes", "B"),
            _cause({"a": [1.0, 30.0, 2.0], "b": [1.0, 1.0, 1.0]}, "noise"),
            _cause({"a": [5.0, 6.0, 7.0]}, "only in a"),
        ]
    )
    [group] = make_data(tmp_path / "s", frame).groups
    causes = compare_causes(group)
    assert causes is not None
    assert [ranking.measure for ranking in causes.rankings] == ["seeks", "noise", "bytes"]
    seeks = causes.rankings[0]
    assert [row.configuration.id for row in seeks.rows] == ["b", "a"]  # b is the best by the headline
    assert seeks.rows[1].against is not None
    assert seeks.rows[1].against.ratio == pytest.approx(5.0)
    assert (causes.comparisons, causes.sure) == (3, 1)


def test_one_configuration_has_no_causes(tmp_path: Path) -> None:
    frame = pd.concat([figures({"a": A}), _cause({"a": A}, "seeks")])
    [group] = make_data(tmp_path / "s", frame).groups
    assert compare_causes(group) is None


def _anchors(first: float, last: float, order: int, **more: object) -> pd.DataFrame:
    row = FIGURE_COLUMNS | {"anchor": True, "configuration": "", "rep": 0, "block": 0}
    rows = [
        row | {"task": "anchor-first", "order": 0, "value": first, **more},
        row | {"task": "anchor-last", "order": order, "value": last, **more},
    ]
    return pd.DataFrame(rows)


def _sweep(slope: float, seed: int = 3, better: str = "higher") -> pd.DataFrame:
    """Ten blocks of three configurations, with noise of 1 %; figures get better by slope a run."""
    rng = np.random.default_rng(seed)
    frame = figures({"a": [100.0] * 10, "b": [200.0] * 10, "c": [50.0] * 10}, seed=seed, better=better)
    factor = (1 + slope * frame.order) * (1 + rng.normal(0, 0.01, len(frame)))
    return frame.assign(value=frame.value * (factor if better == "higher" else 1 / factor))


@pytest.mark.parametrize("better", ["higher", "lower"])
def test_planted_drift_is_found_with_its_sign(tmp_path: Path, better: str) -> None:
    [one] = machine_drifts(make_data(tmp_path / "s", _sweep(-0.01, better=better)))
    assert one.is_sure and one.drift.per_run_pct is not None
    assert one.drift.per_run_pct == pytest.approx(-1.1, abs=0.6)
    assert one.runs == 30


def test_level_sweep_has_no_drift(tmp_path: Path) -> None:
    [one] = machine_drifts(make_data(tmp_path / "s", _sweep(0.0)))
    assert not one.is_sure
    assert one.spread == pytest.approx(0.01, abs=0.004)


def test_anchors_are_compared_and_in_no_other_figure(tmp_path: Path) -> None:
    frame = pd.concat([_sweep(0.0), _anchors(10.0, 9.0, 31)])
    data = make_data(tmp_path / "s", frame)
    [one] = machine_drifts(data)
    assert one.anchors is not None
    assert (one.anchors.first, one.anchors.last, one.anchors.ratio) == (10.0, 9.0, 0.9)
    assert one.runs == 30
    assert all(row.n == 10 for group in data.groups for row in group.ranking.rows)


def test_anchor_that_is_missing_gives_no_ratio(tmp_path: Path) -> None:
    frame = pd.concat([_sweep(0.0), _anchors(10.0, 9.0, 31)[:1]])
    [one] = machine_drifts(make_data(tmp_path / "s", frame))
    assert one.anchors is not None
    assert (one.anchors.first, one.anchors.last, one.anchors.ratio) == (10.0, None, None)


def test_headlines_are_relative_to_their_configuration(tmp_path: Path) -> None:
    data = make_data(tmp_path / "s", figures({"a": [90.0, 110.0], "b": [5.0, 5.0]}))
    frame = headlines(data, "m1").set_index("task")
    assert frame.relative["a-r01"] == pytest.approx(0.9)
    assert frame.relative["a-r02"] == pytest.approx(1.1)
    assert frame.relative["b-r01"] == 1.0
    assert list(frame.order) == sorted(frame.order)


def test_machines_drift_apart_from_each_other(tmp_path: Path) -> None:
    other = _sweep(0.0, seed=5).assign(machine="m2", task=lambda f: f.task + "-m2")
    frame = pd.concat([_sweep(-0.02), other])
    one, two = machine_drifts(make_data(tmp_path / "s", frame))
    assert (one.machine, one.is_sure) == ("m1", True)
    assert (two.machine, two.is_sure) == ("m2", False)
