# SPDX-License-Identifier: BSD-2-Clause
"""The files of a recording: of a directory, or of a tar archive, which a stranger may have packed.

Only regular files of expected names are taken, each once. Nothing else is: links, devices, other paths.
"""

from __future__ import annotations

import gzip
import os
import re
import stat
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from analysis.errors import OptionError, ReportError
from analysis.rundir.folder import name_of
from analysis.rundir.run import clean

FACTS = "alone.json"
TABLES = "recorder"
MOST_BYTES = 64 << 30
MOST_FILES = 512
_MOST_TEXT_BYTES = 16 << 20
_MOST_HEADERS = 4 * MOST_FILES
_FLOOR_BYTES = 256 << 20  # of the run's disk, which stay free
_CHUNK_BYTES = 1 << 20
_TEXTS = (FACTS, "mountinfo", "diskstats-before", "diskstats-after")
_UNFINISHED = (".alone.json.new", f"{TABLES}/.losses.json.new")  # of a recorder that was killed as it wrote
_TABLE = re.compile(rf"{TABLES}/[a-z][a-z0-9_]{{0,39}}\.(rec|jsonl)")
_LOSSES = f"{TABLES}/losses.json"
_GZIP = b"\x1f\x8b"
_TAR_AT, _TAR = 257, b"ustar"
_DAMAGED = (tarfile.TarError, EOFError, gzip.BadGzipFile, zlib.error, ValueError, OverflowError)


@dataclass
class Taken:
    """What was taken: the small files by name; tables are in the run's directory already."""

    texts: dict[str, bytes] = field(default_factory=dict)
    tables: list[str] = field(default_factory=list)
    bytes: int = 0


def is_recording(trace: Path) -> bool:
    """Whether TRACE= is a directory with alone.json, or a tar archive."""
    try:
        if trace.is_dir():
            return (trace / FACTS).exists()
        if not trace.is_file():
            return False
        with trace.open("rb") as file:
            first = file.read(_TAR_AT + len(_TAR))
            if first.startswith(_GZIP):
                file.seek(0)
                first = gzip.GzipFile(fileobj=file).read(_TAR_AT + len(_TAR))
    except (OSError, EOFError, zlib.error, ValueError):
        return False  # the other importers say why it can't be read
    return first[_TAR_AT:] == _TAR


def take(trace: Path, archive: IO[bytes] | None, recordings: Path) -> Taken:
    """Copy the tables to `recordings`, and return the small files. Raises OptionError, ReportError.

    archive: the open file; None: TRACE= is a directory.
    """
    taken = Taken()
    files = _of_directory(trace) if archive is None else _of_archive(trace, archive)
    try:
        for name, size, file in files:
            _take_one(trace, name, size, file, recordings, taken)
    except _DAMAGED as error:
        raise OptionError(
            f"TRACE={clean(trace)} is cut or damaged ({clean(error, 100)}); copy it once more"
        ) from None
    except OSError as error:
        raise ReportError(f"TRACE={clean(trace)} was not imported ({error.strerror}); try again") from None
    for needed in (FACTS, _LOSSES):
        if needed not in taken.texts:
            raise OptionError(f"TRACE={clean(trace)} lacks {needed}; name what recorder --facts made, whole")
    return taken


def _take_one(trace: Path, name: str, size: int, file: IO[bytes], recordings: Path, taken: Taken) -> None:
    if name in _UNFINISHED:
        return
    is_table = _TABLE.fullmatch(name) is not None
    if not is_table and name not in (*_TEXTS, _LOSSES):
        raise _strange(trace, name, "which no recording has")
    if name in taken.texts or name in taken.tables:
        raise _strange(trace, name, "twice")
    if size > (MOST_BYTES if is_table else _MOST_TEXT_BYTES):
        raise _strange(trace, name, f"with {size:,} bytes, which is too large")
    taken.bytes += size
    if taken.bytes > MOST_BYTES or len(taken.tables) >= MOST_FILES:
        raise OptionError(f"TRACE={clean(trace)} is larger than {MOST_BYTES >> 30} GiB; record less at once")
    if not is_table:
        taken.texts[name] = file.read(_MOST_TEXT_BYTES)
        return
    taken.tables.append(name)
    _copy(file, recordings / name.removeprefix(f"{TABLES}/"))


def _copy(file: IO[bytes], path: Path) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "wb") as copy:
        while data := file.read(_CHUNK_BYTES):
            space = os.fstatvfs(copy.fileno())
            if space.f_bavail * space.f_frsize < len(data) + _FLOOR_BYTES:
                raise ReportError(f"{path.name} does not fit: free some space, or give OUT= on another disk")
            copy.write(data)


def _strange(trace: Path, name: str, why: str) -> OptionError:
    return OptionError(f"TRACE={clean(trace)} has {clean(name, 80)} {why}; name what recorder --facts made")


def _of_directory(trace: Path) -> Iterator[tuple[str, int, IO[bytes]]]:
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    try:
        top = os.open(trace, flags)
    except OSError as error:
        raise OptionError(f"TRACE={clean(trace)} can't be read ({error.strerror})") from None
    opened = [top]
    try:
        places = [("", top)]
        with suppress(FileNotFoundError, NotADirectoryError):
            opened.append(os.open(TABLES, flags | os.O_NOFOLLOW, dir_fd=top))
            places.append((f"{TABLES}/", opened[-1]))
        for prefix, place in places:
            for name in sorted(os.listdir(place)):
                if (prefix, name) != ("", TABLES):
                    with _open_in(trace, place, name) as file:
                        yield prefix + name, os.fstat(file.fileno()).st_size, file
    finally:
        for fd in opened:
            os.close(fd)


def _open_in(trace: Path, place: int, name: str) -> IO[bytes]:
    """Open a regular file of a directory; root reads no other user's file."""
    try:
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=place)
    except OSError as error:
        raise _strange(trace, name, f"which can't be read ({error.strerror})") from None
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode):
        os.close(fd)
        raise _strange(trace, name, "which is not a regular file")
    if os.geteuid() == 0 and status.st_uid != 0:
        os.close(fd)
        raise OptionError(
            f"TRACE={clean(trace)} belongs to {name_of(status.st_uid)}, and root reads no other user's trace;"
            " import it as that user, or chown it to root"
        )
    return os.fdopen(fd, "rb")


def _of_archive(trace: Path, file: IO[bytes]) -> Iterator[tuple[str, int, IO[bytes]]]:
    """The regular files of a tar archive, read once from its begin to its end."""
    tops: set[str] = set()
    with tarfile.open(fileobj=file, mode="r|*") as archive:
        for number, member in enumerate(archive):
            if number > _MOST_HEADERS:
                raise OptionError(f"TRACE={clean(trace)} has too many files; name a recording")
            name = _name_in(trace, member, tops)
            if name is None:
                continue
            content = archive.extractfile(member)
            assert content is not None  # it is a regular file
            yield name, member.size, content


def _name_in(trace: Path, member: tarfile.TarInfo, tops: set[str]) -> str | None:
    """The file's name in the recording, without the archive's one directory; None: a directory."""
    parts = [part for part in member.name.split("/") if part not in ("", ".")]
    if member.name.startswith("/") or ".." in parts or len(parts) > 3 or "\0" in member.name:
        raise _strange(trace, member.name, "outside of it")
    is_table = TABLES in parts[-2:]
    depth = 2 if is_table and parts[-1] != TABLES else 1
    if member.isdir():
        return None
    if not member.isreg() or member.issparse() or member.size < 0:
        raise _strange(trace, member.name, "which is not a regular file")
    if len(parts) > depth:
        tops.add(parts[0])
    if len(parts) > depth + 1 or len(tops) > 1:
        raise _strange(trace, member.name, "in another directory")
    return "/".join(parts[-depth:])
