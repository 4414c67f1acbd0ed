# SPDX-License-Identifier: BSD-2-Clause
"""A run of more requests than are measured at a time, against sums over all of them at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq
import pytest

from analysis.figures.disk_panel import DiskPanels
from analysis.measures.common import group_percentiles, sort
from analysis.measures.results import Results, measure
from analysis.rundir.devices import with_requests
from analysis.rundir.run import open_run
from analysis.tables.load import Tables, load_tables
from tests.analysis.measured import block_results, depths
from tests.bench.big_run import write_run

ROWS = 300_000
Column = npt.NDArray[Any]


@dataclass(frozen=True)
class MidSize:
    """The measures, and the recording's columns as they stand in the file."""

    tables: Tables
    measured: Results
    rows: dict[str, Column]
    disk: DiskPanels | None

    def among(self, op: str = "", class_: str = "") -> npt.NDArray[np.bool_]:
        """Rows of an op and a class."""
        found = np.ones(ROWS, dtype=np.bool_)
        for name, wanted in (("op", op), ("class", class_)):
            if wanted:
                found &= self.rows[name] == wanted
        return found


@pytest.fixture(scope="module")
def mid_size(tmp_path_factory: pytest.TempPathFactory) -> MidSize:
    path = write_run(tmp_path_factory.mktemp("run") / "r", ROWS)
    run = open_run(path)
    tables = load_tables(run)
    measured = measure(run, tables)
    assert tables.block is not None
    disk = DiskPanels.make(tables.block, with_requests(run, tables.block), measured)
    stored = pq.read_table(path / "tables" / "block.parquet")
    rows = {
        name: stored.column(name).to_numpy(zero_copy_only=False)
        for name in ("queue_ns", "issue_ns", "complete_ns", "sector", "bytes", "op", "class", "comm")
    }
    return MidSize(tables, measured, rows, disk)


def nearest_rank(values: Column, percent: float) -> int:
    return int(np.sort(values)[max(int(np.ceil(percent / 100 * values.size - 1e-9)), 1) - 1])


def test_throughput_equals_sums_over_all_rows(mid_size: MidSize) -> None:
    m = mid_size.measured
    assert sum(row.requests for row in m.device_totals) == ROWS
    for row in m.device_totals:
        among = mid_size.among(row.op, row.class_)
        assert (row.requests, row.bytes) == (among.sum(), mid_size.rows["bytes"][among].sum())
    for op, series in block_results(m).throughput.iops.items():
        assert (series * m.timeline.lengths_s).sum() == pytest.approx(mid_size.among(op).sum())
        bins = np.searchsorted(m.timeline.edges_ns[1:-1], mid_size.rows["complete_ns"], side="right")
        counts = np.bincount(bins[mid_size.among(op)], minlength=m.timeline.bins)
        assert series * m.timeline.lengths_s == pytest.approx(counts)


def test_latency_equals_percentiles_of_all_rows(mid_size: MidSize) -> None:
    begins = {"Q2D": "queue_ns", "D2C": "issue_ns", "Q2C": "queue_ns"}
    ends = {"Q2D": "issue_ns", "D2C": "complete_ns", "Q2C": "complete_ns"}
    for (op, class_), found in block_results(mid_size.measured).latency.rows.items():
        among = mid_size.among(op, class_)
        for row in found:
            times = (mid_size.rows[ends[row.stage]] - mid_size.rows[begins[row.stage]])[among]
            percents = (50, 90, 99, 99.9, 100)
            assert row.at_ns == [nearest_rank(times, percent) for percent in percents]


def test_seeks_equal_a_count_over_all_rows(mid_size: MidSize) -> None:
    rows = mid_size.rows
    moving = np.flatnonzero((mid_size.among("read") | mid_size.among("write")) & (rows["bytes"] > 0))
    turn = moving[np.argsort(rows["issue_ns"][moving], kind="stable")]
    distance = rows["sector"][turn][1:] - (rows["sector"] + rows["bytes"] // 512)[turn][:-1]
    seek = np.abs(distance) > 128
    for name, found in block_results(mid_size.measured).seeks.summaries.items():
        if name not in ("all", "unknown"):
            mine = ((rows["op"] == name) | (rows["class"] == name))[turn][1:]
        else:
            mine = np.full(seek.size, name == "all")
        assert (found.seeks, found.sequential) == ((seek & mine).sum(), ((distance == 0) & mine).sum())
        if found.seeks:
            signed = distance[seek & mine] * 512
            assert found.signed_bytes == [nearest_rank(signed, p) for p in (1, 10, 50, 90, 99)]
            assert found.absolute_bytes == [nearest_rank(np.abs(signed), p) for p in (50, 90, 99, 100)]
    block = block_results(mid_size.measured)
    assert sum(row.seeks for row in block.seeks_by_process) == seek.sum()
    assert block.orders[0].issued == seek.sum()


def test_depth_and_phases_equal_sums_over_all_rows(mid_size: MidSize) -> None:
    m, rows = mid_size.measured, mid_size.rows
    assert m.phases is not None
    area = (rows["complete_ns"] - rows["issue_ns"]).sum() / 1e9
    assert (depths(m).at_device.mean * m.timeline.lengths_s).sum() == pytest.approx(area)
    order = np.concatenate((rows["issue_ns"] * 2 + 1, rows["complete_ns"] * 2))
    order.sort()
    assert depths(m).at_device.highest.max() == np.cumsum((order & 1) * 2 - 1).max()
    moved = rows["bytes"][(mid_size.among("read") | mid_size.among("write"))].sum()
    assert sum(row.device_bytes or 0 for row in m.phases) == moved


def test_disk_map_has_every_byte(mid_size: MidSize) -> None:
    assert mid_size.disk is not None
    for op in ("read", "write"):
        wanted = mid_size.rows["bytes"][mid_size.among(op)].sum()
        wanted += mid_size.rows["bytes"][mid_size.among("discard")].sum() if op == "write" else 0
        assert sum(float(one.sum()) for one in mid_size.disk.maps[op].values()) == wanted


@pytest.mark.parametrize("far", [0, 10, 10**6])
def test_sort_orders_rows_near_and_far(far: int) -> None:
    random = np.random.default_rng(far)
    times = np.arange(700_000, dtype=np.int64) // 3 + random.integers(0, far + 1, 700_000) + (1 << 60)
    times[-1] = 5  # one that all others must wait for
    among = random.random(times.size) < 0.9
    rows = np.flatnonzero(among)
    assert (sort.order(times, among) == rows[np.argsort(times[rows], kind="stable")]).all()


def test_percentiles_of_groups_of_any_size_are_exact() -> None:
    random = np.random.default_rng(3)
    values = np.concatenate((random.integers(-50, 50, 1000), random.integers(-(1 << 60), 1 << 60, 1000)))
    codes = random.integers(0, 5, values.size)
    parts = ((codes[i : i + 300], values[i : i + 300]) for i in range(0, values.size, 300))
    found = group_percentiles.sorted_runs([values.size] * 6, parts)
    assert [run.tolist() for run in found] == [sorted(values[codes == code].tolist()) for code in range(6)]
    for percent in (0.1, 1, 50, 99.9, 100):
        assert group_percentiles.percentiles(found, [percent]) == [nearest_rank(values, percent)]
        assert group_percentiles.percentiles(group_percentiles.absolute(found), [percent]) == [
            nearest_rank(np.abs(values), percent)
        ]
