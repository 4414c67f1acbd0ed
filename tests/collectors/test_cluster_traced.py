# SPDX-License-Identifier: BSD-2-Clause
"""A real sweep with ON=: two workers of this machine trace by turns, and their figures stay apart."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from analysis.measures.sweep.figures import load_figures
from analysis.rundir.sweep_dir import open_sweep
from tests.collectors.sessions import Job, Run
from tests.collectors.stub_sweeps import all_tasks, outcomes, plan_of
from tests.marks import needs_root

pytestmark = needs_root


@pytest.mark.long
def test_two_workers_trace_by_turns_and_stay_apart(tmp_path: Path) -> None:
    out = tmp_path / "sweep"
    small = {"ARGS": "-n 2000 -o 2000", "SIZE": "512M"}
    sweep = Job(
        "sweep", out, None, FS="ext4", WL="createdelete", SCALE="quick", REPS="2", ON="local:2", **small
    )
    assert (sweep.end(), plan_of(out)["state"]) == (0, "complete"), sweep.said
    names = all_tasks(1, 2)
    found = outcomes(out)
    assert set(found) == names | {f"{name}-m2" for name in names}
    runs = sorted(
        (Run(out / "runs" / name).facts["clock"] for name in found),
        key=lambda clock: float(clock["workload_start_ns"]),
    )
    for before, after in itertools.pairwise(runs):
        assert before["workload_end_ns"] < after["workload_start_ns"]
    figures = load_figures(open_sweep(out))
    assert set(figures["machine"]) == {"m1", "m2"}
    headline = figures[figures["headline"] & ~figures["anchor"]]
    assert sorted(zip(headline["machine"], headline["rep"], strict=True)) == [
        ("m1", 1), ("m1", 2), ("m2", 1), ("m2", 2),
    ]  # fmt: skip
