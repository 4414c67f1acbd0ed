# SPDX-License-Identifier: BSD-2-Clause
"""Files of a run directory somebody else may have made: only regular files are read, never through a link
in the last place, never without a limit; results are written beside and renamed, so a link is replaced,
not followed, and a reader never sees half a file.
"""

from __future__ import annotations

import json
import os
import stat
import tempfile
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


def temporary_beside(path: Path) -> Path:
    """A new empty file in path's directory, to be renamed over path by `publish`."""
    try:
        fd, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        os.fchmod(fd, 0o644)
        os.close(fd)
    except OSError as error:
        why = f"{path.parent} can't be written ({error.strerror})"
        raise ReportError(f"{why}; copy the run directory to a place of your own") from None
    return Path(name)


def publish(temporary: Path, path: Path) -> None:
    """Rename the finished temporary file to its name."""
    try:
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise ReportError(f"{path} can't be written: {error.strerror}; move what is in its place") from None


def write_atomic(path: Path, data: bytes) -> None:
    """Write a whole result file."""
    temporary = temporary_beside(path)
    try:
        temporary.write_bytes(data)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise ReportError(f"{path} can't be written: {error.strerror}; free some space") from None
    publish(temporary, path)


def remove(path: Path) -> None:
    """Remove a result file of before, if there is one; a directory in its place is left alone."""
    try:
        path.unlink(missing_ok=True)
    except OSError:
        pass
