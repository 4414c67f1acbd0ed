# SPDX-License-Identifier: BSD-2-Clause
"""Formatting, mounting, checking; options that are no longer known; where the journal is.

Against mount(8), blkid, xfs_db, dumpe2fs.
"""

import os
import re
import subprocess
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.collectors.loop_disk import loop_disk, mounted
from tests.collectors.sessions import wait_for
from tests.marks import needs_root
from tests.workloads.conftest import LoopDevice, filesystem_of, open_disk, plan, run
from workloads import filesystems
from workloads.cleanup.janitor import Janitor
from workloads.filesystems import layout
from workloads.plan import trial
from workloads.plan.format import format_plan
from workloads.system.command import run_long
from workloads.system.errors import OptionError, UserError

# File systems of other kernels are tried in virtual machines (tests/machines).
HERE = [name for name in filesystems.names() if filesystems.kernel_has(name)]
SETS = HERE + [f"{name}:{options}" for name in HERE for options in filesystems.load(name).option_sets]
WORKLOAD = {"WL": "fio-seqwrite", "SCALE": "quick"}


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEEKMETER_SCRATCH", str(tmp_path / "scratch"))


@needs_root
@pytest.mark.parametrize("fs", SETS)
def test_filesystem_formats_mounts_and_checks(fs: str, janitor: Janitor, tmp_path: Path) -> None:
    """Plan with a trial, format, mount, write, unmount, check."""
    # Sixteen allocation groups, each with room for a log of 256 MiB.
    decided = plan(FS=fs, words=WORKLOAD, SIZE="6G" if fs == "xfs:gus2011" else "1G")
    assert decided.unchecked == ()
    name = fs.partition(":")[0]
    with open_disk(decided, janitor) as disk:
        filesystems.format(filesystem_of(decided), disk, janitor)
        kind, mounted_as = ("ntfs", "fuseblk") if name == "ntfs-3g" else (name, name)
        assert run("blkid", "-p", "-o", "value", "-s", "TYPE", disk.path).strip() == kind
        target = tmp_path / "a mount point"
        target.mkdir()
        line = filesystems.mount(filesystem_of(decided), disk, target, janitor)
        assert line.split()[:1] == [disk.path] and line.split()[2] == mounted_as
        found = run("findmnt", "--noheadings", "--output", "SOURCE,FSTYPE", str(target)).split()
        assert found == [disk.path, mounted_as]
        (target / "file").write_bytes(os.urandom(1 << 20))
        filesystems.unmount(target, janitor)
        assert str(target) not in run("findmnt", "--list", "--output", "TARGET")
        clean, said = filesystems.fsck(filesystem_of(decided), disk)
        assert clean, said


@needs_root
def test_fsck_finds_damage(janitor: Janitor) -> None:
    decided = plan(trial=False, FS="ext4", SIZE="64M", words=WORKLOAD)
    with open_disk(decided, janitor) as disk:
        filesystems.format(filesystem_of(decided), disk, janitor)
        run("debugfs", "-w", "-R", "clri <2>", disk.path)  # the root directory's inode
        clean, said = filesystems.fsck(filesystem_of(decided), disk)
        assert not clean and "oot inode" in said


@needs_root
@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"FS": "xfs", "MOUNT": "nobarrier"}, r"MOUNT: this kernel .* mount option nobarrier"),
        ({"FS": "xfs", "MOUNT": "noatime,osyncisdsync"}, "mount option osyncisdsync"),
        ({"FS": "ext4", "MOUNT": "nobh"}, "mount option nobh .*gnoring removed nobh"),
        ({"FS": "ext3", "MOUNT": "data=sometimes"}, "mount option data=sometimes"),
        ({"FS": "btrfs", "MOUNT": "nosuchoption,noatime"}, "mount option nosuchoption"),
        ({"FS": "xfs", "MKFS": "-l version=1"}, "MKFS: mkfs.xfs does not accept the options"),
        ({"FS": "xfs", "MKFS": "-d agcount=1"}, "at least 2 superblocks"),
        ({"FS": "ext3", "MKFS": "-O nosuchfeature"}, "MKFS: mkfs.ext3 does not accept"),
        ({"FS": "ext4", "MKFS": "-i many"}, "MKFS: mkfs.ext4 does not accept"),
        ({"FS": "btrfs", "MKFS": "-d raid1"}, "MKFS: mkfs.btrfs does not accept"),
        ({"FS": "xfs", "SIZE": "64M"}, "SIZE=64M is too small for xfs: at least 300M"),
    ],
)
def test_unknown_option_is_refused_before_formatting(
    given: dict[str, str], says: str, loop: LoopDevice
) -> None:
    run("mkfs.ext2", "-q", "-L", "precious", loop.path)
    on_file = {"SIZE": "1G", **given, **WORKLOAD}
    with pytest.raises(OptionError, match=says) as raised:
        plan(words=on_file)
    assert "\n" not in raised.value.message
    on_device = {**given, **WORKLOAD, "DISK": loop.path, "ERASE": loop.path}
    on_device.pop("SIZE", None)
    with pytest.raises(UserError):
        plan(words=on_device)
    assert run("blkid", "-p", "-o", "value", "-s", "LABEL", loop.path).strip() == "precious"


@needs_root
def test_kernel_log_of_another_mount_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel's line on an ignored option names no device, so it may be another mount's."""
    said = ["EXT4-fs: Ignoring removed nobh option"]
    monkeypatch.setattr(trial._KernelLog, "about", lambda log, device, filesystem: said)
    plan(FS="ext4", MOUNT="noatime", words=WORKLOAD)
    with pytest.raises(OptionError, match=r"mount option nobh .*gnoring removed nobh"):
        plan(FS="ext4", MOUNT="nobh", words=WORKLOAD)


def test_mkfs_options_are_tried_without_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(OptionError, match=r"MKFS: mkfs\.xfs does not accept the options"):
        plan(FS="xfs", MKFS="-l version=1", SIZE="1G", words=WORKLOAD)
    decided = plan(FS="xfs", MOUNT="nobarrier", SIZE="1G", words=WORKLOAD)
    assert any("needs root" in text for text in decided.unchecked)
    assert any(line.startswith("unchecked") and "mount options" in line for line in format_plan(decided))


def formatted(tmp_path: Path, *mkfs: str, size: str = "6G") -> str:
    image = tmp_path / "image"
    run("truncate", "-s", size, str(image))
    run(*mkfs, str(image))
    return str(image)


@pytest.mark.parametrize(
    "mkfs",
    [
        ("mkfs.ext3", "-q", "-F"),
        ("mkfs.ext3", "-q", "-F", "-b", "1024", "-J", "size=8"),
        ("mkfs.ext4", "-q", "-F"),
        ("mkfs.ext4", "-q", "-F", "-b", "2048", "-J", "size=200"),
    ],
)
def test_ext_journal_matches_debugfs(mkfs: tuple[str, ...], tmp_path: Path) -> None:
    """Against bmap of debugfs: the physical block of a journal's block."""
    image = formatted(tmp_path, *mkfs, size="2G")
    extents = layout.read_journal("ext4", image)
    header = run("dumpe2fs", "-h", image)
    sectors = int(re.findall(r"Block size:\s+(\d+)", header)[0]) // 512
    size = re.findall(r"(?:Total j|J)ournal (?:size|blocks):\s+(\d+)([kM]?)", header)[0]
    blocks = (
        int(size[0]) * {"k": 1 << 10, "M": 1 << 20, "": 1}[size[1]] // (sectors * 512)
        if size[1]
        else int(size[0])
    )
    requests = tmp_path / "requests"
    probes = sorted({0, 1, 11, 12, 13, 300, blocks // 2, blocks - 1})
    requests.write_text("".join(f"bmap <8> {block}\n" for block in probes))
    answers = [line for line in run("debugfs", "-f", str(requests), image).splitlines() if line.isdigit()]
    assert len(answers) == len(probes)
    for block in map(int, answers):
        assert any(start <= block * sectors and (block + 1) * sectors <= end for start, end in extents), block
    total = sum(end - start for start, end in extents) // sectors
    assert blocks <= total <= blocks * 1.01 + 5  # and the blocks that map it, on ext3


@pytest.mark.parametrize("mkfs", [("mkfs.ext2", "-q", "-F"), ("mkfs.ext4", "-q", "-F", "-O", "^has_journal")])
def test_ext_without_journal_has_no_extents(mkfs: tuple[str, ...], tmp_path: Path) -> None:
    assert layout.read_journal("ext4", formatted(tmp_path, *mkfs, size="64M")) == []


@pytest.mark.parametrize(
    "options",
    [(), ("-b", "size=1024"), ("-d", "agcount=7", "-l", "size=200m,agnum=5")],
)
def test_xfs_log_matches_xfs_db(options: tuple[str, ...], tmp_path: Path) -> None:
    image = formatted(tmp_path, "mkfs.xfs", "-q", "-f", *options)
    [(start, end)] = layout.read_journal("xfs", image)
    said = run("xfs_db", "-r", "-f", "-c", "sb 0", "-c", "print logstart logblocks blocksize", image)
    numbers = {key: int(value) for key, value in re.findall(r"(\w+) = (\d+)", said)}
    assert end - start == numbers["logblocks"] * numbers["blocksize"] // 512
    daddr = run("xfs_db", "-r", "-f", "-c", f"convert fsblock {numbers['logstart']} daddr", image)
    assert start == int(re.findall(r"\((\d+)\)", daddr)[0])


def test_kernel_has_registered_file_systems() -> None:
    assert filesystems.kernel_has("ext4")
    assert not filesystems.kernel_has("reiserfs4")
    listed = Path("/proc/filesystems").read_text().split()
    assert all(filesystems.kernel_has(name) for name in filesystems.names() if name in listed)


@needs_root
def test_interrupt_waits_for_started_processes(tmp_path: Path) -> None:
    """A child that waits for a frozen file system dies only when that is thawed."""
    groups: list[int] = []
    with loop_disk(tmp_path / "image", 64 << 20) as disk, ExitStack() as stack:
        run("mkfs.ext4", "-q", str(disk.path))
        mount = stack.enter_context(mounted(disk.path, tmp_path / "mnt"))
        words = ["fsfreeze", "--unfreeze", str(mount)]
        stack.callback(subprocess.run, words, check=False, stderr=subprocess.DEVNULL)
        run("fsfreeze", "--freeze", str(mount))
        thaw = threading.Timer(0.5, run, words)

        def heard(said: bytes) -> None:
            groups.append(int(said))
            wait_for(lambda: "D" in states_of(groups[0]))
            thaw.start()
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            run_long(["sh", "-c", f'touch {mount}/f & echo "$$"; wait'], heard, lambda seconds: None)
        assert states_of(groups[0]) <= {"Z"}
        thaw.join()


def states_of(group: int) -> set[str]:
    """Return the states of the processes of a group."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, of = path.read_text(errors="replace").rpartition(")")[2].split()[:3]
        except OSError:  # another process, which has ended
            continue
        if int(of) == group:
            found.add(state)
    return found
