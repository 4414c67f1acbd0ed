# SPDX-License-Identifier: BSD-2-Clause
"""DIR= and watch on stacks of devices: what run.json says of them, and what happens when they change.

Kernels without device-mapper and md skip these: tests/machines/test_stacks_inside.py runs them in machines.
"""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.collectors import stacks
from tests.collectors.loop_disk import MIB, mounted
from tests.collectors.sessions import Job, Run, finished
from tests.collectors.stack_kinds import EXT4
from tests.collectors.stacks import DISK_SECTORS, Site
from tests.marks import needs_root
from workloads.system.guest import GUEST

pytestmark = [needs_root, pytest.mark.long]

WRITES = "dd if=/dev/zero of=file bs=64k count=32 conv=fsync 2>/dev/null"


@pytest.fixture(autouse=True)
def as_a_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a virtual machine, these sessions are not the one that the host has started."""
    monkeypatch.delenv(GUEST, raising=False)


@pytest.fixture
def undo() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def on(path: str, folder: Path, undo: ExitStack, size: str = "") -> Path:
    """Return a directory of a new file system on a device."""
    subprocess.run([*EXT4, path, *([size] if size else [])], check=True, capture_output=True)
    return undo.enter_context(mounted(path, folder / "mnt"))


def nodes(run: Run) -> dict[str, dict[str, Any]]:
    return {node["name"]: node for node in run.facts["stack"]["nodes"]}


@pytest.mark.parametrize(
    ("build", "disks", "modules", "program", "kinds"),
    [
        (stacks.lvm, 1, ["dm-mod"], "lvm", ["lvm", "loop"]),
        (stacks.snapshot_origin, 2, ["dm-snapshot"], "dmsetup", ["snapshot", "loop", "loop"]),
        (stacks.bcache, 2, ["bcache"], "make-bcache", ["bcache", "loop", "loop"]),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_directory_on_a_volume_has_every_layer(
    build: Callable[[Site], list[str]],
    disks: int,
    modules: list[str],
    program: str,
    kinds: list[str],
    tmp_path: Path,
    undo: ExitStack,
) -> None:
    stacks.need(modules, [program])
    site = Site(tmp_path, undo, disks)
    (path,) = build(site)
    directory = on(path, tmp_path, undo)
    below = stacks.layers([path])
    job = finished(tmp_path / "run", DIR=str(directory), CMD=WRITES, COLLECT="block counters")
    stack = job.run.facts["stack"]
    own = [node for node in stack["nodes"] if not node.get("neighbour")]
    assert [node["kind"] for node in own] == kinds, stack
    assert {node["name"] for node in own} >= set(below.devices)
    assert [root["name"] for root in stack["roots"]] == below.roots
    recorded = {node["name"]: node["recorded"] for node in own}
    assert all(recorded[name] == "bios" for name in below.volumes)
    assert all(recorded[name] == "requests" for name in below.leaves)
    assert stack["changes"] == [] and job.run.facts["warnings"] == []
    assert f"  stack     {own[0]['label']}" in job.said
    assert job.run.facts["device"]["name"] == below.roots[0]
    assert sum(job.run.moved(leaf) for leaf in below.leaves) >= 2 * MIB
    journal = job.run.facts["filesystem"]["geometry"]["journal"]
    assert journal and job.run.facts["filesystem"]["geometry"]["spans"][0]["dev"] == stack["roots"][0]["dev"]


def test_blktrace_has_volume_and_disk(tmp_path: Path, undo: ExitStack) -> None:
    stacks.need(["dm-mod"], ["dmsetup"])
    site = Site(tmp_path, undo, 1)
    (disk,) = site.disks
    path = site.mapped("linear", f"0 {DISK_SECTORS} linear {disk} 0")
    directory = on(path, tmp_path, undo)
    job = finished(tmp_path / "run", DIR=str(directory), CMD=WRITES, COLLECT="block blktrace")
    assert job.run.losses["collectors"]["blktrace"]["state"] == "on"
    for device in (disk, path):
        files = (tmp_path / "run/raw").glob(f"{stacks.name_of(device)}.blktrace.*")
        assert sum(file.stat().st_size for file in files) > 0


def test_watched_disk_brings_the_volumes_above(tmp_path: Path, undo: ExitStack) -> None:
    stacks.need(["dm-mod"], ["dmsetup"])
    site = Site(tmp_path, undo, 2)
    (path,) = stacks.striped(site)
    on(path, tmp_path, undo)
    leaf, other = (stacks.name_of(disk) for disk in site.disks)
    volume = stacks.name_of(path)
    for word in (leaf, path, volume):
        job = Job("watch", tmp_path / f"run-{Path(word).name}", None, DEV=word, SECS="1", COLLECT="block")
        assert job.end() == 0, job.said
        assert job.left_behind() == []
        found = nodes(job.run)
        assert set(found) == {leaf, other, volume}
        assert [found[name]["recorded"] for name in (volume, leaf, other)] == ["bios", "requests", "requests"]
        roots = [root["name"] for root in job.run.facts["stack"]["roots"]]
        assert roots == ([leaf, volume] if word == leaf else [volume])
        assert [mount["device"] for mount in job.run.facts["filesystem"]["mounts"]] == [volume]


def test_volume_that_grows_is_told(tmp_path: Path, undo: ExitStack) -> None:
    stacks.need(["dm-mod"], ["dmsetup"])
    site = Site(tmp_path, undo, 2)
    one, two = site.disks
    path = site.mapped("linear", f"0 {DISK_SECTORS} linear {one} 0")
    directory = on(path, tmp_path, undo)
    table = f"0 {DISK_SECTORS} linear {one} 0\\n{DISK_SECTORS} {DISK_SECTORS} linear {two} 0\\n"
    name = shlex.quote(Path(path).name)
    command = (
        f"{WRITES}; printf '{table}' | dmsetup load {name}; dmsetup suspend {name}; dmsetup resume {name}"
    )
    job = finished(tmp_path / "run", DIR=str(directory), CMD=command, COLLECT="block")
    volume = stacks.name_of(path)
    expected = [f"{volume}: grew from 64M to 128M", f"{volume}: got {stacks.name_of(two)} during the run"]
    assert job.run.facts["stack"]["changes"] == expected
    assert all(f"WARNING   {text}" in job.said for text in expected)


def test_failing_disk_ends_the_workload_alone(tmp_path: Path, undo: ExitStack) -> None:
    """dm-error instead of the disk: the workload fails, the run is whole, nothing is left."""
    stacks.need(["dm-mod"], ["dmsetup"])
    site = Site(tmp_path, undo, 1)
    (disk,) = site.disks
    path = site.mapped("linear", f"0 {DISK_SECTORS} linear {disk} 0")
    directory = on(path, tmp_path, undo)
    name = shlex.quote(Path(path).name)
    command = (
        f"echo 0 {DISK_SECTORS} error | dmsetup load {name}; dmsetup suspend --noflush --nolockfs {name};"
        f" dmsetup resume {name}; {WRITES}"
    )
    job = Job("trace", tmp_path / "run", None, DIR=str(directory), CMD=command, COLLECT="block")
    assert job.end() == 1
    assert job.left_behind() == []
    facts = job.run.facts
    assert facts["state"] == "complete" and facts["exit_status"] == 1
    volume = stacks.name_of(path)
    assert f"{volume}: lost {stacks.name_of(disk)} during the run" in facts["stack"]["changes"]
