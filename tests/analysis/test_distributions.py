# SPDX-License-Identifier: BSD-2-Clause
"""The lines of distributions.png pass through what the requests say."""

from pathlib import Path

import numpy as np

from analysis.figures.run import distributions
from analysis.measures.block.distribution import SHARES
from analysis.measures.results import measure
from analysis.rundir.run import open_run
from analysis.tables.load import load_tables
from tests.analysis.measured import block_results
from tests.analysis.synthetic import START_NS, Spec, request


def test_distribution_lines_are_cumulative_shares(tmp_path: Path) -> None:
    """Against counting: of all requests, as many as the line says are at most so slow."""
    rng = np.random.default_rng(5)
    slow = np.sort(rng.lognormal(12, 1, 3000).astype(int) + 1)
    rows = [
        request(START_NS + i, 8 * i, complete_ns=START_NS + i - 10_000 + int(t)) for i, t in enumerate(slow)
    ]
    rows = [row for row in rows if row["complete_ns"] >= row["issue_ns"]]
    rows.append(request(START_NS + 9_000, 8, complete_ns=0))  # its end was not seen: in no line
    run = open_run(Spec(block=rows).write(tmp_path / "r"))
    lines = block_results(measure(run, load_tables(run))).distributions
    assert list(lines.latency) == ["write"]
    line = lines.latency["write"]
    latencies = np.array([row["complete_ns"] - row["queue_ns"] for row in rows[:-1]])
    assert line.requests == latencies.size
    for value, share_pct in zip(line.values, SHARES * 100, strict=True):
        at_most = (latencies <= value).mean() * 100
        below = (latencies < value).mean() * 100
        assert below <= share_pct + 1e-9 and at_most >= share_pct - 1e-9
    assert line.values[-1] == latencies.max()


def test_run_without_requests_has_no_distributions(tmp_path: Path) -> None:
    run = open_run(Spec().write(tmp_path / "r"))
    tables = load_tables(run)
    assert distributions.render(measure(run, tables)) is None


def test_flush_only_trace_is_drawn(tmp_path: Path) -> None:
    run = open_run(Spec(block=[request(START_NS, 0, 0, op="flush")]).write(tmp_path / "r"))
    tables = load_tables(run)
    pictures = distributions.render(measure(run, tables))
    assert pictures is not None and pictures[0].startswith(b"\x89PNG")
