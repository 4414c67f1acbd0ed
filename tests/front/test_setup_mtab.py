# SPDX-License-Identifier: BSD-2-Clause
"""Setup links /etc/mtab, which mkfs.nilfs2 needs, in a root that lacks the file, such as a container's."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.collectors.sessions import in_own_mount_namespace

TREE = Path(__file__).resolve().parents[2]
pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(not shutil.which("mkfs.nilfs2"), reason="mkfs.nilfs2 is not installed: make setup"),
]


def in_bare_root(etc: Path, script: str, fs: str) -> str:
    """Return the output of a script, run in a mount namespace with this /etc. The script must succeed."""
    variables = {"SEEKMETER_FS": fs, "SEEKMETER_CMD": "true", "SEEKMETER_WORDS": "FS CMD"}
    script = f'mount --bind "$0" /etc; {script}'
    done: subprocess.CompletedProcess[str] = subprocess.run(
        [*in_own_mount_namespace(etc.parent), "sh", "-ec", script, str(etc)],
        cwd=TREE, env=os.environ | variables, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_mtab_is_linked_for_nilfs2_alone_and_once(tmp_path: Path) -> None:
    etc, image = tmp_path / "etc", tmp_path / "image"
    shutil.copytree("/etc", etc, symlinks=True, ignore=shutil.ignore_patterns("mtab"))
    with image.open("wb") as file:
        file.truncate(256 << 20)
    setup = "collectors/front/setup.sh run trace"
    assert "mtab" not in in_bare_root(etc, setup, "ext4")
    assert not (etc / "mtab").is_symlink()
    output = in_bare_root(etc, setup, "nilfs2")
    assert "linking /etc/mtab to /proc/self/mounts" in output
    assert os.readlink(etc / "mtab") == "../proc/self/mounts"
    script = f"{setup}; mkfs.nilfs2 -q -f {image}; cmp /etc/mtab /proc/self/mounts"
    assert "linking" not in in_bare_root(etc, script, "nilfs2")
