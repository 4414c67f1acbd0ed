# SPDX-License-Identifier: BSD-2-Clause
"""A test that plays a user behind sudo: their place, their home, and sudo's variables."""

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
    """A directory of root's that others may pass through: pytest closes its own whenever one begins."""
    with TemporaryDirectory(prefix="seektest-") as place:
        Path(place).chmod(mode)
        yield Path(place)


def home_of(user: struct_passwd, place: Path) -> Path:
    """Make a directory of the user's, which they get at."""
    home = place / "home"
    home.mkdir()
    os.chown(home, user.pw_uid, user.pw_gid)
    return home


def play_sudo(user: struct_passwd, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let what is started look as if the user had started it through sudo."""
    for name, value in (("UID", user.pw_uid), ("GID", user.pw_gid), ("USER", user.pw_name)):
        monkeypatch.setenv(f"SUDO_{name}", str(value))
