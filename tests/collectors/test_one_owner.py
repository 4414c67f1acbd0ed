# SPDX-License-Identifier: BSD-2-Clause
"""The run directory has one owner at a time: no workload can make root touch a file of root's by it.

sudo is played by its variables. The user is daemon, another user is bin: both are everywhere.
"""

from __future__ import annotations

import json
import os
import pwd
import signal
import stat
import struct
import time
from collections.abc import Callable, Iterator
from multiprocessing import get_context
from pathlib import Path

import pytest

from collectors.privilege import ownership, sudo
from collectors.privilege.sudo import Owner
from collectors.trace import run_dir
from collectors.trace.run_dir import RunDirectory
from tests.collectors.other_user import USER, home_of, passable, play_sudo
from tests.collectors.sessions import Job, wait_for
from tests.marks import needs_root
from workloads.system.errors import MachineError, OptionError

pytestmark = needs_root
OTHER = pwd.getpwnam("bin")
ME = Owner(USER.pw_uid, USER.pw_gid, USER.pw_name, "/")
_SECRET = "root's own\n"


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A directory of root's that others may pass through: pytest closes its own whenever one begins."""
    with passable(0o711) as place:
        yield place


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A directory of the user's, which they get at."""
    return home_of(USER, tmp_path)


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A file of root's that nobody else may read."""
    file = tmp_path / "secret"
    file.write_text(_SECRET)
    file.chmod(0o600)
    return file


def is_untouched(secret: Path) -> bool:
    """Whether it is as it was made."""
    status = secret.stat()
    return secret.read_text() == _SECRET and status.st_uid == 0 and stat.S_IMODE(status.st_mode) == 0o600


@pytest.fixture
def through_sudo(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is started looks as if the user had started it through sudo."""
    play_sudo(USER, monkeypatch)


def strangers_files(place: Path) -> list[str]:
    """What below a place is not the user's, or can be read by others."""
    found = []
    for path in (place, *place.rglob("*")):
        status = path.lstat()
        if status.st_uid != USER.pw_uid or status.st_mode & 0o077:
            found.append(f"{path}: {status.st_uid} {status.st_mode:o}")
    return found


class AsUser:
    """Something done over and over by a user, for a bounded time, beside the test."""

    def __init__(self, uid: int, act: Callable[[], None], seconds: float = 60) -> None:
        self._process = get_context("fork").Process(target=self._repeat, args=(uid, act, seconds))
        self._process.start()

    @staticmethod
    def _repeat(uid: int, act: Callable[[], None], seconds: float) -> None:
        os.setgroups([])
        os.setgid(uid)
        os.setuid(uid)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                act()
            except OSError:
                pass

    def end(self) -> None:
        """Stop it."""
        self._process.terminate()
        self._process.join()


@pytest.mark.usefixtures("through_sudo")
def test_links_that_a_command_plants_are_not_followed(home: Path, secret: Path) -> None:
    run = home / "run"
    names = [".run.json.new", "run.json", "losses.json", ".losses.json.new"]
    names += ["raw/workload.out", "raw/paths.jsonl", "raw/session.log", "raw/recorder/losses.json"]
    plant = "; ".join(f"ln -sf {secret} {run}/{name}" for name in names)
    command = f"echo hello; {plant}; mv {run} {run}-away; mkdir -p {run}/raw; {plant}; exit 0"
    job = Job("trace", run, DIR=str(home), CMD=command, COLLECT="calls counters")
    assert job.end() == 0, job.said
    assert is_untouched(secret)
    # It is theirs, under the name that they gave it; what they put in its place was not touched.
    away = home / "run-away"
    assert strangers_files(away) == []
    assert json.loads((away / "run.json").read_text())["state"] == "complete"
    assert (away / "raw/workload.out").read_text().startswith("hello\n")
    assert all((run / name).is_symlink() for name in names if "recorder" not in name)


@pytest.mark.usefixtures("through_sudo")
def test_command_cannot_read_the_run_directory(home: Path) -> None:
    run = home / "run"
    job = Job("trace", run, DIR=str(home), CMD=f"ls {run}; cat {run}/run.json; true", COLLECT="counters")
    assert job.end() == 0, job.said
    assert (run / "raw/workload.out").read_text().count("Permission denied") == 2
    assert strangers_files(run) == []


@pytest.mark.usefixtures("through_sudo")
def test_phases_of_a_command_are_read_with_limits(home: Path, secret: Path) -> None:
    run = home / "run"
    command = f"""
    echo '{{"name":"first","start_ns":1,"end_ns":2}}' >>"$SEEKMETER_PHASES"
    truncate -s 40G "$SEEKMETER_PHASES"
    head -c 200000 /dev/zero | tr '\\0' x >>"$SEEKMETER_FIGURES"
    cd "$(dirname "$SEEKMETER_PHASES")"
    ln -s {secret} link.json; mkfifo pipe.json; mkdir folder; touch "$(printf 'a\\033b')"
    echo '{{}}' >fine.json; truncate -s 40G holes.json; ln fine.json again.json
    """
    job = Job("trace", run, DIR=str(home), CMD=command, COLLECT="counters")
    assert job.end() == 0, job.said
    assert is_untouched(secret)
    assert job.left_behind() == [] and "busy" not in job.said
    assert "the workload's phases.jsonl has a line of more than 64 KiB" in job.said
    assert "the workload's figures.jsonl has a line of more than 64 KiB" in job.said
    assert "5 of the workload's files are not kept" in job.said
    kept = {path.name for path in (run / "raw").iterdir()}
    assert {"fine.json", "again.json"} <= kept
    assert not kept & {"link.json", "pipe.json", "folder", "holes.json"}
    assert json.loads((run / "raw/phases.jsonl").read_text().splitlines()[0])["name"] == "first"
    assert sum(path.stat().st_size for path in run.rglob("*")) < 8 << 20


@pytest.mark.usefixtures("through_sudo")
def test_constantly_swapped_directories_do_no_harm(home: Path, secret: Path) -> None:
    run, decoy = home / "run", home / "decoy"
    (decoy / "raw/recorder").mkdir(parents=True)
    for path in (decoy, decoy / "raw", decoy / "raw/recorder"):
        os.chown(path, USER.pw_uid, USER.pw_gid)
    for name in (".run.json.new", ".losses.json.new", "raw/session.log", "raw/recorder/.losses.json.new"):
        (decoy / name).symlink_to(secret)
        os.chown(decoy / name, USER.pw_uid, USER.pw_gid, follow_symlinks=False)

    def swap() -> None:
        if run.exists():
            run.rename(home / "away")
            decoy.rename(run)
        run.rename(decoy)
        (home / "away").rename(run)

    swapping = AsUser(USER.pw_uid, swap)
    try:
        job = Job("trace", run, DIR="/", CMD="sleep 1", COLLECT="calls counters")
        code = job.end()
    finally:
        swapping.end()
    assert code in (0, 1, 2, 3), job.said
    assert is_untouched(secret)
    left = [path for path in home.rglob("*") if path.lstat().st_uid == 0 and path.is_file()]
    assert left == [], job.said


def a_killed_run(home: Path) -> Job:
    """A session that was killed with -9 while its workload ran, so that its directory is still root's."""
    run = home / "run"
    job = Job("trace", run, DIR=str(home), CMD="sleep 300", COLLECT="counters")
    job.until("workload")
    wait_for((run / "raw/workload.out").exists)
    os.kill(job.process.pid, signal.SIGKILL)
    job.process.communicate()
    assert run.stat().st_uid == 0
    return job


def next_start(place: Path) -> str:
    """What the next session says that finds the killed one."""
    job = Job("trace", place, DIR="/", CMD="true", COLLECT="none")
    assert job.end() == 0, job.said
    return job.said


@pytest.mark.usefixtures("through_sudo")
def test_killed_run_is_handed_over_at_the_next_start(home: Path) -> None:
    job = a_killed_run(home)
    assert f"its run {home}/run is marked interrupted" in next_start(home / "next")
    assert strangers_files(home / "run") == []
    assert json.loads((home / "run/run.json").read_text())["state"] == "interrupted"
    assert job.left_behind() == []


@pytest.mark.usefixtures("through_sudo")
def test_directory_in_place_of_a_killed_run_is_not_touched(home: Path, secret: Path) -> None:
    a_killed_run(home)
    run = home / "run"
    run.rename(home / "away")
    run.mkdir()
    os.chown(run, USER.pw_uid, USER.pw_gid)
    (run / "run.json").write_text('{"state": "running", "warnings": []}')
    (run / ".run.json.new").symlink_to(secret)
    assert "marked interrupted" not in next_start(home / "next")
    assert is_untouched(secret)
    assert json.loads((run / "run.json").read_text())["state"] == "running"


def test_out_directory_of_another_user_is_refused(home: Path, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    theirs.chmod(0o777)
    for uid, mode in ((OTHER.pw_uid, 0o777), (OTHER.pw_uid, 0o755), (USER.pw_uid, 0o777)):
        os.chown(theirs, uid, uid)
        theirs.chmod(mode)
        with pytest.raises((OptionError, MachineError)):
            RunDirectory("one", str(theirs), ME)
        assert (theirs.stat().st_uid, stat.S_IMODE(theirs.stat().st_mode)) == (uid, mode)
    os.chown(theirs, USER.pw_uid, USER.pw_gid)
    theirs.chmod(0o755)
    run = RunDirectory("one", str(theirs), ME)
    assert (theirs.stat().st_uid, stat.S_IMODE(theirs.stat().st_mode)) == (0, 0o700)
    run.discard()
    assert (theirs.stat().st_uid, stat.S_IMODE(theirs.stat().st_mode)) == (USER.pw_uid, 0o755)


def test_root_records_only_where_nobody_else_can_rename(home: Path, tmp_path: Path) -> None:
    root = Owner(0, 0, "root", "/root")
    with pytest.raises(MachineError, match="lies where another user than root may rename it"):
        RunDirectory("one", str(home / "run"), root)
    assert list(home.iterdir()) == []
    (sticky := tmp_path / "like tmp").mkdir()
    sticky.chmod(0o1777)
    (tmp_path / "roots").mkdir()
    (link := sticky / "link").symlink_to(tmp_path / "roots")  # as root may have: it is followed
    RunDirectory("one", str(link / "run"), root).discard()
    os.chown(link, OTHER.pw_uid, OTHER.pw_gid, follow_symlinks=False)
    with pytest.raises(MachineError, match="lies where another user than root may rename it"):
        RunDirectory("one", str(link / "run"), root)
    assert list((tmp_path / "roots").iterdir()) == []
    for place in (tmp_path, sticky):
        run = RunDirectory("one", str(place / "run"), root)
        run.discard()
        assert not (place / "run").exists()


def test_root_makes_no_run_directory_behind_a_link_of_others(home: Path, tmp_path: Path) -> None:
    (roots := tmp_path / "roots").mkdir(mode=0o755)
    (home / "link").symlink_to(roots)
    os.chown(home / "link", USER.pw_uid, USER.pw_gid, follow_symlinks=False)
    with pytest.raises(MachineError, match="permission denied"):
        RunDirectory("one", str(home / "link/run"), ME)
    assert list(roots.iterdir()) == []


def test_root_makes_the_directory_where_the_user_cannot_write(tmp_path: Path) -> None:
    run = RunDirectory("one", str(tmp_path / "run"), ME)
    run.finish()
    assert strangers_files(tmp_path / "run") == []


@pytest.fixture
def shared_tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A tree of root's that several use."""
    tree = tmp_path / "tree"
    tree.mkdir()
    for module in (sudo, run_dir):
        monkeypatch.setattr(module, "TREE", tree)
    yield tree


@pytest.mark.parametrize("owner", [0, OTHER.pw_uid])
def test_runs_folder_belongs_to_the_owner_of_the_tree(shared_tree: Path, owner: int) -> None:
    os.chown(shared_tree, owner, owner)
    runs = shared_tree / "runs"
    first = RunDirectory("one", None, ME)
    first.begin()
    first.finish()
    assert runs.stat().st_uid == owner and not runs.stat().st_mode & 0o022
    assert strangers_files(first.path) == []
    second = RunDirectory("two", None, Owner(OTHER.pw_uid, OTHER.pw_gid, OTHER.pw_name, "/"))
    second.finish()
    assert os.readlink(runs / "latest") == second.path.name
    assert second.path.stat().st_uid == OTHER.pw_uid and first.path.stat().st_uid == USER.pw_uid


@pytest.mark.parametrize(("owner", "mode"), [(OTHER.pw_uid, 0o755), (0, 0o777), (0, 0o1777), (0, 0o775)])
def test_runs_folder_where_others_can_rename_is_refused(shared_tree: Path, owner: int, mode: int) -> None:
    runs = shared_tree / "runs"
    runs.mkdir()
    os.chown(runs, owner, owner)
    runs.chmod(mode)
    with pytest.raises(MachineError, match=r"can rename runs: chown it, chmod go-w it, or give OUT="):
        RunDirectory("one", None, ME)
    assert list(runs.iterdir()) == []


def test_inherited_access_lists_are_removed(tmp_path: Path) -> None:
    """A default list of runs/ is of each file in it; the group's bits of a file bound what it allows."""
    entries = ((1, 7, -1), (2, 7, OTHER.pw_uid), (4, 5, -1), (16, 7, -1), (32, 0, -1))
    rules = struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *entry) for entry in entries)
    os.setxattr(tmp_path, "system.posix_acl_default", rules)
    run = RunDirectory("one", str(tmp_path / "run"), ME, ME.gid)
    (run.raw / "file").write_text("x")
    assert "system.posix_acl_access" in os.listxattr(run.raw / "file")
    run.finish()
    for path in (run.path, *run.path.rglob("*")):
        assert os.listxattr(path) == [], path


def test_named_group_may_read_the_run(tmp_path: Path) -> None:
    run = RunDirectory("one", str(tmp_path / "run"), ME, OTHER.pw_gid)
    (run.raw / "file").write_text("x")
    assert stat.S_IMODE(run.path.stat().st_mode) == 0o700  # as long as it is recorded
    run.finish()
    for path, mode in ((run.path, 0o750), (run.path / "raw", 0o750), (run.path / "raw/file", 0o640)):
        status = path.stat()
        assert (status.st_uid, status.st_gid) == (USER.pw_uid, OTHER.pw_gid)
        assert stat.S_IMODE(status.st_mode) == mode, path


def test_handed_over_run_is_written_with_the_owners_rights(home: Path, secret: Path) -> None:
    run = RunDirectory("one", str(home / "run"), ME)
    run.hand_over()
    for name in (".run.json.new", ".losses.json.new"):
        (run.path / name).symlink_to(secret)
    (run.path / "raw").rename(run.path / "raw-away")
    (run.path / "raw").symlink_to(secret.parent)
    run.facts["state"] = "complete"
    run.finish()
    assert is_untouched(secret)
    assert json.loads((run.path / "run.json").read_text())["state"] == "complete"
    assert (run.path / "run.json").stat().st_uid == USER.pw_uid


def test_as_user_switches_rights_and_back(tmp_path: Path, secret: Path) -> None:
    before = (os.getresuid(), os.getresgid(), os.getgroups())
    with ownership.as_user(ME):
        assert os.getresuid() == (0, USER.pw_uid, 0)
        assert os.getegid() == USER.pw_gid and 0 not in os.getgroups()
        with pytest.raises(PermissionError):
            secret.read_text()
    assert (os.getresuid(), os.getresgid(), os.getgroups()) == before
