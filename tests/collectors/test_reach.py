# SPDX-License-Identifier: BSD-2-Clause
"""A tree that the user behind sudo cannot enter, as in root's home. sudo is played by its variables.

What runs as that user is refused before anything is made; what is recorded all the same says what it misses.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.collectors import sessions
from tests.collectors.other_user import USER, play_sudo
from tests.collectors.sessions import TREE, Job
from tests.marks import needs_root
from workloads.system import entrance

pytestmark = needs_root
PARTS = ("analysis", "collectors", "workloads")


@pytest.fixture(autouse=True)
def behind_sudo(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is started looks as if the user had started it through sudo."""
    play_sudo(USER, monkeypatch)


@pytest.fixture
def home(open_place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Root's home, with a tree in it that everybody might read."""
    tree = open_place / "home/tree"
    tree.mkdir(parents=True)
    (open_place / "home").chmod(0o700)
    files = [*PARTS, "build/generators", "build/recorder", "Makefile", "requirements.txt"]
    subprocess.run(["cp", "-a", "--parents", "-t", tree, *files], cwd=TREE, check=True)
    (tree / ".venv").symlink_to(TREE / ".venv")
    tree.chmod(0o755)
    monkeypatch.setattr(sessions, "TREE", tree)
    return open_place / "home"


def trace(home: Path, **words: str) -> Job:
    """Run it to its end in the tree there."""
    given = {"FS": "ext4", "DISK": "ram", "SIZE": "256M", "COLLECT": "none", **words}
    job = Job("trace", home.parent / "run", None, **given)
    job.end()
    return job


def planned(home: Path, *words: str, job: str = "plan") -> subprocess.CompletedProcess[str]:
    """What make plan says there, or make doctor."""
    module = ["collectors.doctor"] if job == "doctor" else ["collectors", job]
    given = dict(word.split("=", 1) for word in words)
    env = {**os.environ, **{f"SEEKMETER_{name}": text for name, text in given.items()}}
    return subprocess.run(
        [TREE / ".venv/bin/python", "-B", "-m", *module],
        cwd=home / "tree",
        env={**env, "SEEKMETER_WORDS": " ".join(given)},
        check=False,
        capture_output=True,
        text=True,
    )


def test_unreachable_generator_is_refused_before_any_change(home: Path) -> None:
    job = trace(home, WL="manyfiles", SCALE="quick")
    assert job.process.returncode == 3
    assert job.said == (
        f"seekmeter: {home} cannot be entered by daemon, whom WL=manyfiles runs as: move the tree "
        f"({home}/tree) to where daemon may enter it, such as /srv, or run this as root itself, not behind "
        f"sudo (env -u SUDO_UID make …)\n"
    )
    assert not job.run.path.exists() and not (home / "tree/runs").exists()
    for words in (("WL=compilebench", "FS=ext4"), ("WL=aim7", "FS=xfs"), ("VM=1", "FS=ext4", "CMD=true")):
        done = planned(home, *words)
        assert (done.returncode, done.stdout) == (3, "")
        assert f"{home} cannot be entered by daemon, whom {words[0]} runs as: " in done.stderr
    assert planned(home, "VM=1", job="doctor").stderr == done.stderr


def test_unreachable_generator_installs_and_builds_nothing(home: Path) -> None:
    """The tree has no C sources of the recorder's, and its build would fail."""
    shutil.rmtree(home / "tree/build")
    done = subprocess.run(
        ["make", "trace", "FS=ext4", "WL=manyfiles"],
        cwd=home / "tree",
        stdin=subprocess.DEVNULL,
        check=False,
        capture_output=True,
        text=True,
    )
    assert "cannot be entered by daemon, whom WL=manyfiles runs as" in done.stderr
    assert "Error 3" in done.stderr
    assert not list((home / "tree").glob("build/*/*"))


def test_root_is_not_refused(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SUDO_UID")
    job = trace(home, WL="createdelete", SCALE="quick", ARGS="-n 2000 -o 2000")
    assert job.process.returncode == 0, job.said


def test_user_in_an_access_control_list_is_not_refused(home: Path) -> None:
    entrance.let_in(home, USER.pw_uid, USER.pw_gid)
    assert home.stat().st_mode & 0o007 == 0
    job = trace(home, WL="createdelete", SCALE="quick", ARGS="-n 2000 -o 2000")
    assert job.process.returncode == 0, job.said


@pytest.mark.parametrize(
    ("name", "mode", "refused"),
    [
        ("", 0o700, "entered"),
        ("build", 0o750, "entered"),
        ("workloads/datasets", 0o700, "entered"),
        ("build/generators/acp", 0o700, "used"),
        ("workloads/datasets/aim7-shared.mix", 0o600, "used"),
    ],
)
def test_files_that_only_root_can_read_are_named(home: Path, name: str, mode: int, refused: str) -> None:
    """As git and make leave it under umask 077."""
    home.chmod(0o711)
    assert planned(home, "WL=manyfiles", "FS=ext4").returncode == 0
    (home / "tree" / name).chmod(mode)
    done = planned(home, "WL=manyfiles", "FS=ext4")
    assert (done.returncode, done.stdout) == (3, "")
    assert f"seekmeter: {home / 'tree' / name} cannot be {refused} by daemon" in done.stderr
    assert f"run chmod a+rx {home}/tree, and in it chmod -R a+rX " in done.stderr


def test_command_without_its_helpers_is_warned_and_recorded(home: Path) -> None:
    job = trace(home, CMD="phase one true; echo phase $?; (cd / && remount); echo remount $?; id -un")
    assert job.process.returncode == 0, job.said
    warning = (
        f"{home} cannot be entered by daemon, who will own this run: it is recorded, but phase and remount "
        f"fail in it and its report is refused; move the tree"
    )
    assert 0 < job.said.index(warning) < job.said.index("  format")
    assert {"phase 127", "remount 127", "daemon"} <= set(job.run.output.splitlines())
    assert job.run.facts["warnings"][0].startswith(warning)
    assert warning in planned(home, "CMD=true", "FS=ext4").stdout
    done = subprocess.run(
        [TREE / ".venv/bin/python", "-B", "-m", "analysis", "report", job.run.path],
        cwd=home / "tree",
        check=False,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (3, "")
    assert "move it to where that user can, or chown a copy of the run to root" in done.stderr


def test_command_with_its_helpers_is_not_warned(home: Path) -> None:
    home.chmod(0o711)
    job = trace(home, CMD="phase one true && cd / && remount")
    assert job.process.returncode == 0, job.said
    assert "cannot be" not in job.said
    assert [phase["name"] for phase in job.run.phases if phase["name"] in ("one", "remount")] == [
        "one",
        "remount",
    ]
