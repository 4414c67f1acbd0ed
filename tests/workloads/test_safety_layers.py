# SPDX-License-Identifier: BSD-2-Clause
"""Safety rules on stacks of devices: what is refused at which layer, on synthetic sysfs trees."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.workloads.fake_sysfs import FakeSysfs, graph_of
from workloads.disks import in_use, queue, safety
from workloads.disks.in_use import Users
from workloads.disks.safety import Target
from workloads.system.device_graph import number_of
from workloads.system.errors import MachineError, OptionError
from workloads.system.mounts import Mount

VG = "LVM-" + "a" * 32
OTHER_VG = "LVM-" + "b" * 32


@pytest.fixture
def sysfs(tmp_path: Path) -> FakeSysfs:
    return FakeSysfs(tmp_path)


def server(sysfs: FakeSysfs) -> FakeSysfs:
    """An md array of partitions of two disks; LUKS on it; two LVM volumes on that; and a spare disk."""
    for name, number in (("sda", 0), ("sdb", 16), ("sdc", 32)):
        sysfs.add(name, f"8:{number}", queue=True)
        sysfs.part(f"{name}1", name, f"8:{number + 1}", 2048)
        sysfs.part(f"{name}2", name, f"8:{number + 2}", 4096)
    sysfs.add("md0", "9:0", ["sda2", "sdb2"], files={"md/level": "raid1\n"})
    sysfs.dm("dm-0", "253:0", "secret", "CRYPT-LUKS2-1-secret", ["md0"])
    sysfs.dm("dm-1", "253:1", "vg-root", VG + "1" * 32, ["dm-0"])
    return sysfs.dm("dm-2", "253:2", "vg-home", VG + "2" * 32, ["dm-0"])


def refused(name: str, users: Users) -> str:
    """Return why a device may not be erased."""
    with pytest.raises(MachineError) as raised:
        safety.check_unused(name, f"/dev/{name}", users)
    return raised.value.message


def test_every_layer_below_a_mounted_volume_is_refused(sysfs: FakeSysfs) -> None:
    users = Users(graph_of(server(sysfs)), mounted={"253:1": "/"})
    on_root = "on which dm-1 (/dev/vg/root) is mounted on /: choose another disk"
    assert refused("dm-1", users) == "/dev/dm-1 is mounted on /: unmount it, or choose another disk"
    assert refused("dm-0", users).startswith(
        "/dev/dm-0 is held by dm-1 (/dev/vg/root), which is mounted on /"
    )
    assert refused("md0", users) == f"/dev/md0 is held by dm-0 (/dev/mapper/secret), {on_root}"
    assert refused("sda2", users) == f"/dev/sda2 is held by md0, {on_root}"
    assert refused("sdb", users) == f"/dev/sdb, whose partition /dev/sdb2 is held by md0, {on_root}"
    for free in ("dm-2", "sdc", "sdc1", "sda1"):
        safety.check_unused(free, f"/dev/{free}", users)


@pytest.mark.parametrize(
    ("used", "says"),
    [
        ({"mounted": {"8:2": "/mnt"}}, "made of /dev/sda2, which is mounted on /mnt"),
        ({"mounted": {"8:0": "/mnt"}}, "made of /dev/sda, which is mounted on /mnt"),
        ({"swap": {"8:18": "/dev/sdb2"}}, "made of /dev/sdb2, which is in use as swap: swapoff /dev/sdb2"),
        ({"btrfs": {"sdb": "1234"}}, "made of /dev/sdb, which is part of the mounted btrfs 1234"),
        (
            {"writers": {"253:0": "qemu (pid 7)"}},
            "made of /dev/mapper/secret, which is open for writing in qemu",
        ),
    ],
)
def test_volume_on_a_layer_in_use_is_refused(
    sysfs: FakeSysfs, used: dict[str, dict[str, str]], says: str
) -> None:
    assert says in refused("dm-1", Users(graph_of(server(sysfs)), **used))  # type: ignore[arg-type]


def test_mounted_sibling_of_the_same_group_is_no_user(sysfs: FakeSysfs) -> None:
    users = Users(graph_of(server(sysfs)), mounted={"253:2": "/home"})
    safety.check_unused("dm-1", "/dev/vg/root", users)


def test_volume_that_may_overlap_is_refused(sysfs: FakeSysfs) -> None:
    """Two volumes that dmsetup made on one disk: nobody knows which parts they have."""
    server(sysfs).dm("dm-3", "253:3", "one", "", ["sdc1"]).dm("dm-4", "253:4", "two", "", ["sdc1"])
    said = refused("dm-3", Users(graph_of(sysfs), mounted={"253:4": "/mnt"}))
    assert "made of /dev/sdc1, which is held by dm-4 (/dev/mapper/two), too, which is mounted on /mnt" in said
    sysfs.dm("dm-5", "253:5", "vg2-a", OTHER_VG + "1" * 32, ["sdc2"])
    sysfs.dm("dm-6", "253:6", "vg3-a", VG + "9" * 32, ["sdc2"])
    assert "too" in refused("dm-5", Users(graph_of(sysfs)))


def test_thin_volumes_of_one_pool_are_apart(sysfs: FakeSysfs) -> None:
    server(sysfs).dm("dm-3", "253:3", "pool", "", ["sdc1", "sdc2"])
    sysfs.dm("dm-4", "253:4", "one", "", ["dm-3"]).dm("dm-5", "253:5", "two", "", ["dm-3"])
    kinds = {"253:3": "thin-pool", "253:4": "thin", "253:5": "thin"}
    users = Users(graph_of(sysfs, kinds), mounted={"253:5": "/two"})
    safety.check_unused("dm-4", "/dev/mapper/one", users)
    assert "is held by dm-4" in refused("dm-3", users)


def test_volume_on_a_disk_with_partitions_in_use_is_refused(sysfs: FakeSysfs) -> None:
    """A volume of the whole disk has its partitions' sectors, too."""
    server(sysfs).dm("dm-3", "253:3", "whole", "", ["sdc"])
    safety.check_unused("dm-3", "/dev/mapper/whole", Users(graph_of(sysfs)))
    said = refused("dm-3", Users(graph_of(sysfs), mounted={"8:33": "/boot"}))
    assert "made of /dev/sdc, which has the partition /dev/sdc1, which is mounted on /boot" in said


def test_partition_of_a_disk_that_a_volume_has_is_refused(sysfs: FakeSysfs) -> None:
    server(sysfs).dm("dm-3", "253:3", "whole", "", ["sdc"])
    said = refused("sdc1", Users(graph_of(sysfs)))
    assert said.startswith(
        "/dev/sdc1, a partition of /dev/sdc, which is held by dm-3 (/dev/mapper/whole), too"
    )


def test_path_of_nvme_multipath_has_no_number(sysfs: FakeSysfs) -> None:
    """Hidden paths are no block devices of their own: a mount without a device is not theirs."""
    sysfs.add("nvme0c0n1", "", queue=True).add("nvme0n1", "259:0")
    users = Users(graph_of(sysfs), mounted=in_use.mounted_by_number([(None, mount("0:40", "/", "overlay"))]))
    assert users.graph.below("nvme0n1") == ["nvme0c0n1"]
    safety.check_unused("nvme0n1", "/dev/nvme0n1", users)
    assert "mounted on /data" in refused("nvme0n1", Users(users.graph, mounted={"259:0": "/data"}))


def mount(dev: str, target: str, source: str) -> Mount:
    return Mount(dev, target, "ext4", source, "rw", "rw")


def test_first_view_of_a_mount_is_named(tmp_path: Path) -> None:
    node = next(path for path in Path("/dev").iterdir() if number_of(path))
    where = in_use.mounted_by_number(
        [
            (None, mount("8:1", "/", "/dev/root")),
            (9, mount("8:1", "/host", "x")),
            (9, mount("0:55", "/b", str(node))),
        ]
    )
    assert where["8:1"] == "/" and where[number_of(node)] == "/b (seen by pid 9)"
    assert "" not in where


def target(name: str) -> Target:
    return Target(f"/dev/{name}", f"/dev/{name}", name, (0, 0), 1, "")


def test_disks_that_lie_on_each_other_are_refused(sysfs: FakeSysfs) -> None:
    graph = graph_of(server(sysfs))
    for names in (("dm-1", "dm-0"), ("sda", "dm-1"), ("dm-2", "sdb2"), ("md0", "dm-2")):
        with pytest.raises(OptionError, match="not apart from"):
            safety.check_apart(list(map(target, names)), graph)
    with pytest.raises(OptionError, match="the same disk as"):
        safety.check_apart([target("sdc"), target("sdc")], graph)


def test_disks_that_share_a_leaf_are_said(sysfs: FakeSysfs) -> None:
    graph = graph_of(server(sysfs))
    assert safety.check_apart([target("dm-1"), target("sdc")], graph) == []
    assert safety.check_apart([target("dm-1"), target("dm-2"), target("sda1")], graph) == [
        "/dev/dm-1 and /dev/dm-2 and /dev/sda1 share the disk sda: they slow each other down",
        "/dev/dm-1 and /dev/dm-2 share the disk sdb: they slow each other down",
    ]


def test_scheduler_of_a_disk_that_others_use_is_kept(sysfs: FakeSysfs) -> None:
    users = Users(graph_of(server(sysfs)), mounted={"253:2": "/home"})
    with pytest.raises(
        OptionError, match=r"scheduler of sda, which others use too \(dm-2 is mounted on /home"
    ):
        queue.scheduled("dm-1", ["dm-1"], users)
    assert queue.scheduled("sdc1", ["sdc1"], users) == ["sdc"]
    with pytest.raises(OptionError, match="scheduler of sdc, which others use too"):
        queue.scheduled("sdc1", ["sdc1"], Users(users.graph, mounted={"8:34": "/mnt"}))
    free = Users(users.graph)
    assert queue.scheduled("dm-1", ["dm-1"], free) == ["sda", "sdb"]
    assert queue.scheduled("dm-2", ["dm-1", "dm-2"], free) == ["sda", "sdb"]


def test_volume_without_a_disk_has_no_scheduler(sysfs: FakeSysfs) -> None:
    users = Users(graph_of(sysfs.add("zram0", "252:0")))
    with pytest.raises(OptionError, match="SCHED does not fit zram0: no disk with requests is below it"):
        queue.scheduled("zram0", ["zram0"], users)
