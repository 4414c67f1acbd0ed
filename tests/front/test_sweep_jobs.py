# SPDX-License-Identifier: BSD-2-Clause
"""make plan of a sweep as typed, and what setup is told before it installs anything for make sweep."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from workloads import filesystems

TREE = Path(__file__).parents[2]


def make(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run make in the tree."""
    return subprocess.run(
        ["make", *arguments],
        cwd=TREE, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip


def front(module: str, *arguments: str, **words: str) -> subprocess.CompletedProcess[str]:
    """Run a program of collectors/front as setup does, with these variables."""
    given = {f"SEEKMETER_{name}": text for name, text in words.items()}
    return subprocess.run(
        [sys.executable, "-S", "-m", f"collectors.front.{module}", *arguments],
        cwd=TREE, env={**os.environ, **given, "SEEKMETER_WORDS": " ".join(words)},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_plan_of_a_sweep_shows_runs_and_changes_nothing() -> None:
    before = sorted(path.name for path in (TREE / "runs").iterdir()) if (TREE / "runs").exists() else []
    words = ("FS=ext4 btrfs", "WL=filemark", "JOURNAL=- file", "SCALE=quick", "REPS=4", "ORDER=7")
    done = make("plan", *words)
    assert done.returncode == 0, done.stderr
    text = done.stdout
    assert (
        "command     make sweep FS='ext4 btrfs' WL=filemark JOURNAL='- file' SCALE=quick REPS=4 ORDER=7"
        in text
    )
    assert "ext4+btrfs-filemark: 3 configurations, 4 runs each: 12 runs and 2 anchors" in text
    assert "about 6 min, and the anchors" in text  # 12 runs of 28 s
    assert "at most 2.2G at a time in " in text and "about 60M of run directories stay" in text
    assert re.search(r"^c02 +ext4, JOURNAL=file +4 +28 s +2\.2G$", text, re.MULTILINE)
    assert re.search(r"^  btrfs, JOURNAL=file: JOURNAL does not fit btrfs", text, re.MULTILINE)
    block = re.search(r"^block 1 +anchor (.*)$", text, re.MULTILINE)
    assert block is not None and sorted(block[1].split()) == ["c01", "c02", "c03"]
    for command in (
        "mkfs.ext4 -F -q /dev/loopN",
        "mkfs.btrfs -f -q /dev/loopN",
        "mount -t btrfs",
        "fsck.ext4 -f -n",
    ):
        assert command in text
    assert make("plan", *words).stdout == text
    after = sorted(path.name for path in (TREE / "runs").iterdir()) if (TREE / "runs").exists() else []
    assert [name for name in after if "sweep-ext4+btrfs" in name and name not in before] == []


def test_plan_without_a_seed_gives_the_seed_it_drew() -> None:
    words = ("FS=ext4", "CMD=true", "SIZE=64M 65M 66M 67M")
    text = make("plan", *words).stdout
    seed = re.search(r"ORDER=(\d+) gives this order again", text)
    assert seed is not None
    again = make("plan", *words, f"ORDER={seed[1]}").stdout
    line = re.compile(r"^block 1 .*$", re.MULTILINE)
    assert line.findall(again) == line.findall(text) != []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("sweep", "FS=ext4 xsf", "WL=filemark"), "FS=xsf: no file system 'xsf': did you mean xfs"),
        (("plan", "FS=ext4 xsf", "WL=filemark"), "FS=xsf: no file system 'xsf': did you mean xfs"),
        (("sweep", "FS=btrfs", "WL=filemark", "JOURNAL=file ram"), "JOURNAL does not fit btrfs"),
        (("sweep", "WL=filemark"), "nothing to run on: add FS=NAME"),
        (("sweep",), "nothing to run on: add FS=NAME"),
        (("trace", "FS=ext4", "WL=filemark", "REPS=3"), "REPS does not fit the job trace"),
        (("verify",), "no finding is named: add FINDING=1"),
        (("verify", "RUN=/nonexistent", "FINDING=1"), "RUN=/nonexistent is not a finished run's directory"),
        (("verify", "FINDING=1", "REPS=3"), "REPS does not fit the job verify"),
        (("plan", "RUN=/nonexistent", "FINDING=1", "FS=ext4"), "FS does not fit FINDING="),
    ],
)  # fmt: skip
def test_wrong_sweep_exits_2_before_anything_is_made(arguments: tuple[str, ...], message: str) -> None:
    done = make(*arguments)
    assert done.returncode == 2 and message in done.stderr, done.stderr
    assert re.search(r"Error 2$", done.stderr.strip()) and "Traceback" not in done.stderr


def test_setup_installs_the_packages_of_every_value() -> None:
    done = front("packages", "run", "sweep", FS="ext4 zfs reiser4", WL="filemark")
    wanted = {name for fs in ("zfs", "reiser4") for name in filesystems.load(fs).packages}
    assert done.returncode == 0, done.stderr
    missing = {name for name in wanted if name in done.stdout.split()}
    assert missing == wanted or not filesystems.missing_programs(filesystems.load("zfs"))


def test_setup_learns_of_a_virtual_machine_in_any_value() -> None:
    assert front("check", "sweep", FS="ext4 xfs", CMD="true").stdout == ""
    assert front("check", "sweep", FS="ext4 xfs", CMD="true", KERNEL="- 6.1").stdout == "vm\n"
