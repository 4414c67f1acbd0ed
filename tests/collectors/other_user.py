# SPDX-License-Identifier: BSD-2-Clause
"""Tests as another user behind sudo: a directory that user can reach, a home, and sudo's variables."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from pwd import struct_passwd
from tempfile import TemporaryDirectory

import pytest

USER = pwd.getpwnam("daemon")


@contextmanager
def passable(mode: int = 0o755) -> Iterator[Path]:
    """Make a directory of root's that other users may enter, as they may not enter pytest's own."""
    with TemporaryDirectory(prefix="seektest-") as directory:
        Path(directory).chmod(mode)
        yield Path(directory)


def home_of(user: struct_passwd, parent: Path) -> Path:
    """Make the directory "home" that belongs to the user."""
    home = parent / "home"
    home.mkdir()
    os.chown(home, user.pw_uid, user.pw_gid)
    return home


def play_sudo(user: struct_passwd, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the variables that sudo sets when this user runs it."""
    for name, value in (("UID", user.pw_uid), ("GID", user.pw_gid), ("USER", user.pw_name)):
        monkeypatch.setenv(f"SUDO_{name}", str(value))
