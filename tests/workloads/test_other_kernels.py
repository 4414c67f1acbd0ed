# SPDX-License-Identifier: BSD-2-Clause
"""File systems that this kernel may lack: kernels that have them, mkfs, location of the journal, fsck.

Mounting them is tried in a virtual machine (tests/machines). Against blkid, debugreiserfs, jfs_debugfs.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from collectors.collector import choices
from tests.marks import needs_root
from tests.workloads.conftest import filesystem_of, is_attached, open_disk, run
from workloads import disks, filesystems
from workloads.cleanup.janitor import Janitor
from workloads.cli.parse import parse
from workloads.disks import Devices
from workloads.filesystems import layout
from workloads.machines.kernels import Kernel
from workloads.plan import planner
from workloads.plan.plan import Plan
from workloads.plan.planner import make_plan
from workloads.system.errors import MachineError, OptionError
from workloads.system.owner import Owner

MIB = 1 << 20
# A kernel without known modules: an image alone.
ANY_KERNEL = Kernel("any", Path("/nowhere/bzImage"), None, None)
OTHERS = ["reiserfs", "jfs", "f2fs", "nilfs2", "vfat", "exfat", "ntfs3", "ntfs-3g"]


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEEKMETER_SCRATCH", str(tmp_path / "scratch"))


def plan_elsewhere(trial: bool = False, kernel: Kernel = ANY_KERNEL, **words: str) -> Plan:
    """Return the plan of a run in a virtual machine with this kernel."""
    given = {**({} if "WL" in words else {"CMD": "true"}), "VM": "1", **words}
    env = {f"SEEKMETER_{name}": text for name, text in given.items()}
    return make_plan(parse(env, "trace", choices()), trial, kernel)


@needs_root
@pytest.mark.parametrize("fs", OTHERS)
def test_mkfs_and_fsck_work(fs: str, janitor: Janitor) -> None:
    """At the TOML file's smallest size: a new file system is clean, and fsck changes nothing."""
    filesystem = filesystems.load(fs)
    decided = plan_elsewhere(FS=fs, SIZE=str(filesystem.min_bytes))
    with open_disk(decided, janitor) as disk:
        filesystems.format(filesystem_of(decided), disk, janitor)
        kind = run("blkid", "-p", "-o", "value", "-s", "TYPE", disk.path).strip()
        assert kind == ("ntfs" if fs.startswith("ntfs") else fs)
        before = Path(disk.path).read_bytes()
        clean, said = filesystems.fsck(filesystem_of(decided), disk)
        assert clean is (None if fs == "nilfs2" else True), said
        run("blockdev", "--flushbufs", disk.path)
        after = Path(disk.path).read_bytes()
    changed = {
        start
        for start in range(0, len(before), 4096)
        if before[start : start + 4096] != after[start : start + 4096]
    }
    # reiserfsck writes the date of the check into the superblock, at 64 KiB.
    assert changed <= ({64 << 10} if fs == "reiserfs" else set())


@needs_root
@pytest.mark.parametrize(
    ("fs", "offset", "length"),
    [
        ("reiserfs", (18 + 8193) * 4096, 4096),  # the block after the journal: the root of the tree
        ("jfs", 32 << 10, 64 << 10),  # both superblocks and the inode maps
        ("f2fs", 0x1000 * 4096, 8 << 20),  # the main area: the root directory's inode is in it
        ("vfat", 32 * 512, 4096),  # the first of both tables
        ("exfat", 512, 4096),  # boot sectors, which have a checksum
        ("ntfs3", 4 * 4096, 4096),  # $MFT and its first entries
    ],
)
def test_fsck_finds_damage_and_leaves_it(fs: str, offset: int, length: int, janitor: Janitor) -> None:
    decided = plan_elsewhere(FS=fs, SIZE="600M")
    with open_disk(decided, janitor) as disk:
        filesystems.format(filesystem_of(decided), disk, janitor)
        with open(disk.path, "r+b") as file:
            file.seek(offset)
            file.write(os.urandom(length))
            os.fsync(file.fileno())
        with open(disk.path, "rb") as file:
            file.seek(offset)
            damaged = file.read(length)
        clean, said = filesystems.fsck(filesystem_of(decided), disk)
        assert clean is False, said
        run("blockdev", "--flushbufs", disk.path)
        with open(disk.path, "rb") as file:
            file.seek(offset)
            assert file.read(length) == damaged


@needs_root
@pytest.mark.parametrize("fs", ["reiserfs", "jfs"])
def test_external_journal_works(fs: str, janitor: Janitor) -> None:
    decided = plan_elsewhere(FS=fs, SIZE="128M", JOURNAL="file")
    with open_disk(decided, janitor) as disk:
        assert disk.journal is not None
        filesystems.format(filesystem_of(decided), disk, janitor)
        assert layout.read_journal(fs, disk.path) == []
        clean, said = filesystems.fsck(filesystem_of(decided), disk)
        assert clean, said
        if fs == "reiserfs":
            number = os.stat(disk.journal.path).st_rdev
            assert f"Device [0x{number:x}]" in run("debugreiserfs", disk.path)
        else:
            number = os.stat(disk.journal.path).st_rdev
            assert re.search(rf"^Log device number:\s+0x{number:x}$", run("jfs_tune", "-l", disk.path), re.M)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"FS": "vfat", "WL": "compilebench"}, "WL=compilebench needs names that differ in case only"),
        ({"FS": "exfat", "WL": "compilebench"}, "which exfat cannot have: give another WL, or another FS"),
        ({"FS": "vfat", "WL": "fio-seqwrite", "SCALE": "paper"}, "files of 4 GiB and more, which vfat"),
        ({"FS": "vfat", "WL": "pgmeter:web"}, "WL=pgmeter:web needs files of 4 GiB and more"),
        ({"FS": "vfat", "WL": "createdelete", "SCALE": "quick"}, "more than 20,000 files in a directory"),
    ],
)
def test_workload_is_refused_where_the_file_system_lacks_something(given: dict[str, str], says: str) -> None:
    with pytest.raises(OptionError) as raised:
        plan_elsewhere(False, ANY_KERNEL, **given)
    assert says in raised.value.message
    assert ("a smaller SCALE" in raised.value.message) == ("case" not in raised.value.message)


def test_command_is_warned_of_what_fat_lacks() -> None:
    decided = plan_elsewhere(FS="vfat")
    assert any("no hard and symbolic links" in text for text in decided.warnings)
    assert any("no path" in text for text in decided.warnings)


@pytest.mark.parametrize("fs", ["vfat", "exfat", "ntfs3", "ntfs-3g"])
def test_files_belong_to_the_user_of_the_run(fs: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planner, "owner", lambda: Owner(1234, 5678, "alice", "/home/alice"))
    mount = filesystem_of(plan_elsewhere(FS=fs)).mount_command(Devices("/dev/vda"), "/mnt")
    assert mount == ["mount", "-t", fs, "-o", "uid=1234,gid=5678,nosuid,nodev", "/dev/vda", "/mnt"]


@pytest.mark.parametrize("options", [(), ("-s", "2000"), ("-s", "1000", "-b", "1024")])
def test_reiserfs_journal_matches_debugreiserfs(options: tuple[str, ...], tmp_path: Path) -> None:
    image = tmp_path / "image"
    run("truncate", "-s", "300M", str(image))
    run("mkfs.reiserfs", "-q", "-f", "-f", *options, str(image))
    said = run("debugreiserfs", str(image))
    sectors = int(re.findall(r"Blocksize: (\d+)", said)[0]) // 512
    size, first = map(int, re.findall(r"Size (\d+) blocks \(.*header\) \(first block (\d+)\)", said)[0])
    assert layout.read_journal("reiserfs", str(image)) == [(first * sectors, (first + size) * sectors)]


@pytest.mark.parametrize(("size", "options"), [("64M", ()), ("600M", ("-s", "20"))])
def test_jfs_log_matches_jfs_debugfs(size: str, options: tuple[str, ...], tmp_path: Path) -> None:
    image = tmp_path / "image"
    run("truncate", "-s", size, str(image))
    run("mkfs.jfs", "-q", *options, str(image))
    said = run("jfs_debugfs", str(image), input="superblock\nx\nq\n")
    length = int(re.findall(r"s_logpxd.len:\s+(\d+)", said)[0])
    address = int(re.findall(r"s_logpxd.address:\s+(\d+)", said)[0])
    assert layout.read_journal("jfs", str(image)) == [(address * 8, (address + length) * 8)]


@pytest.mark.parametrize("kind", ["reiserfs", "jfs", "xfs"])
def test_missing_superblock_is_refused(kind: str, tmp_path: Path) -> None:
    image = tmp_path / "image"
    image.write_bytes(bytes(1 << 20))
    with pytest.raises(Exception, match=f"has no {kind} superblock"):
        layout.read_journal(kind, str(image))


@pytest.fixture
def modules(tmp_path: Path) -> Path:
    """The lists of a kernel's modules, as depmod(8) and the kernel's build make them."""
    folder = tmp_path / "modules/6.1.0-test"
    folder.mkdir(parents=True)
    (folder / "modules.alias").write_text(
        "# Aliases\nalias fs-jfs jfs\nalias fs-ext2 ext4\nalias fs-f2fsx f\n"
    )
    (folder / "modules.dep").write_text(
        "kernel/fs/jfs/jfs.ko.xz:\nkernel/fs/ext4/ext4.ko: kernel/fs/jbd2/jbd2.ko\n"
    )
    (folder / "modules.builtin").write_text("kernel/fs/xfs/xfs.ko\n")
    (folder / "modules.builtin.modinfo").write_bytes(
        b"xfs.license=GPL\0xfs.alias=fs-xfs\0ext4.alias=fs-ext3\0"
    )
    return folder


def test_modules_list_file_systems_of_a_kernel(modules: Path) -> None:
    has = {name for name in filesystems.names() if filesystems.modules_have(modules, name)}
    assert has == {"jfs", "ext2", "xfs", "ext3"}
    assert not filesystems.modules_have(modules.parent / "no such kernel", "jfs")


@pytest.mark.parametrize(
    ("list_of", "line"),
    [("modules.dep", "kernel/fs/ext2/ext2.ko.zst:\n"), ("modules.builtin", "kernel/fs/ext2/ext2.ko\n")],
)
def test_ext2_driver_needs_its_module(modules: Path, list_of: str, line: str) -> None:
    """ext4 serving ext2 does not count; the ext2 driver does, as a module or built in."""
    assert not filesystems.modules_have(modules, "ext2-driver")
    with (modules / list_of).open("a") as file:
        file.write(line)
    assert filesystems.modules_have(modules, "ext2-driver")


def test_plan_refuses_a_kernel_without_the_file_system(modules: Path) -> None:
    kernel = Kernel("6.1.0-test", Path("/boot/vmlinuz"), modules, None)
    decided = plan_elsewhere(kernel=kernel, FS="jfs", SIZE="64M")
    assert filesystem_of(decided).filesystem is filesystems.load("jfs")
    with pytest.raises(MachineError, match=r"Linux 6\.1\.0-test has no nilfs2: choose another FS"):
        plan_elsewhere(kernel=kernel, FS="nilfs2")
    with pytest.raises(MachineError, match="served by the driver ext2 alone"):
        plan_elsewhere(kernel=kernel, FS="ext2-driver")


def test_ext2_driver_is_mounted_as_ext2() -> None:
    decided = plan_elsewhere(FS="ext2-driver", SIZE="64M")
    command = filesystem_of(decided).mount_command(disks.Devices("/dev/vda"), "/mnt")
    assert command == ["mount", "-t", "ext2", "-o", "nosuid,nodev", "/dev/vda", "/mnt"]
    assert filesystem_of(decided).mkfs_command(disks.Devices("/dev/vda"))[0] == "mkfs.ext2"


def test_mkfs_options_are_tried_on_the_host(tmp_path: Path) -> None:
    decided = plan_elsewhere(trial=True, FS="jfs", SIZE="64M", MOUNT="noatime")
    assert any("inside the machine" in text for text in decided.unchecked)
    with pytest.raises(OptionError, match=r"MKFS: mkfs\.f2fs does not accept the options"):
        plan_elsewhere(trial=True, FS="f2fs", SIZE="128M", MKFS="-z")


def test_nilfs2_starts_no_cleaner() -> None:
    decided = plan_elsewhere(FS="nilfs2", SIZE="256M", MOUNT="noatime")
    command = filesystem_of(decided).mount_command(disks.Devices("/dev/vda"), "/mnt")
    assert command[3:5] == ["-o", "nogc,noatime,nosuid,nodev"]
    assert filesystem_of(decided).fsck_command(disks.Devices("/dev/vda")) == []


POOL_PROGRAM = """#!/bin/sh
# As zpool: keeps its pools as files in a folder, and writes down what it was told.
cd {folder} || exit 1
echo "$@" >> log
case $1 in
create) shift; while [ $# -gt 2 ]; do shift; done; touch "pool-$1" ;;
export) [ ! -e busy ] && rm "pool-$2" ;;
list) test -e "pool-$2" ;;
esac
"""


@pytest.fixture
def zpool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program in place of zpool that records the order of its calls."""
    folder = tmp_path / "zpool"
    folder.mkdir()
    program = folder / "zpool"
    program.write_text(POOL_PROGRAM.format(folder=folder))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder


@needs_root
def test_pool_is_exported_before_its_disk(zpool: Path, janitor: Janitor) -> None:
    decided = plan_elsewhere(FS="zfs", SIZE="128M", MKFS="-o ashift=12")
    with open_disk(decided, janitor) as disk:
        filesystems.format(filesystem_of(decided), disk, janitor)
        assert (zpool / f"pool-{janitor.name}").exists()
        path = disk.path
        mounting = filesystem_of(decided).mount_command(disk.devices, "/mnt")
        assert mounting == ["mount", "-t", "zfs", "-o", "nosuid,nodev", janitor.name, "/mnt"]
    created, exported = (zpool / "log").read_text().splitlines()
    assert created.endswith(f"mountpoint=legacy -o ashift=12 {janitor.name} {path}")
    assert exported == f"export {janitor.name}"
    assert not is_attached(path, janitor)


@needs_root
def test_pool_of_a_killed_session_is_exported(zpool: Path, tmp_path: Path) -> None:
    """Also after a killed mkfs; a busy pool is reported, and tried again."""
    state = tmp_path / "other state"
    script = (
        "import os, sys; from pathlib import Path; from workloads.cleanup.janitor import Janitor\n"
        "janitor = Janitor(Path(sys.argv[1]))\n"
        "janitor.add_pool(janitor.name, ['zpool', 'export'], ['zpool', 'list'])\n"
        "Path(sys.argv[2], 'pool-' + janitor.name).touch()\n"
        "janitor.add_pool('never', ['zpool', 'export'], ['zpool', 'list'])\n"
        "os.kill(os.getpid(), 9)\n"
    )
    python = shutil.which("python3") or "python3"
    subprocess.run([python, "-c", script, str(state), str(zpool)], check=False)
    (zpool / "busy").touch()
    assert any("the pool seekmeter-" in line and "the next start" in line for line in Janitor.sweep(state))
    (zpool / "busy").unlink()
    Janitor.sweep(state)
    assert not list(zpool.glob("pool-*"))
    assert [path.name for path in state.iterdir()] == ["lock"]


@pytest.mark.parametrize(
    ("kind", "says"),
    [("vfat", "no path"), ("exfat", "no path"), ("fuseblk", "no request has a class"), ("ext4", "")],
)
def test_what_cannot_be_seen_is_known_by_the_mounts_kind(kind: str, says: str) -> None:
    text = filesystems.unseen(kind)
    assert says in text and bool(says) == bool(text)
