# SPDX-License-Identifier: BSD-2-Clause
"""The tree of devices in make plan and make doctor, before anything starts: what is recorded of each."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from collectors import doctor
from collectors.host import layers, planned_stack
from collectors.host.layers import Root
from tests.collectors.loop_disk import add_partition
from tests.marks import needs_root
from tests.workloads.conftest import LoopDevice, plan, run
from tests.workloads.fake_sysfs import FakeSysfs
from workloads.cli.options import Options
from workloads.system import device_graph
from workloads.system.errors import OptionError


def server(tmp_path: Path) -> device_graph.Graph:
    """LVM on LUKS on md of two partitions; another volume beside; a journal's disk."""
    sysfs = FakeSysfs(tmp_path)
    for name, number in (("sda", 0), ("sdb", 16), ("sdc", 32)):
        sysfs.add(name, f"8:{number}", queue=True).part(f"{name}2", name, f"8:{number + 2}", 2048)
    sysfs.add("md0", "9:0", ["sda2", "sdb2"], files={"md/level": "raid1\n", "md/raid_disks": "2\n"})
    sysfs.dm("dm-0", "253:0", "secret", "CRYPT-LUKS2-1-secret", ["md0"])
    for number, name in ((1, "root"), (2, "home")):
        sysfs.dm(f"dm-{number}", f"253:{number}", f"vg-{name}", "LVM-" + "a" * 32 + name, ["dm-0"])
    return device_graph.read(sysfs.root)


def test_every_layer_has_what_is_recorded(tmp_path: Path) -> None:
    graph = server(tmp_path)
    chosen = layers.choose(graph, [Root("dm-1", "data"), Root("sdc", "journal", "sdc2")])
    assert planned_stack.lines(graph, chosen, ["its log, on a device that is gone"], 80) == [
        "/dev/vg/root (dm-1)  LVM, 1G [bios]",
        "`- /dev/mapper/secret (dm-0)  LUKS2, 1G [bios]",
        "   `- /dev/md0  raid1 of 2, 1G [bios]",
        "      |- sda2  partition, 1G",
        "      |  `- sda  disk, 1G [requests]",
        "      `- sdb2  partition, 1G",
        "         `- sdb  disk, 1G [requests]",
        "sdc2  partition, 1G [journal]",
        "`- sdc  disk, 1G [requests]",
        "/dev/vg/home lies on the same devices [bios]",
        "not recorded: its log, on a device that is gone",
    ]


def test_device_that_is_not_recorded_has_the_reason(tmp_path: Path) -> None:
    graph = server(tmp_path)
    lines = planned_stack.lines(graph, layers.choose(graph, [Root("dm-1", "data")], most=3), (), 68)
    assert "[not recorded: the recorder takes 3 devices]" in lines[1]
    assert all(len(line) <= 68 for line in lines)


def test_directory_on_no_device_says_so(tmp_path: Path) -> None:
    graph = device_graph.read(tmp_path)
    assert planned_stack.lines(graph, layers.choose(graph, []), (), 80) == [
        "no block device: only calls and locks are recorded"
    ]


@needs_root
def test_plan_and_doctor_draw_a_loop_on_a_partition(tmp_path: Path) -> None:
    with LoopDevice(tmp_path / "disk.img", "64M", "--partscan") as disk:
        add_partition(disk.path, 1, 2048, 100000)
        upper = run("losetup", "--find", "--show", f"{disk.path}p1").strip()
        try:
            decided = plan(trial=False, FS="ext4", CMD="true", DISK=upper, ERASE=upper)
            lines = planned_stack.of_plan(decided, 68)
            title, drawn = doctor.stack_lines(Options("doctor", dev=Path(upper).name))
        finally:
            run("losetup", "-d", upper)
    name = Path(upper).name
    assert title == f"devices of {name}"
    for text in (lines, drawn):
        assert re.match(rf"{name}  loop on .*\[requests\]$", text[0])
        assert re.match(rf"`- {disk.name}p1  partition", text[1])
        assert re.match(rf"   `- {disk.name}  loop on .*\[not recorded: below a loop device\]$", text[2])


@needs_root
def test_plan_of_one_bare_disk_draws_nothing(tmp_path: Path) -> None:
    with LoopDevice(tmp_path / "disk.img", "64M") as disk:
        decided = plan(trial=False, FS="ext4", CMD="true", DISK=disk.path, ERASE=disk.path)
        assert planned_stack.of_plan(decided, 68) == []
    assert planned_stack.of_plan(plan(trial=False, FS="ext4", CMD="true", SIZE="64M"), 68) == []


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"DIR": "/", "VM": "1"}, "DIR contradicts VM"),
        ({"DIR": "/", "DEV": "x"}, "DIR contradicts DEV"),
        ({"DIR": "/no/such"}, "DIR=/no/such is not a directory"),
    ],
)
def test_doctor_refuses_words_that_contradict(given: dict[str, str], says: str) -> None:
    options = Options("doctor", dir=given.get("DIR"), dev=given.get("DEV"), vm="VM" in given, given=given)
    with pytest.raises(OptionError, match=says):
        doctor._check_words(options)
