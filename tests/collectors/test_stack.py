# SPDX-License-Identifier: BSD-2-Clause
"""run.json's "stack" and the session's lines about the devices below, on synthetic trees of sysfs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from collectors.host import device_counters, layers
from collectors.host.layers import Root
from collectors.trace.stack import Stack
from tests.workloads.fake_sysfs import GIB, FakeSysfs
from workloads.system import device_graph

MB = 1_000_000


class FakeRun:
    """The part of a run directory that a stack uses."""

    def __init__(self) -> None:
        self.facts: dict[str, Any] = {}

    def add(self, **facts: Any) -> None:
        self.facts |= facts


class FakeContext:
    """Keeps what a session would print."""

    def __init__(self) -> None:
        self.run = FakeRun()
        self.lines: list[str] = []
        self.said: list[str] = []  # warnings on the terminal alone
        self.warnings: list[str] = []

    def say(self, label: str, detail: str) -> None:
        (self.said if label == "WARNING" else self.lines).append(detail)

    def warn(self, text: str) -> None:
        self.warnings.append(text)


@pytest.fixture
def sysfs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeSysfs]:
    """A synthetic tree that is read instead of this machine's."""
    fake = FakeSysfs(tmp_path)
    read, counters = device_graph.read, device_counters.read
    monkeypatch.setattr(device_graph, "read", lambda: read(fake.root))
    monkeypatch.setattr(device_counters, "read", lambda names: counters(names, fake.names))
    yield fake


def count(sysfs: FakeSysfs, name: str, written_bytes: int) -> None:
    sectors = written_bytes // 512
    (sysfs.devices / name / "stat").write_text(f"0 0 0 0 {min(sectors, 1)} 0 {sectors} 0 0 0 0 0 0 0 0 0 0\n")


def stack_of(context: FakeContext, *roots: Root, missing: tuple[str, ...] = ()) -> Stack:
    return Stack(context, device_graph.read(), roots, missing)  # type: ignore[arg-type]


def test_bare_disk_prints_nothing(sysfs: FakeSysfs) -> None:
    sysfs.add("sda", "8:0", queue=True).part("sda1", "sda", "8:1", 2048)
    context = FakeContext()
    stack_of(context, Root("sda", "data", "sda1"))
    assert context.lines == context.warnings == []
    facts = context.run.facts["stack"]
    assert facts["roots"] == [{"name": "sda", "dev": "8:0", "role": "data", "part": "sda1"}]
    assert [node["recorded"] for node in facts["nodes"]] == ["requests"]
    assert facts["parts"] == [
        {"name": "sda1", "dev": "8:1", "disk": "sda", "first_sector": 2048, "sectors": GIB}
    ]


def test_stack_has_counters_states_and_changes(sysfs: FakeSysfs) -> None:
    sysfs.add("sda", "8:0", queue=True).add("sdb", "8:16", queue=True)
    files = {"md/level": "raid1", "md/degraded": "0", "md/raid_disks": "2"}
    sysfs.add("md0", "9:0", ["sda", "sdb"], files=files).dm("dm-0", "253:0", "vg-a", "LVM-a", ["md0"])
    for name in ("sda", "sdb", "md0", "dm-0"):
        count(sysfs, name, 0)
    context = FakeContext()
    stack = stack_of(context, Root("dm-0", "data"), missing=("its log",))
    assert context.lines[0] == "/dev/vg/a (dm-0)  LVM, 1G [bios]" and len(context.lines) == 4
    stack.note_start()
    for name, size_bytes in (("sda", 4 * MB), ("sdb", 1 * MB), ("dm-0", 4 * MB)):
        count(sysfs, name, size_bytes // 512 * 512)
    (sysfs.devices / "md0/md/degraded").write_text("1")
    stack.note_end()
    facts = context.run.facts["stack"]
    assert facts["states"] == {"md0": {"at_start": {"degraded": 0}, "at_end": {"degraded": 1}}}
    assert facts["changes"] == ["md0: missing members: 0 before, 1 after"]
    assert facts["at_end"]["sdb"]["write_bytes"] == 1 * MB // 512 * 512
    assert "md0" not in facts["at_end"] and "md0" not in facts["at_start"]  # its counters stay 0
    by_name = {node["name"]: node for node in facts["nodes"]}
    assert by_name["md0"]["uncounted"] and "uncounted" not in by_name["dm-0"]
    assert [by_name[name]["recorded"] for name in ("dm-0", "md0", "sda")] == ["bios", "bios", "requests"]
    assert context.warnings == [
        "the file system uses a device that is not recorded: its log (its share is unknown)"
    ]
    assert context.said == facts["changes"]


def test_unrecorded_disk_is_told_with_its_share(sysfs: FakeSysfs, monkeypatch: pytest.MonkeyPatch) -> None:
    choose = layers.choose
    monkeypatch.setattr(layers, "choose", lambda graph, roots: choose(graph, roots, most=1))
    for number, name in enumerate(("sda", "sdb")):
        sysfs.add(name, f"8:{number}", queue=True)
        count(sysfs, name, 0)
    context = FakeContext()
    stack = stack_of(context, Root("sda", "member"), Root("sdb", "member"))
    stack.note_start()
    count(sysfs, "sda", 3 * 512)
    count(sysfs, "sdb", 1 * 512)
    stack.note_end()
    assert context.run.facts["stack"]["nodes"][1]["recorded"] == "no"
    assert context.warnings == []
    assert context.said == [
        "sdb is not recorded: the recorder takes 1 devices; its share of the bytes follows at the end",
        "sdb is not recorded: 512 bytes, 25 % of all bytes of the disks below",
    ]


def test_end_without_start_changes_nothing(sysfs: FakeSysfs) -> None:
    sysfs.add("sda", "8:0", queue=True)
    context = FakeContext()
    stack = stack_of(context, Root("sda", "data"))
    (sysfs.names / "sda").unlink()
    stack.note_end()
    assert context.warnings == [] and context.run.facts["stack"]["at_end"] == {}
