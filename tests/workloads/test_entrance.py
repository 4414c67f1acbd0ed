# SPDX-License-Identifier: BSD-2-Clause
"""One user may pass through the session's directory to the mount point, another may not."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from workloads.system import entrance

pytestmark = pytest.mark.root
USER, OTHER = 61001, 61002


@pytest.fixture
def session() -> Iterator[Path]:
    """A directory made as the janitor makes it, at the same path."""
    place = Path(f"/run/seekmeter-test-{os.getpid()}")
    (place / "session/mnt").mkdir(parents=True)
    place.chmod(0o700)
    (place / "session").chmod(0o700)
    (place / "session/mnt").chmod(0o755)
    yield place / "session"
    (place / "session/mnt").rmdir()
    (place / "session").rmdir()
    place.rmdir()


def enters(directory: Path, uid: int, gid: int) -> bool:
    """Return whether a user can make a directory the working directory."""
    words = ["setpriv", f"--reuid={uid}", f"--regid={gid}", "--clear-groups", "sh", "-c", 'cd "$0"']
    return subprocess.run([*words, str(directory)], check=False, capture_output=True).returncode == 0


def test_only_the_user_may_pass(session: Path) -> None:
    entrance.let_in(session, USER, USER)
    assert enters(session / "mnt", USER, USER)
    assert not enters(session / "mnt", OTHER, OTHER)
    assert not enters(session / "mnt", OTHER, USER)  # nor one of the same group
    assert session.stat().st_uid == 0


def test_group_may_pass_without_access_control_lists(session: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOTSUP, "Operation not supported")

    monkeypatch.setattr(os, "setxattr", refuse)
    entrance.let_in(session, USER, USER)
    assert enters(session / "mnt", USER, USER)
    assert not enters(session / "mnt", OTHER, OTHER)
    assert stat.S_IMODE(session.stat().st_mode) == 0o710


def test_nobody_may_pass_for_root(session: Path) -> None:
    entrance.let_in(session, 0, 0)
    assert not enters(session / "mnt", USER, USER)
