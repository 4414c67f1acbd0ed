# SPDX-License-Identifier: BSD-2-Clause
"""The tree at a place where every user may enter it: in root's home (0700) nobody else can run it."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NOBODY = 65534


@contextmanager
def opened(tree: Path) -> Iterator[Path]:
    """Give the tree itself if everybody may enter it, else a mount of it, read-only, that goes at the end."""
    if _lets_in(tree):
        yield tree
        return
    place = Path(tempfile.mkdtemp(prefix="seekmeter-tree-"))
    place.chmod(0o755)
    try:
        # Read-only: who clears a place for temporary files must not remove the tree.
        subprocess.run(["mount", "--bind", "-o", "ro", tree, place], check=True)
        assert _lets_in(place), f"run chmod a+rx {tree}: other users are to run what is in it"
        yield place
    finally:
        subprocess.run(["umount", "--lazy", place], check=False)
        place.rmdir()


def python_of(tree: Path) -> Path:
    """Return our Python, by its name in that tree."""
    python, own = Path(sys.executable), Path(__file__).parents[1]
    return tree / python.relative_to(own) if python.is_relative_to(own) else python


def _lets_in(tree: Path) -> bool:
    """Whether nobody, who is in no group of ours, can run what is in it."""
    nobody = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    words = ["env", f"--chdir={tree}", str(python_of(tree)), "-B", "-c", "import analysis, numpy"]
    return subprocess.run([*nobody, *words], check=False, capture_output=True).returncode == 0
