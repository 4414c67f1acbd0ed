# SPDX-License-Identifier: BSD-2-Clause
"""Which devices a session records, chosen on synthetic sysfs trees."""

from __future__ import annotations

from pathlib import Path

import pytest

from collectors.host import layers, stack_changes
from collectors.host.layers import Root
from collectors.recorder.process import _layer_options
from tests.workloads.fake_sysfs import GIB, FakeSysfs, graph_of


@pytest.fixture
def sysfs(tmp_path: Path) -> FakeSysfs:
    return FakeSysfs(tmp_path)


def two_disks(sysfs: FakeSysfs) -> FakeSysfs:
    """Two disks; sda has a partition for a file system and one for LVM."""
    sysfs.add("sda", "8:0", queue=True).add("sdb", "8:16", queue=True)
    return sysfs.part("sda1", "sda", "8:1", 2048).part("sda2", "sda", "8:2", GIB)


def test_bare_disk_has_no_volume_and_no_component(sysfs: FakeSysfs) -> None:
    two_disks(sysfs).dm("dm-0", "253:0", "vg-root", "LVM-a", ["sda2"])
    graph = graph_of(sysfs)
    chosen = layers.choose(graph, [Root("sda", "data", "sda1")])
    assert (chosen.names, chosen.disks, chosen.volumes, chosen.components) == (("sda",), ("sda",), (), ())
    assert chosen.is_bare and _layer_options(chosen) == []
    assert [part.name for part in layers.parts(graph, chosen)] == ["sda1"]


def test_every_layer_is_recorded_and_neighbours_too(sysfs: FakeSysfs) -> None:
    two_disks(sysfs).dm("dm-0", "253:0", "vg-root", "LVM-a", ["sda2", "sdb"])
    sysfs.dm("dm-1", "253:1", "luks", "CRYPT-LUKS2-x", ["dm-0"]).dm(
        "dm-2", "253:2", "vg-b", "LVM-b", ["sda2"]
    )
    sysfs.dm("dm-3", "253:3", "luks2", "CRYPT-LUKS2-y", ["dm-2"])
    graph = graph_of(sysfs)
    chosen = layers.choose(graph, [Root("dm-1", "data")])
    assert chosen.names == ("dm-1", "dm-0", "sdb", "sda", "dm-2", "dm-3")
    assert chosen.disks == ("sdb", "sda") and chosen.volumes == ("dm-1", "dm-0", "dm-2", "dm-3")
    assert chosen.neighbours == {"dm-2", "dm-3"}
    assert chosen.components == ("253:0", "8:2", "8:16", "253:2")
    assert not chosen.is_bare and not chosen.why_not
    assert [part.name for part in layers.parts(graph, chosen)] == ["sda2"]
    options = _layer_options(chosen)
    assert options[:4] == ["--volume", "dm-1", "--volume", "dm-0"]
    assert options[-2:] == ["--component", "253:2"]


def test_hidden_paths_get_numbers_of_their_own(sysfs: FakeSysfs) -> None:
    sysfs.add("nvme0n1", "259:2").add("nvme0c0n1", queue=True).add("nvme0c1n1", queue=True)
    chosen = layers.choose(graph_of(sysfs), [Root("nvme0n1", "data")])
    assert (chosen.disks, chosen.volumes) == ((), ("nvme0n1",))
    assert chosen.numbers == {"nvme0n1": "259:2", "nvme0c0n1": "4095:0", "nvme0c1n1": "4095:1"}
    assert _layer_options(chosen) == [
        *("--hidden", "4095:0=nvme0c0n1", "--hidden", "4095:1=nvme0c1n1", "--volume", "nvme0n1")
    ]


def test_watched_leaf_brings_the_volumes_above(sysfs: FakeSysfs) -> None:
    two_disks(sysfs).add("md0", "9:0", ["sda2", "sdb"]).dm("dm-0", "253:0", "vg-a", "LVM-a", ["md0"])
    graph = graph_of(sysfs)
    for watched in ("sda", "sda2"):
        roots = layers.above_watched(graph, watched)
        assert [root.name for root in roots] == ["sda", "dm-0"]
        chosen = layers.choose(graph, roots)
        assert set(chosen.disks) == {"sda", "sdb"} and set(chosen.volumes) == {"dm-0", "md0"}
    assert [root.name for root in layers.above_watched(graph, "dm-0")] == ["dm-0"]


def test_device_below_a_loop_is_named_not_recorded(sysfs: FakeSysfs) -> None:
    two_disks(sysfs).add("loop0", "7:0", ["sdb"], queue=True, files={"loop/backing_file": "/dev/sdb\n"})
    graph = graph_of(sysfs)
    chosen = layers.choose(graph, [Root("loop0", "data")])
    assert chosen.disks == ("loop0",) and chosen.why_not == {"sdb": "below a loop device"}
    assert _layer_options(chosen) == ["--counted", "sdb"]
    assert [root.name for root in layers.above_watched(graph, "sdb")] == ["sdb"]


def test_disks_come_first_where_room_is_short(sysfs: FakeSysfs) -> None:
    for number in range(5):
        sysfs.add(f"sd{number}", f"8:{number}", queue=True)
        sysfs.dm(f"dm-{number}", f"253:{number}", f"luks{number}", "CRYPT-PLAIN-x", [f"sd{number}"])
    sysfs.add("md0", "9:0", [f"dm-{number}" for number in range(5)])
    chosen = layers.choose(graph_of(sysfs), [Root("md0", "data")], most=8)
    assert chosen.volumes == ("md0", "dm-0", "dm-1") and len(chosen.disks) == 5
    assert list(chosen.why_not) == ["dm-2", "dm-3", "dm-4"] == list(chosen.counted)


def test_store_of_a_snapshot_belongs_to_its_origin(sysfs: FakeSysfs) -> None:
    two_disks(sysfs).dm("dm-0", "253:0", "vg-a-real", "LVM-a-real", ["sda2"])
    sysfs.dm("dm-1", "253:1", "vg-s-cow", "LVM-s-cow", ["sdb"]).dm("dm-2", "253:2", "vg-a", "LVM-a", ["dm-0"])
    sysfs.dm("dm-3", "253:3", "vg-s", "LVM-s", ["dm-0", "dm-1"])
    graph = graph_of(sysfs, {"253:2": "snapshot-origin", "253:3": "snapshot"})
    chosen = layers.choose(graph, [Root("dm-2", "data")])
    assert set(chosen.disks) == {"sda", "sdb"}
    assert chosen.volumes == ("dm-2", "dm-0", "dm-1", "dm-3") and chosen.neighbours == {"dm-3"}


def test_changes_of_an_array_and_of_sizes_are_told(sysfs: FakeSysfs, tmp_path: Path) -> None:
    files = {"md/degraded": "0", "md/sync_action": "idle", "md/dev-sda/state": "in_sync"}
    two_disks(sysfs).add("md0", "9:0", ["sda", "sdb"], files=files | {"md/dev-sdb/state": "in_sync"})
    sysfs.dm("dm-0", "253:0", "vg-a", "LVM-a", ["md0"]).add("sdc", "8:32", queue=True)
    before = graph_of(sysfs)
    names = ["dm-0", "md0", "sda", "sdb", "sdc"]
    assert stack_changes.changes(before, graph_of(sysfs), names) == []
    (sysfs.devices / "md0/md/degraded").write_text("1")
    (sysfs.devices / "md0/md/sync_action").write_text("recover")
    (sysfs.devices / "md0/md/dev-sdb/state").write_text("faulty,write_error")
    (sysfs.devices / "md0/slaves/sda").unlink()
    (sysfs.devices / "sda/holders/md0").unlink()
    (sysfs.devices / "dm-0/size").write_text(f"{2 * GIB}")
    (sysfs.names / "sdc").unlink()
    after = graph_of(sysfs)
    assert stack_changes.changes(before, after, names) == [
        "dm-0: grew from 1G to 2G",
        "md0: lost sda during the run",
        "md0: sdb failed during the run",
        "md0: missing members: 0 before, 1 after",
        "md0: sync_action was idle at the start and is recover at the end",
        "sdc: gone during the run",
    ]
    assert stack_changes.states(after, names)["md0"]["degraded"] == 1


@pytest.mark.parametrize(
    ("target", "before", "after", "text"),
    [
        (
            "raid",
            "raid1 2 AA 8/8 idle 0",
            "raid1 2 AD 8/8 idle 0",
            "dm-0: its member 1 failed during the run",
        ),
        ("raid", "raid1 2 AA 8/8 idle 0", "raid1 2 Aa 4/8 resync 0", None),
        ("multipath", "8:0 A 0 8:16 A 0", "8:0 A 0 8:16 F 1", "dm-0: its path 8:16 failed during the run"),
        ("linear", "8:0 A 0", "8:0 F 1", None),
    ],
)
def test_failed_member_shows_in_dm_status(
    sysfs: FakeSysfs, target: str, before: str, after: str, text: str | None
) -> None:
    sysfs.dm("dm-0", "253:0", "a", "")
    graphs = [graph_of(sysfs, {"253:0": target}, status) for status in (before, after)]
    assert stack_changes.changes(graphs[0], graphs[1], ["dm-0"]) == ([text] if text else [])
