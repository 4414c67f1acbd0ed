# SPDX-License-Identifier: BSD-2-Clause
"""What tracing cost, with its interval: against scipy, recordings whose true cost is known, and in words."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from analysis.measures.common.tracing_cost import bpf_share, measure_cost
from analysis.measures.compare.compared_run import load_compared
from analysis.report import make_report
from analysis.rundir.run import BpfSums, BpfWindows, Run, open_run
from analysis.sections.compare.losses import build_losses
from analysis.sections.compare.spec import Tags
from tests.analysis.recomputed import section
from tests.analysis.synthetic import START_NS, Spec, bpf_sums, bpf_windows, collector, request, run_json

CPUS = 2
SECONDS = 71.5
WINDOW_NS = 20_000_000


def run_of(windows_ns: list[int], times_ns: list[int]) -> tuple[Run, BpfSums]:
    """A run with these windows, and what its one collector's programs took in them."""
    entry = bpf_windows(windows_ns, times_ns, 1)
    sums = BpfSums(1, entry["sampled_ns"], entry["sampled_ns_squared"], entry["sampled_ns_wall_ns"])
    windows = BpfWindows(entry["windows"], entry["wall_ns"], entry["wall_ns_squared"], sums)
    return Run(Path(), {"machine": {"cpus": CPUS}}, {}, None, True, bpf_windows=windows), sums


@pytest.mark.parametrize("seed", range(20))
def test_mean_and_interval_equal_scipy(seed: int) -> None:
    """The ratio of sums, and Student's t of what each window has beyond its share, window by window."""
    rng = random.Random(seed)
    windows = [WINDOW_NS + rng.randrange(5_000_000) for _ in range(rng.choice([2, 3, 10, 140]))]
    times = [int(w * rng.choice([0.0, rng.random() * CPUS])) for w in windows]
    found = bpf_share(*run_of(windows, times))
    assert found is not None and found.n == len(windows)
    x, w = np.array(times, dtype=np.float64), np.array(windows, dtype=np.float64)
    ratio = x.sum() / w.sum()
    assert found.value == pytest.approx(ratio / CPUS)
    error = stats.tstd(x - ratio * w) / math.sqrt(x.size) / w.mean()
    # the rests' mean is 0 by the ratio's making, so tstd's is the deviation about it
    half = stats.t.ppf(0.975, x.size - 1) * error / CPUS
    assert found.half_width == pytest.approx(half, rel=1e-5, abs=1e-9)


def test_true_cost_lies_in_19_of_20_intervals() -> None:
    """Recordings whose cost per window is drawn about a known mean, in windows of unequal length."""
    rng = np.random.default_rng(1)
    hits, rounds = 0, 2000
    for _ in range(rounds):
        windows = rng.integers(20_000_000, 23_000_000, 30)
        times = rng.gamma(4.0, 0.05 / 4.0, 30) * windows  # 5 % of one CPU
        found = bpf_share(*run_of([int(n) for n in windows], [int(n) for n in times]))
        assert found is not None and found.half_width is not None
        hits += abs(found.value - 0.05 / CPUS) <= found.half_width
    assert 0.93 <= hits / rounds <= 0.97


def test_single_window_has_no_interval() -> None:
    found = bpf_share(*run_of([WINDOW_NS], [WINDOW_NS // 10]))
    assert found is not None and found.half_width is None
    assert found.value == pytest.approx(0.05)
    assert bpf_share(*run_of([], [])) is None


def expensive(**more: Any) -> Spec:
    """The run of which 0.7, <0.1 and 0.2 % were printed: runs a second by the time of a run, on two CPUs."""
    per_s = {"block": (3 * 7.95e6 / SECONDS, 115), "calls": (2 * 10.2e6 / SECONDS, 105)}
    per_s["locks"] = (2 * 0.5e6 / SECONDS, 1530)
    rng = random.Random(5)
    windows = [WINDOW_NS + rng.randrange(1_000_000) for _ in range(143)]
    spec = Spec(run=run_json(SECONDS), block=[request(START_NS, 8)])
    collectors, everything = {}, [0] * len(windows)
    user_ns = {"block": 1_000_000_000, "calls": 50_000_000, "locks": 290_000_000, "counters": 20_000_000}
    for name, (runs_s, run_ns) in per_s.items():
        times = [int(runs_s * run_ns * w / 1e9 * rng.uniform(0.8, 1.2)) for w in windows]
        runs = round(runs_s * sum(windows) / 1e9)
        everything = [a + b for a, b in zip(everything, times, strict=True)]
        bpf = {"programs": 3, **bpf_sums(windows, times, runs)}
        collectors[name] = collector(1, bpf=bpf, cpu_ns=user_ns[name])
    collectors["counters"] = collector(1, bpf={"programs": 0, **bpf_sums([], [], 0)}, cpu_ns=20_000_000)
    recorder = {
        "cpu_ns": 1_900_000_000,
        "start_cpu_ns": 400_000_000,
        "bpf": bpf_windows(windows, everything, 0),
    }
    spec.losses = {"collectors": collectors, "recorder": recorder, "complete": True}
    spec.run["collect"] = [*collectors]
    for name, value in more.items():
        setattr(spec, name, value)
    return spec


def cost_rows(path: Path) -> dict[str, list[str]]:
    """The rows of the table of CPU time: their words behind the name."""
    lines = section((path / "report.txt").read_text(), "LOST EVENTS AND OVERHEAD")
    at = next(i for i, line in enumerate(lines) if line.split()[:3] == ["CPU", "time", "of"])
    rows = {}
    for line in lines[at + 1 :]:
        if line.startswith("  -") or not line.strip():
            break
        name = "the recorder" if "the recorder" in line else line.split()[0]
        rows[name] = line.split(name)[1].split()
    return rows


@pytest.mark.usefixtures("words_only")
def test_report_shows_bpf_time_and_user_space_time_apart(tmp_path: Path) -> None:
    spec = expensive()
    path = spec.write(tmp_path / "r")
    make_report(path)
    rows = cost_rows(path)
    all_ns = SECONDS * 1e9 * CPUS
    expected = {
        "block": (3 * 7.95e6 * 115 / all_ns, 115, 1.0e9 / all_ns),
        "calls": (2 * 10.2e6 * 105 / all_ns, 105, 0.05e9 / all_ns),
        "locks": (2 * 0.5e6 * 1530 / all_ns, 1530, 0.29e9 / all_ns),
    }
    assert [round(100 * share, 1) for share, _, _ in expected.values()] == [1.9, 1.5, 1.1]  # as it was told
    total = 0.0
    for name, (share, run_ns, user) in expected.items():
        percent, interval, a_run, unit, user_percent, total_percent = rows[name]
        assert float(percent) == pytest.approx(100 * share, rel=0.05)
        assert interval.startswith("+-")
        half = float(interval.removeprefix("+-"))
        assert abs(float(percent) - 100 * share) <= 2 * half  # 1.96 by 95 %, of this seed
        assert 0.01 * 100 * share < half < 0.05 * 100 * share
        assert float(a_run) * {"ns": 1, "us": 1e3}[unit] == pytest.approx(run_ns, rel=0.05)
        assert user_percent == f"{100 * user:.1f}" if user >= 0.001 else user_percent == "<0.1"
        assert float(total_percent) == pytest.approx(100 * (share + user), abs=0.15)
        total += share
    assert rows["counters"] == ["-", "-", "<0.1", "<0.1"]  # no BPF: nothing is missing from its total
    percent, _, a_run, user_percent, total_percent = rows["the recorder"]
    assert float(percent) == pytest.approx(100 * total, rel=0.05)
    assert a_run == "-"
    # what it used before it recorded is no part of the recording's cost
    assert user_percent == f"{100 * 1.5e9 / all_ns:.1f}"
    assert float(total_percent) == pytest.approx(100 * (total + 1.5e9 / all_ns), abs=0.3)
    said = " ".join(" ".join(section((path / "report.txt").read_text(), "LOST EVENTS AND OVERHEAD")).split())
    assert "BPF programs were timed in 143 windows, 2.93 s together" in said
    assert "the recorder used 400 ms of CPU before it recorded" in said
    assert "BPF runs" not in said


def changed(path: Path, recorder: dict[str, Any] | None, **collectors: dict[str, Any]) -> Path:
    """The same with other things in losses.json."""
    losses = json.loads((path / "losses.json").read_text())
    losses["recorder"] = losses["recorder"] if recorder is None else recorder
    losses["collectors"] |= collectors
    (path / "losses.json").write_text(json.dumps(losses))
    return path


def told(path: Path) -> str:
    make_report(path)
    return " ".join(" ".join(section((path / "report.txt").read_text(), "LOST EVENTS AND OVERHEAD")).split())


@pytest.mark.usefixtures("words_only")
def test_older_run_has_unknown_tracing_cost(tmp_path: Path) -> None:
    path = expensive().write(tmp_path / "r")
    old = {"programs": 3, "sampled_runs": 1000, "sampled_ns": 115_000}
    names = ("block", "calls", "locks")
    entries = {name: collector(1, bpf=old, cpu_ns=1_000_000_000) for name in names}
    said = told(changed(path, {"cpu_ns": 1_900_000_000, "max_rss_bytes": 5}, **entries))
    assert cost_rows(path)["block"] == ["-", "115", "ns", "0.7", "-"]
    assert cost_rows(path)["the recorder"] == ["-", "-", "1.3", "-"]
    assert "CPU time of BPF programs is not known: an older recorder" in said


@pytest.mark.usefixtures("words_only")
def test_emulated_cpus_explain_missing_tracing_cost(tmp_path: Path) -> None:
    spec = expensive()
    spec.run["machine"]["vm"] = {"accel": "tcg"}
    assert spec.losses is not None
    spec.losses["recorder"]["bpf"] = bpf_windows([], [], 0)
    said = told(spec.write(tmp_path / "r"))
    assert "CPU time of BPF programs is not known: its CPUs are emulated" in said


@pytest.mark.usefixtures("words_only")
def test_unknown_kernel_cost_of_other_tracers_is_stated(tmp_path: Path) -> None:
    path = expensive().write(tmp_path / "r")
    perf = {"state": "on", "seen": 5, "recorded": 5, "lost": {}, "notes": {}, "cpu_ns": 715_000_000}
    said = told(changed(path, None, perf=perf))
    assert cost_rows(path)["perf"] == ["-", "-", "0.5", "-"]
    assert "perf: its cost in the kernel is not measured" in said


@pytest.mark.parametrize(
    "bpf",
    [
        "all",
        {"windows": -1, "wall_ns": 5},
        {"windows": 3, "wall_ns": 0, "wall_ns_squared": 0, "sampled_ns": 5, "sampled_runs": 0},
        {"windows": 2**62, "wall_ns": 1, "wall_ns_squared": 1e308, "sampled_ns": 2**62, "sampled_runs": 1}
        | {"sampled_ns_squared": 1e308, "sampled_ns_wall_ns": -1e308},
        {"windows": 2, "wall_ns": 10, "wall_ns_squared": float("nan"), "sampled_ns": 5, "sampled_runs": 1},
    ],
)
@pytest.mark.usefixtures("words_only")
def test_malformed_tracing_cost_is_survived(tmp_path: Path, bpf: Any) -> None:
    path = changed(expensive().write(tmp_path / "r"), {"cpu_ns": 1, "bpf": bpf})
    make_report(path)
    assert max(len(line) for line in (path / "report.txt").read_text().splitlines()) <= 80


def test_comparison_has_rows_of_tracing_cost(tmp_path: Path) -> None:
    runs = [load_compared(letter, expensive().write(tmp_path / letter)) for letter in "AB"]
    (table,) = build_losses(runs, Tags("AB", "AB", "AB"))[0].tables
    values = {(row[0], row[1]): row[2:] for row in table.cells}  # type: ignore[attr-defined]
    cost = {row.name: row for row in measure_cost(open_run(tmp_path / "A"), SECONDS).rows}
    assert cost["block"].bpf is not None
    # repetitions are one column, of means
    assert values["block", "BPF CPU %"][0].split()[0] == f"{100 * cost['block'].bpf.value:.1f}" == "1.9"
    assert values["block", "user CPU %"][0].split()[0] == "0.7"
    assert ("counters", "BPF CPU %") not in values
    assert values["the recorder", "user CPU %"][0].split()[0] == "1.0"
