# SPDX-License-Identifier: BSD-2-Clause
"""Files of a run directory somebody else may have made: only regular files are read, never through a link
in the last place, never without a limit; results are written beside and renamed, so a link is replaced,
not followed, and a reader never sees half a file. Who may write in the directory may give a name to another
file at any moment: what is written goes through the descriptor that made it.
"""

from __future__ import annotations

import json
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from analysis.errors import ReportError, TableError

JSON_LIMIT_BYTES = 16 * 1024 * 1024


def open_regular(path: Path) -> IO[bytes]:
    """Open for reading. TableError unless it is a regular file (O_NONBLOCK: a FIFO must not hang)."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise TableError(f"{path.name} is missing") from None
    except (OSError, ValueError) as error:
        raise TableError(f"{path.name} can't be opened: {getattr(error, 'strerror', error)}") from None
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise TableError(f"{path.name} is not a regular file")
    return os.fdopen(fd, "rb")


def read_limited(path: Path, limit_bytes: int) -> bytes:
    """The file's bytes; TableError if there are more than limit_bytes."""
    try:
        with open_regular(path) as file:
            data = file.read(limit_bytes + 1)
    except OSError as error:
        raise TableError(f"{path.name} can't be read: {error.strerror}") from None
    if len(data) > limit_bytes:
        raise TableError(f"{path.name} is larger than {limit_bytes} bytes")
    return data


def _not_json(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")


def parse_json(data: bytes, what: str) -> Any:
    """Strict JSON (no NaN, no Infinity); TableError otherwise, also for nesting that exhausts the stack."""
    try:
        return json.loads(data, parse_constant=_not_json)
    except RecursionError:
        raise TableError(f"{what} is nested too deeply") from None
    except ValueError as error:
        raise TableError(f"{what} is not valid JSON: {error}") from None


def read_json_object(path: Path) -> dict[str, Any]:
    """The JSON object in a file."""
    value = parse_json(read_limited(path, JSON_LIMIT_BYTES), path.name)
    if not isinstance(value, dict):
        raise TableError(f"{path.name} does not hold a JSON object")
    return value


def told(path: Path) -> Path:
    """The name that people know of a file in an open folder (folder.py)."""
    return path.parent.resolve() / path.name if path.is_relative_to("/proc/self/fd") else path


def _new_file(folder: int, name: str) -> tuple[int, str]:
    """A new file in a folder, its owner's alone; also its group's, where the folder is."""
    while True:
        temporary = f".{name}.{secrets.token_hex(8)}"
        try:
            fd = os.open(
                temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600,
                dir_fd=folder,
            )  # fmt: skip
            break
        except FileExistsError:
            continue
    share(folder, fd, 0o640)
    return fd, temporary


def share(folder: int, fd: int, mode: int) -> None:
    """Let the folder's group read what is new in it, if the folder lets it in."""
    about = os.fstat(folder)
    if about.st_mode & 0o050 == 0o050:
        with suppress(OSError):  # a group that we are not in: it stays ours alone
            os.fchown(fd, -1, about.st_gid)
            os.fchmod(fd, mode)


def open_folder(path: Path) -> int:
    """A descriptor of a directory, which is no link but that of an open one (folder.py)."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    return os.open(path, flags if path.parent == Path("/proc/self/fd") else flags | os.O_NOFOLLOW)


@contextmanager
def rewritten(path: Path) -> Iterator[IO[bytes]]:
    """A file to be written. It takes the name at the end, and goes if that is not reached.

    Raises ReportError if the file can't be made or named; the writer's own errors go through.
    """
    try:
        folder = open_folder(path.parent)
    except OSError as error:
        raise _not_writable(path, error) from None
    try:
        try:
            fd, temporary = _new_file(folder, path.name)
        except OSError as error:
            raise _not_writable(path, error) from None
        try:
            with os.fdopen(fd, "wb") as file:
                yield file
            try:
                os.replace(temporary, path.name, src_dir_fd=folder, dst_dir_fd=folder)
            except OSError as error:
                why = f"{told(path)} can't be written: {error.strerror}"
                raise ReportError(f"{why}; move what is in its place") from None
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary, dir_fd=folder)
            raise
    finally:
        os.close(folder)


def _not_writable(path: Path, error: OSError) -> ReportError:
    why = f"{told(path).parent} can't be written ({error.strerror})"
    return ReportError(f"{why}; copy the run directory to a place of your own")


def write_atomic(path: Path, data: bytes) -> None:
    """Write a whole result file."""
    try:
        with rewritten(path) as file:
            file.write(data)
    except OSError as error:
        raise ReportError(f"{told(path)} can't be written: {error.strerror}; free some space") from None


def remove(path: Path) -> None:
    """Remove a result file of before, if there is one; a directory in its place is left alone."""
    with suppress(OSError):
        path.unlink(missing_ok=True)
