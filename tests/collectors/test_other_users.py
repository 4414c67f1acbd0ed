# SPDX-License-Identifier: BSD-2-Clause
"""What others than root and the user of a run can do about it: nothing. sudo is played by its variables."""

from __future__ import annotations

import os
import pwd
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.collectors import sessions
from tests.collectors.loop_disk import MIB, loop_disk
from tests.collectors.other_user import USER
from tests.collectors.sessions import Job, wait_for
from tests.marks import needs_root

pytestmark = needs_root
OTHER = pwd.getpwnam("bin")


@pytest.fixture
def tree_of_all(open_tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions are of a tree that the user may enter."""
    monkeypatch.setattr(sessions, "TREE", open_tree)


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
        inside = job.inside(session)
        wait_for((inside / "mnt/letter").exists)
        directories = [parent / name for parent in (session, inside) for name in ("", "mnt", "results")]
        for directory in (*directories, home / "run", home / "run/raw"):
            tried = others('cd "$1" && echo in; ls "$1" && echo read', directory)
            assert tried.stdout == "", directory
        asked = others('cat "$1"', home / "run/run.json")
        assert asked.returncode != 0 and asked.stdout == ""
    finally:
        go.touch()
    assert job.end() == 0, job.said
    assert job.left_behind() == []
    assert others('ls "$1"', home / "run").stdout == ""
    assert (home / "run").stat().st_uid == USER.pw_uid


@pytest.fixture
def copied() -> Iterator[Callable[[], None]]:
    """Have another user copy all mounts that they see, and keep them."""
    words = ["setpriv", f"--reuid={OTHER.pw_uid}", f"--regid={OTHER.pw_gid}", "--clear-groups"]
    words += ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", "echo copied; exec sleep 60"]
    holders = []

    def copy() -> None:
        holder = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        holders.append(holder)
        assert holder.stdout is not None
        if holder.stdout.readline() != "copied\n":
            pytest.skip(
                "nobody may make a user namespace here: set user.max_user_namespaces, or a kernel with it"
            )

    yield copy
    for holder in holders:
        holder.kill()
        holder.communicate()


@pytest.mark.usefixtures("tree_of_all")
def test_copied_mount_namespace_keeps_no_disk_in_use(home: Path, copied: Callable[[], None]) -> None:
    """Neither the unmount between two phases nor the end of the run waits for it."""
    go = home / "go"
    command = f"echo x >f; until [ -e {go} ]; do sleep 0.1; done; cd / && remount"
    job = Job("trace", home / "run", FS="ext4", SIZE="64M", CMD=command, COLLECT="none")
    job.until("workload")
    copied()
    go.touch()
    assert job.end() == 0, job.said
    assert job.left_behind() == []
    assert job.run.facts["filesystem"]["fsck"]["clean"] is True
    assert "remount" in [phase["name"] for phase in job.run.phases]


def test_copied_mount_namespace_keeps_no_killed_run(home: Path, copied: Callable[[], None]) -> None:
    job = Job("trace", home / "run", FS="ext4", SIZE="64M", CMD="sleep 60", COLLECT="none")
    job.until("workload")
    copied()
    os.kill(job.process.pid, signal.SIGKILL)
    job.process.communicate()
    begun = time.monotonic()
    later = Job("trace", home / "later", DIR=str(home), COLLECT="none", CMD="true")
    assert later.end() == 0, later.said
    assert time.monotonic() - begun < 15
    assert job.left_behind() == []
    assert (home / "run").stat().st_uid == USER.pw_uid


@pytest.mark.usefixtures("tree_of_all")
def test_file_system_under_test_is_mounted_nosuid_nodev(home: Path) -> None:
    """Also after it was mounted again. Who can write the disk below could make both."""
    command = 'mount | grep " $SEEKMETER_DIR "; cd / && remount && mount | grep " $SEEKMETER_DIR "'
    job = Job("trace", home / "run", FS="ext4", SIZE="64M", CMD=command, COLLECT="none")
    assert job.end() == 0, job.said
    lines = [line for line in job.run.output.splitlines() if " type ext4 " in line]
    assert len(lines) == 2
    for line in (*lines, job.run.facts["filesystem"]["proc_mounts"].replace(" ", ",")):
        assert {"nosuid", "nodev"} <= set(line.replace("(", ",").replace(")", ",").split(",")), line
    assert "nosuid,nodev" in job.run.facts["filesystem"]["mount"]


@pytest.mark.usefixtures("tree_of_all")
def test_planted_set_user_id_file_gains_no_rights(home: Path) -> None:
    """The disk's file is theirs: they make root's program of theirs in it, and have it mounted again."""
    image = home / "disk.img"
    edit = f'debugfs -w -R "set_inode_field id %s" {image}'
    command = (
        f"PATH=$PATH:/usr/sbin:/sbin; cp /usr/bin/id id; sync; cd / && {edit % 'mode 0104755'}; "
        f'{edit % "uid 0"}; remount; cd "$SEEKMETER_DIR"; ls -ln id; ./id'
    )
    with loop_disk(image, 64 * MIB) as disk:
        os.chown(image, USER.pw_uid, USER.pw_gid)
        path = str(disk.path)
        job = Job("trace", home / "run", FS="ext4", DISK=path, ERASE=path, CMD=command, COLLECT="none")
        job.end()
    assert f"{path} can be written by daemon (its file {image})" in job.said
    assert "-rwsr-xr-x 1 0 " in job.run.output, job.run.output
    assert f"uid={USER.pw_uid}(daemon)" in job.run.output and "euid" not in job.run.output


@pytest.mark.usefixtures("tree_of_all")
def test_generator_runs_as_the_user_behind_sudo(home: Path) -> None:
    """In a file system of their own, too: who can write the disk below may put links there."""
    job = Job("trace", home / "run", FS="ext4", WL="manyfiles", SCALE="quick", COLLECT="calls", DISK="ram")
    job.until("workload")
    seen = set()

    def is_there() -> bool:
        for pid, words in job.commands_by_pid().items():  # other tests run it too, as root
            if words.partition("\0")[0].endswith("generators/manyfiles"):
                with suppress(OSError):
                    seen.add(Path(f"/proc/{pid}").stat().st_uid)
        return bool(seen)

    wait_for(is_there)
    assert job.end() == 0, job.said
    assert seen == {USER.pw_uid}


def test_directory_that_the_user_cannot_enter_is_refused(home: Path, open_place: Path) -> None:
    place = open_place / "roots"
    place.mkdir(mode=0o700)
    job = Job("trace", home / "run", DIR=str(place), COLLECT="calls", CMD="true")
    assert job.end() == 3, job.said
    assert f"DIR={place} cannot be entered by daemon, whom the command runs as" in job.said
