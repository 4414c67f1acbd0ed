# SPDX-License-Identifier: BSD-2-Clause
"""make watch with SECS=0: a first screen for each window, until ^C, a signal, or a reader that is gone."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.collectors.loop_disk import attached, mounted
from tests.collectors.sessions import Job, Run, wait_for
from tests.marks import needs_root

pytestmark = [needs_root]

EVERY_S = 2
# At full speed it switches 180,000 times a second, of which a busy machine records a fifth, and says so.
WRITER = """
import os, time
file = os.open("f", os.O_WRONLY | os.O_CREAT | os.O_DSYNC)
while True:
    os.pwrite(file, bytes(4096), 0)
    time.sleep(0.001)
"""


@pytest.fixture
def loop(tmp_path: Path) -> Iterator[str]:
    """A loop device with a file system, on which somebody writes and syncs."""
    image = tmp_path / "image"
    with image.open("wb") as file:
        file.truncate(64 << 20)
    with ExitStack() as stack:
        disk = Path(str(stack.enter_context(attached(image))))
        subprocess.run(["mkfs.ext4", "-q", "-F", disk], check=True)
        place = stack.enter_context(mounted(disk, tmp_path / "mnt"))
        writer = stack.enter_context(subprocess.Popen([sys.executable, "-c", WRITER], cwd=place))
        stack.callback(writer.kill)
        yield disk.name


def live(loop: str, tmp_path: Path) -> Job:
    return Job("watch", tmp_path / "live", None, DEV=loop, SECS="0", EVERY=str(EVERY_S))


def windows(job: Job) -> list[str]:
    return sorted(path.name for path in job.run.path.glob("0*"))


def test_each_window_has_a_screen_until_interrupted(loop: str, tmp_path: Path) -> None:
    job = live(loop, tmp_path)
    wait_for(lambda: windows(job)[-1:] >= ["000006"])
    assert len(windows(job)) <= 5  # three kept, one recorded, one being read
    os.killpg(job.process.pid, signal.SIGINT)  # as a terminal does
    assert job.end() == 0, job.said
    assert job.left_behind() == []
    screens = job.printed.split("-" * 80 + "\n")
    assert len(screens) >= 3
    for number, screen in enumerate(screens, 1):
        lines = screen.splitlines()
        assert all(len(line) <= 80 for line in lines), screen
        assert "WHERE THE TIME WENT: the critical path of python" in screen, screen
        assert "synchronous" in screen
        assert re.match(r"recording took \d+\.\d% of \d+ CPUs? so far, making screens \d+\.\d%", lines[1])
        assert number == 1 or re.search(r"; \d+\.\d s before it not watched \(\d+% ", lines[0]), lines[0]
    kept = windows(job)
    assert len(kept) <= 4
    for name in kept:
        assert Run(job.run.path / name).facts["state"] == "complete"
    assert f"make report RUN={job.run.path}/" in job.said


def test_killed_live_watch_leaves_a_window_that_ends_by_itself(loop: str, tmp_path: Path) -> None:
    job = live(loop, tmp_path)
    wait_for(lambda: windows(job)[-1:] >= ["000002"])
    os.kill(job.process.pid, signal.SIGKILL)
    job.process.wait()
    wait_for(lambda: job.commands() == [])
    for name in windows(job):
        facts = Run(job.run.path / name).facts
        assert (facts["state"], facts["exit_status"]) == ("complete", 0)
    assert [path for path in Path("/run/seekmeter").glob("*/borders") if _is_dead(path)] == []


def _is_dead(path: Path) -> bool:
    return not Path("/proc", path.parent.name.partition("-")[0]).exists()


def test_live_watch_ends_in_order_with_its_reader(loop: str, tmp_path: Path) -> None:
    job = live(loop, tmp_path)
    assert job.process.stdout is not None
    assert job.process.stdout.readline().startswith("window 1, ")
    job.process.stdout.close()
    began = time.monotonic()
    job.process.wait(timeout=120)
    assert job.process.returncode == 0
    assert time.monotonic() - began < 60
    assert job.left_behind() == []


def test_live_watch_ends_with_a_window_that_fails(loop: str, tmp_path: Path) -> None:
    job = live(loop, tmp_path)
    log = job.run.path / "watch.log"
    wait_for(lambda: log.exists() and "  watch " in log.read_text())
    os.kill(job.recorder(), signal.SIGKILL)
    assert job.end() == 1
    assert "window 1 failed: " in job.said
    assert job.left_behind() == []
