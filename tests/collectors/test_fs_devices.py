# SPDX-License-Identifier: BSD-2-Clause
"""All block devices of a file system: external journals, logs, pools, several members."""

from __future__ import annotations

import os
import struct
import subprocess
import uuid
from pathlib import Path

import pytest

from collectors.host import blockdev, device_counters, fs_devices, mounted_from
from collectors.host.fs_devices import FsDevice
from collectors.trace import mounted_layout
from tests.collectors.loop_disk import MIB, loop_disk, mounted
from tests.marks import needs_root
from tests.workloads.fake_sysfs import FakeSysfs
from workloads.system import device_graph
from workloads.system.device_graph import Graph
from workloads.system.mounts import Mount

UUID = uuid.UUID("01234567-89ab-cdef-0123-456789abcdef")


def superblock(dev: int, inode: int = 0, features: int = 4, magic: int = 0xEF53) -> bytes:
    block = bytearray(1024)
    struct.pack_into("<H", block, 0x38, magic)
    struct.pack_into("<I", block, 0x5C, features)
    block[0xD0:0xE0] = UUID.bytes
    struct.pack_into("<II", block, 0xE0, inode, dev)
    return bytes(block)


@pytest.mark.parametrize(
    ("block", "number"),
    [
        (superblock(0x0812), "8:18"),
        (superblock(0x00110302), "259:258"),  # new_encode_dev: minor bits 8-19 lie above the major
        (superblock(0, inode=8), None),
        (superblock(0x0812, features=0), None),
        (superblock(0x0812, magic=0), None),
    ],
)
def test_external_journal_is_read_from_the_superblock(block: bytes, number: str | None) -> None:
    expected = (number, UUID.bytes) if number is not None else None
    assert fs_devices.external_journal_of_ext(block) == expected


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    """Disks whose names no machine has, so that they have no nodes below /dev."""
    sysfs = FakeSysfs(tmp_path / "tree")
    for number, name in enumerate(("fake-a", "fake-b", "fake-c", "fake!d")):
        sysfs.add(name, f"8:{number}", queue=True)
    return device_graph.read(sysfs.root)


def test_pool_lists_its_vdevs_by_role(graph: Graph) -> None:
    text = (
        "tank\t10G\t1G\t9G\t-\t-\t0%\t10%\t1.00x\tONLINE\t-\n"
        "\tmirror-0\t10G\t1G\t9G\n\t/dev/fake-a\t10G\n\t/dev/fake-b\t10G\n"
        "logs\t-\t-\n\t/dev/fake-c\t1G\nspares\t-\n\t/dev/fake/d\t1G\ncache\t-\n\t/var/file\t1G\n"
    )
    found = fs_devices.pool_devices(text, graph)
    roles = [(device.name, device.role) for device in found.devices]
    assert roles == [("fake-a", "member"), ("fake-b", "member"), ("fake-c", "log")]
    assert found.missing == ("its pool's /var/file, which is no block device here",)


def test_xfs_log_and_bcachefs_members_come_from_the_mount(graph: Graph) -> None:
    options = "rw,logdev=/dev/fake-b,rtdev=/dev/nowhere\\040x,noquota"
    xfs = Mount("8:0", "/x", "xfs", "/dev/fake-a", "rw", options)
    found = fs_devices.find(xfs, graph, "fake-a")
    assert found.devices == (FsDevice("fake-a", "data"), FsDevice("fake-b", "log"))
    assert found.missing == ("the disk of its realtime data, /dev/nowhere\\040x, which is not visible here",)
    bcachefs = Mount("0:40", "/b", "bcachefs", "/dev/fake-a:/dev/fake/d:/dev/none", "rw", "rw")
    found = fs_devices.find(bcachefs, graph, None)
    assert found.devices == (FsDevice("fake-a", "member"), FsDevice("fake!d", "member"))
    assert len(found.missing) == 1


def test_pool_without_program_is_told(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr("workloads.system.command.find_program", lambda program: None)
    found = fs_devices.find(Mount("0:50", "/z", "zfs", "tank/home", "rw", "rw"), graph, None)
    assert found.devices == () and "zpool is missing" in found.missing[0]


def test_source_of_a_mount_is_no_proof(graph: Graph) -> None:
    disk = next(iter(os.listdir("/sys/block")))
    assert blockdev.device_of(Mount("0:99", "/t", "tmpfs", f"/dev/{disk}", "rw", "rw")) is None


def test_counters_are_those_of_diskstats(tmp_path: Path) -> None:
    lines = [line.split() for line in Path("/proc/diskstats").read_text().splitlines()]
    before = {fields[2]: fields[3:] for fields in lines}
    found = device_counters.read([*before, "no-such-disk"])
    assert "no-such-disk" not in found and set(found) <= set(before)
    (tmp_path / "old").mkdir()
    (tmp_path / "old/stat").write_text("1 0 16 0 2 0 32 0 0 0 0\n")
    assert device_counters.read(["old"], tmp_path)["old"] == {
        "read_bytes": 8192,
        "write_bytes": 16384,
        "discard_bytes": 0,
        "read_requests": 1,
        "write_requests": 2,
    }


@needs_root
def test_journal_on_another_disk_is_found_and_placed(tmp_path: Path) -> None:
    with (
        loop_disk(tmp_path / "main", 64 * MIB) as main,
        loop_disk(tmp_path / "journal", 16 * MIB) as journal,
        loop_disk(tmp_path / "third", 64 * MIB) as third,
    ):
        subprocess.run(["mke2fs", "-q", "-F", "-b", "4096", "-O", "journal_dev", journal.path], check=True)
        subprocess.run(
            ["mkfs.ext4", "-q", "-F", "-b", "4096", f"-Jdevice={journal.path}", main.path], check=True
        )
        subprocess.run(["mkfs.ext4", "-q", "-F", third.path], check=True)
        with mounted(main.path, tmp_path / "mnt") as folder, mounted(third.path, tmp_path / "other") as other:
            (folder / "below").mkdir()
            subprocess.run(["mount", "--bind", folder / "below", folder / "below"], check=True)
            try:
                backing = blockdev.under(folder / "below")
            finally:
                subprocess.run(["umount", folder / "below"], check=True)
            geometry, warnings = mounted_layout.of_directory(backing)
            on_journal = [one.device for one in mounted_from.find(journal.name)]
            alone = blockdev.under(other)
    roles = [(device.name, device.role) for device in backing.found.devices]
    assert roles == [(main.name, "data"), (journal.name, "journal")] and backing.found.missing == ()
    assert geometry["journal"] == [] and warnings == []
    assert {span["rest"] for span in geometry["spans"]} == {"files and directories", "journal"}
    number = next(span["dev"] for span in geometry["spans"] if span["rest"] == "journal")
    assert geometry["journal_dev"] == number and "journal_dev_sectors" not in geometry
    assert on_journal == [main.name]
    assert [device.role for device in alone.found.devices] == ["data"]
