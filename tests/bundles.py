# SPDX-License-Identifier: BSD-2-Clause
"""The bundle of this tree, made once for all tests of a process, and unpacked where a test wants it."""

import fcntl
import hashlib
import os
import subprocess
from functools import cache
from pathlib import Path

TREE = Path(__file__).resolve().parents[1]


@cache
def archive() -> tuple[str, str]:
    """Make the bundle. Returns its file's path and the checksum that make printed.

    Inside a virtual machine the tree can't be written: there it is the file that the host made.
    """
    if not os.access(TREE / "build", os.W_OK):
        (made,) = (TREE / "build/bundle").glob("seekmeter-*-x86_64.tar.gz")
        return str(made), hashlib.sha256(made.read_bytes()).hexdigest()
    environment = {key: value for key, value in os.environ.items() if not key.startswith("SEEKMETER_")}
    with (TREE / "Makefile").open() as lock:  # tests run in two processes
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = subprocess.run(
            ["make", "bundle"], cwd=TREE, env=environment, capture_output=True, text=True, check=False
        )
    assert done.returncode == 0, done.stderr
    checksum, name = done.stdout.split()
    return str(TREE / name), checksum


def unpacked(folder: Path) -> Path:
    """Unpack the bundle in a folder. Returns its directory."""
    subprocess.run(["tar", "xzf", archive()[0], "-C", folder], check=True)
    (directory,) = folder.glob("seekmeter-*")
    return directory
