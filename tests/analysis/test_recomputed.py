# SPDX-License-Identifier: BSD-2-Clause
"""A report's main figures against an independent reader of the same tables, of made-up runs."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from analysis.report import make_report
from analysis.rundir.run import open_run
from analysis.tables.load import load_tables
from tests.analysis.recomputed import Recomputed
from tests.analysis.synthetic import THREAD_TIME, decaying_ext3, rec_bytes
from tests.analysis.thread_tables import random_spec


@pytest.mark.usefixtures("words_only")
def test_report_equals_results_recomputed_from_tables(tmp_path: Path) -> None:
    make_report(decaying_ext3(13, 400).write(tmp_path / "r"))
    Recomputed(tmp_path / "r").check()


@pytest.mark.usefixtures("words_only")
def test_recomputed_with_unseen_and_failed_requests(tmp_path: Path) -> None:
    rng = random.Random(3)
    spec = decaying_ext3(5, 300, seed=4)
    for row in spec.block:
        if rng.random() < 0.05:
            row |= {"end_by_ns": row["complete_ns"], "complete_ns": 0}
        elif rng.random() < 0.02:
            row["error"] = 5
    spec.phases.append({**spec.phases[0], "name": "moment", "end_ns": spec.phases[0]["start_ns"] + 360_000})
    make_report(spec.write(tmp_path / "r"))
    again = Recomputed(tmp_path / "r")
    assert not again.seen.all()
    again.check()


@pytest.mark.usefixtures("words_only")
def test_recomputed_with_thread_times(tmp_path: Path) -> None:
    spec, times = decaying_ext3(10, 50), random_spec(5)
    spec.thread_time, spec.thread, spec.stack = times.thread_time, times.thread, times.stack
    make_report(spec.write(tmp_path / "r"))
    again = Recomputed(tmp_path / "r")
    again.check_threads()
    assert spec.thread_time is not None
    spec.thread_time[0]["ns"] += 10**10
    (tmp_path / "r" / "tables/thread_time.parquet").unlink()
    (tmp_path / "r" / "raw/recorder/thread_time.rec").write_bytes(
        rec_bytes("thread_time", spec.thread_time, THREAD_TIME)
    )
    load_tables(open_run(tmp_path / "r"))
    with pytest.raises(AssertionError):
        again.check_threads()


@pytest.mark.usefixtures("words_only")
def test_recomputation_detects_a_wrong_number(tmp_path: Path) -> None:
    """One request more in the table than the report knows: nearly no section agrees any more."""
    spec = decaying_ext3(5, 100)
    make_report(spec.write(tmp_path / "r"))
    for check in ("throughput", "seeks", "latency", "depth"):
        again = Recomputed(tmp_path / "r")
        again.block["bytes"] = again.block["bytes"] + 4096 * (again.block["bytes"] > 0)
        again.block["complete_ns"] = again.block["complete_ns"] + 10_000_000
        again.end_ns_of = again.end_ns_of + 10_000_000
        with pytest.raises(AssertionError):
            getattr(again, f"check_{check}")()
