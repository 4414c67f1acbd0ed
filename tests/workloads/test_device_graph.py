# SPDX-License-Identifier: BSD-2-Clause
"""The graph of block devices, on synthetic sysfs trees and on this machine."""

from __future__ import annotations

import os
import shutil
import struct
from pathlib import Path

import pytest

from tests.marks import needs_root
from tests.workloads.fake_sysfs import GIB, FakeSysfs, graph_of
from workloads.system import device_graph, dm_tables, loopdev
from workloads.system.device_graph import is_leaf, is_volume


@pytest.fixture
def sysfs(tmp_path: Path) -> FakeSysfs:
    return FakeSysfs(tmp_path)


def luks_on_lvm(sysfs: FakeSysfs) -> FakeSysfs:
    """LUKS on an LVM volume on a partition."""
    sysfs.add("sda", "8:0", queue=True, sectors=40 * GIB).part("sda2", "sda", "8:2", 4096, 20 * GIB)
    sysfs.dm("dm-0", "253:0", "vg--0-my--data", "LVM-abc", ["sda2"])
    return sysfs.dm("dm-1", "253:1", "secret", "CRYPT-LUKS2-1234-secret", ["dm-0"])


def test_lvm_on_partition_reaches_the_disk(sysfs: FakeSysfs) -> None:
    graph = graph_of(luks_on_lvm(sysfs))
    assert graph.below("dm-1") == ["dm-0", "sda2", "sda"]
    assert graph.above("sda") == ["sda2", "dm-0", "dm-1"]
    assert graph.leaves("dm-1") == ["sda"]
    node = graph.by_number("8:2")
    assert node is not None
    assert (node.name, node.kind, node.disk) == ("sda2", "partition", "sda")
    assert (node.first_sector, node.sectors) == (4096, 20 * GIB)
    assert [graph.nodes[name].kind for name in ("dm-1", "dm-0", "sda")] == ["crypt", "lvm", "disk"]
    assert is_volume(graph.nodes["dm-0"]) and not is_leaf(graph.nodes["dm-0"])
    assert is_leaf(graph.nodes["sda"]) and not is_volume(graph.nodes["sda2"])


def test_doubled_hyphens_of_lvm_are_undone(sysfs: FakeSysfs) -> None:
    sysfs.dm("dm-0", "253:0", "vg--0-my--data", "LVM-abc")
    sysfs.dm("dm-1", "253:1", "vg---lv", "LVM-abd")
    sysfs.dm("dm-2", "253:2", "vg-pool-tpool", "LVM-abe-tpool")
    sysfs.dm("dm-3", "253:3", "a-b", "CRYPT-PLAIN-a-b")
    labels = [node.label for node in graph_of(sysfs).nodes.values()]
    assert labels == ["/dev/vg-0/my-data", "/dev/vg-/lv", "/dev/mapper/vg-pool-tpool", "/dev/mapper/a-b"]


def test_kind_of_volume_is_its_target(sysfs: FakeSysfs) -> None:
    kinds = ["thin", "thin-pool", "cache", "writecache", "snapshot", "multipath", "linear", "raid"]
    for number, target in enumerate(kinds):
        sysfs.dm(f"dm-{number}", f"253:{number}", f"vg-{target}", "LVM-x")
    graph = graph_of(sysfs, {f"253:{number}": target for number, target in enumerate(kinds)})
    found = [node.kind for node in graph.nodes.values()]
    assert found == ["thin", "thin", "cache", "writecache", "snapshot", "multipath", "lvm", "lvm"]


def test_thin_volume_reaches_its_pools_disks(sysfs: FakeSysfs) -> None:
    sysfs.add("sda", "8:0", queue=True).add("sdb", "8:16", queue=True)
    sysfs.dm("dm-0", "253:0", "vg-pool_tmeta", "LVM-a-tmeta", ["sda"])
    sysfs.dm("dm-1", "253:1", "vg-pool_tdata", "LVM-a-tdata", ["sda", "sdb"])
    sysfs.dm("dm-2", "253:2", "vg-pool-tpool", "LVM-a-tpool", ["dm-0", "dm-1"])
    sysfs.dm("dm-3", "253:3", "vg-thin", "LVM-b", ["dm-2"])
    graph = graph_of(sysfs)
    assert graph.below("dm-3") == ["dm-2", "dm-0", "dm-1", "sda", "sdb"]
    assert graph.nodes["dm-2"].kind == "thin"


def raid5(sysfs: FakeSysfs) -> FakeSysfs:
    """A degraded raid5 of three partitions, one of them gone, with a partition of its own."""
    for letter, minor in (("a", 1), ("b", 17)):
        sysfs.add(f"sd{letter}", f"8:{minor - 1}", queue=True)
        sysfs.part(f"sd{letter}1", f"sd{letter}", f"8:{minor}", 2048)
    files = {
        "md/level": "raid5\n",
        "md/degraded": "1\n",
        "md/raid_disks": "3\n",
        "md/chunk_size": "524288\n",
        "md/sync_action": "recover\n",
        "md/dev-sda1/state": "in_sync\n",
        "md/dev-sdb1/state": "in_sync,write_mostly\n",
    }
    sysfs.add("md0", "9:0", ["sda1", "sdb1"], files=files)
    return sysfs.part("md0p1", "md0", "259:0", 2048)


def test_array_of_partitions_tells_its_state(sysfs: FakeSysfs) -> None:
    graph = graph_of(raid5(sysfs))
    assert graph.leaves("md0p1") == ["sda", "sdb"]
    assert graph.nodes["md0p1"].below == ("md0",)
    assert graph.nodes["md0"].facts == {
        "level": "raid5",
        "sync_action": "recover",
        "members": "sda1:in_sync sdb1:in_sync,write_mostly",
        "degraded": 1,
        "raid_disks": 3,
        "chunk_bytes": 524288,
    }
    assert device_graph.describe_kind(graph.nodes["md0"]) == "raid5 of 3, degraded: 1 missing, recover"


def test_dm_multipath_has_requests_and_is_no_leaf(sysfs: FakeSysfs) -> None:
    sysfs.add("sda", "8:0", queue=True).add("sdb", "8:16", queue=True)
    files = {"dm/name": "mpatha\n", "dm/uuid": "mpath-3600\n"}
    sysfs.add("dm-0", "253:0", ["sda", "sdb"], queue=True, files=files)
    sysfs.add("dm-1", "253:1", queue=True, files=files)  # all paths lost
    graph = graph_of(sysfs)
    assert graph.leaves("dm-0") == ["sda", "sdb"]
    assert graph.nodes["dm-0"].kind == "multipath" and graph.nodes["dm-0"].has_queue
    assert is_volume(graph.nodes["dm-1"]) and graph.leaves("dm-1") == []


def test_nvme_head_finds_its_hidden_paths(sysfs: FakeSysfs) -> None:
    sysfs.add("nvme0n1", "259:2").part("nvme0n1p1", "nvme0n1", "259:3", 2048)
    sysfs.add("nvme0c0n1", queue=True, files={"device/state": "live\n", "device/transport": "tcp\n"})
    sysfs.add("nvme0c1n1", queue=True).add("nvme0c0n2", queue=True).add("nvme1c0n1", queue=True)
    sysfs.add("nvme2n1", "259:9", queue=True)  # without multipath
    graph = graph_of(sysfs)
    assert graph.below("nvme0n1p1") == ["nvme0n1", "nvme0c0n1", "nvme0c1n1"]
    head, path = graph.nodes["nvme0n1"], graph.nodes["nvme0c0n1"]
    assert (head.kind, path.kind, path.dev, path.above) == ("nvme-head", "nvme-path", "", ("nvme0n1",))
    assert path.facts == {"state": "live", "transport": "tcp"}
    assert graph.nodes["nvme2n1"].kind == "disk"
    assert graph.by_number("") is None


def test_bcache_has_backing_and_cache(sysfs: FakeSysfs) -> None:
    sysfs.add("sda", "8:0", queue=True, files={"bcache/state": "clean\n"}).add("nvme0n1", "259:0", queue=True)
    sysfs.add("bcache0", "252:0", ["sda", "nvme0n1"], files={"bcache/state": "dirty\n"})
    graph = graph_of(sysfs)
    assert graph.leaves("bcache0") == ["nvme0n1", "sda"]
    assert (graph.nodes["bcache0"].kind, graph.nodes["sda"].kind) == ("bcache", "disk")
    assert graph.nodes["bcache0"].facts["state"] == "dirty"


def test_loop_on_file_is_a_leaf(sysfs: FakeSysfs) -> None:
    sysfs.add("loop0", "7:0", queue=True, files={"loop/backing_file": "/srv/a b\n", "loop/dio": "1\n"})
    sysfs.part("loop0p1", "loop0", "259:0", 2048)
    sysfs.add("zram0", "254:0", files={"backing_dev": "none\n"})
    graph = graph_of(sysfs)
    assert graph.leaves("loop0p1") == ["loop0"]
    assert graph.nodes["loop0"].facts == {"backing_file": "/srv/a b", "direct_io": 1}
    assert graph.leaves("zram0") == [] and is_volume(graph.nodes["zram0"])


@needs_root
def test_loop_on_device_is_followed_for_safety(sysfs: FakeSysfs) -> None:
    sysfs.add("sda", "8:0", queue=True)
    sysfs.add("loop0", "7:0", queue=True, files={"loop/backing_file": "/dev/other-name\n"})
    (sysfs.root / "dev").mkdir()
    os.mknod(sysfs.root / "dev/other-name", 0o600 | 0o060000, os.makedev(8, 0))
    graph = graph_of(sysfs)
    assert graph.below("loop0") == ["sda"] and graph.above("sda") == ["loop0"]
    assert graph.layers("loop0") == ["loop0"] and graph.leaves("loop0") == ["loop0"]


def test_vanishing_devices_are_survived(sysfs: FakeSysfs) -> None:
    raid5(sysfs)
    shutil.rmtree(sysfs.devices / "sdb")  # its links dangle
    (sysfs.devices / "md0/md/level").unlink()
    graph = graph_of(sysfs)
    assert "sdb" not in graph.nodes and "sdb1" not in graph.nodes
    assert graph.leaves("md0") == ["sda"] and "level" not in graph.nodes["md0"].facts
    assert graph.below("gone") == [] and graph.leaves("gone") == []
    assert device_graph.draw(graph, ["gone"]) == ["gone: gone"]


def test_link_of_one_end_is_enough(sysfs: FakeSysfs) -> None:
    luks_on_lvm(sysfs)
    (sysfs.devices / "dm-1/slaves/dm-0").unlink()
    assert graph_of(sysfs).below("dm-1") == ["dm-0", "sda2", "sda"]


def test_circle_is_walked_once(sysfs: FakeSysfs) -> None:
    sysfs.dm("dm-0", "253:0", "a", "", []).dm("dm-1", "253:1", "b", "", ["dm-0"])
    (sysfs.devices / "dm-0/slaves/dm-1").symlink_to(sysfs.devices / "dm-1")
    graph = graph_of(sysfs)
    assert graph.below("dm-0") == ["dm-1"] and graph.above("dm-0") == ["dm-1"]
    assert device_graph.draw(graph, ["dm-0"])[-1].endswith("(drawn above)")


def test_hostile_texts_are_escaped(sysfs: FakeSysfs) -> None:
    sysfs.dm("dm-0", "253:0", "\x1b[31mred\nline", "LVM-\x9b")
    sysfs.add("loop0", "7:0", queue=True, files={"loop/backing_file": "/a\nb\x1b]0;\n", "size": "no number"})
    sysfs.add("weird", "no:number", files={"slaves/none": ""})
    graph = graph_of(sysfs)
    assert graph.nodes["dm-0"].label == "/dev/mapper/\\x1b[31mred\\nline"
    assert graph.nodes["loop0"].facts["backing_file"] == "/a\\nb\\x1b]0;"
    assert graph.nodes["loop0"].sectors == 0 and graph.nodes["weird"].dev == ""
    assert all(line.isprintable() for line in device_graph.draw(graph, list(graph.nodes)))


def test_tree_is_drawn_in_80_columns(sysfs: FakeSysfs) -> None:
    luks_on_lvm(sysfs)
    sysfs.dm("dm-2", "253:2", "vg--0-" + "long" * 20, "LVM-c", ["sda2"])
    lines = device_graph.draw(graph_of(sysfs), ["dm-1", "dm-2"])
    assert lines[:4] == [
        "/dev/mapper/secret (dm-1)  LUKS2, 1G",
        "`- /dev/vg-0/my-data (dm-0)  LVM, 1G",
        "   `- sda2  partition, 20G",
        "      `- sda  disk, 40G",
    ]
    assert lines[4].endswith("...") and len(lines[4]) == 80
    assert lines[5] == "`- sda2  partition, 20G (drawn above)" and len(lines) == 6


def test_dm_status_is_parsed_and_cut_answers_refused() -> None:
    def target(following: int, kind: bytes, status: bytes) -> bytes:
        return struct.pack("=QQiI16s", 0, 8, 0, following, kind) + status.ljust(24, b"\0")

    header = struct.pack("=3I2IIiIIIQ128s129s7s", 4, 0, 0, 0, 312, 2, 0, 0, 0, 0, 0, b"", b"", b"")
    answer = header + target(64, b"linear", b"") + target(128, b"raid", b"raid1 2 AA 8/8 idle 0")
    table = dm_tables.parse(answer)
    assert table == dm_tables.Table(("linear", "raid"), ("", "raid1 2 AA 8/8 idle 0"))
    assert dm_tables.parse(answer[:-60]) is None and dm_tables.parse(b"") is None


def test_numbers_of_this_machine_agree_with_sysfs() -> None:
    numbers = {dev: Path(f"/sys/dev/block/{dev}").resolve().name for dev in os.listdir("/sys/dev/block")}
    graph = device_graph.read()
    for dev, name in numbers.items():
        node = graph.by_number(dev)
        assert node is None or node.name == name  # a loop device may come and go
    assert graph.nodes


def test_loop_on_file_is_on_no_hidden_path(sysfs: FakeSysfs, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hidden path has no number, and the file below a loop device is no device."""
    sysfs.add("nvme0c0n1", "", queue=True)
    sysfs.add("loop0", "7:0", queue=True, files={"loop/backing_file": "/srv/file\n"})
    monkeypatch.setattr(loopdev, "device_below", lambda name: "")
    places = {name: sysfs.names / name for name in ("nvme0c0n1", "loop0")}
    assert device_graph._all_below(places, Path("/")) == {"nvme0c0n1": [], "loop0": []}
