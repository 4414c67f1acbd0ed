# SPDX-License-Identifier: BSD-2-Clause
"""One run of a plant, with or without its cause: traced, or only timed."""

from __future__ import annotations

import fcntl
import json
import os
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from tests.planted.plant import Plant
from tests.planted.site import Site
from workloads.system import mounts

TREE = Path(__file__).parents[2]


@contextmanager
def site(filesystem: str) -> Iterator[Site]:
    """A new place for one run, and, from the first on, mounts of our own."""
    _go_apart()
    folder = Path(tempfile.mkdtemp(prefix="planted-", dir="/var/tmp"))
    try:
        yield Site(folder, filesystem)
    finally:
        shutil.rmtree(folder)


@cache
def _go_apart() -> None:
    """Mount where no other session can copy the mounts: its copies would keep our devices busy."""
    mounts.go_apart(shared=True)


@contextmanager
def alone() -> Iterator[None]:
    """Hold the lock of the file $PLANTED_LOCK, if it is set: users of a machine take turns by it."""
    name = os.environ.get("PLANTED_LOCK")
    if not name:
        yield
        return
    with open(name, "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def timed(plant: Plant, filesystem: str, is_planted: bool) -> float:
    """Run without tracing. Returns the workload's wall time in s."""
    with site(filesystem) as place, plant.run(place, is_planted) as words:
        if "MEM" in words:
            raise ValueError(f"{plant.name}: only make trace limits memory")
        start = time.monotonic()
        subprocess.run(["bash", "-c", words["CMD"]], cwd=words["DIR"], check=True)
        return time.monotonic() - start


def traced(plant: Plant, filesystem: str, is_planted: bool, out: Path) -> float:
    """Run under make trace, which writes its reports into the run directory. Returns the wall time in s."""
    with alone(), site(filesystem) as place, plant.run(place, is_planted) as words:
        given = [f"{name}={text}" for name, text in {**words, "OUT": str(out)}.items()]
        result = subprocess.run(
            ["make", "-C", str(TREE), "trace", *given], check=False, capture_output=True, text=True
        )
    if result.returncode != 0:
        raise RuntimeError(f"make trace {shlex.join(given)}:\n{result.stdout}{result.stderr}")
    wall_s: float = json.loads((out / "run.json").read_text())["timing"]["workload_s"]
    return wall_s
