# SPDX-License-Identifier: BSD-2-Clause
"""Small requests that were queued as one cost all but one of them; those on their own cost nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.findings.cut_requests import RULES
from tests.analysis.device_cases import case_of, found_by, one

PAGE = 8  # sectors


def beside(count: int, of_one: int) -> list[dict[str, object]]:
    """All but the last of the requests that each of the workload's was cut out of, queued with it."""
    rows = []
    for i in range(count):
        queue = 20 + i * (20 + 5 + 4000 + 2)
        for part in range(1, of_one):
            sector = (1 << 20) + (i * of_one + part) * PAGE
            times = {"queue_us": queue, "issue_us": queue + 5, "complete_us": queue + 3000}
            columns = {"sector": sector, "submitter": "workload", "in_workload": 1, "pid": 1001}
            rows.append(times | columns | {"op": "read", "bytes": 4096})
    return rows


@pytest.mark.parametrize(("step", "finds"), [(8, True), (9, False)])
def test_reads_cut_in_eight(tmp_path: Path, step: int, finds: bool) -> None:
    own = [one(4000, wait="direct", sector=(1 << 20) + i * step * PAGE, end_io_id=2) for i in range(60)]
    device = {"max_sectors_kb": 4}
    found = found_by(RULES, case_of(tmp_path / "run", own, beside(60, 8), device=device))
    if not finds:
        assert not [one for one in found if one.cost.value_s > 0.05]  # what lies elsewhere was not one
        return
    assert found[0].cost.value_s == pytest.approx(7 / 8 * 60 * 4005e-6, rel=0.02)
    assert "cut to 4.10 kB each (max_sectors_kb: 4)" in found[0].what
    assert found[0].certainty == "possible"


def test_single_small_requests_are_not_cut(tmp_path: Path) -> None:
    assert not found_by(RULES, case_of(tmp_path / "run", [one(4000, wait="direct") for _ in range(60)]))
