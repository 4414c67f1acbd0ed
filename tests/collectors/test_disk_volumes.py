# SPDX-License-Identifier: BSD-2-Clause
"""DISK= on volumes: formatted, recorded at every layer, refused while in use, and left as they were.

Real stacks: tests/machines/test_stacks_inside.py runs this on kernels with device-mapper and md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.collectors import stacks
from tests.collectors.loop_disk import mounted, tmpfs
from tests.collectors.recording import needs_btf
from tests.collectors.sessions import finished
from tests.collectors.stacks import Site
from tests.marks import needs_root
from tests.workloads.conftest import run
from workloads.disks import in_use, queue, safety
from workloads.system import device_graph
from workloads.system.errors import UserError
from workloads.system.guest import GUEST

pytestmark = [needs_root, needs_btf, pytest.mark.long]
# Stack, number of disks, modules beside dm-mod, programs.
STACKS: dict[str, tuple[Callable[[Site], list[str]], int, tuple[str, ...], tuple[str, ...]]] = {
    "linear": (stacks.linear, 2, (), ("dmsetup",)),
    "lvm": (stacks.lvm, 1, (), ("lvm",)),
    "crypt": (stacks.crypt, 1, ("dm-crypt",), ("dmsetup",)),
    "lvm_on_crypt": (stacks.lvm_on_crypt, 1, ("dm-crypt",), ("lvm",)),
    "thin": (stacks.thin, 2, ("dm-thin-pool",), ("dmsetup",)),
    "raid1": (stacks.raid1, 2, ("raid1",), ("mdadm",)),
    "raid5": (stacks.raid5, 3, ("raid456",), ("mdadm",)),
    "bcache": (stacks.bcache, 2, ("bcache",), ("make-bcache",)),
}


@pytest.fixture(autouse=True)
def as_on_a_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inside a virtual machine too: sessions with real devices."""
    monkeypatch.delenv(GUEST, raising=False)


TRACED = ("lvm",)  # a whole trace takes minutes on emulated CPUs; test_stacks_traced has the others


@pytest.fixture(params=STACKS)
def volume(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The path of a volume with nothing on it."""
    build, disks, modules, programs = STACKS[request.param]
    stacks.need(("dm-mod", *modules), programs)
    with ExitStack() as undo:
        ram = undo.enter_context(tmpfs(tmp_path / "ram", "1G"))
        yield build(Site(ram, undo, disks))[0]


def refused(path: str) -> str:
    with pytest.raises(UserError) as raised:
        safety.check_device(path, (path,))
    return raised.value.message


def test_every_layer_is_refused_while_the_volume_is_mounted(volume: str, tmp_path: Path) -> None:
    """And none but the volume is free before."""
    graph = device_graph.read()
    name = device_graph.name_of(volume)
    assert name is not None
    assert safety.check_device(volume, (volume,)).name == name
    paths = [f"/dev/{other}" for other in graph.below(name)]
    assert paths
    for path in paths:
        assert "held by" in refused(path)
    run("mkfs.ext4", "-q", volume)
    with mounted(volume, tmp_path / "mnt") as mnt:
        assert f"is mounted on {mnt}" in refused(volume)
        for path in paths:
            assert f"is mounted on {mnt}: choose another disk" in refused(path)
    assert safety.check_device(volume, (volume,)).name == name


@pytest.mark.parametrize("volume", TRACED, indirect=True)
def test_trace_on_a_volume_records_every_layer(volume: str, tmp_path: Path) -> None:
    """With a scheduler, which is the disks', and put back at the end."""
    name = device_graph.name_of(volume)
    assert name is not None
    leaves = queue.scheduled(name, [name], in_use.read())
    before = {leaf: queue.facts(leaf)["scheduler"] for leaf in leaves}
    command = "dd if=/dev/urandom of=file bs=64K count=64 conv=fsync"
    traced = finished(
        tmp_path / "run",
        FS="ext4",
        CMD=command,
        DISK=volume,
        ERASE=volume,
        SCHED="mq-deadline",
        COLLECT="block",
    ).run
    stack = traced.facts["stack"]
    nodes = {node["name"]: node for node in stack["nodes"]}
    assert [root["name"] for root in stack["roots"]] == [name]
    assert nodes[name]["recorded"] == "bios"
    for leaf in leaves:
        assert nodes[leaf]["recorded"] == "requests" and nodes[leaf]["scheduler"] == "mq-deadline"
    assert {leaf: queue.facts(leaf)["scheduler"] for leaf in leaves} == before
    assert traced.facts["filesystem"]["fsck"]["clean"] is True
