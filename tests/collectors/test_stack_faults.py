# SPDX-License-Identifier: BSD-2-Clause
"""Stacks that change or fail while they are recorded: said in run.json, and nothing is left behind.

An array that loses a disk, a path that fails, a layer that hangs or gives errors. Each is one
`make trace DIR=` on a file system that the test mounts, and the test acts in the middle of the workload.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import sleep
from typing import Any

import pytest

from tests.collectors import stacks
from tests.collectors.loop_disk import mounted, tmpfs
from tests.collectors.named_rows import NamedRows
from tests.collectors.recording import needs_btf
from tests.collectors.sessions import Job, wait_for
from tests.collectors.stack_kinds import EXT4
from tests.collectors.stacks import DISK_SECTORS, Site, mapped_path
from tests.marks import needs_root
from workloads.system.guest import GUEST

pytestmark = [needs_root, needs_btf, pytest.mark.long]

HANG_SECONDS = 2
# Direct writes before and after the test acts. What fails after is the test's own doing.
WORKLOAD = """
dd if=/dev/zero of={mnt}/before bs=64K count=8 oflag=direct || exit 1
touch {folder}/begun
while [ ! -e {folder}/acted ]; do sleep 0.1; done
dd if=/dev/zero of={mnt}/after bs=64K count=8 oflag=direct conv=notrunc || true
"""


@pytest.fixture(autouse=True)
def as_a_machine_as_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inside a virtual machine, too: sessions as outside."""
    monkeypatch.delenv(GUEST, raising=False)


@dataclass
class Place:
    """A mounted file system on a stack. folder: for the marks of test and workload."""

    site: Site
    mnt: Path
    folder: Path
    top: str


@contextmanager
def placed(folder: Path, disks: int, build: Callable[[Site], str]) -> Iterator[Place]:
    """Mount a file system on a new stack of this many disks; all of it is taken down after the block."""
    with ExitStack() as undo:
        site = Site(undo.enter_context(tmpfs(folder / "ram", "1G")), undo, disks)
        top = build(site)
        site.run(*EXT4, top)
        mnt = undo.enter_context(mounted(top, folder / "mnt"))
        (mnt / "after").write_bytes(bytes(1 << 19))
        os.sync()
        yield Place(site, mnt, folder, stacks.name_of(top))


def traced(
    place: Place,
    act: Callable[[], object],
    during: Callable[[], object] = lambda: None,
    codes: tuple[int, ...] = (0,),
) -> Job:
    """Trace the workload; act in the middle of it, and do something more once it goes on.

    codes: the exit codes that are right.
    """
    script = place.folder / "workload.sh"
    script.write_text(WORKLOAD.format(mnt=place.mnt, folder=place.folder))
    collect, command = "block counters", f"sh {script}"
    job = Job("trace", place.folder / "run", DIR=str(place.mnt), COLLECT=collect, CMD=command)
    try:
        wait_for((place.folder / "begun").exists)
        act()
        (place.folder / "acted").touch()
        during()
    finally:
        code = job.end(600)
    assert code in codes, job.said
    assert job.left_behind() == []
    return job


def volume_rows(job: Job, name: str) -> tuple[NamedRows, Any]:
    table = NamedRows(job.run.path / "raw/recorder/volume.rec")
    return table, table.of(stacks.number_of(name))


def exchange(site: Site, part: str, table: str) -> None:
    """Give a device-mapper device another table, while it is in use."""
    path = mapped_path(part)
    site.run("dmsetup", "suspend", "--noflush", "--nolockfs", path)
    site.run("dmsetup", "load", path, lines=table)
    site.run("dmsetup", "resume", path)


@pytest.mark.parametrize("level", ["raid1", "raid5"])
def test_lost_member_of_an_array_is_named(tmp_path: Path, level: str) -> None:
    stacks.need(["raid1" if level == "raid1" else "raid456"], ["mdadm"])
    disks = {"raid1": 2, "raid5": 3}[level]
    with placed(tmp_path, disks, lambda site: getattr(stacks, level)(site)[0]) as place:
        lost = place.site.disks[-1]
        job = traced(place, lambda: place.site.run("mdadm", f"/dev/{place.top}", "--fail", lost))
        _, rows = volume_rows(job, place.top)
    facts = job.run.facts["stack"]
    name = Path(lost).name
    assert any(f"{name} failed" in text or f"lost {name}" in text for text in facts["changes"]), facts[
        "changes"
    ]
    assert facts["states"][place.top]["at_start"]["degraded"] == 0
    assert facts["states"][place.top]["at_end"]["degraded"] == 1
    assert len(rows) > 8
    assert not rows["error"].any()  # the array goes on
    assert "degraded" in job.run.report()


def _linear_on_linear(site: Site) -> str:
    lower = site.mapped("lower", f"0 {DISK_SECTORS} linear {site.disks[0]} 0")
    return site.mapped("upper", f"0 {DISK_SECTORS} linear {lower} 0")


def test_hanging_layer_shows_as_time_in_the_layers(tmp_path: Path) -> None:
    """The volume's bio takes all the time; the disk's request does not."""
    stacks.need(["dm-mod"], ["dmsetup"])
    with placed(tmp_path, 1, _linear_on_linear) as place:
        lower = mapped_path("lower")
        ended: list[bool] = []

        def resume() -> None:
            sleep(HANG_SECONDS)
            place.site.run("dmsetup", "resume", lower)
            ended.append(True)

        job = traced(
            place, lambda: place.site.run("dmsetup", "suspend", "--noflush", "--nolockfs", lower), resume
        )
        _, rows = volume_rows(job, place.top)
        leaf = NamedRows(job.run.path / "raw/recorder/block.rec").rows
    assert ended
    times = rows["complete_ns"].astype(float) - rows["queue_ns"]
    slow = rows[times >= 0.9 * HANG_SECONDS * 1e9]
    assert len(slow) >= 1
    served = leaf[[int(origin) in set(slow["bio_id"].tolist()) for origin in leaf["origin"]]]
    assert len(served) >= 1
    assert (served["complete_ns"].astype(float) - served["issue_ns"] < 0.5 * HANG_SECONDS * 1e9).all()


def test_errors_of_a_layer_are_in_the_table(tmp_path: Path) -> None:
    stacks.need(["dm-mod"], ["dmsetup"])
    with placed(tmp_path, 1, _linear_on_linear) as place:
        job = traced(place, lambda: exchange(place.site, "lower", f"0 {DISK_SECTORS} error"), codes=(1,))
        assert "cannot be synced: input/output error" in job.said
        _, rows = volume_rows(job, place.top)
        exchange(place.site, "lower", f"0 {DISK_SECTORS} linear {place.site.disks[0]} 0")
    failed = rows[rows["error"] != 0]
    assert len(failed) >= 1
    assert set(failed["comm"].tolist()) >= {b"dd"}
    assert any("targets: linear before, error after" in text for text in job.run.facts["stack"]["changes"])
    job.run.report()


def test_paths_that_fail_are_named(tmp_path: Path) -> None:
    """One of two paths of dm-multipath."""
    stacks.need(["dm-round-robin"], ["dmsetup"])
    with placed(tmp_path, 1, lambda site: stacks.multipath(site)[0]) as place:
        number = Path("/sys/block", Path(place.site.disks[0]).name, "dev").read_text().strip()
        path = mapped_path("multipath")
        job = traced(place, lambda: place.site.run("dmsetup", "message", path, "0", f"fail_path {number}"))
        _, rows = volume_rows(job, place.top)
    assert f"{place.top}: its path {number} failed during the run" in job.run.facts["stack"]["changes"]
    assert not rows["error"].any()
