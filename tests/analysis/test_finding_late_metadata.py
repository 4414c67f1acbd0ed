# SPDX-License-Identifier: BSD-2-Clause
"""Metadata written in place long after the data is found by what it cost, and only if it is late."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from analysis.findings.late_metadata import RULES
from analysis.findings.rule import Case
from tests.analysis.device_cases import DIRECT, case_of, found_by, one

LATE = {
    "submitter": "kernel_thread",
    "comm": b"kworker/u8:1",
    "event_kind": "jbd2_checkpoint",
    "class": "metadata",
}
CYCLE_US = 20 + 5 + 1_000 + 2  # of a write of 1 ms


def _write(d2c_us: int = 1_000, **columns: Any) -> dict[str, Any]:
    return one(d2c_us, wait="direct", op="write", end_io_id=DIRECT, **columns)


def _case(folder: Path, at_us: int, metadata: int, delay_us: int, **columns: Any) -> Case:
    """3,000 writes of data, 1 ms each, one at a time; from at_us on, requests of metadata of 1 ms each.

    While the disk serves these, the next write of data waits for delay_us, and is served then.
    """
    own, late = [], []
    t = 0
    is_begun = False
    for _ in range(3_000):
        if not is_begun and t >= at_us:
            is_begun = True
            own.append(_write(delay_us + 1_000))
            for i in range(metadata):
                end = t + 20 + 1_000 * (i + 1)
                late.append({"queue_us": t + 15, "issue_us": t + 16, "complete_us": end} | LATE)
                late[-1] |= {"bytes": 4096, "sector": (1 << 22) + 4096 * i} | columns
            t += CYCLE_US + delay_us
        else:
            own.append(_write())
            t += CYCLE_US
    return case_of(folder, own, late)


def test_late_series_costs_what_the_disk_served_it(tmp_path: Path) -> None:
    case = _case(tmp_path / "run", at_us=3_000_000, metadata=400, delay_us=400_000)
    (found,) = found_by(RULES, case)
    assert found.cost.value_s == pytest.approx(0.4, rel=0.05)
    assert found.certainty == "likely"
    assert "1.64 MB" in found.what and "checkpoint" in found.what
    assert "in 1 series" in found.because[1] and "100% lie further on the disk" in found.because[1]


@pytest.mark.parametrize(
    ("at_us", "delay_us", "columns"),
    [
        (3_000_000, 0, {}),  # the disk serves it beside the data
        (0, 400_000, {}),  # before the data
        (3_000_000, 400_000, {"class": "data"}),
        (3_000_000, 400_000, {"event_kind": "none"}),  # not put off
    ],
)
def test_metadata_that_is_not_late_or_costs_nothing_is_none(
    tmp_path: Path, at_us: int, delay_us: int, columns: dict[str, Any]
) -> None:
    assert not found_by(RULES, _case(tmp_path / "run", at_us, 400, delay_us, **columns))


def test_without_metadata_there_is_none(tmp_path: Path) -> None:
    assert not found_by(RULES, _case(tmp_path / "run", 3_000_000, 0, 0))
