# SPDX-License-Identifier: BSD-2-Clause
"""^C, SIGTERM, SIGHUP and kill -9 in every stage of a session: nothing is left, and the run can be reported.

A stage is held by a slow mkfs or mount in front of the real one in PATH, or by a recorder that is stopped.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.collectors.sessions import Job, Run, finished, wait_for
from tests.marks import needs_root

pytestmark = needs_root

BEFORE = ("disk", "format", "mount")  # nothing is recorded yet
STAGES = (*BEFORE, "record", "workload", "sync", "stop")
# It leaves others who do not want to end, in sessions of their own, and perhaps does not want to itself.
_STUBBORN = (
    "exec 3>held; (trap '' TERM INT HUP; exec setsid sh -c 'while :; do echo x >&3; sleep 0.1; done') &"
    " while :; do sleep 0.1; done"
)
_MOST_STUBBORN = "trap '' TERM; " + _STUBBORN
# They do their work and then take long to come back: on the run's disk, not on the trial's before.
_SLOW_MKFS = """#!/bin/sh
{real} "$@" || exit
for disk; do :; done
backing=/sys/block/${{disk#/dev/}}/loop/backing_file
[ ! -e $backing ] || grep -q trial $backing || exec sleep 30
"""
_SLOW_MOUNT = '#!/bin/sh\n{real} "$@" || exit\ncase "$*" in *seekmeter*/mnt) exec sleep 30;; esac\n'


@pytest.fixture
def slow(tmp_path: Path) -> Path:
    """A directory of slow programs to be found first, empty still."""
    place = tmp_path / "slow"
    place.mkdir()
    return place


def held_in(stage: str, out: Path, slow: Path, stubborn: str = _STUBBORN) -> Job:
    """Start a session and wait until it is in this stage, where it stays for a while ("disk" and "record"
    are over soon, the signal comes at their beginning)."""
    held = {"format": ("mkfs.ext3", _SLOW_MKFS), "mount": ("mount", _SLOW_MOUNT)}
    if stage in held:
        program, text = held[stage]
        search = os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin"
        (slow / program).write_text(text.format(real=shutil.which(program, path=search)))
        (slow / program).chmod(0o755)
    # A workload that does not end by itself: however late the signal comes, the run is not over.
    command = "head -c 50M /dev/zero >f; until [ -e go ]; do sleep 0.1; done"
    command = stubborn if stage == "workload" else command
    job = Job("trace", out, slow, FS="ext3", SIZE="128M", COLLECT="block,counters", CMD=command)
    if stage in ("sync", "stop"):
        job.until("workload")
        os.kill(job.recorder(), signal.SIGSTOP)
        place = next(Path("/run/seekmeter").glob(f"{job.process.pid}-*"))
        job.inside(place / "mnt/go").touch()
    job.until(stage)
    if stage in held:
        wait_for(lambda: "sleep\x0030" in "".join(job.commands()))
    elif stage == "workload":
        wait_for(lambda: len([text for text in job.commands() if "echo x" in text]) > 1)
    return job


def let_go(job: Job) -> None:
    """Let a stopped recorder go on."""
    for pid, text in job.commands_by_pid().items():
        if "build/recorder" in text:
            os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize(
    ("stage", "number"),
    [
        *((stage, signal.SIGINT) for stage in STAGES),
        *((stage, signal.SIGTERM) for stage in ("mount", "workload")),
        *((stage, signal.SIGHUP) for stage in ("format", "workload")),
    ],
    ids=str,
)
def test_interrupted_session_restores_everything(
    stage: str, number: signal.Signals, tmp_path: Path, slow: Path
) -> None:
    # Who does not end is ended after some seconds: once is enough.
    job = held_in(stage, tmp_path / "run", slow, _MOST_STUBBORN if number == signal.SIGTERM else _STUBBORN)
    if number == signal.SIGINT:
        os.killpg(job.process.pid, number)  # as the terminal does
    else:
        os.kill(job.process.pid, number)
    time.sleep(0.1)
    let_go(job)
    assert job.end() == 1, job.said
    assert job.left_behind() == []
    if stage in BEFORE or (stage == "record" and not job.run.path.exists()):
        assert not job.run.path.exists()
        assert job.printed == ""  # so nothing is reported
        assert f"interrupted before anything was recorded: {job.run.path} is removed" in job.said
        return
    assert job.printed == f"{job.run.path}\n"
    assert job.run.facts["state"] == "interrupted"
    assert "interrupted; everything is put back" in job.said
    report = job.run.report()
    if stage == "workload":
        assert job.run.facts["workload"]["interrupted"] is True
        assert "the workload was interrupted (^C or a signal)" in " ".join(report.replace("!!", "").split())
    assert "failed with" not in report and "exit status -" not in report


@pytest.mark.parametrize("stage", STAGES)
def test_killed_session_is_restored_by_the_next_start(stage: str, tmp_path: Path, slow: Path) -> None:
    job = held_in(stage, tmp_path / "run", slow)
    os.kill(job.process.pid, signal.SIGKILL)
    assert job.process.wait() == -signal.SIGKILL
    assert Run(tmp_path / "run").facts["state"] == "running"
    if stage == "sync":
        let_go(job)  # it ends by itself; in the stage "stop" the next start waits for it, and kills it
    later = Job("trace", tmp_path / "later", None, DIR=str(tmp_path), COLLECT="none", CMD="true")
    assert later.end() == 0, later.said
    # Whoever starts next cleans up; on a busy machine that may be somebody else's session.
    wait_for(lambda: job.left_behind() == [])
    wait_for(lambda: job.run.facts["state"] == "interrupted")
    assert any("was killed" in warning for warning in job.run.facts["warnings"])
    if stage == "workload":
        report = " ".join(job.run.report().split())
        assert "state is 'interrupted'" in report
        assert "was killed" in report
    job.process.communicate()


# Children of children, in sessions of their own, who ignore every signal that can be; one is another user's,
# and one goes on starting others.
_FAMILY = """
trap '' TERM INT HUP
(trap '' TERM INT HUP; exec setsid sh -c 'while :; do echo x; sleep 0.05; done >held') &
(setsid setpriv --reuid=65534 --clear-groups sleep 601 &)
(setsid sh -c 'while :; do sleep 602 & sleep 0.02; kill $!; done' &)
while :; do sleep 0.05; done
"""


def family(job: Job) -> dict[int, str]:
    """What runs of the workload; a process of another user shows its environment to root."""
    ours = ("-m\0collectors", "build/recorder", "guard.py")
    return {
        pid: text for pid, text in job.commands_by_pid().items() if not any(word in text for word in ours)
    }


@pytest.mark.parametrize("collect", ["block,counters", "none"])
def test_workload_ends_with_its_killed_session(collect: str, tmp_path: Path) -> None:
    """At once, not by the next start: until then it would write on. Whether a recorder is left, or nobody."""
    job = Job("trace", tmp_path / "run", None, FS="ext3", SIZE="128M", COLLECT=collect, CMD=_FAMILY)
    job.until("workload")
    wait_for(lambda: all(word in " ".join(family(job).values()) for word in ("601", "602", "echo x")))
    with subprocess.Popen(["sleep", "603"]) as other:  # somebody else's
        assert len(family(job)) >= 5
        killed_ns = time.monotonic_ns()
        os.kill(job.process.pid, signal.SIGKILL)
        assert job.process.wait() == -signal.SIGKILL
        wait_for(lambda: family(job) == {}, 2)
        # recorder and guard are done then, too
        wait_for(lambda: job.commands() == [], 30)
        assert other.poll() is None
        other.kill()
    for left in job.left_behind():
        if left.startswith("/sys/fs/cgroup"):
            assert not any(procs.read_text() for procs in Path(left).rglob("cgroup.procs"))
    if collect != "none":
        said = json.loads((job.run.path / "raw/recorder/losses.json").read_text())
        assert said["complete"] is True
        assert killed_ns - 10**9 <= said["recorder"]["until_ns"] <= killed_ns + 2 * 10**9
        length_s = (said["recorder"]["until_ns"] - job.run.facts["clock"]["record_start_ns"]) / 1e9
        report = " ".join(job.run.report().split())
        shown = re.search(r"session did not end in order: figures are of the ([\d.]+) s until", report)
        assert shown is not None
        assert float(shown[1]) == pytest.approx(length_s, abs=0.06)
    later = Job("trace", tmp_path / "later", None, DIR=str(tmp_path), COLLECT="none", CMD="true")
    assert later.end() == 0, later.said
    wait_for(lambda: job.left_behind() == [])
    job.process.communicate()


def test_repeated_interrupts_do_not_break_the_cleanup(tmp_path: Path, slow: Path) -> None:
    job = held_in("workload", tmp_path / "run", slow)
    while job.process.poll() is None:
        os.killpg(job.process.pid, signal.SIGINT)
        time.sleep(0.005)
    assert job.end() == 1, job.said
    assert job.left_behind() == []
    assert job.run.facts["state"] == "interrupted"
    assert job.run.losses["complete"] is True


def test_killed_recorder_is_reported_and_the_run_goes_on(tmp_path: Path) -> None:
    command = "echo first >f; while ! [ -e go ]; do sleep 0.1; done; echo last >g"
    job = Job("trace", tmp_path / "run", None, DIR=str(tmp_path), COLLECT="calls,counters", CMD=command)
    job.until("workload")
    wait_for((tmp_path / "f").exists)
    wait_for(lambda: (job.run.path / "raw/recorder/counter.rec").stat().st_size > 5_000)
    os.kill(job.recorder(), signal.SIGKILL)
    job.until("WARNING")
    (tmp_path / "go").touch()
    assert job.end() == 1
    assert "recorder: ended early (signal 9)" in job.said
    assert job.left_behind() == []
    assert (tmp_path / "g").read_text() == "last\n"
    facts = job.run.facts
    assert (facts["exit_status"], facts["workload"]["exit_status"]) == (1, 0)
    assert any("ended early (signal 9)" in warning for warning in facts["warnings"])
    assert job.run.losses["complete"] is False
    assert set(job.run.losses["collectors"]) >= {"calls", "counters"}
    report = " ".join(job.run.report().split())
    assert "the recorder ended early" in report
    assert "ended early (signal 9)" in report
    assert all(source["ended_early"] for source in job.run.losses["collectors"].values())
    words = "calls, counters ended early: numbers cover the time until then"
    assert report.index(f"!! {words}") < report.index("WHAT WAS RUN")
    assert f"- {words}" in report[report.index("WARNINGS AND GAPS") :]
    assert job.run.facts["collect"] == ["calls", "counters"]
    assert (job.run.path / "tables/counter.parquet").stat().st_size > 1000


def test_closed_terminal_does_not_break_the_cleanup(tmp_path: Path, slow: Path) -> None:
    """Nobody reads what it says any more, and the kernel says so with SIGHUP."""
    job = held_in("workload", tmp_path / "run", slow)
    assert job.process.stderr is not None
    assert job.process.stdout is not None
    job.process.stderr.close()
    job.process.stdout.close()
    os.kill(job.process.pid, signal.SIGHUP)
    assert job.process.wait(30) == 1
    assert job.left_behind() == []
    assert job.run.facts["state"] == "interrupted"
    assert job.run.losses["complete"] is True


def test_signals_ignored_by_nohup_stay_ignored(tmp_path: Path) -> None:
    place = tmp_path / "later"
    place.mkdir()
    script = "trap '' HUP; exec \"$@\""
    job = finished(tmp_path / "run", DIR=str(place), COLLECT="none", CMD="true")  # the words it needs
    environment = {f"SEEKMETER_{name}": text for name, text in job.run.facts["words"].items()}
    environment |= {"SEEKMETER_OUT": str(tmp_path / "other"), "SEEKMETER_CMD": "kill -HUP $PPID; sleep 0.5"}
    done = subprocess.run(
        ["sh", "-c", script, "sh", *job.process.args],  # type: ignore[misc]
        cwd=Path(__file__).parents[2],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert Run(tmp_path / "other").facts["state"] == "complete"
