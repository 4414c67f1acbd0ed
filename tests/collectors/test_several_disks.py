# SPDX-License-Identifier: BSD-2-Clause
"""A file system on several bare disks: each disk's requests beside the kernel's counters, and whose they are.

Btrfs over three disks, ext4 with its journal and XFS with its log on another disk. No volume lies between:
requests have no origin and no class of a layer. tests/machines/test_stacks_inside.py runs these, too.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.collectors import stacks
from tests.collectors.loop_disk import MIB, SECTOR_BYTES, mounted, tmpfs
from tests.collectors.named_rows import NamedRows
from tests.collectors.recording import needs_btf, recording
from tests.marks import needs_root

pytestmark = [needs_root, needs_btf]

DISK_BYTES = 512 * MIB
FILE_BYTES = 6 * MIB
MEMBERS = "device={0},device={1},device={2}"
QUICK = ("btrfs_raid0", "ext4_journal")


@dataclass(frozen=True)
class Several:
    """A file system over several disks. The commands and mount's options name the disks {0}, {1}, {2}."""

    disks: int
    mkfs: tuple[str, ...]
    options: str
    data_copies: int  # of the file's bytes, on all disks together
    data_disks: int  # that many have data: a chunk of raid1 lies on two
    journal_disk: int | None = None  # which has nothing else
    own_pages: float = 0  # further bytes by byte of data, whose pages are no file's: raid5's parity


SEVERAL = {
    "btrfs_raid0": Several(3, ("mkfs.btrfs -q -f -d raid0 -m raid1 {0} {1} {2}",), MEMBERS, 1, 3),
    "btrfs_raid1": Several(3, ("mkfs.btrfs -q -f -d raid1 -m raid1 {0} {1} {2}",), MEMBERS, 2, 2),
    "btrfs_raid5": Several(
        3, ("mkfs.btrfs -q -f -d raid5 -m raid1 {0} {1} {2}",), MEMBERS, 1, 3, own_pages=0.5
    ),
    "ext4_journal": Several(
        2,
        (
            "mkfs.ext4 -q -F -b 4096 -O journal_dev {1}",
            "mkfs.ext4 -q -F -b 4096 -E lazy_itable_init=0 -J device={1} {0}",
        ),
        "data=ordered",
        1,
        1,
        journal_disk=1,
    ),
    "xfs_log": Several(2, ("mkfs.xfs -q -f -l logdev={1} {0}",), "logdev={1}", 1, 1, journal_disk=1),
}


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.long) for name in SEVERAL]
)
def test_requests_of_every_disk_are_counted_and_told_apart(
    tmp_path: Path, name: str, record_property: Callable[[str, object], None]
) -> None:
    case = SEVERAL[name]
    stacks.need([], [case.mkfs[0].split()[0]])
    with ExitStack() as undo:
        ram = undo.enter_context(tmpfs(tmp_path / "ram", "2G"))
        site = stacks.Site(ram, undo, case.disks, DISK_BYTES)
        names = [stacks.name_of(disk) for disk in site.disks]
        for command in case.mkfs:
            site.run(*command.format(*site.disks).split())
        idle = stacks.idle_stats(names, 0.2)
        words = [word for disk in names for word in ("--disk", disk)]
        with recording(tmp_path / "out", "--collect", "block", *words) as run:
            before = {disk: stacks.stat(disk) for disk in names}
            assert before == idle
            options = case.options.format(*site.disks)
            with mounted(site.disks[0], tmp_path / "mnt", "-o", options) as mnt:
                (mnt / "file").write_bytes(os.urandom(FILE_BYTES))
                os.sync()
                for number in range(20):
                    (mnt / f"small{number}").write_bytes(b"x" * 3000)
                subprocess.run(["sync", "-f", mnt], check=True)
                inode = (mnt / "file").stat().st_ino
            after = stacks.idle_stats(names, 0.2)
        devs = [stacks.number_of(disk) for disk in names]
    table = NamedRows(tmp_path / "out/block.rec")
    for at, disk in enumerate(names):
        for op, column in stacks.COUNTED.items():
            mine = int(table.of(devs[at], op=op)["bytes"].sum())
            record_property(f"disk{at} {op}", mine)
            assert mine == (after[disk][column] - before[disk][column]) * SECTOR_BYTES, (disk, op)
    assert sum(run.source("block")["lost"].values()) == 0

    writes = [table.of(dev, op="write") for dev in devs]
    of_file = [int(rows["bytes"][rows["ino"] == inode].sum()) for rows in writes]
    assert sum(of_file) == FILE_BYTES * case.data_copies
    assert sum(size > 0 for size in of_file) == case.data_disks
    for rows in writes:
        assert not set(table.named(rows, "class")) & {"volume", "parity"}
        assert not rows["origin"].any()
    if case.journal_disk is not None:
        journal = writes[case.journal_disk]
        assert of_file[case.journal_disk] == 0 < len(journal)
        assert not (table.named(journal, "class") == "data").any()
    unknown = sum(int(rows["bytes"][table.named(rows, "class") == "unknown"].sum()) for rows in writes)
    record_property("unknown", unknown)
    assert unknown >= FILE_BYTES * case.own_pages
    if not case.own_pages:
        assert unknown == 0
