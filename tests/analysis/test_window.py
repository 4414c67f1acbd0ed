# SPDX-License-Identifier: BSD-2-Clause
"""Times of foreign runs may lie anywhere: the window stays bounded, and with it every array of time bins."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from analysis.measures.app.correlations import MOST_BINS
from analysis.measures.results import Results, measure
from analysis.report import make_report
from analysis.rundir.recorded_time import LONGEST_RUN_NS
from analysis.rundir.run import Run, open_run
from analysis.tables.load import load_tables
from tests.analysis.measured import block_results
from tests.analysis.synthetic import BIN_NS, START_NS, Spec, request

YEAR_NS = 365 * 24 * 3600 * 10**9
MOST_BYTES = 100_000_000


def calls(times: list[int]) -> list[dict[str, Any]]:
    return [{"bin_ns": t // BIN_NS * BIN_NS, "bytes": 1000, "total_ns": 5} for t in times]


def measured(spec: Spec, path: Path) -> tuple[Run, Results]:
    """Measure a run; it must not take more memory than a run of ordinary times."""
    run = open_run(spec.write(path))
    tables = load_tables(run)
    tracemalloc.start()
    m = measure(run, tables)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < MOST_BYTES
    assert m.timeline.bins < 1000
    assert m.correlations.timeline.bins <= MOST_BINS
    return run, m


FAR = {
    "years apart": [START_NS + i * 10**9 for i in range(100)] + [START_NS + 200 * YEAR_NS],
    "one at the beginning of time": [20_000] + [START_NS + 200 * YEAR_NS + i * 10**9 for i in range(100)],
    "all over": [20_000 + i * 2 * YEAR_NS for i in range(140)],
    "at the end of time": [START_NS, (1 << 63) - 10**6],
}


@pytest.mark.parametrize("times", FAR.values(), ids=FAR)
def test_unbounded_times_are_cut_to_400_days(times: list[int], tmp_path: Path) -> None:
    spec = Spec(block=[request(t, 8 * i) for i, t in enumerate(times)], call=calls(times), run={})
    run, m = measured(spec, tmp_path / "r")
    assert m.window.end_ns - m.window.start_ns <= LONGEST_RUN_NS + 1
    assert (block_results(m).throughput.iops["write"] * m.timeline.lengths_s).sum() == pytest.approx(
        len(times)
    )
    assert any("the 400 days that most rows lie in" in gap for gap in run.missing)


def test_stated_year_long_run_is_kept(tmp_path: Path) -> None:
    spec = Spec(block=[request(START_NS, 0)], call=calls([START_NS, START_NS + YEAR_NS]))
    spec.run["clock"] = {
        "record_start_ns": START_NS,
        "record_end_ns": START_NS + YEAR_NS,
        "workload_start_ns": START_NS,
        "workload_end_ns": START_NS + YEAR_NS,
    }
    _, m = measured(spec, tmp_path / "r")
    assert m.window.stated
    assert m.window.elapsed_s == YEAR_NS / 1e9


def test_window_lies_around_most_rows(tmp_path: Path) -> None:
    """Two strays, before and after, do not widen it."""
    times = [20_000, *(START_NS + 50 * YEAR_NS + i * 10**7 for i in range(500)), START_NS + 250 * YEAR_NS]
    run, m = measured(Spec(block=[request(t, 0) for t in times], run={}), tmp_path / "r")
    assert m.window.elapsed_s == pytest.approx(4.99, rel=0.01)
    assert any(gap.startswith("2 rows lie") or gap.startswith("3 rows lie") for gap in run.missing)


def test_report_with_unbounded_times_is_made(tmp_path: Path) -> None:
    times = FAR["all over"]
    spec = Spec(block=[request(t, 8 * i) for i, t in enumerate(times)], call=calls(times), run={})
    assert "report.txt" in make_report(spec.write(tmp_path / "r"))
