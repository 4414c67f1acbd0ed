# SPDX-License-Identifier: BSD-2-Clause
"""The disk below an overlay: by its upper directory where that is seen, by its neighbours in containers."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from collectors.host import blockdev, overlay
from workloads.system import mounts

HASH = "f" * 64
# /proc/self/mountinfo inside a container: its root, and files that the engine mounts from its store.
DOCKER = f"""\
600 500 0:50 / / rw,relatime - overlay overlay rw,lowerdir=/l/A:/l/B,upperdir=UPPER,workdir=/w,xino=off
601 600 0:52 / /proc rw,nosuid - proc proc rw
602 600 0:53 / /dev rw,nosuid - tmpfs tmpfs rw,size=65536k
603 600 254:1 STORE/containers/{HASH}/resolv.conf /etc/resolv.conf rw,relatime - ext4 /dev/vda1 rw
604 600 254:1 STORE/containers/{HASH}/hosts /etc/hosts rw,relatime - ext4 /dev/vda1 rw
605 600 259:7 /data /data rw,relatime - xfs /dev/nvme9n1p7 rw
"""


def inside(upper: str, store: str, text: str = DOCKER) -> list[mounts.Mount]:
    return mounts.parse(text.replace("UPPER", upper).replace("STORE", store))


@pytest.mark.parametrize(
    "store",
    [
        "/var/lib/docker",  # on the host's root
        "/lib/docker",  # /var is a file system of its own
        "",  # /var/lib/docker is
    ],
)
def test_docker_overlay_lies_on_the_disk_of_its_store(store: str) -> None:
    every = inside(f"/var/lib/docker/overlay2/{HASH}/diff", store)
    found = overlay.below(every[0], every)
    assert found is not None and (found.dev, found.kind, found.source) == ("254:1", "ext4", "/dev/vda1")


@pytest.mark.parametrize(
    ("upper", "root"),
    [
        (
            f"/var/lib/containers/storage/overlay/{HASH}/diff",
            f"/var/lib/containers/storage/overlay-containers/{HASH}/userdata/hosts",
        ),
        (
            "/var/lib/containerd/io.containerd.snapshotter.v1.overlayfs/snapshots/42/fs",
            f"/var/lib/containerd/io.containerd.grpc.v1.cri/sandboxes/{HASH}/hostname",
        ),
    ],
)
def test_other_overlays_lie_on_the_disk_of_their_store(upper: str, root: str) -> None:
    of_root = f"1 0 0:50 / / rw - overlay overlay rw,upperdir={upper},workdir=/w\n"
    every = mounts.parse(f"{of_root}2 1 8:2 {root} /etc/x rw - xfs /dev/sda2 rw\n")
    found = overlay.below(every[0], every)
    assert found is not None and found.dev == "8:2"


@pytest.mark.parametrize(
    ("upper", "store"),
    [
        (f"/var/lib/docker/overlay2/{HASH}/diff", "/srv/docker"),  # another store
        ("/mnt/upper-that-is-not-here", "/var/lib/docker"),
        ("", "/var/lib/docker"),
    ],
)
def test_unknown_overlay_gives_no_disk(upper: str, store: str) -> None:
    every = inside(upper, store)
    assert overlay.below(every[0], every) is None
    assert overlay.below(every[1], every) is None  # no overlay


def test_ambiguous_overlay_gives_no_disk() -> None:
    every = inside(f"/var/lib/docker/overlay2/{HASH}/diff", "/var/lib/docker")
    other = mounts.parse(f"9 1 8:3 /containers/{HASH}/x /etc/y rw - ext4 /dev/sda3 rw\n")
    assert overlay.below(every[0], [*every, *other]) is None


def test_visible_upper_directory_is_used(tmp_path: Path) -> None:
    """A comma and a blank in its name are octal in the text of the kernel; the innermost mount counts."""
    upper = tmp_path / "a, b" / "upper"
    upper.mkdir(parents=True)
    escaped = str(upper).replace(",", "\\054").replace(" ", "\\040")
    text = (
        f"1 0 0:50 / /merged rw - overlay overlay rw,lowerdir=/l,upperdir={escaped},workdir=/w\n"
        "2 0 8:1 / / rw - ext4 /dev/sda1 rw\n"
        f"3 2 8:2 / {tmp_path} rw - xfs /dev/sda2 rw\n"
    )
    every = mounts.parse(text)
    assert overlay.upper_directory(every[0]) == str(upper)
    found = overlay.below(every[0], every)
    assert found is not None and found.dev == "8:2"
    # an overlay on an overlay
    again = mounts.parse(f"4 2 0:51 / {tmp_path}/a,\\040b rw - overlay o rw,upperdir={tmp_path},workdir=/w\n")
    assert overlay.below(every[0], [*every, *again]) == found
    # one whose upper directory lies in itself ends, too
    itself = mounts.parse(f"4 2 0:51 / {tmp_path} rw - overlay o rw,upperdir={tmp_path},workdir=/w\n")
    assert overlay.below(itself[0], itself) is None


@pytest.fixture
def merged(tmp_path: Path) -> Iterator[Path]:
    """A mounted overlay."""
    for name in ("lower", "upper", "work", "merged"):
        (tmp_path / name).mkdir()
    options = ",".join(f"{name}dir={tmp_path / name}" for name in ("lower", "upper", "work"))
    done = subprocess.run(
        ["mount", "-t", "overlay", "overlay", "-o", options, tmp_path / "merged"], check=False
    )
    if done.returncode != 0:
        pytest.skip("the kernel has no overlay: use one that has")
    yield tmp_path / "merged"
    subprocess.run(["umount", tmp_path / "merged"], check=True)


@pytest.mark.root
def test_real_overlay_lies_on_its_upper_directorys_disk(merged: Path) -> None:
    on, below = blockdev.under(merged), blockdev.under(merged.parent / "upper")
    assert (on.kind, on.mount_point, on.upper) == ("overlay", str(merged), str(merged.parent / "upper"))
    assert (on.disk, on.device, on.below_dev) == (below.disk, below.device, below.dev if below.disk else "")
    assert on.dev != below.dev
    assert blockdev.served_by(on)["numbers"] == [on.dev, below.dev]
