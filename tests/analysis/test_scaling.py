# SPDX-License-Identifier: BSD-2-Clause
"""Scaling: lines of a sweep, saturation, the law and the trend, what grows, and the named bottleneck."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib import colors

from analysis.figures import save, style
from analysis.figures.sweep import scaling as picture
from analysis.measures.common.statistics import Mean
from analysis.measures.compare.per_operation import CPU_TIME, LOCK_WAIT, ONE_LOCK, SPIN, THREAD_TIME
from analysis.measures.scaling.growth import CPU, REST, measure_growth
from analysis.measures.scaling.lines import Line, find_lines
from analysis.measures.scaling.saturation import find_saturation
from analysis.measures.scaling.scaling import measure_scaling
from analysis.measures.statistics import power_law, usl
from analysis.render.document import Section
from analysis.sections.sweep import scaling
from tests.analysis.sweeps import FIGURE_COLUMNS

THREADS = (1, 2, 4, 8, 16, 32)
Rows = list[dict[str, Any]]


def run(
    rows: Rows,
    words: Mapping[str, str],
    throughput: float,
    causes: Mapping[str, float] | None = None,
    **more: Any,
) -> None:
    """Add the rows of one run: its throughput, and its causes in ns."""
    task = f"c{len(rows):04}-r01"
    about = {**FIGURE_COLUMNS, "task": task, "words": json.dumps({"WL": "filemark", **words}), **more}
    rows.append({**about, "value": throughput})
    for name, value in (causes or {}).items():
        rows.append(
            {
                **about,
                "measure": name,
                "unit": "ns",
                "value": value,
                "kind": "cause",
                "better": "",
                "headline": False,
            }
        )


def frame(rows: Rows) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=list(FIGURE_COLUMNS))


def law(n: float, gamma: float = 1000, alpha: float = 0.05, beta: float = 0.004) -> float:
    return gamma * n / (1 + alpha * (n - 1) + beta * n * (n - 1))


def line_of(means: Mapping[int, float], spread: float = 0.02, reps: int = 3, **words: str) -> Line:
    rows: Rows = []
    for n, mean in means.items():
        for i in range(reps):
            run(rows, {"THREADS": str(n), **words}, mean * (1 + spread * (i - (reps - 1) / 2)))
    (line,) = find_lines(frame(rows))
    return line


def test_runs_that_differ_in_threads_alone_are_a_line() -> None:
    rows: Rows = []
    for fs in ("ext4", "xfs"):
        for threads in (1, 4):
            for sched in ("none", "bfq"):
                run(rows, {"FS": fs, "SCHED": sched, "THREADS": str(threads)}, 100.0 * threads)
    run(rows, {"FS": "jfs", "SCHED": "none", "THREADS": "4"}, 1.0)  # alone
    run(rows, {"FS": "ext4", "SCHED": "none"}, 1.0)  # the workload's own number of threads
    run(rows, {"FS": "ext4", "SCHED": "none", "THREADS": "8"}, 1.0, anchor=True)
    run(rows, {"FS": "ext4", "SCHED": "none", "THREADS": "8"}, 800.0, machine="m2")
    run(rows, {"FS": "ext4", "SCHED": "none", "THREADS": "16"}, 1.0, traced=False)
    found = find_lines(frame(rows))
    assert [line.name for line in found] == [
        "ext4, SCHED=none", "ext4, SCHED=bfq", "xfs, SCHED=none", "xfs, SCHED=bfq",
    ]  # fmt: skip
    assert all(line.axis == "threads" and line.measure == "transactions" and not line.why for line in found)
    assert [list(line.n) for line in found] == [[1, 4]] * 4 and list(found[0].x) == [100, 400]


def test_cpus_are_an_axis_of_their_own() -> None:
    rows: Rows = []
    for cpus in (1, 2):
        for threads in (1, 2):
            run(rows, {"FS": "ext4", "CPUS": str(cpus), "THREADS": str(threads)}, 10.0)
    found = [(line.axis, line.name) for line in find_lines(frame(rows))]
    assert found == [
        ("threads", "ext4, CPUS=1"), ("threads", "ext4, CPUS=2"),
        ("CPUs", "ext4, THREADS=1"), ("CPUs", "ext4, THREADS=2"),
    ]  # fmt: skip


def test_tasks_in_the_names_of_metrics_are_an_axis() -> None:
    rows: Rows = []
    for tasks in (1, 10, 100):
        run(rows, {"FS": "ext4"}, 5.0 * tasks, measure=f"{tasks} tasks", unit="jobs/min", task="c01-r01")
        for test in ("web", "file"):
            run(rows, {"FS": "ext4"}, 7.0 * tasks, measure=f"{test}, {tasks} outstanding", task="c01-r01")
    run(rows, {"FS": "ext4"}, 500.0, measure="peak", task="c01-r01")
    found = find_lines(frame(rows))
    assert [(line.axis, line.name, line.unit) for line in found] == [
        ("tasks", "ext4", "jobs/min"),
        ("requests outstanding", "ext4, web", "/s"),
        ("requests outstanding", "ext4, file", "/s"),
    ]
    assert list(found[0].n) == [1, 10, 100] and list(found[1].x) == [7, 70, 700]
    grown = measure_growth(found[0])
    assert not grown.costs and grown.why == "the tasks are of one run: its costs are not told apart by them"


@pytest.mark.parametrize(
    "words", ["", "[", "[1]", '{"THREADS": 4}', '{"THREADS": "x"}', '{"THREADS": "99999999"}', "[" * 9999]
)
def test_words_that_are_no_words_make_no_line(words: str) -> None:
    rows: Rows = []
    for threads in ("1", "2"):
        run(rows, {"THREADS": threads}, 1.0)
    run(rows, {}, 1.0)
    rows[-1]["words"] = words
    (line,) = find_lines(frame(rows))
    assert list(line.n) == [1, 2]
    assert find_lines(frame([])) == []


def test_times_are_no_throughput() -> None:
    rows: Rows = []
    for threads in (1, 2, 4, 8, 16):
        run(
            rows,
            {"THREADS": str(threads)},
            10.0,
            measure="workload",
            unit="s",
            kind="outcome",
            better="lower",
        )
    (line,) = find_lines(frame(rows))
    found = measure_scaling(line)
    assert line.why == "workload is better lower: no throughput"
    assert not found.points and found.trend is None and not found.law.fitted and found.law.why == line.why
    assert found.saturation.n is None


def test_saturation_is_the_smallest_number_not_below_the_best() -> None:
    found = measure_scaling(line_of({1: 100, 2: 195, 4: 300, 8: 330, 16: 325, 32: 250}))
    assert found.best is not None and found.best.n == 8
    assert (found.saturation.first, found.saturation.n) == (4, 4)  # 300 is less than 10 % below 330
    assert found.saturation.seen_pct is not None and 1 < found.saturation.seen_pct < 15
    wide = measure_scaling(line_of({1: 100, 2: 195, 4: 280, 8: 330, 16: 325}, spread=0.05)).saturation
    assert (wide.first, wide.n) == (4, 8) and wide.seen_pct is not None and wide.seen_pct > 15
    growing = measure_scaling(line_of({1: 100, 2: 195, 4: 390})).saturation
    assert growing.n is None and growing.why == "throughput still grows at 4"
    single = measure_scaling(line_of({1: 100, 2: 195, 4: 190}, reps=1)).saturation
    assert single.n is None and single.why == "single runs: no verdict"


def test_saturation_is_shown_as_a_range_where_runs_are_few() -> None:
    exact = find_saturation({1: Mean(50, 1, 3), 4: Mean(95, 1, 3), 8: Mean(100, 1, 3), 16: Mean(99, 1, 3)})
    assert exact.text == "4"
    wide = find_saturation({1: Mean(50, 1, 3), 4: Mean(80, 15, 3), 8: Mean(100, 15, 3), 16: Mean(99, 1, 3)})
    assert wide.text == "4 to 8"
    assert find_saturation({1: Mean(50, 1, 3), 4: Mean(80, None, 1)}).text == find_saturation({}).text == "-"


def test_fits_are_those_of_all_repetitions() -> None:
    line = line_of({n: law(n) for n in THREADS}, spread=0.03)
    found = measure_scaling(line)
    n = np.repeat(np.array(THREADS, dtype=np.float64), 3)
    x = np.array([law(k) * (1 + 0.03 * i) for k in THREADS for i in (-1, 0, 1)])
    assert found.law == usl.fit(n, x) and found.trend == power_law.fit(n, x)
    assert found.law.fitted and found.law.peak == pytest.approx(np.sqrt(0.95 / 0.004), rel=0.05)
    assert [point.n for point in found.points] == list(THREADS) and found.points[0].throughput.n == 3
    few = measure_scaling(line_of({n: law(n) for n in THREADS[:4]})).law
    assert not few.fitted and few.why == "4 numbers of threads: at least 5 are needed"


def costs(
    n: int,
    lock: float = 0.0,
    second: float = 0.0,
    spin: float = 0.0,
    cpu: float = 1000.0,
    rest: float = 500.0,
) -> dict[str, float]:
    """Costs of a run in ns per operation: the waits for two locks, the part of them spent spinning."""
    waits = {ONE_LOCK + "mutex big": lock, ONE_LOCK + "rwsem second": second}
    return {
        THREAD_TIME: lock + second + cpu + rest,
        CPU_TIME: cpu + spin,
        LOCK_WAIT: lock + second,
        SPIN: spin,
        "queue depth, mean": 2.0 * n,
        **{name: value for name, value in waits.items() if value},
    }


def grown(by_n: Mapping[int, Mapping[str, float]], noise: Sequence[float] = (0.97, 1.0, 1.03)) -> Line:
    rows: Rows = []
    for n, of_run in by_n.items():
        for factor in noise:
            run(rows, {"THREADS": str(n)}, 1e6 * n, {name: value * factor for name, value in of_run.items()})
    (line,) = find_lines(frame(rows))
    return line


def test_growing_lock_is_the_bottleneck_and_the_next_is_named() -> None:
    line = grown({n: costs(n, lock=20 * n**1.5, second=30.0 * n, spin=5 * n**1.5) for n in (1, 2, 4, 8, 16)})
    found = measure_growth(line)
    assert found.bottleneck is not None and found.next_lock is not None
    assert (found.bottleneck.name, found.next_lock.name) == ("mutex big", "rwsem second")
    assert found.added == pytest.approx(20 * 16**1.5 + 30 * 16 - 50)
    assert found.bottleneck.added == pytest.approx(20 * 16**1.5 - 20)
    trend = found.bottleneck.trend
    assert trend is not None and trend.b_interval is not None
    assert trend.b == pytest.approx(1.5, abs=0.01) and trend.b_interval.low < 1.5 < trend.b_interval.high
    whole = 20 * 16**1.5 + 30 * 16 + 1500
    assert found.bottleneck.shares[16] == pytest.approx(20 * 16**1.5 / whole)
    by_name = {cost.name: cost for cost in found.costs}
    assert by_name["queue depth, mean"].trend is not None
    assert by_name["queue depth, mean"].trend.b == pytest.approx(1.0, abs=0.01)
    assert not by_name["queue depth, mean"].shares
    shares = [by_name[name].shares[16] for name in ("mutex big", "rwsem second", CPU, REST)]
    assert sum(shares) == pytest.approx(1)  # spinning counts once
    assert by_name[CPU].means[16].value == pytest.approx(1000)


def test_disk_and_not_a_small_lock_is_the_bottleneck() -> None:
    line = grown({n: costs(n, lock=2.0 * n, rest=900.0 * n) for n in (1, 2, 4, 8, 16)})
    found = measure_growth(line)
    assert found.bottleneck is not None and found.bottleneck.name == REST and found.next_lock is None


def test_constant_costs_have_no_bottleneck() -> None:
    noise = (0.9, 1.02, 1.1)
    found = measure_growth(grown({n: costs(n, lock=100) for n in (1, 2, 4, 8, 16)}, noise))
    assert found.bottleneck is None and found.why == "no part of an operation's time grows"
    assert found.costs  # shown all the same


def test_lock_without_waits_at_one_thread_has_a_share_of_zero_there() -> None:
    found = measure_growth(
        grown({1: costs(1), 2: costs(2, lock=100), 4: costs(4, lock=400), 8: costs(8, lock=1600)})
    )
    lock = next(cost for cost in found.costs if cost.name == "mutex big")
    assert lock.shares[1] == 0 and lock.trend is not None and lock.trend.left_out == 3
    assert lock.trend.b == pytest.approx(2, abs=0.01) and found.bottleneck is lock


def test_lock_that_waits_only_with_several_threads_grows() -> None:
    found = measure_growth(grown({n: costs(n, lock=400.0 * (n > 1)) for n in (1, 2, 4, 8)}))
    assert found.bottleneck is not None and found.bottleneck.name == "mutex big"
    assert found.bottleneck.trend is not None and abs(found.bottleneck.trend.b) < 0.05


def test_runs_without_operations_have_no_shares() -> None:
    line = grown({n: {"queue depth, mean": 1.0 * n} for n in (1, 2, 4)})
    found = measure_growth(line)
    assert found.bottleneck is None and "not known" in found.why
    assert [cost.name for cost in found.costs] == ["queue depth, mean"]


def data_of(figures: pd.DataFrame) -> Any:
    """What the sections and the picture use of a sweep: its figures, and a machine of two CPUs."""
    sweep = SimpleNamespace(machines={"m1": SimpleNamespace(hostname="box", cpus=2)})
    return SimpleNamespace(frame=figures, sweep=sweep, machines=("m1",))


def sections(figures: pd.DataFrame) -> dict[str, Section]:
    data = data_of(figures)
    built = [*scaling.build_scaling(data), *scaling.build_growing(data)]
    return {section.title or f"section {i}": section for i, section in enumerate(built)}


def two_file_systems() -> pd.DataFrame:
    rows: Rows = []
    for fs, lock in (("ext4", 20.0), ("xfs", 0.0)):
        for n in THREADS:
            for noise in (0.98, 1.0, 1.02):
                x = law(n) if fs == "ext4" else 900.0 * n
                causes = costs(n, lock=lock * n**1.5, second=30.0 * n, rest=100.0)
                run(rows, {"FS": fs, "THREADS": str(n)}, x * noise, {k: v * noise for k, v in causes.items()})
    return frame(rows)


def test_section_shows_means_fits_and_residuals() -> None:
    found = sections(two_file_systems())
    section = found["Scaling with threads: transactions, /s"]
    means, fits, residuals = section.tables
    assert means.titles == ["threads", *map(str, THREADS)]
    assert [row[0] for row in means.rows] == ["ext4", "xfs"]
    assert means.rows[1][1].startswith("900 +-45 n=3") and means.rows[1][-1].endswith("^")
    by_head = dict(zip(fits.titles, fits.rows[0], strict=True))
    assert by_head["saturation"] == "16" and by_head["peak N"].startswith("15 [")
    assert by_head["alpha"].startswith("0.05") and by_head["beta"].startswith("0.0040 [")
    assert fits.rows[1][1] == "-" and fits.rows[1][-1] == "-"
    assert "xfs: no saturation: throughput still grows at 32" in section.notes
    assert "xfs: no peak: throughput may grow without a peak: beta may be 0" in section.notes
    assert any(note.startswith("box has 2 CPUs: ") for note in section.notes)
    assert len(residuals.rows) == 2 and all(cell.endswith("%") for cell in residuals.rows[0][1:])


def test_section_names_the_bottleneck_and_what_curing_it_may_do() -> None:
    section = sections(two_file_systems())["What grows with threads"]
    ext4, xfs = section.notes
    share = 20 * 32**1.5 / (20 * 32**1.5 + 30 * 32 + 1100)
    assert ext4.startswith(
        "ext4: the bottleneck is mutex big: 79.5 % of the time per operation that 32 threads add;"
        f" {100 * share:.1f} % of the whole (1.7 % at 1), growing as N^1.50"
    )
    assert ext4.endswith(". Next lock: rwsem second, 20.5 % of what is added")
    assert xfs.startswith("xfs: the bottleneck is rwsem second: 100.0 % of") and "lock: " not in xfs
    assert "from 30 to 70 %" in section.definition
    rows = {row[0]: row for row in section.tables[0].rows}
    assert rows["mutex big"][-3].startswith("1.50 +-")
    assert rows["mutex big"][-2:] == [f"{100 * share:.1f}", "79.5"]
    assert rows["queue depth, mean"][-2:] == ["", ""]


def test_sections_without_lines_say_what_to_give() -> None:
    found = sections(frame([]))
    assert all("THREADS=" in section.absent for section in found.values()) and found


def test_law_that_does_not_fit_is_said_with_its_reason() -> None:
    rows: Rows = []
    for n in THREADS:
        for noise in (0.99, 1.0, 1.01):
            run(rows, {"THREADS": str(n)}, 100 * n**1.6 * noise)
    (note,) = [
        note
        for note in sections(frame(rows))["Scaling with threads: transactions, /s"].notes
        if "no fit" in note
    ]
    assert note.startswith("all runs: no fit of the law: at ") and note.endswith("the law")


def test_picture_has_a_panel_with_residuals_per_axis() -> None:
    data = data_of(two_file_systems())
    with style.applied():
        figure = picture.draw(data, "a sweep", ["a warning"])
        assert figure is not None
        upper, lower = figure.axes
        assert save.png(figure, dpi=40).startswith(b"\x89PNG")
    assert upper.get_title(loc="left") == "transactions, /s, by threads"
    labels = [text.get_text() for text in upper.get_legend().get_texts()]  # type: ignore[union-attr]
    assert labels[0].startswith("ext4\nalpha 0.05") and "peak at 15.4" in labels[0]
    curves = [line for line in upper.get_lines() if len(np.atleast_1d(line.get_xdata())) == 200]
    assert len(curves) == 2 and np.asarray(curves[0].get_ydata())[0] == pytest.approx(law(1), rel=0.02)
    assert len(lower.get_lines()) == 3  # two lines, and zero
    assert picture.draw(data_of(frame([])), "a sweep", []) is None


def test_lines_of_a_picture_differ_in_grey() -> None:
    looks = [(picture.MARKERS[i], picture.COLORS[i]) for i in range(picture.MOST_LINES)]
    assert len(set(picture.MARKERS)) == len(looks)
    grey = [np.dot(colors.to_rgb(color), (0.2126, 0.7152, 0.0722)) for _, color in looks]
    assert all(abs(a - b) > 0.1 for a, b in pairwise(grey))
