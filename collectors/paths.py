# SPDX-License-Identifier: BSD-2-Clause
"""Which path has an inode that was recorded by its number? Asked at the end, while it can still be found.

One walk of the tree, shallow directories first, for a few seconds at most: what it misses has no path.
"""

import json
import os
import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

SECONDS = 3.0
ENTRIES = 1_000_000


@dataclass
class Found:
    """What a walk found. whole: it has been everywhere, or found all."""

    paths: dict[int, str] = field(default_factory=dict)
    looked_at: int = 0
    whole: bool = True


def find(root: Path, wanted: Iterable[int], seconds: float = SECONDS, entries: int = ENTRIES) -> Found:
    """Find the inodes below root, not leaving its file system. Paths are relative to root, itself "."."""
    missing = set(wanted)
    found = Found()
    try:
        top = os.stat(root)
    except OSError:
        return Found(whole=not missing)
    _take(found, missing, top.st_ino, ".")
    deadline = time.monotonic() + seconds
    waiting = deque([""])
    while waiting and missing:
        folder = waiting.popleft()
        for entry in _entries(os.path.join(root, folder)):
            path = os.path.join(folder, entry.name)
            found.looked_at += 1
            try:
                _take(found, missing, entry.inode(), path)
                if (
                    entry.is_dir(follow_symlinks=False)
                    and entry.stat(follow_symlinks=False).st_dev == top.st_dev
                ):
                    waiting.append(path)
            except OSError:  # just removed
                continue
            if time.monotonic() > deadline or found.looked_at >= entries or not missing:
                found.whole = not missing
                return found
    return found


def _entries(folder: str) -> Iterator["os.DirEntry[str]"]:
    """List a directory; one that is gone, or that nobody may read, is empty."""
    try:
        with os.scandir(folder) as entries:
            yield from entries
    except OSError:
        return


def _take(found: Found, missing: set[int], inode: int, path: str) -> None:
    if inode in missing:
        missing.remove(inode)
        found.paths[inode] = os.fsencode(path).decode(errors="replace")


def inodes_of_locks(lines: Path, dev: str) -> set[int]:
    """Return the inodes of one file system, "major:minor", that lock.jsonl names."""
    inodes = set()
    try:
        with lines.open(errors="replace") as file:
            for line in file:
                if '"ino":null' in line:
                    continue
                try:
                    lock = json.loads(line)
                except ValueError:  # the last line of a recorder that was killed
                    continue
                if lock.get("dev") == dev and lock.get("ino"):
                    inodes.add(int(lock["ino"]))
    except OSError:  # locks were not recorded
        pass
    return inodes


def write(target: Path, dev: str, found: Found) -> None:
    """Write paths.jsonl: one line an inode that was found. Raises OSError."""
    with target.open("w") as file:
        for inode, path in found.paths.items():
            file.write(json.dumps({"dev": dev, "ino": inode, "path": path}) + "\n")
