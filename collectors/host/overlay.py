# SPDX-License-Identifier: BSD-2-Clause
"""The file system that an overlay (a container's root, for example) writes to: that of its upper directory.

The upper directory's path is the host's, and not visible in a container. But a container has files mounted
from the same store (/etc/resolv.conf, /etc/hosts), and the kernel tells their file system and their path in
it.
"""

import os
import re
from collections.abc import Sequence
from pathlib import Path

from workloads.system import mounts
from workloads.system.mounts import Mount

_DEEPEST = 4  # overlays on overlays
# Upper directories in the stores of container engines, and where in the same store the mounted files lie.
_STORES = (
    (re.compile(r"(?P<store>.*)/overlay2/[^/]+/diff"), "/containers/"),  # Docker
    (re.compile(r"(?P<store>.*)/overlay/[^/]+/diff"), "/overlay-containers/"),  # Podman
    (re.compile(r"(?P<store>.*)/io\.containerd\.snapshotter[^/]*/snapshots/[^/]+/fs"), "/io.containerd."),
)


def upper_directory(mount: Mount) -> str:
    """Return the path of an overlay's upper directory on the host; "" if it has none, or is no overlay."""
    option = re.search(r"(?:^|,)upperdir=([^,]*)", mount.super_options)
    return mounts.unescape(option[1]) if mount.kind == "overlay" and option else ""


def below(mount: Mount, every: Sequence[Mount], deepest: int = _DEEPEST) -> Mount | None:
    """Return the mount of the file system that an overlay writes to; None: no overlay, or not visible.

    every: all mounts of this namespace.
    """
    upper = upper_directory(mount)
    if not upper or deepest == 0:
        return None
    mount_below = _mount_of(upper, every) or _mount_of_neighbour(upper, every)
    if mount_below is not None and mount_below.kind == "overlay":
        return below(mount_below, every, deepest - 1)
    return mount_below


def _mount_of(upper: str, every: Sequence[Mount]) -> Mount | None:
    """Return the mount that the upper directory is in, if the path is visible here."""
    if not os.path.isdir(upper):
        return None
    real = Path(os.path.realpath(upper))
    around = [mount for mount in every if real.is_relative_to(mount.target)]
    return max(around, key=lambda mount: len(Path(mount.target).parts), default=None)


def _mount_of_neighbour(upper: str, every: Sequence[Mount]) -> Mount | None:
    """Return the mount of a file that the container engine keeps in the same store, if it is the only one.

    The store may be the root of a file system, or a directory in one: then its path there ends as it does
    here.
    """
    for pattern, neighbour in _STORES:
        match = pattern.fullmatch(upper)
        if match is None:
            continue
        parts = match["store"].split("/")
        ends = ["/".join(["", *parts[at:]]) if at < len(parts) else "" for at in range(1, len(parts) + 1)]
        near = [mount for mount in every if any(mount.root.startswith(end + neighbour) for end in ends)]
        if len({mount.dev for mount in near}) == 1:
            return near[0]
    return None
