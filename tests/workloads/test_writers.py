# SPDX-License-Identifier: BSD-2-Clause
"""Users who may write a disk: by its node, and by the file below a loop device."""

from __future__ import annotations

import os
import pwd
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from workloads.disks import writers

pytestmark = pytest.mark.root


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """A file for a disk."""
    file = tmp_path / "disk.img"
    file.write_bytes(bytes(1 << 20))
    file.chmod(0o600)
    return file


@pytest.fixture
def attached(image: Path) -> Iterator[str]:
    """A loop device on it."""
    name = subprocess.run(
        ["losetup", "--find", "--show", image], check=True, capture_output=True, text=True
    ).stdout.strip()
    yield name
    subprocess.run(["losetup", "--detach", name], check=True)


def test_writers_include_those_of_the_loop_file(image: Path, attached: str) -> None:
    assert writers.other_writers(attached) == ""
    daemon = pwd.getpwnam("daemon")
    os.chown(image, daemon.pw_uid, daemon.pw_gid)
    assert writers.other_writers(attached) == f"daemon (its file {image})"
    os.chown(image, 0, 0)
    image.chmod(0o666)
    assert writers.other_writers(attached) == f"everybody (its file {image})"
    image.chmod(0o600)
    image.parent.chmod(0o777)
    assert writers.other_writers(attached) == f"who can write its directories (its file {image})"
    image.parent.chmod(0o700)


def test_writers_include_those_of_the_node(attached: str) -> None:
    status = os.stat(attached)
    try:
        os.chmod(attached, 0o666)
        assert writers.other_writers(attached) == "everybody (its node)"
    finally:
        os.chmod(attached, status.st_mode & 0o7777)
