# SPDX-License-Identifier: BSD-2-Clause
"""Paths of inodes that were recorded by number, from a walk of the tree at the end of the run.

The walk goes breadth first and takes a few seconds at most; an inode that it does not reach has no path.
Where others use the file system too, a second walk outside of DIR= resolves the remaining inodes.
"""

import json
import os
import struct
import subprocess
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from collectors.host import statx
from collectors.recorder.process import BINARY

SECONDS = 3.0
ENTRIES = 1_000_000
MOST = 2000  # inodes of requests, by requests and again by bytes
INODES = 300_000  # counted at most, before the most frequent are chosen


@dataclass
class Walk:
    """The paths of a walk. whole: the walk visited the whole tree, or resolved every inode."""

    paths: dict[int, str] = field(default_factory=dict)
    born_ns: dict[int, int] = field(default_factory=dict)  # birth time (btime), CLOCK_REALTIME
    looked_at: int = 0
    whole: bool = True


def find_outside(mount_point: Path, directory: Path, wanted: Iterable[int]) -> Walk:
    """Resolve inodes of a file system that are not below this directory. Paths are absolute."""
    if os.path.samefile(mount_point, directory):
        return Walk()
    walk = find(mount_point, wanted, skipped=directory)
    walk.paths = {inode: os.path.join(mount_point, path) for inode, path in walk.paths.items()}
    return walk


def find(
    root: Path,
    wanted: Iterable[int],
    seconds: float = SECONDS,
    entries: int = ENTRIES,
    skipped: Path | None = None,
) -> Walk:
    """Resolve inodes below root, on its file system. Paths are relative to root; root itself is ".".

    skipped: a directory whose tree is left out.
    """
    missing = set(wanted)
    skipped_inode = os.stat(skipped).st_ino if skipped is not None else None
    walk = Walk()
    try:
        top = os.stat(root)
    except OSError:
        return Walk(whole=not missing)
    _take(walk, missing, top.st_ino, root, "", ".")
    deadline = time.monotonic() + seconds
    waiting = deque([""])
    while waiting and missing:
        folder = waiting.popleft()
        for opened, entry in _entries(root, folder):
            path = os.path.join(folder, entry.name)
            walk.looked_at += 1
            if entry.inode() == skipped_inode and entry.is_dir(follow_symlinks=False):
                continue
            try:
                _take(walk, missing, entry.inode(), Path(f"/proc/self/fd/{opened}"), entry.name, path)
                if (
                    entry.is_dir(follow_symlinks=False)
                    and entry.stat(follow_symlinks=False).st_dev == top.st_dev
                ):
                    waiting.append(path)
            except OSError:  # removed meanwhile
                continue
            if time.monotonic() > deadline or walk.looked_at >= entries or not missing:
                walk.whole = not missing
                return walk
    return walk


def _entries(root: Path, folder: str) -> Iterator[tuple[int, "os.DirEntry[str]"]]:
    """Yield a directory's descriptor and each of its entries; none if it is gone or may not be read.

    Each component is opened below root without following links: a user who may write there could replace a
    directory by a link meanwhile, and so have names listed that the user may not read.
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


def _take(walk: Walk, missing: set[int], inode: int, folder: Path, name: str, path: str) -> None:
    if inode in missing:
        missing.remove(inode)
        walk.paths[inode] = os.fsencode(path).decode(errors="replace")
        born_ns = statx.btime_ns(os.path.join(folder, name))
        if born_ns is not None:
            walk.born_ns[inode] = born_ns


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
    except OSError:  # locks are not recorded
        pass
    return inodes


def inodes_of_requests(recording: Path, numbers: Sequence[str] | None = None, most: int = MOST) -> set[int]:
    """Return the inodes in block.rec with the most requests, and those with the most bytes; most: of each.

    numbers: "major:minor" of the file system that the requests belong to; None: of any.
    """
    requests: Counter[int] = Counter()
    size: Counter[int] = Counter()
    try:
        with _unpacked(recording) as file:
            _count_inodes(file, numbers, requests, size)
    except (OSError, ValueError, KeyError, TypeError, struct.error):  # not recorded, or cut off in its head
        pass
    return {inode for counted in (requests, size) for inode, _ in counted.most_common(most)}


@contextmanager
def _unpacked(recording: Path) -> Iterator[IO[bytes]]:
    """Yield the recorder's table, without packing."""
    with recording.open("rb") as file:
        if file.read(8) != b"SKMREC02":
            file.seek(0)
            yield file
            return
        os.lseek(file.fileno(), 0, os.SEEK_SET)
        argv = [str(BINARY), "--unpack", "-"]
        unpacker = subprocess.Popen(argv, stdin=file, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    with unpacker:
        assert unpacker.stdout is not None
        try:
            yield unpacker.stdout
        finally:
            unpacker.kill()  # all that is wanted may have been read before the end


def _number(dev: str) -> int:
    major, minor = dev.split(":")
    return int(major) << 20 | int(minor)


def _count_inodes(
    file: IO[bytes], numbers: Sequence[str] | None, requests: Counter[int], size: Counter[int]
) -> None:
    """Count requests and bytes per inode. Raises ValueError and others if the header is damaged."""
    head = file.read(16)
    length = int.from_bytes(head[8:12], "little")
    if head[:8] != b"SKMREC01" or length > 1 << 20:
        raise ValueError("not a .rec file")
    about = json.loads(file.read(length))
    layout, order = _layout(about)
    wanted = None if numbers is None else {_number(dev) for dev in numbers}
    file.read(-length % 8)
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
    """Return the struct of ino, sb_dev and bytes in a record, and their indices in an unpacked row."""
    offsets = {field["name"]: field["offset"] for field in about["fields"]}
    names = sorted(("ino", "sb_dev", "bytes"), key=lambda name: offsets[name])
    form, at = "<", 0
    for name in names:
        form += f"{offsets[name] - at}x" + ("Q" if name == "ino" else "I")
        at = struct.calcsize(form)
    form += f"{about['record_bytes'] - at}x"
    return struct.Struct(form), (names.index("ino"), names.index("sb_dev"), names.index("bytes"))


def write(target: Path, numbers: Sequence[str], walks: Sequence[Walk], realtime_offset_ns: int) -> None:
    """Write a line per resolved inode, for each number of its file system. Raises OSError.

    A path that begins with / is outside of DIR=; any other is relative to DIR= or the mount point. born_ns,
    the birth time, identifies a reused inode number; it is written as CLOCK_MONOTONIC, which is
    CLOCK_REALTIME minus realtime_offset_ns.
    """
    with target.open("w") as file:
        for dev in dict.fromkeys(numbers):
            for walk in walks:
                for inode, path in walk.paths.items():
                    line: dict[str, str | int] = {"dev": dev, "ino": inode, "path": path}
                    if inode in walk.born_ns:
                        line["born_ns"] = walk.born_ns[inode] - realtime_offset_ns
                    file.write(json.dumps(line) + "\n")
