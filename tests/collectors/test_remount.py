# SPDX-License-Identifier: BSD-2-Clause
"""Remount between phases: cold caches, everything recorded, nothing left; a user's mount stays."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import time
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy.typing as npt
import pytest

from collectors.trace.context import RunContext
from collectors.trace.remount import Server, Target
from tests.collectors.loop_disk import tmpfs
from tests.collectors.recording import compile_program, enum_value, needs_btf, read_table
from tests.collectors.sessions import TREE, Job, Run, finished, in_own_mount_namespace, wait_for
from tests.marks import needs_root
from workloads import filesystems
from workloads.cgroup import WorkloadCgroup

pytestmark = [needs_root]

REMOUNT = TREE / "build/generators/remount"
FILE_BYTES = 20_000_000
HERE = [name for name in filesystems.names() if filesystems.kernel_has(name)]
QUICK = ("btrfs", "ext4")
# What is in memory of the file, a remount, the same again, and then all of it is read.
COLD = (
    f"head -c {FILE_BYTES} /dev/urandom >f; mkdir d; touch d/a; sync; fincore -bno RES f; cd /; "
    f'{REMOUNT} || exit 7; cd "$SEEKMETER_DIR"; fincore -bno RES f; ls -l d >/dev/null; cat f >/dev/null'
)


def within(run: Run, phases: tuple[int, int]) -> npt.NDArray[Any]:
    """Requests issued between two moments."""
    block = read_table(run.path / "raw/recorder/block.rec")[1]
    begin, end = phases
    return block[(block["issue_ns"] >= begin) & (block["issue_ns"] < end)]


@needs_btf
@pytest.mark.parametrize(
    "fs", [fs if fs in QUICK else pytest.param(fs, marks=pytest.mark.long) for fs in HERE]
)
def test_caches_are_cold_after_a_remount(tmp_path: Path, fs: str) -> None:
    out = tmp_path / "run"
    run = finished(out, FS=fs, SIZE="512M", COLLECT="block,calls", CMD=COLD).run
    before, said, after = run.output.split("\n")[:3]
    assert said == "remounted"
    assert int(before) > 0  # the kernel may have given up some already
    assert int(after) == 0
    assert [phase["name"] for phase in run.phases] == ["remount", "command", "sync"]
    clock = run.facts["clock"]
    (remount,) = [phase for phase in run.phases if phase["name"] == "remount"]
    assert clock["workload_start_ns"] < remount["start_ns"] < remount["end_ns"] < clock["workload_end_ns"]

    read = enum_value(out / "raw/recorder/block.rec", "block_op", "read")
    # of ntfs-3g all pages are the device's own, which its mount holds: the analysis makes that unknown
    kind = "metadata" if fs == "ntfs-3g" else "data"
    data = enum_value(out / "raw/recorder/block.rec", "block_class", kind)
    rows = within(run, (remount["end_ns"], clock["workload_end_ns"]))
    rows = rows[rows["op"] == read]
    assert rows[rows["class"] == data]["bytes"].sum() >= FILE_BYTES
    calls = read_table(out / "raw/recorder/call.rec")[1]
    path = out / "raw/recorder/call.rec"
    calls = calls[calls["target"] == enum_value(path, "call_target", "target")]
    for name in ("read", "write"):
        moved = calls[calls["call"] == enum_value(path, "call_name", name)]
        assert run.has_counted(int(moved["bytes"].sum()), FILE_BYTES, most=1 << 20), name
    assert [text for text in run.facts["warnings"] if not text.startswith("ntfs-3g: a program (FUSE)")] == []


def test_phases_are_in_order(tmp_path: Path) -> None:
    """Also where the workload writes its phase after the session's last copy, and then asks at once."""
    phases: list[str] = []
    written = ["extract"]
    context = SimpleNamespace(
        cut_bins=lambda: None,
        run=SimpleNamespace(phase=lambda name, *_: phases.append(name)),
    )
    server = Server(
        cast(RunContext, context),
        tmp_path / "remount",
        tmp_path,
        cast(Target, SimpleNamespace(pool=False, line="", unmount=lambda: None, mount=lambda: None)),
        cast(WorkloadCgroup, SimpleNamespace(pids=lambda: [os.getpid()])),
        lambda _: None,
        lambda: phases.extend(written),
    )
    with closing(server), socket.socket(socket.AF_UNIX) as asker:
        asker.connect(str(tmp_path / "remount"))
        asker.sendall(b"remount\n")
        server.serve()
        assert asker.recv(1000) == b"ok\n"
    assert phases == ["extract", "remount"]


def numbers_in(mountinfo: str, below: str = "/") -> list[str]:
    """The numbers of the btrfs in these lines that are mounted below a place."""
    lines = [line.split() for line in mountinfo.splitlines() if " btrfs " in line]
    return [words[2] for words in lines if words[4].startswith(below)]


# Before the second mount of the run's file system, tmpfs are mounted until one of them has the number that it
# had: a mount gets the lowest free number, and others' mounts come and go.
NUMBER_IS_TAKEN = """#!/bin/sh
case "$*" in *seekmeter*/mnt) ;; *) exec /bin/mount "$@";; esac
i=0
while [ -e $0.number ] && [ "$number" != "$(cat $0.number)" ]; do
	i=$((i + 1))
	[ $i -lt 200 ] && mkdir $0.ram/$i && /bin/mount -t tmpfs ram $0.ram/$i || exit
	number=$(findmnt -no MAJ:MIN $0.ram/$i)
done
/bin/mount "$@" || exit
for place; do :; done
findmnt -no MAJ:MIN "$place" >$0.number
"""


@needs_btf
def test_new_btrfs_device_number_is_followed(tmp_path: Path) -> None:
    """The number that it had is taken meanwhile.

    The recorder is stopped until the file system is mounted again, as on a busy machine: the workload goes on
    when the recorder counts by the new number.
    """
    programs = tmp_path / "programs"
    (programs / "mount.ram").mkdir(parents=True)
    (programs / "mount").write_text(NUMBER_IS_TAKEN)
    (programs / "mount").chmod(0o755)
    job = Job(
        "trace", tmp_path / "run", programs, FS="btrfs", SIZE="512M", COLLECT="block,calls",
        CMD=f"head -c 5M /dev/urandom >f; grep $SEEKMETER_DIR /proc/self/mountinfo; "
        f"until [ -e {tmp_path}/go ]; do sleep 0.1; done; cd /; {REMOUNT}; echo WENT-ON; sleep 0.3; "
        'cd "$SEEKMETER_DIR"; grep $SEEKMETER_DIR /proc/self/mountinfo; cat f >/dev/null',
    )  # fmt: skip
    job.until("workload")
    output = job.run.path / "raw/workload.out"
    wait_for(lambda: output.exists() and " btrfs " in output.read_text())
    first = numbers_in(job.run.output)
    recorder = job.recorder()
    os.kill(recorder, signal.SIGSTOP)
    try:
        (tmp_path / "go").touch()
        place = f"/run/seekmeter/{job.process.pid}-"
        wait_for(lambda: any(number not in first for number in numbers_in(job.mountinfo(), place)))
        time.sleep(0.3)
        assert "WENT-ON" not in job.run.output
    finally:
        os.kill(recorder, signal.SIGCONT)
    assert job.end() == 0, job.said
    numbers = numbers_in(job.run.output)
    assert len(set(numbers)) == 2, job.run.output
    path = job.run.path / "raw/recorder/call.rec"
    calls = read_table(path)[1]
    for name in ("read", "write"):
        rows = calls[calls["call"] == enum_value(path, "call_name", name)]
        rows = rows[rows["target"] == enum_value(path, "call_target", "target")]
        assert job.run.has_counted(int(rows["bytes"].sum()), 5 << 20, most=1 << 20), name
    paths_seen = (job.run.path / "raw/paths.jsonl").read_text()
    assert all(f'"dev": "{number}"' in paths_seen for number in numbers)


def test_process_that_keeps_the_mount_busy_is_named(tmp_path: Path) -> None:
    runs = (
        'until [ "$(cat /proc/$!/comm)" = sleep ]; do :; done'  # the shell that starts it has the file, too
    )
    command = f"echo x >f; sleep 100 <f & {runs}; {REMOUNT}; echo $?; kill $!; wait; cat f"
    run = finished(tmp_path / "run", FS="ext4", SIZE="128M", COLLECT="none", CMD=command).run
    assert "is still used by sh (pid" in run.output
    assert ", sleep (pid" in run.output
    assert run.output.endswith("leave it (chdir) and close its files before asking\n1\nx\n")
    assert [phase["name"] for phase in run.phases] == ["command", "sync"]


def test_write_below_the_unmounted_point_ends_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A workload that goes on in the background, just then: nothing of it stays on the system's disk."""
    shim = compile_program("umount_waits", tmp_path, "-shared", "-fPIC")
    mounted = 'grep -q " $SEEKMETER_DIR " /proc/self/mountinfo'
    command = f'cd /; (while {mounted}; do :; done; echo x >"$SEEKMETER_DIR/f") & {REMOUNT}; sleep 1000'
    monkeypatch.setenv("LD_PRELOAD", str(shim))
    job = Job("trace", tmp_path / "run", FS="ext4", SIZE="128M", COLLECT="none", CMD=command)
    assert job.end() == 1
    assert "was made while the file system was unmounted" in job.said
    assert job.left_behind() == []


def test_mount_kept_in_another_namespace_is_reported(tmp_path: Path) -> None:
    """A namespace made of the session's has it elsewhere: the super block stays, and what is cached of it."""
    job = Job(
        "trace", tmp_path / "run", FS="ext4", SIZE="128M", COLLECT="none",
        CMD=f"echo x >f; until [ -e go ]; do sleep 0.1; done; cd /; {REMOUNT}; cat $SEEKMETER_DIR/f",
    )  # fmt: skip
    job.until("workload")
    place = next(Path("/run/seekmeter").glob(f"{job.process.pid}-*")) / "mnt"
    enter = ["nsenter", f"--target={job.process.pid}", "--mount"]
    (elsewhere := tmp_path / "elsewhere").mkdir()
    keep = f"mount --bind {place} {elsewhere} && echo in; exec sleep 100"
    words = [*enter, *in_own_mount_namespace(place), "sh", "-c", keep]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as other:
        try:
            assert other.stdout is not None
            assert other.stdout.readline() == "in\n"
            job.inside(place / "go").touch()
            wait_for(lambda: job.run.output.endswith("x\n"))
        finally:
            other.kill()
    assert job.end() == 0, job.said
    assert "stays in use after the unmount, perhaps by another mount namespace" in job.run.output
    assert job.left_behind() == []


def test_session_killed_during_a_remount_leaves_nothing(tmp_path: Path) -> None:
    slow = tmp_path / "slow"
    slow.mkdir()
    # The first mount is the run's, the second is slow: before and after it really mounts.
    for stage in ("unmounted", "mounted"):
        slowly = "[ -e $0.first ] && exec sleep 1000;"
        wait = slowly if stage == "unmounted" else ""
        real = f'/bin/mount "$@" || exit; {slowly if stage == "mounted" else ""}'
        (slow / "mount").write_text(
            f'#!/bin/sh\ncase "$*" in *seekmeter*/mnt) ;; *) exec /bin/mount "$@";; esac\n{wait} {real}\n'
            f"touch $0.first\n"
        )
        (slow / "mount").chmod(0o755)
        out = tmp_path / stage
        command = f"echo x >f; cd /; {REMOUNT}"
        job = Job("trace", out, slow, FS="ext4", SIZE="128M", COLLECT="counters", CMD=command)
        wait_for(lambda: "sleep\x001000" in "".join(job.commands()))  # noqa: B023 (it is over then)
        mounted = bool(re.search(rf"/{job.process.pid}-\d+/mnt ", job.mountinfo()))
        assert mounted == (stage == "mounted")
        os.kill(job.process.pid, signal.SIGKILL)
        job.process.wait()
        later = Job("trace", tmp_path / f"{stage}-later", DIR=str(tmp_path), COLLECT="none", CMD="true")
        assert later.end() == 0, later.said
        wait_for(lambda: [what for what in job.left_behind() if "sleep" not in what] == [])  # noqa: B023
        wait_for(lambda: job.run.facts["state"] == "interrupted")  # noqa: B023
        for pid, text in job.commands_by_pid().items():  # the slow program itself
            if "sleep" in text:
                os.kill(pid, signal.SIGKILL)
        job.process.communicate()
        (slow / "mount.first").unlink()


def test_session_interrupted_during_a_remount_leaves_nothing(tmp_path: Path) -> None:
    slow = tmp_path / "slow"
    slow.mkdir()
    (slow / "mount").write_text(
        '#!/bin/sh\ncase "$*" in *seekmeter*/mnt) [ -e $0.first ] && mv $0.first $0.second\n'
        "[ ! -e $0.second ] || until [ -e $0.go ]; do sleep 0.02; done; touch $0.first;; esac\n"
        'exec /bin/mount "$@"\n'
    )
    (slow / "mount").chmod(0o755)
    command = f"echo x >f; cd /; {REMOUNT}; sleep 60"
    job = Job("trace", tmp_path / "run", slow, FS="ext4", SIZE="128M", COLLECT="counters", CMD=command)
    wait_for((slow / "mount.second").exists)
    os.kill(job.process.pid, signal.SIGTERM)
    (slow / "mount.go").touch()
    assert job.end() == 1
    assert job.left_behind() == []
    assert job.run.facts["state"] == "interrupted"
    assert "remount" in [phase["name"] for phase in job.run.phases]


def test_directory_of_the_user_stays_mounted(tmp_path: Path) -> None:
    with tmpfs(tmp_path / "ram", "10m") as place:
        before = [
            line for line in Path("/proc/self/mountinfo").read_text().splitlines() if str(place) in line
        ]
        command = f"echo x >f; cd /; {REMOUNT}; {REMOUNT}"
        run = finished(tmp_path / "run", DIR=str(place), COLLECT="none", CMD=command).run
        after = [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if str(place) in line]
    assert before == after
    assert run.output == f"not remounted: {place} is not a disk of the run's own\n" * 2
    assert [text for text in run.facts["warnings"] if "cold caches" in text and "from memory" in text]
    assert len([text for text in run.facts["warnings"] if "cold caches" in text]) == 1
    assert [phase["name"] for phase in run.phases] == ["command", "sync"]
    assert "cold caches" in " ".join(run.report().split())


def test_only_the_workload_may_ask_for_a_remount(tmp_path: Path) -> None:
    command = "echo x >f; until [ -e go ]; do sleep 0.1; done"
    job = Job("trace", tmp_path / "run", FS="ext4", SIZE="128M", COLLECT="none", CMD=command)
    job.until("workload")
    folder = next(Path("/run/seekmeter").glob(f"{job.process.pid}-*"))
    answers = []
    for text in (b"remount\n", b"x" * 100, b""):
        with socket.socket(socket.AF_UNIX) as asker:
            asker.settimeout(10)
            wait_for((folder / "remount").exists)
            asker.connect(str(folder / "remount"))
            asker.sendall(text)
            answers.append(asker.recv(1000))
    job.inside(folder / "mnt/go").touch()
    assert job.end() == 0, job.said
    assert answers == [b"error only processes of the workload may request a remount\n"] * 3
    assert [phase["name"] for phase in job.run.phases] == ["command", "sync"]


@pytest.mark.parametrize("text", [pytest.param("umount /", marks=pytest.mark.long), "remount", ""])
def test_malformed_remount_requests_are_refused(tmp_path: Path, text: str) -> None:
    """From the workload itself, in plain Python; one that stops halfway holds nothing up for long."""
    script = (
        "import os, socket; s = socket.socket(socket.AF_UNIX); s.connect(os.environ['SEEKMETER_REMOUNT']); "
        f"s.sendall({text.encode()!r}); s.settimeout(20); print(s.recv(1000).decode(), end='')"
    )
    command = f'cd /; python3 -c "{script}"; {REMOUNT}'
    run = finished(tmp_path / "run", FS="ext4", SIZE="128M", COLLECT="none", CMD=command).run
    assert run.output.splitlines() == [
        f"error {text.encode()!r} is not understood: send 'remount' and a newline",
        "remounted",
    ]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("", "not remounted: there is no session to remount"),
        ("/nowhere/remount", "cannot be reached: no such file or directory"),
        ("x" * 200, "the socket's path is too long"),
    ],
)
def test_remount_program_without_a_session_says_so(name: str, says: str) -> None:
    environment = {**os.environ, "SEEKMETER_REMOUNT": name}
    done = subprocess.run([REMOUNT], env=environment, capture_output=True, text=True, check=False, cwd="/tmp")
    assert says in done.stdout + done.stderr
    assert done.returncode == (1 if name else 0)
    wrong = subprocess.run([REMOUNT, "/mnt"], capture_output=True, text=True, check=False)
    assert wrong.returncode == 2
