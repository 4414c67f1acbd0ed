# SPDX-License-Identifier: BSD-2-Clause
"""Read and write files of a run directory that a stranger may have made.

Only regular files are read, up to a limit, and never through a symbolic link as the last component. A result
is written to a new file that is then renamed: a link is replaced, not followed; no reader sees half a file.
Others who can write to the directory can rename files at any moment: writes go through the descriptor that
created the file.
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
    """Open for reading. Raises TableError unless it is a regular file (O_NONBLOCK: a FIFO must not block)."""
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
    """The file's bytes. Raises TableError if there are more than limit_bytes."""
    try:
        with open_regular(path) as file:
            data = file.read(limit_bytes + 1)
    except OSError as error:
        raise TableError(f"{path.name} can't be read: {error.strerror}") from None
    if len(data) > limit_bytes:
        raise TableError(f"{path.name} is larger than {limit_bytes} bytes")
    return data


def _not_json(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


def parse_json(data: bytes, what: str) -> Any:
    """Parse strict JSON (no NaN, no Infinity). Raises TableError, also if nesting exhausts the stack."""
    try:
        return json.loads(data, parse_constant=_not_json)
    except RecursionError:
        raise TableError(f"{what} is nested too deeply") from None
    except ValueError as error:
        raise TableError(f"{what} is not valid JSON: {error}") from None


def read_json_object(path: Path) -> dict[str, Any]:
    """The JSON object in a file. Raises TableError."""
    value = parse_json(read_limited(path, JSON_LIMIT_BYTES), path.name)
    if not isinstance(value, dict):
        raise TableError(f"{path.name} does not hold a JSON object")
    return value


def shown_path(path: Path) -> Path:
    """The path to show for a file in an open folder (folder.py), which goes by /proc/self/fd/N."""
    return path.parent.resolve() / path.name if path.is_relative_to("/proc/self/fd") else path


def _new_file(folder: int, name: str) -> tuple[int, str]:
    """Create a file of mode 0600, or 0640 with the folder's group if the folder lets its group in."""
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
    """Give a new file the folder's group and this mode, if the folder lets its group in."""
    about = os.fstat(folder)
    if about.st_mode & 0o050 == 0o050:
        with suppress(OSError):  # a group that we are not in: the file stays 0600
            os.fchown(fd, -1, about.st_gid)
            os.fchmod(fd, mode)


def open_folder(path: Path) -> int:
    """Open a directory, not through a symbolic link, except /proc/self/fd/N of an open one (folder.py)."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    return os.open(path, flags if path.parent == Path("/proc/self/fd") else flags | os.O_NOFOLLOW)


@contextmanager
def rewritten(path: Path) -> Iterator[IO[bytes]]:
    """Yield a new file that replaces `path` at the end of the block, and is removed if the block raises.

    Raises ReportError if the file can't be created or renamed; errors of the block go through.
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
                why = f"{shown_path(path)} can't be written: {error.strerror}"
                raise ReportError(f"{why}; move what has that name") from None
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary, dir_fd=folder)
            raise
    finally:
        os.close(folder)


def _not_writable(path: Path, error: OSError) -> ReportError:
    why = f"{shown_path(path).parent} can't be written ({error.strerror})"
    return ReportError(f"{why}; copy the run to a directory of your own")


def write_atomic(path: Path, data: bytes) -> None:
    """Write a result file, whole or not at all. Raises ReportError."""
    try:
        with rewritten(path) as file:
            file.write(data)
    except OSError as error:
        raise ReportError(f"{shown_path(path)} can't be written: {error.strerror}; free some space") from None


def remove(path: Path) -> None:
    """Remove the result file of an earlier report, if there is one; a directory of that name stays."""
    with suppress(OSError):
        path.unlink(missing_ok=True)
