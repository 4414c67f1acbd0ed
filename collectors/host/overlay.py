# SPDX-License-Identifier: BSD-2-Clause
"""Which file system an overlay writes to: the one of its upper directory. Every container's root is one.

The upper directory's path is the host's. A container does not see it, but has files mounted from beside it
(/etc/resolv.conf, /etc/hosts), and the kernel says from which file system, and from where in it.
"""

import os
import re
from collections.abc import Sequence
from pathlib import Path

from workloads.system import mounts
from workloads.system.mounts import Mount

_DEEPEST = 4  # overlays on overlays
# Where container engines keep upper directories in their store, and what they keep beside those.
_STORES = (
    (re.compile(r"(?P<store>.*)/overlay2/[^/]+/diff"), "/containers/"),  # Docker
    (re.compile(r"(?P<store>.*)/overlay/[^/]+/diff"), "/overlay-containers/"),  # Podman
    (re.compile(r"(?P<store>.*)/io\.containerd\.snapshotter[^/]*/snapshots/[^/]+/fs"), "/io.containerd."),
)


def upper_directory(mount: Mount) -> str:
    """Return the upper directory of an overlay, on the host; empty if it has none, or is no overlay."""
    found = re.search(r"(?:^|,)upperdir=([^,]*)", mount.super_options)
    return mounts.unescape(found[1]) if mount.kind == "overlay" and found else ""


def below(mount: Mount, every: Sequence[Mount], deepest: int = _DEEPEST) -> Mount | None:
    """Return the mount of the file system that an overlay writes to; None if it is none, or cannot be found.

    every: all mounts that can be seen here.
    """
    upper = upper_directory(mount)
    if not upper or deepest == 0:
        return None
    found = _visible(upper, every) or _beside(upper, every)
    if found is not None and found.kind == "overlay":
        return below(found, every, deepest - 1)
    return found


def _visible(upper: str, every: Sequence[Mount]) -> Mount | None:
    """The mount that a directory is in, if it can be seen here."""
    if not os.path.isdir(upper):
        return None
    real = Path(os.path.realpath(upper))
    around = [mount for mount in every if real.is_relative_to(mount.target)]
    return max(around, key=lambda mount: len(Path(mount.target).parts), default=None)


def _beside(upper: str, every: Sequence[Mount]) -> Mount | None:
    """The mount of something that a container engine keeps beside the upper directory.

    The store may be a file system's root, or lie anywhere in one: then its path there ends as it does here.
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
