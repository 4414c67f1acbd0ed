# SPDX-License-Identifier: BSD-2-Clause
"""Others' requests cost what they added to the workload's own, and nothing where they added nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from analysis.findings.background import RULES as BACKGROUND
from analysis.findings.other_requests import RULES
from tests.analysis.device_cases import DIRECT, case_of, found_by, one

CYCLE_US = 130  # of a request of 100 us


def _beside(count: int, d2c_us: int, every: int, own_us: int = 100) -> tuple[list[Any], list[Any]]:
    """Requests of the thread; during half of the time, another's is under way and makes each take d2c_us."""
    own, others, t = [], [], 0
    for first in range(0, count, 2 * every):
        for at in range(every):
            del at
            own.append(one(own_us, wait="direct", end_io_id=DIRECT))
            t += own_us + 27
        begin = t + 10
        for at in range(every):
            del at
            own.append(one(d2c_us, wait="direct", end_io_id=DIRECT))
            t += d2c_us + 27
        others.append({"queue_us": begin, "issue_us": begin + 1, "complete_us": t - 5})
        del first
    return own, others


def test_excess_of_others_is_their_cost(tmp_path: Path) -> None:
    own, others = _beside(400, 500, 20)
    (found,) = found_by(RULES, case_of(tmp_path / "run", own, others))
    assert found.cost.value_s == pytest.approx(200 * 400e-6, rel=0.05)
    assert found.cost.low_s <= 200 * 400e-6 <= found.cost.high_s * 1.05
    assert found.certainty == "likely"
    assert found.what.endswith("served requests of other programs: dd.")
    assert "0.505 ms" in " ".join(found.because)
    assert "0.105 ms" in " ".join(found.because)


def test_others_that_add_nothing_are_no_finding(tmp_path: Path) -> None:
    assert not found_by(RULES, case_of(tmp_path / "run", *_beside(400, 100, 20)))


def test_without_others_there_is_no_finding(tmp_path: Path) -> None:
    assert not found_by(RULES, case_of(tmp_path / "run", _beside(100, 500, 20)[0]))


def test_nothing_to_compare_with_is_said(tmp_path: Path) -> None:
    own = [one(500, wait="direct", end_io_id=DIRECT) for _ in range(100)]
    others = [{"queue_us": 1, "issue_us": 2, "complete_us": 100 * 527, "bytes": 3 * 100 * 4096}]
    (found,) = found_by(RULES, case_of(tmp_path / "run", own, others))
    assert found.certainty == "possible"
    assert found.cost.low_s == 0
    assert found.cost.value_s == pytest.approx(0.75 * 100 * 505e-6, rel=0.05)


def test_lazy_init_is_background_work(tmp_path: Path) -> None:
    own, others = _beside(400, 500, 20)
    init = {
        "submitter": "kernel_thread",
        "comm": b"ext4lazyinit",
        "event_kind": "lazy_init",
        "class": "metadata",
    }
    words = {"FS": "ext4", "WL": "compilebench", "MKFS": "-m 0"}
    case = case_of(tmp_path / "run", own, [other | init for other in others], words=words)
    assert not found_by(RULES, case)
    (found,) = found_by(BACKGROUND, case)
    assert found.cost.value_s == pytest.approx(200 * 400e-6, rel=0.05)
    assert found.remedy is not None
    assert found.remedy.words == {"MKFS": "-m 0 -E lazy_itable_init=0,lazy_journal_init=0"}
    assert "lazy init" in found.what


def test_background_work_with_next_to_no_time_is_not_named(tmp_path: Path) -> None:
    own, others = _beside(400, 500, 20)
    discard = {"submitter": "kernel_thread", "comm": b"kworker/u8:1", "op": "discard"}
    init = {"queue_us": 5, "issue_us": 5, "complete_us": 9, "comm": b"ext4lazyinit", "class": "metadata"}
    init |= {"submitter": "kernel_thread", "event_kind": "lazy_init"}
    case = case_of(tmp_path / "run", own, [*(other | discard for other in others), init])
    (found,) = found_by(BACKGROUND, case)
    assert "(discard)" in found.what and "lazy init" not in " ".join(found.because)


def test_others_cost_no_more_than_the_disk_had_theirs(tmp_path: Path) -> None:
    """Each request that met one of theirs took 0.9 ms longer, but theirs took 0.05 ms: it was not they."""
    own, others, t = [], [], 0
    for i in range(400):
        took = 100 if i % 16 else 1_000
        if i % 16 == 0:
            others.append({"queue_us": t + 19, "issue_us": t + 19, "complete_us": t + 69})
        own.append(one(took, wait="direct", end_io_id=DIRECT))
        t += took + 27
    assert not found_by(RULES, case_of(tmp_path / "run", own, others))
