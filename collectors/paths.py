# SPDX-License-Identifier: BSD-2-Clause
"""Which path has an inode that was recorded by its number? Asked at the end, while it can still be found.

One walk of the tree, shallow directories first, for a few seconds at most: what it misses has no path.
"""

import json
import os
import struct
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from collectors import birth

SECONDS = 3.0
ENTRIES = 1_000_000
MOST = 2000  # inodes of requests, by requests and again by bytes
INODES = 300_000  # that are counted at most, before these are chosen


@dataclass
class Found:
    """What a walk found. whole: it has been everywhere, or found all."""

    paths: dict[int, str] = field(default_factory=dict)
    born_ns: dict[int, int] = field(default_factory=dict)  # when these files were made, CLOCK_REALTIME
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
    _take(found, missing, top.st_ino, root, ".")
    deadline = time.monotonic() + seconds
    waiting = deque([""])
    while waiting and missing:
        folder = waiting.popleft()
        for entry in _entries(os.path.join(root, folder)):
            path = os.path.join(folder, entry.name)
            found.looked_at += 1
            try:
                _take(found, missing, entry.inode(), root, path)
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


def _take(found: Found, missing: set[int], inode: int, root: Path, path: str) -> None:
    if inode in missing:
        missing.remove(inode)
        found.paths[inode] = os.fsencode(path).decode(errors="replace")
        born_ns = birth.of(os.path.join(root, path))
        if born_ns is not None:
            found.born_ns[inode] = born_ns


def inodes_of_locks(lines: Path, numbers: Sequence[str]) -> set[int]:
    """Return the inodes of one file system in lock.jsonl. numbers: its "major:minor" of each mount."""
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
                if lock.get("dev") in numbers and lock.get("ino"):
                    inodes.add(int(lock["ino"]))
    except OSError:  # locks were not recorded
        pass
    return inodes


def inodes_of_requests(recording: Path, dev: str | None) -> set[int]:
    """Return the inodes that block.rec has most requests and most bytes of, at most MOST by each.

    dev: "major:minor", of whose requests; None: of all. A disk's number is not that of its partitions.
    """
    requests: Counter[int] = Counter()
    size: Counter[int] = Counter()
    try:
        with recording.open("rb") as file:
            _count_inodes(file, dev, requests, size)
    except (OSError, ValueError, KeyError, TypeError, struct.error):  # not recorded, or cut off in its head
        pass
    return {inode for counted in (requests, size) for inode, _ in counted.most_common(MOST)}


def _count_inodes(file: BinaryIO, dev: str | None, requests: Counter[int], size: Counter[int]) -> None:
    """The file describes its records itself: magic, length of the description, the description, records."""
    head = file.read(16)
    length = int.from_bytes(head[8:12], "little")
    if head[:8] != b"SKMREC01" or length > 1 << 20:
        raise ValueError("no recording")
    about = json.loads(file.read(length))
    layout, order = _layout(about)
    wanted = None
    if dev is not None:
        major, minor = dev.split(":")
        wanted = int(major) << 20 | int(minor)
    file.seek((16 + length + 7) // 8 * 8)
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline and len(size) < INODES:
        part = file.read(layout.size * 4096)
        for row in layout.iter_unpack(part[: len(part) // layout.size * layout.size]):
            inode = row[order[0]]
            if inode and (wanted is None or row[order[1]] == wanted):
                requests[inode] += 1
                size[inode] += row[order[2]]
        if len(part) < layout.size * 4096:
            return


def _layout(about: dict[str, Any]) -> tuple[struct.Struct, tuple[int, int, int]]:
    """How to unpack these three fields of a record, and where ino, dev and bytes are among them."""
    offsets = {field["name"]: field["offset"] for field in about["fields"]}
    names = sorted(("ino", "dev", "bytes"), key=lambda name: offsets[name])
    form, at = "<", 0
    for name in names:
        form += f"{offsets[name] - at}x" + ("Q" if name == "ino" else "I")
        at = struct.calcsize(form)
    form += f"{about['record_bytes'] - at}x"
    return struct.Struct(form), (names.index("ino"), names.index("dev"), names.index("bytes"))


def write(target: Path, numbers: Sequence[str], found: Found, realtime_offset_ns: int) -> None:
    """Write a line an inode that was found, for each number of its file system. Raises OSError.

    When it was made is there because inode numbers are used again; on the line CLOCK_MONOTONIC, from which
    CLOCK_REALTIME differs by realtime_offset_ns.
    """
    with target.open("w") as file:
        for dev in dict.fromkeys(numbers):
            for inode, path in found.paths.items():
                line: dict[str, str | int] = {"dev": dev, "ino": inode, "path": path}
                if inode in found.born_ns:
                    line["born_ns"] = found.born_ns[inode] - realtime_offset_ns
                file.write(json.dumps(line) + "\n")
