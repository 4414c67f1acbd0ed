# SPDX-License-Identifier: BSD-2-Clause
"""Which file systems a watched device has: on partitions, volumes, for containers, each once."""

from __future__ import annotations

from pathlib import Path

import pytest

from collectors.host import blockdev, mounted_from
from workloads.system import device_graph, mounts
from workloads.system.mounts import Mount

# device: what it lies on
BELOW = {
    "sda1": {"sda1", "sda"},
    "sda2": {"sda2", "sda"},
    "dm-0": {"dm-0", "sda3", "sda"},
    "md0": {"md0", "sda4", "sda", "sdb2", "sdb"},
    "sdb1": {"sdb1", "sdb"},
}


def mount(dev: str, target: str, source: str | None, kind: str = "ext4", root: str = "/") -> Mount:
    return Mount(dev, target, kind, source or kind, "rw", "rw", root)


def device(one: Mount) -> str | None:
    return one.source if one.source in BELOW else None


def chosen(watched: str, *views: tuple[int | None, Mount]) -> list[tuple[str, str, str]]:
    found = mounted_from.choose(watched, views, device, lambda name: BELOW[name])
    return [(one.dev, one.name, one.mount_point) for one in found]


def test_each_file_system_is_listed_once_by_its_main_mount() -> None:
    views = [
        (77, mount("8:2", "/elsewhere", "sda2", "xfs")),
        (None, mount("0:21", "/proc", None, "proc")),
        (None, mount("8:1", "/etc/hosts", "sda1", root="/docker/hosts")),  # a file of it
        (None, mount("8:1", "/", "sda1")),
        (None, mount("8:1", "/again", "sda1")),
        (None, mount("253:0", "/srv", "dm-0")),
        (None, mount("9:0", "/array", "md0")),
        (None, mount("8:17", "/other", "sdb1")),
        (78, mount("0:50", "/", "sda1", "overlay")),  # a container's
    ]
    assert chosen("sda", *views) == [
        ("8:1", "ext4", "/"),
        ("253:0", "ext4", "/srv"),
        ("9:0", "ext4", "/array"),
        ("8:2", "xfs", "/elsewhere"),
        ("0:50", "overlay", "/"),
    ]
    assert chosen("sdb", *views) == [("8:17", "ext4", "/other"), ("9:0", "ext4", "/array")]
    assert chosen("sdc", *views) == []
    assert chosen("sda1", *views) == [("8:1", "ext4", "/"), ("0:50", "overlay", "/")]
    assert chosen("sda3", *views) == [("253:0", "ext4", "/srv")]


def test_file_system_of_this_test_is_listed() -> None:
    """Against what the kernel says of the file system that this test lies on."""
    place = blockdev.under(Path(__file__).parent)
    if place.disk is None:
        pytest.skip("the tree is on no disk: clone it to one")
    found = mounted_from.find(place.disk)
    assert place.dev in [one.dev for one in found]
    assert len({one.dev for one in found}) == len(found)
    numbers = {one.dev for _, one in mounts.everywhere()}
    assert {one.dev for one in found} <= numbers
    graph = device_graph.read()
    assert place.disk in mounted_from.devices_below([place.disk], graph)
    assert mounted_from.devices_below(["no-such-device"], graph) == set()
