# SPDX-License-Identifier: BSD-2-Clause
"""The guard kills the workload when its session is killed: the whole cgroup, nothing else, at once.

A plain directory with the kernel's files stands in for a cgroup of a kernel without cgroup.kill (before
5.14), so no root is needed; the kernel's own are in test_cgroups.py and collectors/test_session_kill.py.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from workloads.cgroup import WorkloadCgroup
from workloads.cleanup import guard
from workloads.plan.planner import TREE

SOON_S = 2.0


@pytest.fixture
def sleepers() -> Iterator[list["subprocess.Popen[bytes]"]]:
    """Three processes, killed at the end."""
    started = [subprocess.Popen(["sleep", "600"]) for _ in range(3)]
    try:
        yield started
    finally:
        for one in started:
            one.kill()
            one.wait()


def opened(folder: Path) -> int:
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY)


def cgroup_of(folder: Path, *pids: int) -> Path:
    """A directory that lists these processes, the last process a level below."""
    (folder / "below").mkdir(parents=True)
    (folder / "cgroup.procs").write_text("".join(f"{pid}\n" for pid in pids[:-1]))
    (folder / "below/cgroup.procs").write_text(f"{pids[-1]}\n")
    return folder


def test_guard_kills_the_cgroup_alone(tmp_path: Path, sleepers: list["subprocess.Popen[bytes]"]) -> None:
    inside, other = sleepers[:2], sleepers[2]
    directory = opened(cgroup_of(tmp_path / "cg", *(one.pid for one in inside)))
    began = time.monotonic()
    # the stand-in still lists them; a real cgroup.procs has no dead processes
    assert guard.kill_all(directory, 0.1) is False
    assert [one.wait(SOON_S) for one in inside] == [-signal.SIGKILL] * 2
    assert time.monotonic() - began < SOON_S
    assert other.poll() is None
    os.close(directory)


def test_guard_leaves_a_reused_pid_alone(
    tmp_path: Path, sleepers: list["subprocess.Popen[bytes]"], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pid was in the cgroup at the first read, and is not once its pidfd is open."""
    seen = [[one.pid for one in sleepers], [sleepers[0].pid]]
    monkeypatch.setattr(guard, "pids", lambda cgroup: seen.pop(0))
    directory = opened(cgroup_of(tmp_path / "cg", 1))
    guard._kill(directory)
    assert sleepers[0].wait(SOON_S) == -signal.SIGKILL
    time.sleep(0.1)
    assert [one.poll() for one in sleepers[1:]] == [None, None]
    os.close(directory)


def test_guard_uses_cgroup_kill(tmp_path: Path, sleepers: list["subprocess.Popen[bytes]"]) -> None:
    folder = cgroup_of(tmp_path / "cg", *(one.pid for one in sleepers))
    (folder / "cgroup.kill").touch()
    directory = opened(folder)
    assert guard.kill_all(directory, 0.1) is False
    assert set((folder / "cgroup.kill").read_text()) == {"1"}
    assert [sleeper.poll() for sleeper in sleepers] == [None] * 3  # killing is left to the kernel
    os.close(directory)


def test_removed_or_empty_cgroup_has_no_processes(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    (empty / "cgroup.procs").touch()
    directory = opened(empty)
    assert guard.kill_all(directory, 0)
    (empty / "cgroup.procs").unlink()
    empty.rmdir()
    empty.mkdir()  # another cgroup of the same name, not the opened one
    (empty / "cgroup.procs").write_text(f"{os.getpid()}\n")
    assert guard.kill_all(directory, 0)
    os.close(directory)


SESSION = """
import os, signal, subprocess, sys, time
from pathlib import Path
from workloads.cgroup import WorkloadCgroup
cgroup = WorkloadCgroup.__new__(WorkloadCgroup)  # of a directory that stands in for the kernel's
cgroup.v2_path = Path(sys.argv[1])
with cgroup.guarded():
    # a child, such as the recorder, does not keep the guard waiting
    child = subprocess.Popen(["sleep", "600"])
    print(child.pid, flush=True)
    sys.stdin.readline()
"""


@pytest.mark.parametrize("how", ["killed", "in order"])
def test_guard_waits_for_any_end_of_the_session(
    tmp_path: Path, sleepers: list["subprocess.Popen[bytes]"], how: str
) -> None:
    folder = cgroup_of(tmp_path / "cg", *(one.pid for one in sleepers[:2]))
    session = subprocess.Popen(
        [sys.executable, "-c", SESSION, folder],
        cwd=TREE,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert session.stdout is not None and session.stdin is not None
    child = int(session.stdout.readline())
    try:
        guards = guards_of(session.pid)
        assert len(guards) == 1
        time.sleep(0.2)
        assert [sleeper.poll() for sleeper in sleepers] == [None] * 3
        if how == "killed":
            # ^C of a terminal is for the session alone
            assert os.getsid(guards[0]) != os.getsid(session.pid)
            session.kill()
            began = time.monotonic()
            assert [one.wait(SOON_S) for one in sleepers[:2]] == [-signal.SIGKILL] * 2
            assert time.monotonic() - began < SOON_S
        else:
            for folder_of in (folder, folder / "below"):
                (folder_of / "cgroup.procs").write_text("")
            session.stdin.write(b"\n")
            session.stdin.close()
            assert session.wait(30) == 0
            assert guards_of(session.pid) == []
            assert [sleeper.poll() for sleeper in sleepers] == [None] * 3
        assert sleepers[2].poll() is None
        assert Path(f"/proc/{child}").exists()
    finally:
        os.kill(child, signal.SIGKILL)
        session.kill()
        session.wait()
        session.stdout.close()


def guards_of(session: int) -> list[int]:
    """Return the guards among a process's children."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
            if parent == session and b"guard.py" in (stat.parent / "cmdline").read_bytes():
                found.append(int(stat.parent.name))
        except OSError:
            continue
    return found


def test_guard_ignores_a_later_cgroup_of_the_name(tmp_path: Path) -> None:
    """guarded() opens the directory when it begins: nothing is opened by its name at the end."""
    folder = tmp_path / "cg"
    folder.mkdir()
    (folder / "cgroup.procs").touch()
    cgroup = WorkloadCgroup.__new__(WorkloadCgroup)
    cgroup.v2_path = folder
    with subprocess.Popen(["sleep", "600"]) as other:
        with cgroup.guarded():
            folder.rename(tmp_path / "away")
            folder.mkdir()
            (folder / "cgroup.procs").write_text(f"{other.pid}\n")
        assert other.poll() is None
        other.kill()
