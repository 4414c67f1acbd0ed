# SPDX-License-Identifier: BSD-2-Clause
"""WITH=: scripts and tools beside the workload: when they run, what is kept, how they end, what fails."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.collectors.recording import EMULATED
from tests.collectors.sessions import Job, Run, make, wait_for
from tests.marks import needs_root
from workloads.cli.with_options import SCRIPTS, With, bcc_tools, our_scripts, parse_with
from workloads.system.errors import OptionError
from workloads.system.guest import GUEST

SECONDS = 60 * (10 if EMULATED else 2)


@pytest.fixture(autouse=True)
def as_a_machine_as_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inside a virtual machine too: sessions with disks of their own."""
    monkeypatch.delenv(GUEST, raising=False)


def script(folder: Path, name: str, text: str) -> Path:
    """A script of the user's own."""
    file = folder / name
    file.write_text(text)
    return file


def tool(folder: Path, name: str, text: str) -> Path:
    """A program that is found as Debian's tool NAME of bcc."""
    folder.mkdir(exist_ok=True)
    file = folder / f"{name}-bpfcc"
    file.write_text(text)
    file.chmod(0o755)
    return folder


def run_job(out: Path, place: Path | None = None, **words: str) -> Job:
    """A run that is good, and leaves nothing."""
    job = Job("trace", out, place, **words)
    assert job.end(SECONDS) == 0, job.said
    assert job.left_behind() == []
    return job


@needs_root
def test_own_and_user_scripts_run_and_a_missing_one_is_off(tmp_path: Path) -> None:
    own = script(
        tmp_path,
        "own.bt",
        'BEGIN { printf("begun %llu\\n", nsecs); } tracepoint:syscalls:sys_enter_fdatasync'
        ' { @calls[comm] = count(); } END { printf("over %llu\\n", nsecs); }',
    )
    words = f"bpftrace:journal_commits bpftrace:{own} bpftrace:xfs_log"
    missing = script(tmp_path, "none.bt", "// needs: nowhere:no_such_event\nBEGIN { exit(); }\n")
    command = "for i in 1 2 3 4 5; do dd if=/dev/zero of=f$i bs=4k count=1 conv=fdatasync status=none; done"
    job = run_job(
        tmp_path / "run",
        FS="ext4",
        SIZE="128M",
        COLLECT="block counters",
        WITH=f"{words} bpftrace:{missing}",
        CMD=command,
    )
    facts = {entry["label"]: entry for entry in job.run.facts["with"]}
    clock = job.run.facts["clock"]
    for name in ("journal_commits", "own"):
        entry = facts[f"bpftrace:{name}"]
        assert entry["state"] == "on"
        assert entry["start_ns"] < clock["workload_start_ns"] < clock["workload_end_ns"] < entry["stop_ns"]
        assert (entry["ended"], entry["exit_status"]) == ("when told to", 0)
        text = (job.run.path / f"raw/with/{name}.out").read_text()
        assert (entry["lines"], entry["bytes"]) == (text.count("\n"), len(text.encode()))
        losses = job.run.losses["collectors"][f"bpftrace:{name}"]
        assert losses["state"] == "on"
        assert set(losses["lost"].values()) == {0}
        assert losses["cpu_ns"] >= 0
    said = (job.run.path / "raw/with/own.out").read_text()
    assert "@calls[dd]: 5" in said
    begun, over = (int(re.search(rf"^{word} (\d+)$", said, re.MULTILINE)[1]) for word in ("begun", "over"))  # type: ignore[index]
    own_entry = facts["bpftrace:own"]
    assert begun < own_entry["start_ns"] < own_entry["stop_ns"] < over < clock["record_end_ns"] + 60e9
    assert (job.run.path / "raw/with/own.bt").read_text() == own.read_text()
    assert facts["bpftrace:none"]["state"] == "off"
    assert "no tracepoint nowhere:no_such_event" in facts["bpftrace:none"]["why"]
    assert facts["bpftrace:none"]["remedy"]

    # The report has it all, also where raw/ is not.
    for file in sorted((job.run.path / "raw/with").iterdir()):
        file.unlink()
    report = job.run.report()
    assert "WITH BPFTRACE:JOURNAL_COMMITS" in report
    section = report[report.index("WITH BPFTRACE:OWN") :]
    assert "@calls[dd]: 5" in section
    assert "when told to, status 0" in section
    assert "no tracepoint nowhere:no_such_event" in " ".join(report.split())
    assert max(map(len, report.splitlines())) <= 80


@needs_root
def test_programs_that_end_or_fail_are_reported(tmp_path: Path) -> None:
    """Tools that are none of bcc's, so that they do what the test wants: their programs are tried below."""
    place = tmp_path / "bin"
    tool(place, "brief", "#!/bin/sh\necho one line\n")
    tool(place, "broken", "#!/bin/sh\necho 'no luck today' >&2\nexit 7\n")
    job = run_job(
        tmp_path / "run",
        place,
        DIR=str(tmp_path),
        COLLECT="counters",
        WITH="'bcc:brief -a 3' bcc:broken",
        CMD="sleep 1",
    )
    facts = {entry["label"]: entry for entry in job.run.facts["with"]}
    brief = facts["bcc:brief"]
    assert brief["argv"][1:] == ["-a", "3"]
    assert (brief["state"], brief["ended"], brief["exit_status"]) == ("on", "by itself", 0)
    assert brief["stop_ns"] < job.run.facts["clock"]["workload_end_ns"]
    assert brief["first_lines"] == ["one line"]
    broken = facts["bcc:broken"]
    assert broken["state"] == "off"
    assert broken["why"] == "it ended at once with status 7 (no luck today)"
    assert job.run.losses["collectors"]["bcc:brief"]["ended_early"] is False
    report = " ".join(job.run.report().split())
    assert "it ended at once with status 7 (no luck today)" in report


@needs_root
@pytest.mark.long  # the session waits for half a minute
def test_program_that_ignores_sigint_is_killed(tmp_path: Path) -> None:
    place = tmp_path / "bin"
    place.mkdir()
    own = script(tmp_path, "stubborn.bt", 'BEGIN { printf("here\\n"); } interval:s:1 { @n = count(); }')
    deaf = place / "bpftrace"  # bpftrace, but what is sent to it goes nowhere
    deaf.write_text(
        "#!/bin/sh\ntrap '' INT\necho __BPFTRACE_NOTIFY_PROBES_ATTACHED >&2\necho here\nexec sleep 600\n"
    )
    deaf.chmod(0o755)
    job = Job(
        "trace",
        tmp_path / "deaf",
        place,
        DIR=str(tmp_path),
        COLLECT="counters",
        WITH=f"bpftrace:{own}",
        CMD="true",
    )
    assert job.end(SECONDS) == 0, job.said
    assert job.left_behind() == []
    entry = job.run.facts["with"][0]
    assert entry["ended"].startswith("by force")
    assert entry["exit_status"] == -signal.SIGKILL
    assert entry["first_lines"] == ["here"]
    assert job.run.losses["collectors"]["bpftrace:stubborn"]["lost"]["its last output"] == 1
    assert "stubborn: 1 lost (its last output)" in job.said


@needs_root
def test_program_that_misses_a_sigint_gets_another(tmp_path: Path) -> None:
    place = tmp_path / "bin"
    place.mkdir()
    own = script(tmp_path, "own.bt", "interval:s:1 { @n = count(); }")
    distracted = place / "bpftrace"
    distracted.write_text(
        f"#!{sys.executable}\nimport signal\nsignal.signal(signal.SIGINT, lambda *_: print('heard'))\n"
        "print('__BPFTRACE_NOTIFY_PROBES_ATTACHED', flush=True)\nsignal.pause()\nsignal.pause()\n"
    )
    distracted.chmod(0o755)
    words = {"DIR": str(tmp_path), "COLLECT": "counters", "WITH": f"bpftrace:{own}", "CMD": "true"}
    job = Job("trace", tmp_path / "run", place, **words)
    assert job.end(SECONDS) == 0, job.said
    entry = job.run.facts["with"][0]
    assert (entry["ended"], entry["exit_status"]) == ("when told to", 0)
    assert (job.run.path / "raw/with/own.out").read_text().endswith("heard\nheard\n")
    assert job.run.losses["collectors"]["bpftrace:own"]["lost"]["its last output"] == 0


@needs_root
def test_dead_and_missing_programs_head_the_report(tmp_path: Path) -> None:
    place = tmp_path / "bin"
    tool(place, "broken", "#!/bin/sh\necho 'no luck today' >&2\nexit 7\n")
    dying = place / "bpftrace"
    dying.write_text(
        "#!/bin/sh\necho __BPFTRACE_NOTIFY_PROBES_ATTACHED\n"
        f"while [ ! -e {tmp_path}/go ]; do sleep 0.1; done\nexit 7\n"
    )
    dying.chmod(0o755)
    own = script(tmp_path, "dying.bt", "interval:s:1 { @n = count(); }")
    job = run_job(
        tmp_path / "run",
        place,
        DIR=str(tmp_path),
        COLLECT="counters",
        WITH=f"bpftrace:{own} bcc:broken",
        CMD="touch go; sleep 1",
    )
    entry = job.run.facts["with"][0]
    assert (entry["ended"], entry["exit_status"]) == ("by itself", 7)
    assert job.run.losses["collectors"]["bpftrace:dying"]["ended_early"] is True
    first, _, rest = " ".join(job.run.report().split()).partition("WHAT WAS RUN")
    for words in (
        "bcc:broken is off (no output of this program): it ended at once with status 7 (no luck today)",
        "bpftrace:dying ended early: numbers cover the time until then",
    ):
        assert words in first.replace("!! ", "")
        assert f"- {words}" in rest[rest.index("WARNINGS AND GAPS") :]


@needs_root
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_with_programs_leave_nothing_behind(number: signal.Signals, tmp_path: Path) -> None:
    own = script(tmp_path, "own.bt", 'interval:s:1 { @n = count(); } END { printf("over\\n"); }')
    job = Job(
        "trace",
        tmp_path / "run",
        None,
        DIR=str(tmp_path),
        COLLECT="counters",
        WITH=f"bpftrace:readahead bpftrace:{own}",
        CMD="sleep 600",
    )
    job.until("workload")
    assert sum("bpftrace\0" in text and ".bt" in text for text in job.commands()) == 2
    os.kill(job.process.pid, number)
    if number == signal.SIGINT:
        assert job.end(SECONDS) == 1
        assert job.run.facts["with"][0]["exit_status"] == 0
    else:
        job.process.wait()
        deadline = time.monotonic() + 10
        while (left := any("bpftrace\0" in text for text in job.commands())) and time.monotonic() < deadline:
            time.sleep(0.02)
        # By themselves, but bpftrace 0.17 forgets a signal that comes while it does not wait for events.
        assert left or "over" in (job.run.path / "raw/with/own.out").read_text()
        later = Job("trace", tmp_path / "later", None, DIR=str(tmp_path), COLLECT="none", CMD="true")
        assert later.end() == 0, later.said
        job.process.communicate()
    wait_for(lambda: job.left_behind() == [])


@needs_root
def test_bcc_tool_runs_or_names_the_missing_headers(tmp_path: Path) -> None:
    """Where the kernel's headers are, it works; elsewhere the run says that they are missing."""
    assert "vfsstat" in bcc_tools(), "make test installs bpfcc-tools"
    job = run_job(
        tmp_path / "run",
        FS="ext4",
        SIZE="128M",
        COLLECT="block",
        WITH="bcc:vfsstat",
        CMD="dd if=/dev/zero of=f bs=4k count=3000 status=none; sleep 3",  # it prints once a second
    )
    entry = job.run.facts["with"][0]
    if entry["state"] == "on":
        text = (job.run.path / "raw/with/vfsstat.out").read_text()  # time, reads/s, writes/s, ...
        writes = re.findall(r"^\d\d:\d\d:\d\d: +\d+ +(\d+)", text, re.MULTILINE)
        assert sum(map(int, writes)) >= 2500  # the last second may not be in it
    else:
        assert "headers" in entry["remedy"] or "lockdown" in entry["remedy"]
        assert entry["why"].startswith("it ended at once")


@needs_root
def test_watch_runs_with_programs(tmp_path: Path) -> None:
    disk = next(path.name for path in sorted(Path("/sys/block").iterdir()) if not path.name.startswith("ram"))
    job = Job("watch", tmp_path / "run", None, DEV=disk, SECS="1", COLLECT="none", WITH="bpftrace:readahead")
    assert job.end(SECONDS) == 0, job.said
    assert job.left_behind() == []
    entry = job.run.facts["with"][0]
    clock = job.run.facts["clock"]
    assert entry["start_ns"] < clock["workload_start_ns"] < clock["workload_end_ns"] <= entry["stop_ns"]
    assert "WITH BPFTRACE:READAHEAD" in job.run.report()


def test_hostile_with_output_is_harmless_in_the_report(tmp_path: Path) -> None:
    """A run directory made by others may say anything."""
    (tmp_path / "run.json").write_text(
        json.dumps(
            {
                "schema": 1,
                "state": "complete",
                "command": "make",
                "with": [
                    7,
                    {},
                    {
                        "label": ["x"],
                        "state": "on",
                        "argv": "no list",
                        "start_ns": "soon",
                        "first_lines": [1, "\x1b[2J"],
                    },
                    {"label": "y" * 500, "state": "on", "start_ns": 5, "stop_ns": -1e300, "last_lines": {}},
                ],
            }
        )
    )
    report = Run(tmp_path).report()
    assert "WITH AN UNNAMED PROGRAM" in report
    assert "\x1b" not in report
    assert max(map(len, report.splitlines())) <= 80


def test_with_parses_programs_and_arguments() -> None:
    chosen = parse_with("bpftrace:readahead 'bcc:biolatency-bpfcc -D 1'")["with_programs"]
    assert chosen == (
        With("bpftrace", "readahead", SCRIPTS / "readahead.bt"),
        With("bcc", "biolatency", None, ("-D", "1")),
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("readahead", "write bpftrace:NAME"),
        ("bpftrac:readahead", "did you mean bpftrace?"),
        ("bpftrace:readahed", "did you mean readahead?"),
        ("bpftrace:", "there is no script ''"),
        ("bpftrace:./nothing.bt", "is not a file that can be read"),
        ("bcc:biolatenci", "did you mean biolatency"),
        ("bcc:../rm", "is not the name of a tool"),
        ("bpftrace:readahead bpftrace:readahead", "names the same thing twice"),
        ("'bpftrace:readahead", "cannot be split"),
    ],
)
def test_with_refuses_what_cannot_run(text: str, says: str) -> None:
    with pytest.raises(OptionError) as caught:
        parse_with(text)
    assert says in caught.value.message
    assert caught.value.exit_code == 2


def test_plan_and_list_show_with_programs() -> None:
    plan = make("plan", "FS=ext4", "WL=compilebench", "WITH=bpftrace:readahead 'bcc:biolatency -D'")
    assert plan.returncode == 0, plan.stderr
    assert re.search(r"^with\s+bpftrace:readahead$", plan.stdout, re.MULTILINE)
    assert re.search(r"^with\s+bcc:biolatency -D$", plan.stdout, re.MULTILINE)
    listed = make("list").stdout
    for name in our_scripts():
        assert re.search(rf"^  {name}\b", listed, re.MULTILINE)
    wrong = make("trace", "FS=ext4", "WL=compilebench", "WITH=bpftrace:readahed")
    assert wrong.returncode == 2
    assert "did you mean readahead?" in wrong.stderr


def test_doctor_has_a_line_for_each_script() -> None:
    done = subprocess.run(["make", "doctor"], capture_output=True, text=True, check=False)
    for name in our_scripts():
        assert name in done.stdout
