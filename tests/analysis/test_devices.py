# SPDX-License-Identifier: BSD-2-Clause
"""Runs on several devices: whose journal it is, where each request is drawn, and what each device did."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.figures import disk_panel
from analysis.measures.block import disk_map
from analysis.measures.results import measure
from analysis.report import make_report
from analysis.rundir import devices
from analysis.rundir.run import open_run
from analysis.tables.load import load_tables
from tests.analysis.synthetic import START_NS, Spec, request, run_json

MAIN, JOURNAL, OTHER = 7 << 20 | 3, 7 << 20 | 9, 8 << 20 | 16


def two_disks(**more: Any) -> dict[str, Any]:
    """run.json of a file system on 7:3 with its journal on 7:9."""
    facts = run_json(10)
    facts["filesystem"]["geometry"] = {"journal_dev": "7:9"}
    facts["journal_device"] = {"name": "loop9", "dev": "7:9", "kind": "file", "size_bytes": 1 << 27}
    facts.update(more)
    return facts


def classes(spec: Spec, path: Path) -> list[str]:
    load_tables(open_run(spec.write(path)))
    found: list[str] = pq.read_table(path / "tables" / "block.parquet").column("class").to_pylist()
    return found


REQUESTS = [
    (MAIN, "data", "write", "data"),
    (MAIN, "metadata", "write", "metadata"),
    (JOURNAL, "metadata", "write", "journal"),
    (JOURNAL, "unknown", "read", "journal"),
    (JOURNAL, "data", "write", "unknown"),  # two signs that disagree
    (JOURNAL, "unknown", "flush", "unknown"),  # moves nothing
    (OTHER, "metadata", "write", "metadata"),
]


def requests() -> list[dict[str, Any]]:
    return [
        request(START_NS + i, 100 + i, 0 if op == "flush" else 512, dev=dev, op=op, **{"class": class_})
        for i, (dev, class_, op, _) in enumerate(REQUESTS)
    ]


def test_requests_to_the_journals_device_are_journal(tmp_path: Path) -> None:
    spec = Spec(block=requests(), run=two_disks())
    assert classes(spec, tmp_path / "r") == [expected for *_, expected in REQUESTS]


def test_data_journalling_puts_file_data_on_the_journal_device(tmp_path: Path) -> None:
    spec = Spec(block=requests(), run=two_disks())
    spec.run["filesystem"]["proc_mounts"] = "/dev/loop3 /mnt ext4 rw,relatime,data=journal 0 0"
    assert classes(spec, tmp_path / "r")[4] == "journal"
    spec.run["filesystem"]["proc_mounts"] = "/dev/loop3 /mnt ext4 rw,relatime,data=journalled 0 0"
    assert classes(spec, tmp_path / "s")[4] == "unknown"


def test_journal_sectors_count_on_the_main_disk_only(tmp_path: Path) -> None:
    """The extents of geometry.journal are sectors of the main disk: the same sectors elsewhere are not it."""
    spec = Spec(block=requests(), run=two_disks())
    spec.run["filesystem"]["geometry"] = {"journal_dev": "7:9", "journal": [[0, 1000]]}
    found = classes(spec, tmp_path / "r")
    assert found[:2] == ["journal", "journal"] and found[6] == "metadata"


@pytest.mark.parametrize(
    "number", [None, 5, "", "7", "7:", ":9", "7:9:1", "-7:9", "7:1048576", "4096:1", "٣:٤", []]
)
def test_malformed_journal_device_changes_nothing(tmp_path: Path, number: object) -> None:
    facts = run_json(10)
    facts["filesystem"]["geometry"] = {"journal_dev": number}
    assert classes(Spec(block=requests(), run=facts), tmp_path / "r") == [c for _, c, _, _ in REQUESTS]


places = st.tuples(
    st.integers(0, 999),
    st.sampled_from([MAIN, JOURNAL, OTHER]),
    st.integers(0, 300) | st.integers(0, 1 << 40),
    st.integers(1, 200_000),
    st.sampled_from(["read", "write", "discard"]),
)


@settings(max_examples=40, deadline=None)
@given(st.lists(places, min_size=1, max_size=25), st.sampled_from([[], [1 << 43, 0, 5]]))
def test_each_device_has_a_band_of_its_own(
    tmp_path_factory: pytest.TempPathFactory, items: list[tuple[int, int, int, int, str]], sizes: list[int]
) -> None:
    """No byte is lost, and none is drawn in another device's rows."""
    rows = [request(START_NS + t, sector, size, dev=dev, op=op) for t, dev, sector, size, op in items]
    block = load_tables(open_run(Spec(block=rows).write(tmp_path_factory.mktemp("run") / "r"))).block
    assert block is not None
    numbers = [MAIN, JOURNAL, OTHER]
    used = disk_map.used(block, numbers)
    axis = disk_map.make_axis(used, sizes or [0, 0, 0], 90)
    assert axis is not None
    placed = disk_map.request_cells(block, numbers, axis, START_NS, START_NS + 1000, 30)
    drawn = disk_map.layered_maps(placed, np.zeros(block.rows, dtype=np.int8), 1, axis)[0]
    of_row = np.repeat(axis.device, np.diff(axis.starts))
    for i, number in enumerate(numbers):
        expected = sum(size for _, dev, _, size, _ in items if dev == number)
        assert drawn[of_row == i].sum() == expected
        if expected:
            assert (of_row == i).sum() >= min(90 * 0.2 / 2, sum(b - a for a, b in used[i]))
    strip = disk_map.whole_disk(placed, np.zeros(block.rows, dtype=np.int8), 1, axis.end, 50)[0]
    assert strip.sum() == sum(size for *_, size, _ in items)


@pytest.mark.usefixtures("words_only")
def test_each_device_has_its_own_row(tmp_path: Path) -> None:
    """Seeks, depth and latency of each device are its own, whatever the other does in between."""
    spec = Spec(run=two_disks())
    for i in range(50):
        t = START_NS + 1_000_000_000 + i * 1_000_000
        spec.block.append(request(t, i * 8, 4096, complete_ns=t + 300_000))  # sequential
        spec.block.append(request(t + 10, i * 10_000, 512, dev=JOURNAL, complete_ns=t + 10 + 20_000))
    spec.counter = [
        {"t_ns": START_NS + 10 + i * (10**10 - 10), "name": f"disk.{op}_bytes", "value": value}
        for op, values in (("write", (7, 7 + 50 * 4096)), ("read", (0, 0)))
        for i, value in enumerate(values)
    ]
    run = open_run(spec.write(tmp_path / "r"))
    main, journal = measure(run, load_tables(run)).device.rows
    assert (main.label, journal.label) == ("loop3 (disk)", "loop9 (journal)")
    assert (main.requests, main.write_bytes, main.seeks.seeks, main.seeks.sequential) == (
        50,
        50 * 4096,
        0,
        49,
    )
    assert (journal.requests, journal.write_bytes, journal.seeks.seeks) == (50, 50 * 512, 49)
    assert main.device_latency is not None and journal.device_latency is not None
    assert set(main.device_latency.at_ns) == {300_000} and set(journal.device_latency.at_ns) == {20_000}
    # 50 requests of 0.3 ms and of 0.02 ms in 10 s
    assert main.depth_mean == pytest.approx(50 * 0.3e-3 / 10)
    assert journal.depth_mean == pytest.approx(50 * 0.02e-3 / 10)
    assert main.depth_highest == journal.depth_highest == 1
    make_report(run.path)
    text = " ".join((run.path / "report.txt").read_text().split())
    assert "loop9 (journal) 50 0 B 25.6 kB 49" in text
    # the recorder's counters are of the first disk alone
    assert "the first disk's own counter, write: 204,800 B; as traced" in text
    assert "journal loop9, file, 134 MB" in text


@pytest.mark.usefixtures("words_only")
def test_counters_of_an_unknown_disk_are_not_compared(tmp_path: Path) -> None:
    spec = Spec(block=[request(START_NS, 8), request(START_NS, 8, dev=JOURNAL)], run={"schema": 1})
    spec.counter = [{"t_ns": START_NS + i * 10**9, "name": "disk.write_bytes", "value": i} for i in range(2)]
    make_report(spec.write(tmp_path / "r"))
    assert "own counter" not in (tmp_path / "r" / "report.txt").read_text()
    spec.block.pop()  # the only disk there is
    make_report(spec.write(tmp_path / "s"))
    assert "the device's own counter, write: 1 B; traced 4,096 B" in " ".join(
        (tmp_path / "s" / "report.txt").read_text().split()
    )


@pytest.mark.usefixtures("words_only")
def test_counters_count_zeroing_as_writing(tmp_path: Path) -> None:
    """As the kernel does (op_stat_group): and nothing that had ended before they were first read."""
    ends = [(START_NS - 100, START_NS - 50), (START_NS + 100, START_NS + 200)]
    spec = Spec(
        block=[
            request(issue, 0, 2 << 20, op="write_zeroes", complete_ns=end) for issue, end in ends
        ] + [request(START_NS + 300, 0, 4096, complete_ns=START_NS + 400)],
    )  # fmt: skip
    spec.counter = [
        {"t_ns": START_NS + i * 1000, "name": "disk.write_bytes", "value": value}
        for i, value in enumerate((9, 9 + (2 << 20) + 4096))
    ]
    make_report(spec.write(tmp_path / "r"))
    text = " ".join((tmp_path / "r" / "report.txt").read_text().split())
    assert "the device's own counter, write: 2,101,248 B; as traced" in text


@pytest.mark.usefixtures("words_only")
def test_one_disk_has_no_devices_section(tmp_path: Path) -> None:
    make_report(Spec(block=[request(START_NS, 8)]).write(tmp_path / "r"))
    assert "DEVICES" not in (tmp_path / "r" / "report.txt").read_text()


def test_devices_are_named_as_run_json_names_them(tmp_path: Path) -> None:
    spec = Spec(block=[request(START_NS + i, 8, dev=n) for i, n in enumerate((OTHER, JOURNAL, 5, MAIN))])
    spec.run["more_devices"] = [{"name": "sdb", "dev": "8:16"}, "nonsense", {"name": "unused", "dev": "8:32"}]
    spec.run["filesystem"]["geometry"] = {"journal_dev": "7:9"}
    run = open_run(spec.write(tmp_path / "r"))
    block = load_tables(run).block
    assert block is not None
    found = devices.with_requests(run, block)
    assert [d.label for d in found] == ["loop3 (disk)", "sdb (disk 2)", "0:5", "7:9 (journal)"]
    assert [d.number for d in found] == [MAIN, OTHER, 5, JOURNAL]


def test_axis_has_the_offsets_of_each_device(tmp_path: Path) -> None:
    """A tick of the second device's band is an offset on that device, not on the two laid end to end."""
    spec = Spec(run=two_disks())
    for i in range(100):
        spec.block.append(request(START_NS + i * 1000, i * 200_000, 4096))  # to 10 GB
        spec.block.append(request(START_NS + i * 1000, i * 100, 4096, dev=JOURNAL))  # to 5 MB
    run = open_run(spec.write(tmp_path / "r"))
    tables = load_tables(run)
    assert tables.block is not None
    found = devices.with_requests(run, tables.block)
    disk = disk_panel.DiskPanels.make(tables.block, found, measure(run, tables))
    assert disk is not None and disk.names == ["loop3 (disk)", "loop9 (journal)"]
    ticks, labels = disk._ticks(2.7)
    border = disk.row_of(disk.axis.stretches[-1][0])
    in_journal = [float(label) for tick, label in zip(ticks, labels, strict=True) if tick >= border]
    assert in_journal and max(in_journal) <= 100 * 100 * 512 / 1e9
