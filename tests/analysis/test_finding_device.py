# SPDX-License-Identifier: BSD-2-Clause
"""What the disk itself costs: its queue, flushes, seeks, bandwidth and latency."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from analysis.findings.device_bandwidth import RULES as BANDWIDTH
from analysis.findings.device_flush import RULES as FLUSH
from analysis.findings.device_latency import RULES as LATENCY
from analysis.findings.device_seeks import RULES as SEEKS
from analysis.findings.metadata_mixed import RULES as MIXED
from analysis.findings.shallow_queue import RULES as QUEUE
from tests.analysis.device_cases import DIRECT, case_of, found_by, one


def test_waits_for_a_tag_are_the_queue(tmp_path: Path) -> None:
    own = [one(200, 0, wait="tag", end_io_id=DIRECT, op="write") for _ in range(100)]
    case = case_of(tmp_path / "run", own, device={"nr_requests": 2})
    (found,) = found_by(QUEUE, case)
    assert found.cost.value_s == pytest.approx(100 * 200e-6, rel=0.01)
    assert found.certainty == "sure"
    assert "nr_requests is 2" in found.because[0]
    assert "echo 128 > /sys/block/loop3/queue/nr_requests" in found.test
    assert not found_by(LATENCY, case)


def test_write_back_throttling_is_named(tmp_path: Path) -> None:
    own = [one(200, 0, wait="wbt", end_io_id=DIRECT, op="write") for _ in range(100)]
    (found,) = found_by(QUEUE, case_of(tmp_path / "run", own, device={"wbt_lat_usec": 2000}))
    assert "write-back throttling" in found.what
    assert found.cost.value_s == pytest.approx(100 * 200e-6, rel=0.01)
    assert "wbt_lat_usec 2000" in found.because[-1]


@pytest.mark.parametrize(("places", "fewer"), [(1, False), (256, True)])
def test_queue_with_fewer_places_than_it_shows_is_said_to_be_one(
    tmp_path: Path, places: int, fewer: bool
) -> None:
    own = [one(200, 0, wait="tag", end_io_id=DIRECT, op="write") for _ in range(100)]
    (found,) = found_by(QUEUE, case_of(tmp_path / "run", own, device={"nr_requests": places}))
    assert any("the queue has fewer than it shows" in because for because in found.because) == fewer


def test_full_deep_queue_is_the_disk(tmp_path: Path) -> None:
    """With 40 of others' requests at once beside, a wait for a place is the device's."""
    own = [one(300, 0, wait="tag", end_io_id=DIRECT, op="write") for _ in range(100)]
    beside = {"queue_us": 1, "issue_us": 2, "complete_us": 100 * 322, "submitter": "workload", "pid": 1001}
    case = case_of(tmp_path / "run", own, [beside | {"bytes": 4096, "sector": 8 * i} for i in range(40)])
    assert not found_by(QUEUE, case)
    (found,) = found_by(BANDWIDTH, case)
    assert found.cost.value_s == pytest.approx(100 * 300e-6, rel=0.01)


def test_time_before_the_issue_is_the_queue(tmp_path: Path) -> None:
    own = [one(60, 100, wait="direct", end_io_id=DIRECT) for _ in range(400)]
    case = case_of(tmp_path / "run", own)
    (found,) = found_by(QUEUE, case)
    assert found.cost.value_s == pytest.approx(400 * 100e-6, rel=0.01)
    assert found.certainty == "likely"
    (latency,) = found_by(LATENCY, case)
    assert latency.cost.value_s == pytest.approx(400 * 60e-6, rel=0.01)


def test_flushes(tmp_path: Path) -> None:
    own = [
        entry
        for _ in range(50)
        for entry in (
            one(100, wait="direct", op="write", end_io_id=DIRECT),
            one(800, 200, wait="flush", op="flush", bytes=0),
        )
    ]
    words = {"FS": "ext4", "WL": "fio-syncwrite", "MOUNT": "noatime"}
    case = case_of(tmp_path / "run", own, words=words)
    (found,) = found_by(FLUSH, case)
    assert found.cost.value_s == pytest.approx(50 * 1e-3, rel=0.01)
    assert found.certainty == "sure"
    assert found.remedy is not None
    assert found.remedy.words == {"FLUSH": "0"}
    assert not found_by(QUEUE, case)  # a flush's own wait before it is sent is the flush's


def test_writes_without_flushes_find_none(tmp_path: Path) -> None:
    own = [one(500, wait="direct", op="write", end_io_id=DIRECT) for _ in range(50)]
    assert not found_by(FLUSH, case_of(tmp_path / "run", own))


@pytest.mark.parametrize(("far_us", "finds"), [(5000, True), (500, False)])
def test_seeks_cost_what_they_add(tmp_path: Path, far_us: int, finds: bool) -> None:
    """Each second request goes elsewhere, every fourth for metadata."""
    own = []
    for i in range(60):
        place = (i % 7 + 1) << 22
        kind = "metadata" if i % 2 else "data"
        own.append(one(far_us, wait="direct", end_io_id=DIRECT, sector=place + 16 * i, class_=kind))
        own.append(one(500, wait="direct", end_io_id=DIRECT, class_=kind))
    case = case_of(tmp_path / "run", own)
    found = found_by(SEEKS, case)
    assert bool(found) == finds
    if finds:
        assert found[0].cost.value_s == pytest.approx(60 * 4500e-6, rel=0.05)
        assert found[0].certainty == "likely"
        (mixed,) = found_by(MIXED, case)
        assert mixed.cost.value_s == pytest.approx(59 * 4500e-6, rel=0.05)
    else:
        assert not found_by(MIXED, case)


@pytest.mark.parametrize("finds", [True, False])
def test_seeks_are_not_what_other_requests_cost(tmp_path: Path, finds: bool) -> None:
    """Half of the far requests meet a large one, which makes them slow, seek or not; the others are fast."""
    own, beside, t = [], [], 0
    for i in range(120):
        is_far, meets = i % 2 == 1, i % 4 == 1
        slow = 5000 if meets or (finds and is_far) else 500
        place: dict[str, Any] = {"sector": (i % 7 + 1) << 22} if is_far else {}
        own.append(one(slow, wait="direct", end_io_id=DIRECT, **place))
        if meets:
            begin = t + 20
            beside.append({"queue_us": begin, "issue_us": begin, "complete_us": begin + 4900})
        t += 20 + 5 + slow + 2
    flushers = [row | {"submitter": "kernel_thread", "class": "metadata"} for row in beside]
    assert bool(found_by(SEEKS, case_of(tmp_path / "run", own, flushers))) == finds


def test_large_requests_are_bandwidth_and_small_ones_latency(tmp_path: Path) -> None:
    own = [one(2000, wait="direct", end_io_id=DIRECT, bytes=1 << 20) for _ in range(40)]
    own += [one(100, wait="direct", end_io_id=DIRECT) for _ in range(200)]
    words = {"FS": "ext4", "WL": "fio-randread"}
    case = case_of(tmp_path / "run", own, words=words)
    (large,) = found_by(BANDWIDTH, case)
    assert large.cost.value_s == pytest.approx(40 * 2e-3, rel=0.01)
    assert large.remedy is not None
    assert large.remedy.words == {"DISK": "ram"}
    assert large.remedy.saved.low_s == 0
    (small,) = found_by(LATENCY, case)
    assert small.cost.value_s == pytest.approx(200 * 100e-6, rel=0.01)
    moved = 40 * (1 << 20) + 200 * 4096
    assert large.evidence[1].inside == pytest.approx(moved / (40 * 2e-3 + 200 * 100e-6), rel=0.01)
