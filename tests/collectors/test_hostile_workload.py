# SPDX-License-Identifier: BSD-2-Clause
"""A workload that wants more than is given: room, attention, names of others, a run that stays root's."""

from __future__ import annotations

import ctypes
import os
import subprocess
import time
from pathlib import Path

from tests.collectors.other_user import USER
from tests.collectors.sessions import Job
from tests.marks import needs_root

pytestmark = needs_root


def test_files_left_beside_the_results_are_bounded(home: Path) -> None:
    """Holes cost nothing in its tmpfs: each file is small enough, a thousand of them fill the disk."""
    command = 'cd "$(dirname "$SEEKMETER_PHASES")"; for i in 1 2 3 4 5; do truncate -s 60M holes-$i; done'
    job = Job("trace", home / "run", DIR=str(home), CMD=command, COLLECT="none", ROOM="1M")
    job.end()
    assert sum(path.stat().st_size for path in (home / "run").rglob("*")) < 70 << 20


HOLDING = """
import os, socket, time
end = time.time() + 12
if os.fork() == 0:
    while time.time() < end:
        askers = [socket.socket(socket.AF_UNIX) for _ in range(4)]
        for asker in askers:
            asker.connect(os.environ["SEEKMETER_REMOUNT"])
        for _ in range(6):
            for asker in askers:
                try:
                    asker.send(b"r")
                except OSError:
                    pass
            time.sleep(1.2)
    os._exit(0)
time.sleep(1)
while time.time() < end:
    os.write(1, b"x" * (1 << 20))
    time.sleep(0.1)
"""


def test_slow_remount_client_does_not_stop_the_room_check(home: Path) -> None:
    """Room, the recorder's end: nothing of it was looked at while a slow asker was listened to."""
    (home / "hold.py").write_text(HOLDING)
    command = f"python3 {home}/hold.py"
    job = Job("trace", home / "run", DIR=str(home), CMD=command, COLLECT="none", ROOM="1M")
    code = job.end()
    assert code != 0 and "printed more than ROOM= allows" in job.said
    assert (home / "run/raw/workload.out").stat().st_size < 50 << 20


def test_taken_names_in_raw_are_a_warning(home: Path) -> None:
    names = "perf perf.data paths.jsonl units.jsonl fsck.out"
    command = f'cd "$(dirname "$SEEKMETER_PHASES")"; touch {names}; mkdir with; echo 1 >mine'
    job = Job("trace", home / "run", DIR=str(home), CMD=command, COLLECT="perf")
    assert job.end() == 0, job.said
    assert (home / "run/raw/mine").read_text() == "1\n"
    assert any("with other names than those of a run" in text for text in job.run.facts["warnings"]), job.said


def test_directory_replaced_by_a_link_is_not_listed(home: Path, open_place: Path) -> None:
    """DIR= is looked up once: names in a directory that its user cannot list stay there."""
    private = open_place / "private"
    private.mkdir(mode=0o700)
    place = home / "up/place"
    place.mkdir(parents=True)
    for one in (home / "up", place):
        os.chown(one, USER.pw_uid, USER.pw_gid)
    swap = f"mv {home}/up {home}/away; mkdir {home}/up; ln -s {private} {home}/up/place"
    command = f"until [ -e {home}/go ]; do sleep 0.1; done; {swap}"
    job = Job("trace", home / "run", DIR=str(place), CMD=command, COLLECT="block")
    job.until("workload")
    (private / "private-name").write_text("x" * 100_000)
    subprocess.run(["sync", "-f", str(private)], check=True)
    (home / "go").touch()
    job.end()
    told = home / "run/raw/paths.jsonl"
    lines = told.read_text().splitlines() if told.exists() else []
    assert [line for line in lines if '"path": "private-name"' in line] == []


def test_run_is_handed_over_whatever_became_of_its_output(home: Path) -> None:
    """The file is the user's while the workload runs: it can be given a name elsewhere, and a lease."""
    link = home / "linked"
    program = (
        "import ctypes, time; ctypes.CDLL(None).linkat("
        f"-100, b'/proc/self/fd/1', -100, b'{link}', 0x400); time.sleep(0.5)"
    )
    job = Job("trace", home / "run", DIR=str(home), CMD=f'python3 -c "{program}"', COLLECT="none")
    holder = os.fork()
    if holder == 0:
        _hold_lease(link)
        os._exit(0)
    try:
        job.end()
        assert (home / "run").stat().st_uid == USER.pw_uid, job.said
    finally:
        os.kill(holder, 9)
        os.waitpid(holder, 0)


def _hold_lease(link: Path) -> None:
    os.setgroups([])
    os.setresgid(*(USER.pw_gid,) * 3)
    os.setresuid(*(USER.pw_uid,) * 3)
    libc = ctypes.CDLL(None)
    end = time.monotonic() + 30
    while time.monotonic() < end:
        try:
            file = os.open(link, os.O_RDONLY)
        except OSError:
            continue
        if libc.fcntl(file, 1024, 1) == 0:  # F_SETLEASE, F_WRLCK: once nobody else has it open
            libc.signal(29, ctypes.c_void_p(1))  # SIGIO ignored
            time.sleep(20)
        os.close(file)
