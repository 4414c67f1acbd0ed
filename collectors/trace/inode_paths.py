# SPDX-License-Identifier: BSD-2-Clause
"""Which path has an inode that was recorded by its number? Asked at the end, while it can still be found.

One walk of the tree, shallow directories first, for a few seconds at most: what it misses has no path. Where
others use the file system too, a second walk of what lies outside of DIR finds whose the rest is.
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

from collectors.host import statx

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


def find_outside(mount_point: Path, directory: Path, wanted: Iterable[int]) -> Found:
    """Find inodes of a file system that are not below this directory of it. Paths are absolute."""
    if os.path.samefile(mount_point, directory):
        return Found()
    found = find(mount_point, wanted, but=directory)
    found.paths = {inode: os.path.join(mount_point, path) for inode, path in found.paths.items()}
    return found


def find(
    root: Path,
    wanted: Iterable[int],
    seconds: float = SECONDS,
    entries: int = ENTRIES,
    but: Path | None = None,
) -> Found:
    """Find the inodes below root, not leaving its file system. Paths are relative to root, itself ".".

    but: a directory that is left out.
    """
    missing = set(wanted)
    left_out = os.stat(but).st_ino if but is not None else None
    found = Found()
    try:
        top = os.stat(root)
    except OSError:
        return Found(whole=not missing)
    _take(found, missing, top.st_ino, root, "", ".")
    deadline = time.monotonic() + seconds
    waiting = deque([""])
    while waiting and missing:
        folder = waiting.popleft()
        for opened, entry in _entries(root, folder):
            path = os.path.join(folder, entry.name)
            found.looked_at += 1
            if entry.inode() == left_out and entry.is_dir(follow_symlinks=False):
                continue
            try:
                _take(found, missing, entry.inode(), Path(f"/proc/self/fd/{opened}"), entry.name, path)
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


def _entries(root: Path, folder: str) -> Iterator[tuple[int, "os.DirEntry[str]"]]:
    """List a directory; one that is gone, or that nobody may read, is empty. Yields its descriptor, too.

    It is opened name by name below root, and no link is followed: who may write there could put one in the
    place of a directory while we look, and have names told that are nobody's business.
    """
    opened = -1
    try:
        opened = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        for name in Path(folder).parts:
            below = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=opened)
            os.close(opened)
            opened = below
        with os.scandir(opened) as entries:
            for entry in entries:
                yield opened, entry
    except OSError:
        return
    finally:
        if opened >= 0:
            os.close(opened)


def _take(found: Found, missing: set[int], inode: int, folder: Path, name: str, path: str) -> None:
    if inode in missing:
        missing.remove(inode)
        found.paths[inode] = os.fsencode(path).decode(errors="replace")
        born_ns = statx.btime_ns(os.path.join(folder, name))
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


def inodes_of_requests(recording: Path, numbers: Sequence[str] | None = None, most: int = MOST) -> set[int]:
    """Return the inodes that block.rec has most requests and most bytes of, at most so many by each.

    numbers: the "major:minor" of the file system whose requests these are; None: of all.
    """
    requests: Counter[int] = Counter()
    size: Counter[int] = Counter()
    try:
        with recording.open("rb") as file:
            _count_inodes(file, numbers, requests, size)
    except (OSError, ValueError, KeyError, TypeError, struct.error):  # not recorded, or cut off in its head
        pass
    return {inode for counted in (requests, size) for inode, _ in counted.most_common(most)}


def _number(dev: str) -> int:
    major, minor = dev.split(":")
    return int(major) << 20 | int(minor)


def _count_inodes(
    file: BinaryIO, numbers: Sequence[str] | None, requests: Counter[int], size: Counter[int]
) -> None:
    """The file describes its records itself: magic, length of the description, the description, records."""
    head = file.read(16)
    length = int.from_bytes(head[8:12], "little")
    if head[:8] != b"SKMREC01" or length > 1 << 20:
        raise ValueError("no recording")
    about = json.loads(file.read(length))
    layout, order = _layout(about)
    wanted = None if numbers is None else {_number(dev) for dev in numbers}
    file.seek((16 + length + 7) // 8 * 8)
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline and len(size) < INODES:
        part = file.read(layout.size * 4096)
        for row in layout.iter_unpack(part[: len(part) // layout.size * layout.size]):
            inode = row[order[0]]
            if inode and (wanted is None or row[order[1]] in wanted):
                requests[inode] += 1
                size[inode] += row[order[2]]
        if len(part) < layout.size * 4096:
            return


def _layout(about: dict[str, Any]) -> tuple[struct.Struct, tuple[int, int, int]]:
    """How to unpack these three fields of a record, and where ino, sb_dev and bytes are among them."""
    offsets = {field["name"]: field["offset"] for field in about["fields"]}
    names = sorted(("ino", "sb_dev", "bytes"), key=lambda name: offsets[name])
    form, at = "<", 0
    for name in names:
        form += f"{offsets[name] - at}x" + ("Q" if name == "ino" else "I")
        at = struct.calcsize(form)
    form += f"{about['record_bytes'] - at}x"
    return struct.Struct(form), (names.index("ino"), names.index("sb_dev"), names.index("bytes"))


def write(target: Path, numbers: Sequence[str], walks: Sequence[Found], realtime_offset_ns: int) -> None:
    """Write a line an inode that was found, for each number of its file system. Raises OSError.

    A path that begins with / is outside of DIR, any other is relative to it (or to the mount point).

    When it was made is there because inode numbers are used again; on the line CLOCK_MONOTONIC, from which
    CLOCK_REALTIME differs by realtime_offset_ns.
    """
    with target.open("w") as file:
        for dev in dict.fromkeys(numbers):
            for found in walks:
                for inode, path in found.paths.items():
                    line: dict[str, str | int] = {"dev": dev, "ino": inode, "path": path}
                    if inode in found.born_ns:
                        line["born_ns"] = found.born_ns[inode] - realtime_offset_ns
                    file.write(json.dumps(line) + "\n")
