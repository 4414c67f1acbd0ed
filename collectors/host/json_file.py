# SPDX-License-Identifier: BSD-2-Clause
"""Read an untrusted JSON file: only a plain file of limited size."""

import json
import os
import stat
from typing import Any


def read_json(directory: int, name: str, most_bytes: int) -> Any:
    """Return the value in a file of an open directory. Raises OSError, ValueError, RecursionError."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with os.fdopen(os.open(name, flags, dir_fd=directory), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_size > most_bytes:
            raise ValueError(f"{name}: not a plain file of at most {most_bytes} bytes")
        return json.loads(file.read(most_bytes))
