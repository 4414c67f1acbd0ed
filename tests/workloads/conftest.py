# SPDX-License-Identifier: BSD-2-Clause
"""Helpers and fixtures for the tests of disks, file systems, cgroups and the janitor."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from collectors.collector import choices
from tests.collectors.loop_disk import drop_partitions, tmpfs
from workloads import disks, filesystems
from workloads.cleanup.janitor import Janitor
from workloads.cli.parse import parse
from workloads.disks import Disk
from workloads.filesystems.plan import FilesystemPlan
from workloads.plan.plan import Plan
from workloads.plan.planner import make_plan

_PROVING = ("ext3", "xfs")  # between them they cover the code that all file systems share


def each_filesystem() -> list[object]:
    """Every file system of this kernel as a parameter; all but ext3 and xfs are marked long."""
    return [
        pytest.param(name, marks=() if name in _PROVING else pytest.mark.long)
        for name in filesystems.names()
        if filesystems.kernel_has(name)
    ]


def run(*argv: str, **options: str) -> str:
    """Run a command that must succeed; return its output."""
    return subprocess.run(argv, check=True, capture_output=True, text=True, **options).stdout  # type: ignore[call-overload,no-any-return]


def plan(trial: bool = True, job: str = "trace", words: Mapping[str, str] | None = None, **more: str) -> Plan:
    """Return the plan for these variables."""
    given = {**(words or {}), **more}
    env = {f"SEEKMETER_{name}": text for name, text in given.items()}
    return make_plan(parse({**env, "SEEKMETER_WORDS": " ".join(given)}, job, choices()), trial)


def filesystem_of(plan: Plan) -> FilesystemPlan:
    """Return the file system's part of a plan that has FS=."""
    assert plan.filesystem is not None
    return plan.filesystem


def open_disk(plan: Plan, janitor: Janitor) -> AbstractContextManager[Disk]:
    """Open the disks of a plan as a trace does."""
    options = plan.options
    return disks.open_disk(plan.disks, options.sched, options.erase, janitor, options.has_flushes)


def is_attached(loop: str, janitor: Janitor) -> bool:
    """Return whether a loop device has a file of this janitor's; its number may be another session's now."""
    file = Path("/sys/block") / Path(loop).name / "loop/backing_file"
    try:
        return janitor.name in file.read_text()
    except OSError:
        return False


@pytest.fixture
def janitor(tmp_path: Path) -> Iterator[Janitor]:
    """A janitor with its own state directory; at the end everything must be undone."""
    keeper = Janitor(tmp_path / "state")
    yield keeper
    assert keeper.undo() == []


@pytest.fixture
def ram(tmp_path: Path) -> Iterator[Path]:
    """A private tmpfs."""
    with tmpfs(tmp_path / "ram", "1g") as place:
        yield place


class LoopDevice:
    """A loop device made with losetup on a sparse file."""

    def __init__(self, image: Path, size: str = "64M", *options: str) -> None:
        self.image = image
        run("truncate", "-s", size, str(image))
        self.path = run("losetup", "--find", "--show", *options, str(image)).strip()
        self.name = self.path.removeprefix("/dev/")
        drop_partitions(Path(self.path))

    def close(self) -> None:
        subprocess.run(["losetup", "-d", self.path], capture_output=True, check=False)

    def __enter__(self) -> LoopDevice:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@pytest.fixture
def loop(tmp_path: Path) -> Iterator[LoopDevice]:
    """A free loop device of 64 MiB."""
    with LoopDevice(tmp_path / "loop.img") as device:
        yield device
