# SPDX-License-Identifier: BSD-2-Clause
"""Temporary."""
import os
from pathlib import Path


def let_in(directory: Path, uid: int, gid: int) -> None:
    """Temporary."""
    os.chmod(directory, 0o711)
    os.chmod(directory.parent, 0o711)
