# SPDX-License-Identifier: BSD-2-Clause
"""Whether the rules of analysis/causes know what real workloads wait for: at most 1 % of it is unknown."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from analysis.frames import load
from tests.collectors.recording import needs_btf
from tests.collectors.sessions import finished
from tests.front.test_recipes import RECIPES
from tests.marks import needs_root

pytestmark = [needs_root, needs_btf, pytest.mark.long]

UNKNOWN_PCT = 1.0
ASLEEP = ("sleeping", "blocked", "io_wait")
SHOWN = ("workload", "filesystem")
# "idle": a kernel thread without work, which waits for nothing.
NO_WAIT = ("idle", "none")
WORKLOADS = {
    "compilebench": {"WL": "compilebench", "SCALE": "quick"},
    "createdelete": {"WL": "createdelete", "SCALE": "quick"},
    "filemark": {"WL": "filemark", "SCALE": "quick"},
    "pgbench": {"CMD": RECIPES["pgbench"].command(scale=5, secs=5), "SIZE": "2G"},
}


@pytest.mark.parametrize("workload", WORKLOADS)
@pytest.mark.parametrize("fs", ["ext3", "ext4", "xfs", "btrfs"])
def test_real_workload_has_hardly_an_unknown_wait(tmp_path: Path, fs: str, workload: str) -> None:
    job = finished(tmp_path / "run", FS=fs, **WORKLOADS[workload])
    assert "threads" in job.run.facts["collect"]
    job.run.report()
    times = load(job.run.path, "thread_time")
    waits = times[times["state"].isin(ASLEEP) & times["role"].isin(SHOWN) & ~times["cause"].isin(NO_WAIT)]
    by_cause = waits.groupby("cause", observed=True)["ns"].sum()
    assert by_cause.sum() > 0, "nothing waited: nothing was tested"
    unknown_pct = 100 * by_cause.reindex(["unknown", "no_stack"]).fillna(0).sum() / by_cause.sum()
    assert unknown_pct < UNKNOWN_PCT, f"{by_cause / by_cause.sum()}\n{_unknown(waits)}"


def _unknown(waits: pd.DataFrame) -> str:
    """Return the functions of the unknown waits, the longest first."""
    unknown = waits[waits["cause"] == "unknown"]
    by_place = unknown.groupby(["comm", "place"], observed=True)["ns"].sum()
    return str(by_place.sort_values(ascending=False).head(20))
