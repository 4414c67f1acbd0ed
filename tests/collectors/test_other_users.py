# SPDX-License-Identifier: BSD-2-Clause
"""What others than root and the user of a run can do about it: nothing. sudo is played by its variables."""

from __future__ import annotations

import os
import pwd
import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.collectors.sessions import Job, needs_root, wait_for

pytestmark = needs_root
USER, OTHER = pwd.getpwnam("daemon"), pwd.getpwnam("bin")


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A directory of root's that others may pass through: pytest closes its own whenever one begins."""
    with TemporaryDirectory(prefix="seektest-") as place:
        Path(place).chmod(0o755)
        yield Path(place)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory of the user's that others may look into, who starts all by sudo."""
    for name, value in (("UID", USER.pw_uid), ("GID", USER.pw_gid), ("USER", USER.pw_name)):
        monkeypatch.setenv(f"SUDO_{name}", str(value))
    place = tmp_path / "home"
    place.mkdir()
    os.chown(place, USER.pw_uid, USER.pw_gid)
    return place


def others(script: str, *words: object) -> subprocess.CompletedProcess[str]:
    """Let another user run a script."""
    before = ["setpriv", f"--reuid={OTHER.pw_uid}", f"--regid={USER.pw_gid}", "--clear-groups"]
    return subprocess.run(
        [*before, "sh", "-c", script, "sh", *map(str, words)], check=False, capture_output=True, text=True
    )


def test_others_can_neither_read_a_run_nor_sit_in_its_mounts(home: Path) -> None:
    go = home / "go"
    command = f"echo private-name >letter; until [ -e {go} ]; do sleep 0.1; done"
    job = Job("trace", home / "run", FS="ext4", SIZE="64M", CMD=command, COLLECT="calls counters")
    job.until("workload")
    try:
        (session,) = Path("/run/seekmeter").glob(f"{job.process.pid}-*")
        wait_for((session / "mnt/letter").exists)
        for place in (session, session / "mnt", session / "said", home / "run", home / "run/raw"):
            tried = others('cd "$1" && echo in; ls "$1" && echo read', place)
            assert tried.stdout == "", place
        asked = others('cat "$1"', home / "run/run.json")
        assert asked.returncode != 0 and asked.stdout == ""
    finally:
        go.touch()
    assert job.end() == 0, job.said
    assert job.left_behind() == []
    assert others('ls "$1"', home / "run").stdout == ""
    assert (home / "run").stat().st_uid == USER.pw_uid


def test_the_file_system_under_test_has_no_set_user_id_and_no_devices(home: Path) -> None:
    """Also after it was mounted again. Who can write the disk below could make both."""
    command = 'mount | grep " $SEEKMETER_DIR "; cd / && remount && mount | grep " $SEEKMETER_DIR "'
    job = Job("trace", home / "run", FS="ext4", SIZE="64M", CMD=command, COLLECT="none")
    assert job.end() == 0, job.said
    lines = [line for line in job.run.output.splitlines() if " type ext4 " in line]
    assert len(lines) == 2
    for line in (*lines, job.run.facts["filesystem"]["proc_mounts"].replace(" ", ",")):
        assert {"nosuid", "nodev"} <= set(line.replace("(", ",").replace(")", ",").split(",")), line
    assert "nosuid,nodev" in job.run.facts["filesystem"]["mount"]


def test_a_workload_of_ours_runs_as_them(home: Path) -> None:
    """In a file system of their own, too: who can write the disk below may put links there."""
    job = Job("trace", home / "run", FS="ext4", WL="manyfiles", SCALE="quick", COLLECT="calls", DISK="ram")
    job.until("workload")
    seen = set()

    def is_there() -> bool:
        for path in Path("/proc").glob("[0-9]*"):
            try:
                if b"generators/manyfiles" in (path / "cmdline").read_bytes():
                    seen.add(path.stat().st_uid)
            except OSError:
                continue
        return bool(seen)

    wait_for(is_there)
    assert job.end() == 0, job.said
    assert seen == {USER.pw_uid}


def test_a_directory_that_they_cannot_enter_is_refused(home: Path, tmp_path: Path) -> None:
    place = tmp_path / "roots"
    place.mkdir(mode=0o700)
    job = Job("trace", home / "run", DIR=str(place), COLLECT="calls", CMD="true")
    assert job.end() == 3, job.said
    assert f"DIR={place} cannot be entered by daemon, whom the command runs as" in job.said
