# SPDX-License-Identifier: BSD-2-Clause
"""The table of differences: which runs are repetitions, values and intervals against numpy and scipy, the
order, and what is not called a difference."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

from analysis.measures.common.statistics import Mean, difference_interval, mean_ci, ratio_interval
from analysis.measures.compare.compared_run import LETTERS, Compared, load_compared
from analysis.measures.compare.differences import sides
from analysis.render.document import Section
from analysis.sections.compare.brief import FULL
from analysis.sections.compare.differences import CSV_COLUMNS, SHOW, _value, as_csv, build_differences
from analysis.sections.compare.spec import Tags
from tests.analysis.synthetic import BIN_NS, START_NS, Spec, request, run_json
from tests.analysis.test_compare import compare, good_compare, section

SECOND = 1_000_000_000
TCG = {"by": "virtme-ng 1.42", "accel": "tcg", "qemu": "QEMU emulator version 7.2.22"}


def run_of(fs: str, requests: int, distance: int = 8, megabytes: int = 100, **facts: Any) -> Spec:
    """A run of 10 s: so many requests of 4 kB, 1 ms apart, and an application that wrote so much."""
    spec = Spec(run=run_json(10.0))
    spec.run["filesystem"]["name"] = fs
    spec.run["words"] = {"FS": fs, "WL": "compilebench"}
    for key, value in facts.items():
        spec.run[key] = {**spec.run[key], **value} if isinstance(value, dict) else value
    spec.block = [request(START_NS + i * 1_000_000, i * distance) for i in range(requests)]
    spec.call = [{"bin_ns": START_NS + i * BIN_NS, "bytes": megabytes * 10_000} for i in range(100)]
    return spec


def loaded(folder: Path, specs: list[Spec]) -> list[Compared]:
    return [
        load_compared(letter, spec.write(folder / letter))
        for letter, spec in zip(LETTERS, specs, strict=False)
    ]


def rows_of(runs: list[Compared]) -> dict[tuple[str, str, str], dict[str, str]]:
    found = list(csv.DictReader(io.StringIO(as_csv(runs))))
    return {(row["measure"], row["unit"], row["side"]): row for row in found}


samples = st.lists(st.integers(10, 10_000).map(lambda n: n / 10), min_size=2, max_size=8)


@settings(deadline=None)
@given(samples, samples)
def test_interval_of_a_difference_is_welchs(a: list[float], b: list[float]) -> None:
    va, vb = np.var(a, ddof=1) / len(a), np.var(b, ddof=1) / len(b)
    assume(va + vb > 1e-6)
    found = difference_interval(mean_ci(a), mean_ci(b))  # type: ignore[arg-type]
    assert found is not None
    proper = stats.ttest_ind(b, a, equal_var=False).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((proper.low, proper.high), rel=1e-4, abs=1e-4)


@settings(deadline=None)
@given(samples, samples)
def test_interval_of_a_ratio_covers_the_possible_ratios(a: list[float], b: list[float]) -> None:
    first, other = mean_ci(a), mean_ci(b)
    assert first is not None and other is not None
    difference, ratio = difference_interval(first, other), ratio_interval(first, other)
    assert difference is not None
    va, vb = np.var(a, ddof=1) / len(a), np.var(b, ddof=1) / len(b)
    assume(va + vb > 1e-6)
    t = (difference.high - difference.low) / 2 / np.sqrt(va + vb)
    if ratio is None:
        assert np.mean(a) <= t * np.sqrt(va) * (1 + 1e-4)  # the first may be 0
        return
    assert ratio.low - 1e-9 <= np.mean(b) / np.mean(a) <= ratio.high + 1e-9
    for r in (ratio.low, ratio.high):
        error = t * np.sqrt(vb + r**2 * va)
        assert abs(np.mean(b) - r * np.mean(a)) == pytest.approx(
            error, rel=1e-3, abs=1e-3 * float(np.mean(a))
        )


def test_single_observations_have_no_intervals() -> None:
    one, several = mean_ci([3.0]), mean_ci([3.0, 4.0])
    assert one is not None and several is not None
    assert difference_interval(one, several) is ratio_interval(one, several) is None


def test_repetitions_are_runs_of_equal_settings(tmp_path: Path) -> None:
    specs = [
        run_of("ext3", 9),  # A
        run_of("xfs", 9),  # B
        run_of("ext3", 12, words={"OUT": "runs/c", "SEED": "7"}),  # C: another place and seed
        run_of("ext3", 9, words={"THREADS": "4"}),
        run_of("ext3", 9, state="interrupted"),
        run_of("ext3", 9, state="interrupted"),
        run_of("ext3", 9, workload={"exit_status": 1}),
        run_of("ext3", 9, kernel={"release": "6.1.0"}),
        run_of("ext3", 9, machine={"cpus": 28}),
        run_of("xfs", 9),  # J
        run_of("ext3", 9, machine={"vm": TCG}),
    ]
    specs.append(Spec(run={"schema": 1, "state": "complete"}))
    specs.append(Spec(run={"schema": 1, "state": "complete"}))  # nothing says that these are the same
    found = ["".join(LETTERS[i] for i in side) for side in sides(loaded(tmp_path, specs))]
    assert found == ["AC", "BJ", *"DEFGHIKLM"]


def test_values_and_intervals_equal_numpy(tmp_path: Path) -> None:
    ext3, xfs = (1000, 1010, 1020), (300, 330)
    specs = [run_of("ext3", ext3[0]), run_of("xfs", xfs[0], 1000, 50), run_of("ext3", ext3[1])]
    specs += [run_of("xfs", xfs[1], 1000, 52), run_of("ext3", ext3[2])]
    runs = loaded(tmp_path, specs)
    rows = rows_of(runs)
    a, b = rows["disk write: requests", "", "A+C+E"], rows["disk write: requests", "", "B+D"]
    assert (a["n"], b["n"], a["first_side"], b["first_side"]) == ("3", "2", "A+C+E", "A+C+E")
    assert float(a["value"]) == 1010 and float(b["value"]) == 315 and float(b["first_value"]) == 1010
    for row, values in ((a, ext3), (b, xfs)):
        half = stats.t.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / np.sqrt(len(values))
        assert float(row["half_width_95"]) == pytest.approx(half, rel=1e-4)
    assert float(b["difference"]) == -695 and float(b["ratio"]) == pytest.approx(315 / 1010)
    va, vb = np.var(ext3, ddof=1) / 3, np.var(xfs, ddof=1) / 2
    freedom = (va + vb) ** 2 / (va**2 / 2 + vb**2)  # 1.3, by Welch
    half = stats.t.ppf(0.975, freedom) * np.sqrt(va + vb)
    assert float(b["difference_low_95"]) == pytest.approx(-695 - half, rel=1e-4)
    assert float(b["difference_high_95"]) == pytest.approx(-695 + half, rel=1e-4)
    # 315 +-191 and 1010 +-25 are apart; the bytes, 4096 times that, too
    assert b["verdict"] == rows["disk write: bytes", "B", "B+D"]["verdict"] == "they differ"
    written = rows["application write", "MB/s", "B+D"]
    assert [float(written[key]) for key in ("first_value", "value")] == [10.0, 5.1]
    assert written["verdict"] == "they differ" and written["is_outcome"] == "1"
    assert a["verdict"] == a["difference"] == a["ratio"] == ""
    assert rows["workload", "s", "B+D"]["verdict"] == "no difference by the rule"
    # 1000 sectors on: each is a seek; before: none
    assert float(rows["seeks", "", "B+D"]["value"]) == 314 and float(rows["seeks", "", "A+C+E"]["value"]) == 0
    assert rows["seeks", "", "B+D"]["ratio"] == ""
    assert rows["seeks of all moves", "share", "B+D"]["value"] == "1"


def test_differences_by_the_rule_come_first_then_the_largest(tmp_path: Path) -> None:
    specs = [run_of("ext3", 1000 + i, megabytes=100 + i) for i in range(3)]
    specs += [run_of("xfs", n, 1000, megabytes=100) for n in (2000, 2001, 2002)]
    runs = loaded(tmp_path, specs)
    rows = [row for row in rows_of(runs).values() if row["side"] == "D+E+F"]
    assert [row["is_outcome"] for row in rows] == sorted((row["is_outcome"] for row in rows), reverse=True)
    causes = [row for row in rows if row["is_outcome"] == "0"]
    judged = [row["verdict"] == "they differ" for row in causes]
    assert judged == sorted(judged, reverse=True) and True in judged and False in judged

    def apart(row: dict[str, str]) -> float:
        if not (row["first_value"] and row["value"]):
            return 0.0
        a, b = float(row["first_value"]), float(row["value"])
        return round(max(a, b) / min(a, b), 6) if min(a, b) else float("inf")

    for verdict in (True, False):
        factors = [apart(row) for row in causes if (row["verdict"] == "they differ") == verdict]
        assert factors == sorted(factors, reverse=True)
    assert all(row["lost_events"] == "0" for row in rows)


def differences(runs: list[Compared]) -> Section:
    no_tags = [""] * len(runs)
    (section,) = build_differences(runs, Tags(no_tags, no_tags, no_tags))
    return section


@pytest.mark.usefixtures("words_only")
def test_text_has_the_table_of_differences(tmp_path: Path) -> None:
    paths = []
    for name, spec in (
        ("a", run_of("ext3", 1000)),
        ("b", run_of("ext3", 1000)),
        ("c", run_of("xfs", 250, 1000)),
        ("d", run_of("xfs", 250, 1000)),
        ("e", run_of("btrfs", 500)),
    ):
        paths.append(spec.write(tmp_path / name))
    found = section(good_compare(tmp_path / "out", *paths), "DIFFERENCES")
    lines = [" ".join(line.split()) for line in found.splitlines()]
    at = lines.index("outcome A+B n=2 C+D n=2")
    assert lines[at + 1] == "ext3 xfs change ratio"
    assert "disk write: requests 1,000 +-0 250 +-0 -750 +-0 0.25!" in lines
    assert "disk write: requests 500 -500 0.50" in lines  # E is alone: never marked
    words = " ".join(lines)
    assert "A+B, C+D: repetitions (same options, kernel and machine): means +- 95 % intervals" in words
    assert "E: single observation: no verdict on differences" in words
    with (tmp_path / "out" / "compare.csv").open(newline="") as file:
        table = list(csv.reader(file))
    assert tuple(table[0]) == CSV_COLUMNS and {len(row) for row in table} == {len(CSV_COLUMNS)}
    assert {row[3] for row in table[1:]} == {"A+B", "C+D", "E"}
    page = (tmp_path / "out" / "compare.html").read_text()
    assert "Differences" in page and "-750 +-0" in page


@pytest.mark.usefixtures("words_only")
def test_emulated_counts_are_judged_and_times_are_not(tmp_path: Path) -> None:
    specs = [run_of("ext3", 1000 + i) for i in range(2)]
    specs += [run_of("xfs", 500 + i, machine={"vm": TCG}) for i in range(2)]
    runs = loaded(tmp_path, specs)
    ratios = {row[0]: row[-1] for table in differences(runs).tables for row in table.rows}
    assert ratios["disk write: requests"] == "0.50!" and ratios["disk write: requests, per second"] == "0.50~"
    rows = rows_of(runs)
    assert rows["disk write: requests", "", "C+D"]["verdict"] == "they differ"
    assert rows["disk write: requests", "/s", "C+D"]["verdict"] == "not judged: emulated CPUs"


@pytest.mark.usefixtures("words_only")
def test_negligible_measures_are_left_out(tmp_path: Path) -> None:
    spec = run_of("ext3", 1000)
    spec.block += [{**request(START_NS + 5 * SECOND, 77, op="read"), "class": "metadata"} for _ in range(5)]
    other = run_of("xfs", 1000)
    other.block += [{**request(START_NS + 5 * SECOND, 77), "class": "journal"} for _ in range(200)]
    names = {name for name, _, _ in rows_of(loaded(tmp_path, [spec, other]))}
    assert "disk write, journal: requests" in names
    assert not any(name.startswith("disk read") for name in names)


@pytest.mark.usefixtures("words_only")
def test_repetitions_alone_have_no_differences(tmp_path: Path) -> None:
    runs = loaded(tmp_path, [run_of("ext3", 10), run_of("ext3", 11)])
    assert "repetitions with the same options: A+B" in differences(runs).absent
    assert {row["side"] for row in rows_of(runs).values()} == {"A+B"}


@pytest.mark.usefixtures("words_only")
def test_strings_of_a_run_are_quoted_in_the_csv(tmp_path: Path) -> None:
    specs = [run_of("ext3", 10), run_of("xfs", 20)]
    evil = '=cmd(),"\n<script>'
    for spec in specs:
        spec.phases = [{"name": evil, "start_ns": START_NS + SECOND, "end_ns": START_NS + 2 * SECOND}]
    runs = loaded(tmp_path, specs)
    measures = {row["measure"] for row in rows_of(runs).values()}
    mine = [name for name in measures if "cmd" in name]
    assert mine and all(name.startswith("phase =cmd") for name in mine)
    assert not any(name[:1] in "=+-@" for name in measures)


@pytest.mark.usefixtures("words_only")
def test_lossy_source_is_marked_in_differences(tmp_path: Path) -> None:
    lossy = run_of("xfs", 20)
    lossy.losses = {
        "collectors": {"block": {"state": "on", "seen": 30, "recorded": 20, "lost": {"ring full": 10}}}
    }
    runs = loaded(tmp_path, [run_of("ext3", 10), lossy])
    rows = rows_of(runs)
    assert rows["disk write: requests", "", "B"]["lost_events"] == "1"
    assert rows["disk write: requests", "", "A"]["lost_events"] == "0"
    assert rows["workload", "s", "B"]["lost_events"] == "0"
    cells = [row[0] for table in differences(runs).tables for row in table.rows]
    assert "disk write: requests *" in cells and "workload" in cells


@pytest.mark.parametrize(
    ("unit", "value", "half", "shown"),
    [
        ("B", 1.13e9, 10.8e6, "1.13 +-0.0108 GB"),
        ("B", 24.6e6, 0, "24.6 +-0 MB"),
        ("ns", 2.99e6, 38e6, "2.99 +-38.0 ms"),
        ("ns", 467e6, 5.93e9, "0.467 +-5.93 s"),
        ("ns", 181e6, 846e3, "181 +-0.846 ms"),
        ("s", 1.64, 0.07, "1.64 +-0.07 s"),
        ("MB/s", 172, 124, "172 +-124"),
        ("/s", 2_500_000, 900, "2.50 +-0.000900 M"),
        ("share", 0.1, 0.02, "10.0 +-2.0"),
        ("", 59, 0, "59 +-0"),
    ],
)
def test_mean_and_half_interval_have_one_unit(unit: str, value: float, half: float, shown: str) -> None:
    assert _value(Mean(value, half, 3), SHOW[unit]) == shown


@pytest.mark.usefixtures("words_only")
def test_repetitions_stay_one_column_in_every_table(tmp_path: Path) -> None:
    specs = [
        run_of(fs, requests + i, 1000) for fs, requests in (("ext3", 1000), ("xfs", 250)) for i in range(3)
    ]
    paths = [spec.write(tmp_path / f"r{i}") for i, spec in enumerate(specs)]
    found = good_compare(tmp_path / "out", *paths)
    full = (tmp_path / "out" / FULL).read_text("utf-8")
    heads = [line.split() for line in full.splitlines() if re.search(r"\bn=3\b", line)]
    columns = {word for line in heads for word in line if re.fullmatch(r"[A-F](\+[A-F])*", word)}
    assert columns == {"A+B+C", "D+E+F"}
    assert not re.search(r"\bB/A\b|\bD/A\b", full)
    # 1000, 1001, 1002 against 250, 251, 252: t(0.975, 2) s / sqrt 3 = 4.303 * 1 / 1.732
    lines = [" ".join(line.split()) for line in full.splitlines()]
    assert any(line.endswith("1,001 +-2.48 251 +-2.48 0.25!") for line in lines)
    # what differs is in both, what does not in the full text alone, and one line says how much
    assert len(found.splitlines()) < len(full.splitlines())
    latency = section(found, "REQUEST LATENCY").split()
    assert " ".join(latency).endswith(f"more figures do not differ by the rule; {FULL} has them")
    assert "write" not in latency and "write" in section(full, "REQUEST LATENCY").split()


@pytest.mark.usefixtures("words_only")
def test_difference_mark_is_explained_in_its_table(tmp_path: Path) -> None:
    specs = [run_of("ext3", 1000), run_of("ext3", 1001), run_of("xfs", 250, 1000), run_of("xfs", 251, 1000)]
    paths = [spec.write(tmp_path / f"r{i}") for i, spec in enumerate(specs)]
    done = compare(f"--out={tmp_path / 'out'}", *paths)
    assert done.returncode == 0, done.stderr
    words = " ".join((tmp_path / "out/compare.txt").read_text("utf-8").split())
    said = re.search(r"!: differs by the rule; (\d+) of (\d+) figures do", words)
    assert said is not None and int(said[1]) > 3
    assert f"C+D against A+B: {said[1]} of {said[2]} figures differ by the rule: " in words
    assert "no verdict on differences" not in words
    runs = [load_compared(letter, path) for letter, path in zip(LETTERS, paths, strict=False)]
    differing = [row for row in csv.DictReader(io.StringIO(as_csv(runs))) if row["verdict"] == "they differ"]
    assert len(differing) == int(said[1])


@pytest.mark.usefixtures("words_only")
def test_single_observations_lose_no_row(tmp_path: Path) -> None:
    paths = [run_of(fs, 1000).write(tmp_path / fs) for fs in ("ext3", "xfs")]
    found = good_compare(tmp_path / "out", *paths)
    assert not (tmp_path / "out" / FULL).exists()
    assert "do not differ" not in found
