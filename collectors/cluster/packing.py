# SPDX-License-Identifier: BSD-2-Clause
"""A run's files as a tar archive: packed in pieces where they are, unpacked where they are collected.

The archive is never a file. A piece is computed from its offset, so a piece that was lost on the way is
asked for again. Who unpacks trusts nothing in it: plain files and directories below the names expected, at
most so many and so large.
"""

import io
import os
import shutil
import stat
import tarfile
from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from workloads.system.errors import MachineError, RunError

PIECE_BYTES = 4 << 20
_BLOCK = tarfile.BLOCKSIZE
_FILES_MOST = 100_000
_DEPTH_MOST = 16
_READ_MOST = 1 << 20


@dataclass(frozen=True)
class _Part:
    """A header with its file. start: the offset of the header in the archive."""

    start: int
    header: bytes
    path: Path | None  # None: a directory, or the end of the archive
    size_bytes: int = 0

    @property
    def end(self) -> int:
        return self.start + len(self.header) + -(-self.size_bytes // _BLOCK) * _BLOCK


class Archive:
    """The archive of some files and directories below one directory, which no longer change."""

    def __init__(self, base: Path, names: Iterable[str]) -> None:
        """names: relative to base; directories with all that is in them. Raises OSError."""
        self._parts: list[_Part] = []
        self.size_bytes = 0
        for name in names:
            self._add(base, name)
        self._append(b"\0" * (2 * _BLOCK), None, 0)
        self._starts = [part.start for part in self._parts]

    def _add(self, base: Path, name: str) -> None:
        status = os.lstat(base / name)
        entry = tarfile.TarInfo(name)
        entry.mtime = int(status.st_mtime)
        if stat.S_ISDIR(status.st_mode):
            entry.type = tarfile.DIRTYPE
            entry.mode = 0o700
            self._append(entry.tobuf(tarfile.GNU_FORMAT), None, 0)
            for below in sorted(os.listdir(base / name)):
                self._add(base, f"{name}/{below}")
        elif stat.S_ISREG(status.st_mode):
            entry.size, entry.mode = status.st_size, 0o600
            self._append(entry.tobuf(tarfile.GNU_FORMAT), base / name, status.st_size)

    def _append(self, header: bytes, path: Path | None, size_bytes: int) -> None:
        self._parts.append(_Part(self.size_bytes, header, path, size_bytes))
        self.size_bytes = self._parts[-1].end

    def piece(self, offset: int, size_bytes: int = PIECE_BYTES) -> bytes:
        """Return the bytes from this offset on; fewer at the end of the archive. Raises OSError."""
        out = io.BytesIO()
        number = max(bisect_right(self._starts, offset) - 1, 0)
        while out.tell() < size_bytes and number < len(self._parts):
            part = self._parts[number]
            self._copy(part, offset + out.tell() - part.start, size_bytes - out.tell(), out)
            number += 1
        return out.getvalue()

    @staticmethod
    def _copy(part: _Part, skip: int, most: int, out: io.BytesIO) -> None:
        """Write at most so many bytes of a part, from an offset inside of it on."""
        left = min(most, part.end - part.start - skip)
        header = part.header[skip : skip + left]
        out.write(header)
        left -= len(header)
        if part.path is None or left <= 0:
            return
        at = max(skip - len(part.header), 0)
        with part.path.open("rb") as file:
            file.seek(at)
            content = file.read(min(left, max(part.size_bytes - at, 0)))
        # A file that shrank, and the rest of its last block, are zeros.
        out.write(content.ljust(left, b"\0"))


class _Pieces(io.RawIOBase):
    """The archive as a file. tarfile reads what a header announces at once, so a read has a limit."""

    def __init__(self, piece: Callable[[int], bytes], size_bytes: int) -> None:
        self._piece, self._size_bytes = piece, size_bytes
        self._at = 0
        self._start, self._content = 0, b""  # the newest piece

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        assert whence == os.SEEK_SET
        self._at = offset
        return offset

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= _READ_MOST:
            raise RunError("its archive is hostile: a header is larger than those of any run")
        out = b""
        while len(out) < size and self._at < self._size_bytes:
            if not self._start <= self._at < self._start + len(self._content):
                self._fetch()
            inside = self._at - self._start
            chunk = self._content[inside : inside + size - len(out)]
            out += chunk
            self._at += len(chunk)
        return out

    def _fetch(self) -> None:
        content = self._piece(self._at)
        if not content or len(content) > PIECE_BYTES or self._at + len(content) > self._size_bytes:
            raise RunError("its archive ends early, or is longer than it was said to be")
        self._start, self._content = self._at, content


def unpack(
    piece: Callable[[int], bytes], size_bytes: int, most_bytes: int, into: Path, expected: Iterable[str]
) -> None:
    """Unpack an archive into an empty directory. piece: the bytes of the archive from an offset on.

    expected: names at the top of the archive, which files and directories in it are, or are below.
    Raises RunError for an archive that is not what a run makes, MachineError where there is no room for it.
    """
    if not 0 <= size_bytes <= most_bytes:
        raise RunError(f"its files have {size_bytes:,} bytes, more than the {most_bytes:,} of its ROOM=")
    check_room(into, size_bytes)
    allowed, seen = tuple(expected), set[str]()
    left_bytes = most_bytes
    try:
        with tarfile.open(fileobj=_Pieces(piece, size_bytes), mode="r:") as archive:
            for entry in archive:
                left_bytes -= entry.size
                _check(entry, allowed, seen, left_bytes)
                _write(archive, entry, into / entry.name)
            # tarfile takes a header that it cannot read for the end of the archive.
            if archive.offset != size_bytes - 2 * _BLOCK:
                raise RunError("its archive is broken: it has a header that cannot be read")
    except tarfile.TarError as error:
        raise RunError(f"its archive is broken or hostile: {str(error).lower()}") from None
    except (OverflowError, ValueError):
        raise RunError("its archive is hostile: a time of change is no time") from None
    except OSError as error:
        raise MachineError(f"{into} cannot be written: {(error.strerror or '').lower()}") from None


def _write(archive: tarfile.TarFile, entry: tarfile.TarInfo, path: Path) -> None:
    """Write a checked entry: a new directory (0700) or a new file (0600), with its time of change.

    tarfile's own extract() has no filters in Python 3.11.2, Debian 12's.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if entry.isdir():
        path.mkdir(mode=0o700)
        return
    content = archive.extractfile(entry)
    assert content is not None
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
        shutil.copyfileobj(content, file, 64 << 10)
        written_bytes = file.tell()
    if written_bytes != entry.size:
        raise RunError(f"its archive ends inside of {entry.name!r}")
    os.utime(path, (entry.mtime, entry.mtime))


def _check(entry: tarfile.TarInfo, allowed: tuple[str, ...], seen: set[str], left_bytes: int) -> None:
    """Raise RunError for an entry that no run makes."""
    name = entry.name
    parts = name.split("/")
    if not (entry.isreg() or entry.isdir()) or entry.sparse is not None:
        raise RunError(f"its archive has {name!r}, which is neither a plain file nor a directory")
    if not any(name == top or name.startswith(top + "/") for top in allowed):
        raise RunError(f"its archive has {name!r}, which is outside of the run")
    if {"", ".", ".."} & set(parts) or not name.isprintable() or len(parts) > _DEPTH_MOST:
        raise RunError(f"its archive has {name!r}, which is no name of a run's file")
    if name in seen:
        raise RunError(f"its archive has {name!r} twice")
    seen.add(name)
    if len(seen) > _FILES_MOST:
        raise RunError(f"its archive has more than {_FILES_MOST:,} files")
    if left_bytes < 0:
        raise RunError("its archive is larger than it was said to be")


def check_room(directory: Path, size_bytes: int) -> None:
    """Raise MachineError where so many bytes do not leave 1 GiB, or a twentieth, of the file system free."""
    usage = shutil.disk_usage(directory)
    reserve = min(1 << 30, usage.total // 20)
    if size_bytes > usage.free - reserve:
        raise MachineError(
            f"{directory} has no room for a run of {size_bytes / 1e9:.1f} GB that was recorded elsewhere: "
            f"make room, then give the same command again"
        )
