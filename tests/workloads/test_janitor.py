# SPDX-License-Identifier: BSD-2-Clause
"""Nothing is left behind after an exit, an error, and kill -9 in every stage; nothing else is touched."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.marks import needs_root
from tests.workloads.conftest import LoopDevice, run
from tests.workloads.killed_session import STAGES
from workloads.cleanup import janitor as janitors
from workloads.cleanup import undo
from workloads.cleanup.janitor import Janitor
from workloads.plan.planner import TREE
from workloads.system import mounts
from workloads.system.errors import MachineError

pytestmark = needs_root


def world(mark: str) -> dict[str, list[str]]:
    """Return everything with the mark of a session, from the kernel and not from the janitor."""
    loops = run("losetup", "--list", "--raw", "--noheadings", "--output", "NAME,BACK-FILE")
    return {
        "mounts": [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if mark in line],
        "loops": [line for line in loops.splitlines() if mark in line],
        "cgroups": [str(path) for path in Path("/sys/fs/cgroup").glob(f"*/*{mark}*")]
        + [str(path) for path in Path("/sys/fs/cgroup").glob(f"*{mark}*")],
    }  # fmt: skip


NOTHING: dict[str, list[str]] = {"mounts": [], "loops": [], "cgroups": []}


def is_alive(pid: int) -> bool:
    """Return whether a process runs and is not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


# Options of the sessions to be killed: a disk file, a RAM disk, two disks, and an external journal.
ONE = {"FS": "ext4", "SIZE": "64M"}
SESSIONS = {
    "file": ONE,
    "ram": {**ONE, "DISK": "ram"},
    "journal": {**ONE, "JOURNAL": "file"},
    "journal-ram": {**ONE, "DISK": "ram", "JOURNAL": "ram"},
    "hdd": {**ONE, "DISK": "hdd", "TIME": "100"},
    "two": {"FS": "btrfs", "SIZE": "128M", "DISK": "file file"},
}


def start(state: Path, stage: str, scratch: Path, kind: str) -> tuple["subprocess.Popen[str]", list[int]]:
    """Start a session and wait until it has reached the stage.

    Returns it and the processes that it started.
    """
    env = {**os.environ, "PYTHONPATH": str(TREE), "SEEKMETER_SCRATCH": str(scratch)}
    env["SESSION_WORDS"] = json.dumps({f"SEEKMETER_{name}": text for name, text in SESSIONS[kind].items()})
    session = subprocess.Popen(
        [sys.executable, "-m", "tests.workloads.killed_session", str(state), stage],
        cwd=TREE, env=env, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert session.stdout is not None
    pids: list[int] = []
    for line in session.stdout:
        if line.strip().isdigit():
            pids.append(int(line))
        if line.strip() == stage:
            return session, pids
    raise AssertionError(f"the session did not reach {stage}")


@pytest.mark.parametrize(
    ("stage", "kind"),
    [
        *((stage, "file") for stage in STAGES),
        *((stage, kind) for stage in ("disk", "format", "workload") for kind in SESSIONS if kind != "file"),
    ],
)
def test_kill_9_at_any_stage_leaves_nothing(stage: str, kind: str, tmp_path: Path) -> None:
    state, scratch = tmp_path / "state", tmp_path / "scratch"
    session, pids = start(state, stage, scratch, kind)
    mark = f"seekmeter-{session.pid}-"
    made = world(mark)
    assert (made != NOTHING) == (stage not in ("empty", "listed"))
    assert all(is_alive(pid) for pid in pids)
    assert Janitor.sweep(state) == []  # the session is alive
    assert world(mark) == made
    session.send_signal(signal.SIGKILL)
    session.wait()
    lines = Janitor.sweep(state)
    assert (len(lines), "cleaned" in "".join(lines)) == ((0, False) if stage == "empty" else (1, True)), lines
    assert world(mark) == NOTHING
    assert not any(is_alive(pid) for pid in pids)
    assert [path.name for path in state.iterdir()] == ["lock"]
    assert not scratch.exists() or not list(scratch.iterdir())
    assert Janitor.sweep(state) == []


def test_torn_last_line_is_ignored(tmp_path: Path, loop: LoopDevice) -> None:
    """A session killed while it wrote a line has not made that line's thing; the lines before count."""
    state = tmp_path / "state"
    kept = tmp_path / "kept"
    session = state / "1-1"
    session.mkdir(parents=True, mode=0o700)
    os.chmod(state, 0o700)
    made = tmp_path / "made"
    made.write_text("x")
    head = json.dumps({"kind": "session", "pid": 1, "boot_id": janitors.boot_id()})
    first = json.dumps({"kind": "file", "path": str(made), "number": 1})
    (session / "undo.jsonl").write_text(f'{head}\n{first}\n{{"kind": "file", "path": "{kept}", "num')
    kept.write_text("not ours")
    Janitor.sweep(state)
    assert not made.exists()
    assert kept.read_text() == "not ours"
    assert not session.exists()


def test_reboot_leaves_only_files_to_undo(tmp_path: Path, loop: LoopDevice) -> None:
    """After a reboot the same names belong to others: a loop number, a cgroup, a pid."""
    state = tmp_path / "state"
    session = state / "1-1"
    session.mkdir(parents=True)
    os.chmod(state, 0o700)
    left = tmp_path / "left.img"
    left.write_text("x")
    sleeper = subprocess.Popen(["sleep", "60"])
    started = undo.start_time(sleeper.pid)
    entries = [
        {"kind": "session", "pid": 1, "boot_id": "another boot"},
        {"kind": "file", "path": str(left), "number": 1},
        {"kind": "loop", "loop": int(loop.name[4:]), "backing": str(loop.image), "number": 2},
        {"kind": "process", "pid": sleeper.pid, "start_time": started, "number": 3},
    ]
    (session / "undo.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    Janitor.sweep(state)
    assert not left.exists()
    assert str(loop.image) in run("losetup", loop.path)
    assert sleeper.poll() is None
    sleeper.kill()
    sleeper.wait()


def test_undo_leaves_things_of_others_alone(tmp_path: Path, loop: LoopDevice) -> None:
    """A loop number has another file, a mount another source, a pid another process."""
    keeper = Janitor(tmp_path / "state")
    target = tmp_path / "m"
    target.mkdir()
    keeper.add_mount(target, "/dev/loop99")
    keeper.add_loop(int(loop.name[4:]), tmp_path / "another.img")
    setting = Path(f"/sys/block/{loop.name}/queue/read_ahead_kb")  # accepts any number, with any scheduler
    before = setting.read_text()
    ours, theirs = str(int(before) + 64), str(int(before) + 128)
    keeper.add_sysfs(setting, ours)
    setting.write_text(theirs)
    sleeper = subprocess.Popen(["sleep", "60"])
    keeper.add_process(sleeper.pid)
    keeper._entries[-1]["start_time"] += 1  # as if the pid were a younger process's
    run("mkfs.ext2", "-q", loop.path)
    run("mount", loop.path, str(target))
    try:
        assert keeper.undo() == []
        assert mounts.at(target) is not None
        assert str(loop.image) in run("losetup", loop.path)
        assert setting.read_text().strip() == theirs
        assert sleeper.poll() is None
    finally:
        setting.write_text(before)  # a loop device keeps it after detaching
        run("umount", str(target))
        sleeper.kill()
        sleeper.wait()


def test_shared_setting_is_restored_by_its_last_user(tmp_path: Path) -> None:
    """Also when the first of two sessions was killed."""
    state, setting = tmp_path / "state", tmp_path / "setting"
    setting.write_text("0\n")
    code = (
        "import os, signal; from pathlib import Path; from workloads.cleanup.janitor import Janitor;"
        f"Janitor(Path({str(state)!r})).set_shared(Path({str(setting)!r}), '1');"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    with Janitor(state) as first:
        first.set_shared(setting, "1")
        second = Janitor(state)
        second.set_shared(setting, "1")
    assert setting.read_text() == "1"
    killed = subprocess.run([sys.executable, "-c", code], cwd=TREE, check=False)
    assert killed.returncode == -signal.SIGKILL
    Janitor.sweep(state)
    assert setting.read_text() == "1"
    second.undo()
    assert setting.read_text() == "0"
    subprocess.run([sys.executable, "-c", code], cwd=TREE, check=False)
    assert setting.read_text() == "1"
    Janitor.sweep(state)
    assert setting.read_text() == "0"


def test_busy_mount_is_reported_and_retried(
    tmp_path: Path, loop: LoopDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user's shell in the mount is not killed, the mount not lazily unmounted; the next start retries."""
    monkeypatch.setattr(undo, "BUSY_SECONDS", 0.2)
    state, target = tmp_path / "state", tmp_path / "m"
    keeper = Janitor(state)
    target.mkdir()
    run("mkfs.ext2", "-q", loop.path)
    keeper.add_mount(target, loop.path)
    run("mount", loop.path, str(target))
    shell = subprocess.Popen(["sleep", "60"], cwd=target)
    [problem] = keeper.undo()
    assert f"sleep (pid {shell.pid})" in problem
    assert shell.poll() is None
    assert mounts.at(target) is not None
    shell.kill()
    shell.wait()
    assert "cleaned" in Janitor.sweep(state)[0]
    assert mounts.at(target) is None


def test_undo_runs_in_reverse_and_once(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with Janitor(state) as keeper:
        outer, inner = tmp_path / "outer", tmp_path / "outer/inner"
        keeper.add_dir(outer)
        outer.mkdir()
        number = keeper.add_mount(inner, "seekmeter-test")
        inner.mkdir()
        run("mount", "-t", "tmpfs", "seekmeter-test", str(inner))
        file = keeper.add_file(inner / "x")
        (inner / "x").write_text("x")
        keeper.undo_one(file)
        assert not (inner / "x").exists()
        keeper.undo_one(number)
        assert mounts.at(inner) is None
    assert not outer.exists()
    assert keeper.undo() == []


def test_directory_with_a_foreign_mount_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state, ours = tmp_path / "state", tmp_path / "ours"
    keeper = Janitor(state)
    keeper.add_dir(ours)
    (ours / "foreign").mkdir(parents=True)
    run("mount", "-t", "tmpfs", "foreign", str(ours / "foreign"))
    (ours / "foreign/precious").write_text("x")
    assert len(keeper.undo()) == 1
    assert (ours / "foreign/precious").read_text() == "x"
    run("umount", str(ours / "foreign"))
    Janitor.sweep(state)
    assert not ours.exists()


def test_existing_things_are_never_listed(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.write_text("x")
    with Janitor(tmp_path / "state") as keeper:
        for add in (keeper.add_file, keeper.add_dir, keeper.add_cgroup):
            with pytest.raises(MachineError, match="exists and is not"):
                add(theirs)
    assert theirs.read_text() == "x"


def test_process_ignoring_sigterm_is_killed(tmp_path: Path) -> None:
    stubborn = subprocess.Popen(
        ["sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.1; done"], stdout=subprocess.PIPE
    )
    assert stubborn.stdout is not None and stubborn.stdout.readline() == b"ready\n"
    with Janitor(tmp_path / "state") as keeper:
        keeper.add_process(stubborn.pid)
        before = time.monotonic()
    assert stubborn.wait() == -signal.SIGKILL
    assert time.monotonic() - before < 4


@pytest.mark.parametrize("kind", ["mode", "symlink"])
def test_state_directory_writable_by_others_is_refused(kind: str, tmp_path: Path) -> None:
    """Root deletes what the directory lists, so nobody else may write in it."""
    state = tmp_path / "state"
    if kind == "mode":
        state.mkdir()
        state.chmod(0o777)
    else:
        (tmp_path / "real").mkdir(mode=0o700)
        state.symlink_to(tmp_path / "real")
    with pytest.raises(MachineError, match="can be written by others"):
        Janitor(state)
    with pytest.raises(MachineError, match="can be written by others"):
        Janitor.sweep(state)


def test_forked_child_does_not_undo(tmp_path: Path) -> None:
    with Janitor(tmp_path / "state") as keeper:
        keeper.add_file(tmp_path / "x")
        (tmp_path / "x").write_text("x")
        child = os.fork()
        if child == 0:
            keeper.undo()
            os._exit(0)
        os.waitpid(child, 0)
        assert (tmp_path / "x").exists()
    assert not (tmp_path / "x").exists()
