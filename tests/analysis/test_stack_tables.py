# SPDX-License-Identifier: BSD-2-Clause
"""Stacks of devices: run.json's "stack", the tables volume and block, and the journal by the top's sector."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from analysis.rundir.run import open_run
from analysis.rundir.stack import read_stack
from analysis.tables.load import load_tables
from tests.analysis.stacked import (
    DM0,
    MD0,
    SDA,
    SDA2,
    SDB,
    SDC,
    lvm_on_crypt_nodes,
    node,
    part_of,
    raid5_nodes,
    stacked_run,
    top_bio,
)
from tests.analysis.synthetic import START_NS, Spec, bio, request


def classes(path: Path, table: str = "block") -> list[str]:
    found: list[str] = pq.read_table(path / "tables" / f"{table}.parquet").column("class").to_pylist()
    return found


def test_stack_is_read_from_roots_to_leaves(tmp_path: Path) -> None:
    run = open_run(Spec(run=stacked_run(lvm_on_crypt_nodes(), parts=[SDA2])).write(tmp_path / "r"))
    stack = read_stack(run)
    assert stack.is_stated and list(stack.nodes) == ["dm-0", "dm-1", "sda"]
    assert [node.name for node in stack.tops] == ["dm-0"]
    assert [node.name for node in stack.volumes] == ["dm-0", "dm-1"]
    assert [node.name for node in stack.leaves] == ["sda"]
    assert [node.name for node in stack.under("dm-0")] == ["dm-1", "sda"]
    assert [node.name for node in stack.below("dm-1")] == ["sda"]  # through its partition
    assert [node.name for node in stack.leaves_under("dm-0")] == ["sda"]
    assert stack.parts["sda2"].disk == "sda"
    assert (stack.role("dm-0"), stack.role("sda")) == ("data", "")


def test_older_runs_disks_are_roots_and_leaves(tmp_path: Path) -> None:
    spec = Spec()
    spec.run["more_devices"] = [{"name": "loop4", "dev": "7:4", "size_bytes": 1}]
    spec.run["journal_device"] = {"name": "loop9", "dev": "7:9"}
    stack = read_stack(open_run(spec.write(tmp_path / "r")))
    assert not stack.is_stated and not stack.volumes
    assert [(root.name, root.role) for root in stack.roots] == [
        ("loop3", "data"),
        ("loop4", "member"),
        ("loop9", "journal"),
    ]
    assert [node.number for node in stack.leaves] == [7 << 20 | 3, 7 << 20 | 4, 7 << 20 | 9]


@pytest.mark.parametrize(
    "stated",
    [
        "all",
        {"nodes": "none", "roots": [1, None]},
        {"nodes": [{"name": 5}, None, {"name": "a", "below": "b"}], "roots": [{"name": "zz"}]},
        {
            "nodes": [{"name": "a", "below": ["b", "a"]}, {"name": "b", "below": ["a"]}],
            "roots": [{"name": "a", "role": 7}],
            "parts": [{"name": "b", "disk": "b", "first_sector": -1, "sectors": "x"}],
            "at_start": {"a": {"read_bytes": "many"}, "b": 5},
            "states": {"a": {"at_start": 1, "at_end": {"degraded": 1}}},
            "changes": [{"x": 1}, "a\x1b[2J"],
        },
    ],
)
def test_broken_stack_is_survived(tmp_path: Path, stated: Any) -> None:
    spec = Spec()
    spec.run["stack"] = stated
    stack = read_stack(open_run(spec.write(tmp_path / "r")))
    for name in stack.nodes:
        assert name not in [node.name for node in stack.under(name)]
    assert "\x1b" not in "".join(stack.changes)


def test_volume_rows_have_no_origin_at_the_top(tmp_path: Path) -> None:
    top = top_bio(7, START_NS + 10**6, 64, 8192, dev=DM0, ino=12, cgroup=99)
    lower = bio(START_NS + 10**6 + 500, 96, 8192, dev=DM0 + 1, bio_id=8, origin=7)
    unseen = top_bio(9, START_NS + 2 * 10**6, 128, 4096, dev=DM0, complete_ns=0)
    path = Spec(volume=[top, lower, unseen], run=stacked_run(lvm_on_crypt_nodes())).write(tmp_path / "r")
    run = open_run(path)
    volume = load_tables(run).volume
    assert run.missing == [] and volume is not None
    stored = pq.read_table(path / "tables" / "volume.parquet")
    assert stored.column("bio_id").to_pylist() == [7, 8, 9]
    assert stored.column("origin").to_pylist() == [None, 7, None]
    assert stored.column("cgroup").to_pylist() == [99, None, None]
    assert volume.origin.tolist() == [0, 7, 0]
    assert volume.dev.tolist() == [DM0, DM0 + 1, DM0] and volume.bytes.tolist() == [8192, 8192, 4096]
    assert np.array_equal(volume.issue_ns, volume.queue_ns) and not volume.queue_seen
    assert volume.timed.tolist() == [True, True, False]


def test_journal_is_told_by_the_tops_sector(tmp_path: Path) -> None:
    """[1000, 2000) of md0 is the journal: the leaves' own sectors say nothing."""
    facts = stacked_run(raid5_nodes())
    facts["filesystem"]["geometry"] = {"journal": [[1000, 2000]]}
    inside = top_bio(1, START_NS + 10**6, 1000, 4096, dev=MD0, **{"class": "metadata"})
    outside = top_bio(2, START_NS + 2 * 10**6, 2000, 4096, dev=MD0, **{"class": "metadata"})
    block = [
        part_of(inside, SDB, 5000, 4096),
        part_of(outside, SDB, 1500, 4096),  # inside, if the leaf's sector counted
        request(START_NS + 3 * 10**6, 1500, 4096, dev=SDA, origin=0, submitter="kernel_thread")
        | {"class": "volume"},
        part_of(inside, SDC, 1500, 4096) | {"class": "parity"},
    ]
    path = Spec(block=block, volume=[inside, outside], run=facts).write(tmp_path / "r")
    load_tables(open_run(path))
    assert classes(path) == ["journal", "metadata", "volume", "parity"]
    assert classes(path, "volume") == ["journal", "metadata"]


def test_external_journal_on_a_partition_is_told_by_its_extent(tmp_path: Path) -> None:
    """DIR=: the journal has sectors [2048, 4096) of sdb, of which another file system has the rest."""
    disks = [node("sda", "disk", []), node("sdb", "disk", [])]
    facts = stacked_run(disks, {"sda": "data", "sdb": "journal"})
    facts["filesystem"]["geometry"] = {
        "journal": [],
        "spans": [
            {"dev": "8:16", "start_sector": 2048, "end_sector": 4096, "rest": "j", "rest_kind": "journal"}
        ],
    }
    rows = [(SDA, 2048), (SDB, 2048), (SDB, 4095), (SDB, 4096)]
    block = [
        request(START_NS + i, sector, 512, dev=dev, **{"class": "metadata"})
        for i, (dev, sector) in enumerate(rows)
    ]
    path = Spec(block=block, run=facts).write(tmp_path / "r")
    load_tables(open_run(path))
    assert classes(path) == ["metadata", "journal", "journal", "metadata"]


def test_journal_root_without_extents_is_a_journal_as_a_whole(tmp_path: Path) -> None:
    disks = [node("sda", "disk", []), node("sdb", "disk", [])]
    facts = stacked_run(disks, {"sda": "data", "sdb": "log"})
    block = [
        request(START_NS + i, 8, 512, dev=dev, **{"class": "metadata"}) for i, dev in enumerate((SDA, SDB))
    ]
    path = Spec(block=block, run=facts).write(tmp_path / "r")
    load_tables(open_run(path))
    assert classes(path) == ["metadata", "journal"]


def test_journals_of_two_devices_keep_their_device(tmp_path: Path) -> None:
    disks = [node("sda", "disk", []), node("sdb", "disk", [])]
    facts = stacked_run(disks, {"sda": "watched", "sdb": "watched"})
    facts["filesystem"]["geometry"] = {
        "journal": [[100, 200], [300, 400]],
        "areas": [
            {"name": "journal", "kind": "journal", "dev": "8:0", "extents": [[100, 200]]},
            {"name": "log", "kind": "journal", "dev": "8:16", "extents": [[300, 400]]},
        ],
    }
    rows = [(SDA, 100), (SDA, 300), (SDB, 100), (SDB, 300)]
    block = [
        request(START_NS + i, sector, 512, dev=dev, **{"class": "metadata"})
        for i, (dev, sector) in enumerate(rows)
    ]
    path = Spec(block=block, run=facts).write(tmp_path / "r")
    load_tables(open_run(path))
    assert classes(path) == ["journal", "metadata", "metadata", "journal"]


def test_counters_of_several_devices_are_told_apart(tmp_path: Path) -> None:
    counter = [
        {"t_ns": START_NS + i, "name": "disk.read_bytes", "value": value, "dev": dev}
        for i, (dev, value) in enumerate([(SDA, 10), (SDB, 1000), (SDA, 15), (SDB, 1700)])
    ]
    counter.append({"t_ns": START_NS, "name": "mem.dirty_bytes", "value": 3, "dev": 0})
    table = load_tables(open_run(Spec(counter=counter).write(tmp_path / "r"))).counter
    assert table is not None
    assert table.series("disk.read_bytes", SDB)[1].tolist() == [1000, 1700]
    assert table.series("mem.dirty_bytes")[1].tolist() == [3]
    assert table.series("disk.read_bytes")[1].size == 0
