# SPDX-License-Identifier: BSD-2-Clause
"""MODEL=: a run's requests on a drive's model, against arithmetic on the drive's few parameters."""

import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from analysis.errors import OptionError
from analysis.measures.block import drive_cost
from analysis.rundir.run import open_run
from analysis.tables.block import Block
from analysis.tables.load import load_tables
from tests.analysis.synthetic import START_NS, Spec, request

# One surface, one zone, no cache, no queue: a request costs its seek, a part of a revolution, its transfer.
TRACK, CYLINDERS, REVOLUTION_S = 1000, 10_000, 60 / 6000
DRIVE = f"""# a plain drive
sectors {TRACK * CYLINDERS}
first_sector 0
rpm 6000
surfaces 1
zone {CYLINDERS - 1} {TRACK}
seek 1 1000000
seek {CYLINDERS - 1} 10998000
write_settle_ns 0
head_switch_ns 0
track_skew 0
cylinder_skew 0.2
read_overhead_ns 0
write_overhead_ns 0
bus_bytes_per_s 1000000000
queue_depth 1
scheduling fifo
most_age_ns 0
write_cache_bytes 0
write_cache_extents 0
destage_at 0
destage_idle_ns 0
read_segments 0
segment_sectors 0
"""


def load_block(rows: list[dict[str, Any]], path: Path) -> Block:
    tables = load_tables(open_run(Spec(block=rows).write(path)))
    assert tables.block is not None
    return tables.block


def drive(folder: Path, text: str = DRIVE) -> drive_cost.Drive:
    """The drive in a file."""
    (folder / "drive").write_text(text)
    return drive_cost.read_drive(folder / "drive")


def seek_s(starts: list[int]) -> float:
    """Movements from one request's cylinder to the next one's; the first is from cylinder 0."""
    cylinders = [0, *(start // TRACK for start in starts)]
    moves = [abs(b - a) for a, b in pairwise(cylinders)]
    return sum((1e6 + (d - 1) * 1e3) / 1e9 for d in moves if d)


def test_a_requests_cost_is_seek_turn_and_transfer(tmp_path: Path) -> None:
    draws = random.Random(2)
    starts = [draws.randrange(TRACK * CYLINDERS // 8) * 8 for _ in range(400)]
    rows = [
        request(START_NS + i * 24_000_000 + 1000, start, op="read", queue_ns=START_NS + i * 24_000_000)
        for i, start in enumerate(starts)
    ]
    block = load_block(rows, tmp_path / "r")
    (row,) = drive_cost.measure(block, drive(tmp_path))
    assert (row.drive, row.requests, row.left_out) == ("a plain drive", 400, 0)
    for time in (row.queued, row.issued):  # one at a time: no order to choose
        assert time.seek_s == pytest.approx(seek_s(starts), rel=1e-6)
        assert time.transfer_s == pytest.approx(400 * 8 / TRACK * REVOLUTION_S, rel=1e-3)
        # from anywhere to anywhere: half a revolution on average, 2.9 % the standard error
        assert time.rotation_s == pytest.approx(400 * REVOLUTION_S / 2, rel=0.07)
        assert time.head_s == pytest.approx(time.seek_s + time.rotation_s + time.transfer_s, rel=1e-9)
        assert time.hits == time.overhead_s == 0
        assert 399 * 0.024 < time.ends_s < 400 * 0.024


def test_requests_at_once_are_sorted_where_they_were_queued(tmp_path: Path) -> None:
    """Queued in one instant in random order: the elevator sorts them; issued in that order, nothing does."""
    draws = random.Random(3)
    starts = draws.sample(range(0, TRACK * CYLINDERS, 8), 60)
    rows = [
        request(START_NS + 1000 + i, start, op="read", queue_ns=START_NS) for i, start in enumerate(starts)
    ]
    block = load_block(rows, tmp_path / "r")
    (row,) = drive_cost.measure(block, drive(tmp_path))
    assert row.issued.seek_s == pytest.approx(seek_s(starts), rel=1e-6)
    # the first goes out at once, the others by position: at most twice over the disk
    assert row.queued.seek_s <= 2 * 0.011 + 60 * 0.001 < row.issued.seek_s / 2


def test_what_is_no_request_to_a_drive_is_counted(tmp_path: Path) -> None:
    rows = [
        request(START_NS + 1, 0, 4096, op="write", queue_ns=START_NS),
        request(START_NS + 2, 0, 1 << 26, op="write", queue_ns=START_NS + 1),  # larger than the program takes
        request(START_NS + 3, 0, 0, op="flush", queue_ns=START_NS + 2),
        request(START_NS + 4, 8000, 4096, op="discard", queue_ns=START_NS + 3),
    ]
    (row,) = drive_cost.measure(load_block(rows, tmp_path / "r"), drive(tmp_path))
    assert (row.requests, row.left_out) == (3, 1)
    assert row.issued.transfer_s == pytest.approx((8 + (1 << 17)) / TRACK * REVOLUTION_S, rel=1e-3)


def test_a_drive_that_is_too_small_is_refused(tmp_path: Path) -> None:
    rows = [request(START_NS, TRACK * CYLINDERS, op="read")]
    with pytest.raises(
        OptionError, match=r"requests up to 5\.1 GB, and a plain drive has 5\.1 GB: name a larger"
    ):
        drive_cost.measure(load_block(rows, tmp_path / "r"), drive(tmp_path))


@pytest.mark.parametrize("text", ["", "sectors x\n", "sectors -5\n", "sectors 1e9\n", "\0" * 100])
def test_a_file_without_a_drive_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(OptionError, match="holds no drive's parameters"):
        drive(tmp_path, text)


def test_a_program_that_is_not_built_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drive_cost, "PROGRAM", tmp_path / "none")
    rows = [request(START_NS, 0, op="read")]
    with pytest.raises(OptionError, match="build/drive-cost, which is not built: run make build"):
        drive_cost.measure(load_block(rows, tmp_path / "r"), drive(tmp_path))
