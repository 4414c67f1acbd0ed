# SPDX-License-Identifier: BSD-2-Clause
"""An ordinary user's trace: what needs root goes through sudo, their command and their files stay theirs."""

from __future__ import annotations

import json
import os
import pwd
import re
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.collectors.loop_disk import attached
from tests.collectors.sessions import TREE, Run, let_others_in
from tests.marks import needs_root

pytestmark = needs_root
# Of the user's own environment, which their command may need and sudo clears away.
_OWN = {"PGHOST": "a host; with 'all' $kinds of\nbytes", "LD_BIND_NOW": "1"}
SUDOERS = Path("/etc/sudoers.d")


@dataclass(frozen=True)
class User:
    """An ordinary user, with a copy of the tree of their own."""

    name: str
    uid: int
    gid: int
    home: Path

    @property
    def tree(self) -> Path:
        """Their copy of the tree, built and set up."""
        return self.home / "tree"

    def make(
        self, *words: str, path: str | None = None, seconds: float = 120
    ) -> subprocess.CompletedProcess[str]:
        """Run make as they do in their tree."""
        return self.run(["make", *words], path, seconds)

    def run(
        self, command: list[str], path: str | None = None, seconds: float = 120
    ) -> subprocess.CompletedProcess[str]:
        """Run a command as they do in their tree."""
        return subprocess.run(
            command,
            cwd=self.tree,
            user=self.uid,
            group=self.gid,
            extra_groups=[],
            env={
                "HOME": str(self.home),
                "PATH": path or "/usr/local/bin:/usr/bin:/bin",
                "USER": self.name,
                **_OWN,
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=seconds,
        )


@pytest.fixture(scope="module")
def user() -> Iterator[User]:
    """A user made for these tests, whom sudo lets become root without a password."""
    if shutil.which("sudo") is None or shutil.which("useradd") is None:
        pytest.skip("sudo and useradd are not installed: apt-get install sudo passwd")
    name = f"seektest{os.getpid()}"
    home = Path(f"/tmp/{name}")
    subprocess.run(["useradd", "--no-log-init", "--create-home", "--home-dir", home, name], check=True)
    rule = SUDOERS / name
    try:
        rule.write_text(f"{name} ALL=(ALL) NOPASSWD: ALL\n")
        rule.chmod(0o440)
        entry = pwd.getpwnam(name)
        yield _with_tree(User(name, entry.pw_uid, entry.pw_gid, home))
    finally:
        rule.unlink(missing_ok=True)
        subprocess.run(["userdel", "--force", name], check=True, capture_output=True)
        shutil.rmtree(home)


def _with_tree(user: User) -> User:
    git = ["git", "-c", f"safe.directory={TREE}", "-C", str(TREE)]
    listed = subprocess.run(
        [*git, "ls-files", "-z", "--cached", "--others", "--exclude-standard", ":!tests"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split("\0")
    files = [name for name in listed if name and (TREE / name).exists()]
    user.tree.mkdir()
    # -a keeps the times, so that nothing is built again.
    subprocess.run(["cp", "-a", "--parents", "-t", user.tree, *files, "build"], cwd=TREE, check=True)
    if all(place.stat().st_mode & 0o005 == 0o005 for place in ((TREE / ".venv").resolve(), *TREE.parents)):
        (user.tree / ".venv").symlink_to(TREE / ".venv")
    else:
        subprocess.run(["cp", "-a", TREE / ".venv", user.tree], check=True)
    subprocess.run(["chown", "-hR", f"{user.uid}:{user.gid}", user.tree], check=True)
    return user


def not_theirs(user: User, place: Path) -> list[str]:
    """Return what below a place belongs to somebody else."""
    found = [place, *place.rglob("*")]
    return [str(path) for path in found if path.lstat().st_uid != user.uid and path.name != ".venv"]


def test_command_runs_as_the_user_who_owns_all_files(user: User) -> None:
    work = user.home / "work dir"
    work.mkdir()
    os.chown(work, user.uid, user.gid)
    command = (
        'id -un >who; id -Gn >groups; echo "$HOME $USER" >home; printf %s "$SEEKMETER_DIR" >dir; env -0 >env'
    )
    done = user.make("trace", f"DIR={work}", f"CMD={command}", "COLLECT=calls")
    assert done.returncode == 0, done.stderr
    assert "seekmeter: formatting, mounting and tracing needs root: going on through sudo" in done.stderr
    assert (work / "who").read_text() == f"{user.name}\n"
    assert (work / "groups").read_text() == f"{user.name}\n"
    assert (work / "home").read_text() == f"{user.home} {user.name}\n"
    assert (work / "dir").read_text() == str(work)
    variables = (work / "env").read_text().split("\0")
    assert {f"{name}={value}" for name, value in _OWN.items()} <= set(variables)
    assert not [text for text in variables if text.startswith(("SUDO_", "SEEKMETER_ENVIRONMENT"))]
    run = user.tree / "runs/latest"
    assert run.is_symlink()
    assert Run(run).facts["words"]["CMD"] == command
    assert str(run.resolve() / "report.txt") in done.stdout
    assert (run / "report.html").exists()
    assert not_theirs(user, user.tree) == []


def test_user_on_fresh_file_system_sees_only_their_session(
    user: User,
) -> None:
    command = (
        "echo mine >f; stat -c %U f .; ls /run/seekmeter 2>&1; ls .. 2>&1;"
        " cat ../undo.jsonl 2>&1; touch /run/seekmeter/x 2>&1; pwd; exit 3"
    )
    done = user.make("trace", "FS=ext3", "SIZE=64M", f"CMD={command}", "COLLECT=none")
    assert "Error 1" in done.stderr
    assert "the workload failed (exit status 3: touch: " in done.stderr
    lines = (user.tree / "runs/latest/raw/workload.out").read_text().splitlines()
    assert lines[:2] == [user.name, user.name]
    refused = [line for line in lines if line.endswith("Permission denied")]
    assert len(refused) == 4, lines
    state = Path("/run/seekmeter").stat()
    assert (state.st_uid, state.st_mode & 0o077 & ~0o011) == (0, 0)
    assert not Path(lines[-1]).exists()
    assert not_theirs(user, user.tree) == []


@pytest.mark.parametrize("by", [(), ("sudo",)], ids=["each run by sudo", "all behind sudo"])
def test_users_sweep_belongs_to_the_user(user: User, by: tuple[str, ...]) -> None:
    words = [
        "FS=ext3 ext4",
        "SIZE=64M",
        "CMD=id -un >who; cat who",
        "COLLECT=none",
        "REPS=1",
        f"NAME=s{len(by)}",
    ]
    done = user.run([*by, "make", "sweep", *words])
    assert done.returncode == 0, done.stderr
    (sweep,) = (user.tree / "runs").glob(f"*-sweep-s{len(by)}")
    for name in ("anchor-first", "c01-r01", "c02-r01", "anchor-last"):
        assert json.loads((sweep / f"runs/{name}/task.json").read_text())["outcome"] == "done"
        assert (sweep / f"runs/{name}/raw/workload.out").read_text() == f"{user.name}\n"
    assert json.loads((sweep / "sweep.json").read_text())["state"] == "complete"
    assert ("going on through sudo" in (sweep / "logs/c01-r01.log").read_text()) == (not by)
    assert not_theirs(user, user.tree) == []


@pytest.mark.parametrize("by", [(), ("sudo",)], ids=["each run by sudo", "all behind sudo"])
def test_users_verification_belongs_to_the_user(user: User, by: tuple[str, ...]) -> None:
    run = user.home / f"v{len(by)}"
    words = ["FS=ext4", "SIZE=64M", "CMD=id -un >who; cat who", "COLLECT=none"]
    done = user.make("trace", *words, f"OUT={run}")
    assert done.returncode == 0, done.stderr
    finding = {
        "number": 1, "kind": "device_flush", "what": "1 flush took 0.1 s.", "cost_s": [0, 0.1, 0.2],
        "remedy": {"words": {"FLUSH": "0"}, "text": "no flushes", "saved_s": [0, 0.1, 0.2]}, "test": "",
    }  # fmt: skip
    path = run / "findings.json"
    path.write_text(json.dumps({"schema": 1, "findings": [finding]}))
    os.chown(path, user.uid, user.gid)
    done = user.run([*by, "make", "verify", f"RUN={run}", "FINDING=1", "MOST=2", f"OUT={run}-pairs"])
    assert done.returncode == 0, done.stderr
    assert "verdict" in done.stdout and "(2 pairs)" in done.stdout
    assert json.loads((run / "verify/1.json").read_text())["state"] == "complete"
    for name in ("c01-r01", "c02-r02"):
        assert (run.with_name(f"{run.name}-pairs") / f"runs/{name}/raw/workload.out").read_text() == (
            f"{user.name}\n"
        )
    assert not_theirs(user, user.tree) == []


@pytest.fixture
def without_sudo(tmp_path: Path) -> str:
    """A PATH with everything in the usual places but sudo."""
    let_others_in(tmp_path)
    for place in ("/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin"):
        for program in Path(place).iterdir():
            if program.name != "sudo" and not (tmp_path / program.name).exists():
                (tmp_path / program.name).symlink_to(program)
    return str(tmp_path)


def test_missing_sudo_is_reported(user: User, without_sudo: str) -> None:
    before = sorted((user.tree / "runs").iterdir()) if (user.tree / "runs").exists() else []
    done = user.make("trace", "FS=ext3", "SIZE=64M", "CMD=true", path=without_sudo)
    assert "Error 3" in done.stderr, done.stderr
    why = "needs root, and sudo is not installed: run it as root, or with VM=1 in a virtual machine"
    assert why in done.stderr
    assert "Traceback" not in done.stderr
    assert (sorted((user.tree / "runs").iterdir()) if (user.tree / "runs").exists() else []) == before


@pytest.mark.vm
@pytest.mark.long
def test_virtual_machine_needs_neither_root_nor_sudo(user: User, without_sudo: str) -> None:
    """From nothing: the kernel is fetched into their own cache, and all that is made is theirs."""
    command = "id -u >who; uname -r"
    words = ["trace", "VM=1", "FS=jfs", "SIZE=64M", f"CMD={command}"]
    done = user.make(*words, path=without_sudo, seconds=600)
    assert done.returncode == 0, done.stderr
    assert "fetching Linux " in done.stderr
    run = Run(user.tree / "runs/latest")
    assert run.facts["state"] == "complete"
    assert run.output.strip() == run.facts["kernel"]["release"] != os.uname().release
    assert {source["state"] for source in run.losses["collectors"].values()} == {"on"}
    assert (run.path / "report.html").exists()
    assert not_theirs(user, user.tree) == []
    assert not_theirs(user, user.home / ".cache") == []


def test_refusal_of_sudo_is_reported(user: User) -> None:
    rule = SUDOERS / user.name
    kept = rule.read_text()
    rule.write_text("")
    try:
        done = user.make("trace", "FS=ext3", "SIZE=64M", "CMD=true")
    finally:
        rule.write_text(kept)
    assert "Error 3" in done.stderr, done.stderr
    assert "needs root, and sudo does not let this user become root: run it as root" in done.stderr


def test_git_writes_nothing_into_the_users_tree(user: User) -> None:
    """A file with a new time makes git want to write its index, which would then be root's."""
    git = ["git", "-c", f"safe.directory={user.tree}", "-C", str(user.tree)]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "add", "LICENSE", "Makefile"], check=True)
    identity = ["-c", "user.name=x", "-c", "user.email=x@localhost"]
    subprocess.run([*git, *identity, "commit", "-q", "-m", "x"], check=True)
    subprocess.run(["chown", "-hR", f"{user.uid}:{user.gid}", user.tree / ".git"], check=True)
    try:
        for text, ending in (("", ""), ("\n", "-dirty")):
            with (user.tree / "LICENSE").open("a") as file:
                file.write(text)
            os.utime(user.tree / "LICENSE")
            done = user.make("trace", f"DIR={user.home}", "CMD=true", "COLLECT=none")
            assert done.returncode == 0, done.stderr
            version = Run(user.tree / "runs/latest").facts["tools"]["seekmeter"]
            assert re.fullmatch(rf"[0-9a-f]{{7,}}{ending}", version)
            assert not_theirs(user, user.tree) == []
    finally:
        shutil.rmtree(user.tree / ".git")


def test_second_start_behind_sudo_installs_nothing(user: User) -> None:
    """Nothing is installed or asked again; also when others may pass through the state directory."""
    Path("/run/seekmeter").chmod(0o711)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    process = subprocess.Popen(
        ["make", "trace", f"DIR={user.home}", "CMD=sleep 60", "COLLECT=none"],
        cwd=user.tree,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stderr is not None
    lines = [process.stderr.readline()]
    while "that was killed" in lines[-1]:  # a session of somebody else's, cleaned up
        lines.append(process.stderr.readline())
    os.killpg(process.pid, signal.SIGTERM)  # unlike ^C, without a report
    _, said = process.communicate()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert lines[-1].startswith("  run "), "".join(lines) + said
    assert "everything is put back" in said
    # Of the CPU, start and clean-up together: how long they wait for one is the machine's affair.
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 2


def test_root_runs_no_program_of_the_callers_path(user: User) -> None:
    """Theirs is for their own command, which finds it first."""
    place = user.home / "first"
    place.mkdir()
    for name in ("git", "mkfs.ext3", "mount", "debugfs", "fsck.ext3", "uname", "setpriv", "perf"):
        (place / name).write_text(f'#!/bin/sh\necho "{name} $(id -u)" >>{place}/ran\nexit 1\n')
        (place / name).chmod(0o755)
    (place / "ran").touch()
    subprocess.run(["chown", "-R", f"{user.uid}:{user.gid}", place], check=True)
    words = ["FS=ext3", "SIZE=64M", "CMD=uname; true", "COLLECT=counters perf"]
    done = user.make("trace", *words, path=f"{place}:/usr/local/bin:/usr/bin:/bin")
    assert done.returncode == 0, done.stderr
    ran = (place / "ran").read_text().splitlines()
    assert f"uname {user.uid}" in ran
    assert [line for line in ran if line.endswith(" 0")] == []


def test_variables_are_not_on_sudos_command_line(user: User) -> None:
    """It is in sudo's log, and in everybody's ps."""
    place = user.home / "watching"
    place.mkdir()
    os.chown(place, user.uid, user.gid)
    real = shutil.which("sudo")
    (place / "sudo").write_text(
        f'#!/bin/sh\nprintf "%s\\n" "$@" >>{place}/words\nenv >>{place}/environment\nexec {real} "$@"\n'
    )
    (place / "sudo").chmod(0o755)
    words = [f"DIR={user.home}", "CMD=: password=hunter2", "COLLECT=none"]
    done = user.make("trace", *words, path=f"{place}:/usr/local/bin:/usr/bin:/bin")
    assert done.returncode == 0, done.stderr
    assert "hunter2" in (place / "environment").read_text()
    said = (place / "words").read_text()
    assert "collectors" in said and "hunter2" not in said and "PATH=" not in said


def test_windows_of_a_live_watch_go_through_sudo_and_are_theirs(user: User, tmp_path: Path) -> None:
    image = tmp_path / "image"
    with image.open("wb") as file:
        file.truncate(16 << 20)
    with attached(image) as device:
        words = [f"DEV={device}", "SECS=0", "EVERY=1", f"OUT={user.home}/live", "COLLECT=block calls"]
        done = user.run(["timeout", "--signal=TERM", "20", "make", "watch", *words])
    assert done.stdout.startswith("window 1, "), done.stderr
    assert "\nSeekmeter: " in done.stdout
    assert f"make report RUN={user.home}/live/" in done.stderr
    assert len(list((user.home / "live").glob("0*"))) <= 4
    assert not_theirs(user, user.home / "live") == []


@pytest.mark.parametrize("uid", ["4242", "-1", "4294967295", "x", "0x0", "", "١"])
def test_unknown_user_id_is_refused(tmp_path: Path, uid: str) -> None:
    """Their command would run as group root."""
    done = subprocess.run(
        [sys.executable, "-m", "collectors", "trace"],
        cwd=TREE,
        env={
            **os.environ,
            **{"SUDO_UID": uid, "SUDO_GID": uid, "SUDO_USER": "x", "SEEKMETER_WORDS": "DIR CMD OUT COLLECT"},
            **{"SEEKMETER_DIR": str(tmp_path), "SEEKMETER_CMD": "id", "SEEKMETER_COLLECT": "none"},
            "SEEKMETER_OUT": str(tmp_path / "run"),
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3, done.stderr
    assert f"SUDO_UID={uid}" in done.stderr and "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_sudo_user_cannot_claim_to_be_a_guest() -> None:
    """Who says so names the user that the command runs as: 0."""
    user = pwd.getpwnam("daemon")
    program = (
        "from collectors.privilege.sudo import owner, settle_as_root; settle_as_root(); "
        "import os; print(os.environ.get('SEEKMETER_GUEST'), owner().uid)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=TREE,
        env={
            **os.environ,
            "SEEKMETER_ENVIRONMENT": "standard input",
            "SUDO_UID": str(user.pw_uid),
            "SUDO_GID": str(user.pw_gid),
        },
        input=b"SEEKMETER_GUEST=/tmp/x\0SEEKMETER_GUEST_OWNER=0:0",
        capture_output=True,
        check=False,
    )
    assert done.stdout.decode() == f"None {user.pw_uid}\n", done.stderr.decode()
