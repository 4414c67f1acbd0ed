# SPDX-License-Identifier: BSD-2-Clause
"""Read an untrusted JSON file: only a plain file of limited size. Replace a file by rename."""

import json
import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from typing import Any


def read_json(directory: int, name: str, most_bytes: int) -> Any:
    """Return the value in a file of an open directory. Raises OSError, ValueError, RecursionError."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with os.fdopen(os.open(name, flags, dir_fd=directory), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_size > most_bytes:
            raise ValueError(f"{name}: not a plain file of at most {most_bytes} bytes")
        return json.loads(file.read(most_bytes))


def replace_json(directory: int, name: str, value: Mapping[str, Any]) -> None:
    """Write an object to a file of an open directory, see replace(). Raises OSError."""
    replace(directory, name, json.dumps(value, indent=1))


def replace(directory: int, name: str, text: str) -> None:
    """Write a file under a temporary name and rename it: a reader sees the old or new one. Raises OSError."""
    temporary = f".{name}.new"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with suppress(FileNotFoundError):
        os.unlink(temporary, dir_fd=directory)  # of a writer that was killed
    try:
        with os.fdopen(os.open(temporary, flags, 0o600, dir_fd=directory), "w") as file:
            file.write(text + "\n")
            file.flush()
            os.fsync(file.fileno())
        os.rename(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
    except OSError:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=directory)
        raise
