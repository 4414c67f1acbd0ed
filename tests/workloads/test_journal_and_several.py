# SPDX-License-Identifier: BSD-2-Clause
"""External journals, and file systems over several disks.

Against the kernel's own counters of each disk, dumpe2fs, xfs_info and btrfs filesystem show.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.marks import needs_root, scans_disks
from tests.workloads.conftest import LoopDevice, filesystem_of, is_attached, open_disk, plan, run
from workloads import filesystems
from workloads.cleanup.janitor import Janitor
from workloads.disks import Disk
from workloads.filesystems import layout
from workloads.plan.format import format_plan
from workloads.plan.plan import Plan
from workloads.system.errors import OptionError, UserError

WORKLOAD = {"WL": "fio-seqwrite", "SCALE": "quick"}
MIB = 1 << 20


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEEKMETER_SCRATCH", str(tmp_path / "scratch"))


@pytest.fixture
def second(tmp_path: Path) -> Iterator[LoopDevice]:
    """Another free loop device."""
    with LoopDevice(tmp_path / "second.img", "320M") as device:
        yield device


def bytes_written(disk: Disk) -> int:
    """Return the bytes written to a disk since it was made (Documentation/block/stat.rst)."""
    return int(Path(f"/sys/block/{Path(disk.path).name}/stat").read_text().split()[6]) * 512


def write_synced(directory: Path, files: int, size_bytes: int) -> None:
    """Make files with fsync: each is a commit in the journal."""
    for number in range(files):
        file = os.open(directory / f"file{number}", os.O_WRONLY | os.O_CREAT)
        os.write(file, os.urandom(size_bytes))
        os.fsync(file)
        os.close(file)


@needs_root
@scans_disks
@pytest.mark.parametrize("kind", ["file", "ram"])
@pytest.mark.parametrize("fs", ["ext3", "ext4", "xfs", "ext3:gus2011", "ext4:gus2011", "xfs:gus2011"])
def test_external_journal_works(fs: str, kind: str, janitor: Janitor, tmp_path: Path) -> None:
    """Plan with a trial, format, mount, write, unmount, check; the commits go to the journal's disk."""
    size = "6G" if fs == "xfs:gus2011" else "512M"
    decided = plan(FS=fs, words=WORKLOAD, SIZE=size, JOURNAL=kind)
    assert decided.unchecked == ()
    assert "journal on a second disk" not in decided.left_out
    with open_disk(decided, janitor) as disk:
        assert disk.journal is not None and disk.more == ()
        assert disk.journal.path != disk.path
        assert disk.journal.facts["kind"] == kind
        assert int(run("blockdev", "--getsize64", disk.journal.path)) == 256 * MIB
        filesystems.format(filesystem_of(decided), disk, janitor)
        target = tmp_path / "m"
        target.mkdir()
        filesystems.mount(filesystem_of(decided), disk, target, janitor)
        before = bytes_written(disk), bytes_written(disk.journal)
        write_synced(target, 64, 4096)
        journal = bytes_written(disk.journal) - before[1]
        # Every commit has a descriptor or header and logged blocks: more than 512 bytes per fsync.
        assert journal >= 64 * 1024
        assert bytes_written(disk) - before[0] >= 64 * 4096
        if fs.startswith("xfs"):
            assert f"log      ={disk.journal.path}" in run("xfs_info", str(target))
        filesystems.unmount(target, janitor)
        if fs.startswith("ext"):
            header = run("dumpe2fs", "-h", disk.path)
            number = os.stat(disk.journal.path).st_rdev
            assert re.search(rf"^Journal device:\s+0x{number:04x}$", header, re.MULTILINE)
            assert "Journal inode" not in header
        assert layout.read_journal(filesystem_of(decided).filesystem.kernel_type, disk.path) == []
        clean, said = filesystems.fsck(filesystem_of(decided), disk)
        assert clean, said
        paths = [one.path for one in disk.all]
    assert not any(is_attached(path, janitor) for path in paths)
    assert janitor.name not in run("losetup", "--list", "--noheadings", "--output", "BACK-FILE")


@needs_root
@scans_disks
@pytest.mark.parametrize(("fs", "profile"), [("btrfs", None), ("btrfs:gus2011", "RAID0")])
def test_btrfs_spans_two_disks(fs: str, profile: str | None, janitor: Janitor, tmp_path: Path) -> None:
    words = {**WORKLOAD, "DISK": "file file"}
    decided = plan(FS=fs, words=words, SIZE="512M")
    assert [disk.size_bytes for disk in decided.disks] == [512 * MIB, 512 * MIB]
    assert not any("raid0" in text for text in decided.left_out)
    with open_disk(decided, janitor) as disk:
        assert len(disk.all) == 2
        filesystems.format(filesystem_of(decided), disk, janitor)
        target = tmp_path / "m"
        target.mkdir()
        filesystems.mount(filesystem_of(decided), disk, target, janitor)
        shown = run("btrfs", "filesystem", "show", str(target))
        assert "Total devices 2" in shown
        assert all(f"path {one.path}" in shown for one in disk.all)
        usage = run("btrfs", "filesystem", "df", str(target))
        assert ("Data, RAID0" in usage) == (profile == "RAID0")
        before = [bytes_written(one) for one in disk.all]
        (target / "big").write_bytes(os.urandom(200 * MIB))
        run("sync", "-f", str(target))
        written = [bytes_written(one) - start for one, start in zip(disk.all, before, strict=True)]
        assert sum(written) >= 200 * MIB
        if profile == "RAID0":
            assert all(count >= 90 * MIB for count in written)
        filesystems.unmount(target, janitor)
        clean, said = filesystems.fsck(filesystem_of(decided), disk)
        assert clean, said


def test_plan_lists_what_a_second_disk_would_add() -> None:
    alone = plan(trial=False, job="plan", FS="xfs:gus2011", SIZE="6G", words=WORKLOAD)
    assert "JOURNAL=file" in alone.left_out["journal on a second disk"]
    one = plan(trial=False, job="plan", FS="btrfs:gus2011", words=WORKLOAD)
    assert "DISK='file file'" in one.left_out["-d raid0 -m raid0 over several disks"]


def test_plan_shows_every_disk_and_command() -> None:
    decided = plan(trial=False, job="plan", FS="ext3", SIZE="1G", words=WORKLOAD, JOURNAL="ram")
    lines = [line.split(maxsplit=1) for line in format_plan(decided)]
    formats = [text for label, text in lines if label == "format"]
    assert formats == [
        "mke2fs -F -q -b 4096 -O journal_dev /dev/loopJ",
        "mkfs.ext3 -F -q -b 4096 -J device=/dev/loopJ /dev/loopN",
    ]
    assert [text for label, text in lines if label == "size"] == ["1G", "256M"]
    assert any(label == "journal" and "tmpfs" in text for label, text in lines)
    two = plan(trial=False, job="plan", FS="btrfs", SIZE="1G", words=WORKLOAD, DISK="file file")
    text = "\n".join(format_plan(two))
    assert "mkfs.btrfs -f -q /dev/loopN /dev/loopO" in text
    assert "-o device=/dev/loopN,device=/dev/loopO,nosuid,nodev /dev/loopN" in text


def attached(plan: Plan) -> list[tuple[str, int]]:
    """Return serial and size of the disks that the host attaches to a virtual machine."""
    return [(disk.serial, disk.size_bytes) for disk in plan.virtual_disks]


def test_virtual_machine_gets_its_file_disks() -> None:
    one = plan(trial=False, job="plan", FS="xfs", SIZE="1G", words=WORKLOAD, JOURNAL="file")
    assert attached(one) == [("disk0", 1024 * MIB), ("journal", 256 * MIB)]
    two = plan(trial=False, job="plan", FS="btrfs", SIZE="1G", words=WORKLOAD, DISK="file file file")
    assert attached(two) == [(f"disk{number}", 1024 * MIB) for number in range(3)]
    ram = plan(trial=False, job="plan", FS="xfs", SIZE="1G", words=WORKLOAD, DISK="ram", JOURNAL="file")
    assert attached(ram) == [("journal", 256 * MIB)]


@needs_root
def test_two_real_devices_are_used(loop: LoopDevice, second: LoopDevice, janitor: Janitor) -> None:
    """A journal takes the whole real device, and the plan says that both devices are erased."""
    both = f"{loop.path} {second.path}"
    decided = plan(FS="ext4", words=WORKLOAD, DISK=loop.path, JOURNAL=second.path, ERASE=both)
    assert [disk.size_bytes for disk in decided.disks] == [64 * MIB, 320 * MIB]
    assert sum("is ERASED" in line for line in format_plan(decided)) == 2
    with open_disk(decided, janitor) as disk:
        filesystems.format(filesystem_of(decided), disk, janitor)
    assert run("blkid", "-p", "-o", "value", "-s", "TYPE", second.path).strip() == "jbd"
    assert Path(second.path).exists() and Path(loop.path).exists()


@needs_root
@pytest.mark.parametrize("used", ["disk", "journal"])
def test_journal_device_in_use_is_refused(
    used: str, loop: LoopDevice, second: LoopDevice, tmp_path: Path, janitor: Janitor
) -> None:
    """Refused in the plan, and if mounted after the plan: the data on both devices must survive."""
    for device in (loop, second):
        run("mkfs.ext2", "-q", "-L", "precious", device.path)
    words = {**WORKLOAD, "FS": "ext4", "DISK": loop.path, "JOURNAL": second.path}
    words["ERASE"] = f"{loop.path} {second.path}"
    decided = plan(trial=False, words=words)
    target = tmp_path / "m"
    target.mkdir()
    with open_disk(decided, janitor) as disk:
        run("mount", (loop if used == "disk" else second).path, str(target))
        try:
            with pytest.raises(UserError, match="is mounted on"):
                filesystems.format(filesystem_of(decided), disk, janitor)
            with pytest.raises(UserError, match="is mounted on"):
                plan(trial=False, words=words)
        finally:
            run("umount", str(target))
    for device in (loop, second):
        assert run("blkid", "-p", "-o", "value", "-s", "LABEL", device.path).strip() == "precious"


@needs_root
def test_one_device_under_two_names_is_refused(loop: LoopDevice, tmp_path: Path) -> None:
    link = tmp_path / "by-id"
    link.symlink_to(loop.path)
    words = {**WORKLOAD, "FS": "ext4", "DISK": loop.path, "JOURNAL": str(link)}
    with pytest.raises(OptionError, match="the same disk as"):
        plan(words={**words, "ERASE": f"{link} {loop.path}"})
    several = {**WORKLOAD, "FS": "btrfs", "DISK": f"{loop.path} {link}", "ERASE": f"{link} {loop.path}"}
    with pytest.raises(OptionError, match="the same disk as"):
        plan(words=several)


@needs_root
def test_wrong_option_with_journal_is_refused_early() -> None:
    with pytest.raises(OptionError, match=r"MKFS: mkfs\.ext4 does not accept"):
        plan(FS="ext4", words=WORKLOAD, SIZE="512M", JOURNAL="file", MKFS="-b 1024")
    with pytest.raises(OptionError, match="mount option nosuch"):
        plan(FS="xfs", words=WORKLOAD, SIZE="512M", JOURNAL="file", MOUNT="noatime,nosuch")


def test_plan_without_root_says_journal_is_untried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    decided = plan(FS="ext4", words=WORKLOAD, SIZE="512M", JOURNAL="file")
    assert any("mkfs options" in text and "needs root" in text for text in decided.unchecked)
