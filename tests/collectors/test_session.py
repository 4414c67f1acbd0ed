# SPDX-License-Identifier: BSD-2-Clause
"""trace, end to end: what a run directory holds, how the workload runs, and that nothing else is left."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as parquet
import pytest

from collectors.host import blockdev
from tests.collectors.loop_disk import attached
from tests.collectors.recording import enum_value, read_table
from tests.collectors.sessions import Job, Run, finished, make
from tests.marks import needs_root

pytestmark = needs_root

SMALL = {"ext3": "64M", "xfs": "300M", "btrfs": "128M"}


def test_run_directory_is_complete(tmp_path: Path) -> None:
    out = tmp_path / "run"
    df = "df --output=size,used,avail,itotal,iused -B1 ."
    command = f"CMD={df}; dd if=/dev/zero of=f bs=64k count=30; sync -f .; {df}; echo said"
    words = ["FS=ext3", "SIZE=64M", f"OUT={out}", command]
    done = make("trace", *words)
    assert done.returncode == 0, done.stderr
    assert str(out / "report.txt") in done.stdout
    run = Run(out)
    facts = run.facts
    assert facts["schema"] == 1
    assert facts["state"] == "complete"
    assert facts["exit_status"] == 0
    assert shlex.split(facts["command"])[:2] == ["make", "trace"]
    assert sorted(shlex.split(facts["command"])[2:]) == sorted(words)
    assert facts["words"]["SIZE"] == "64M"
    assert facts["warnings"] == []
    clock = facts["clock"]
    assert clock["name"] == "CLOCK_MONOTONIC"
    order = ["record_start_ns", "workload_start_ns", "workload_end_ns", "record_end_ns"]
    assert sorted(order, key=clock.__getitem__) == order
    assert facts["kernel"]["release"] == os.uname().release
    assert facts["machine"]["cpus"] == os.cpu_count()
    assert facts["device"]["kind"] == "file"
    assert facts["device"]["size_bytes"] == 64 << 20
    assert re.fullmatch(r"7:\d+", facts["device"]["dev"])
    assert facts["filesystem"]["name"] == "ext3"
    assert facts["filesystem"]["mkfs"].startswith("mkfs.ext3 ")
    assert facts["filesystem"]["proc_mounts"].split()[2] == "ext3"
    (journal,) = facts["filesystem"]["geometry"]["journal"]
    assert 0 < journal[0] < journal[1] <= (64 << 20) // 512
    # read once more, in another way, when it was unmounted
    areas = {area["name"]: area for area in facts["filesystem"]["geometry"]["areas"]}
    assert areas["journal"] == {
        "name": "journal",
        "kind": "journal",
        "dev": facts["device"]["dev"],
        "extents": [journal],
    }
    assert {"inode tables", "bitmaps"} <= set(areas)
    numbers = re.findall(r"^ *(\d+) +(\d+) +(\d+) +(\d+) +(\d+)$", run.output, re.MULTILINE)
    assert len(numbers) == 2
    for said, when in zip(numbers, ("after_mkfs", "after_run"), strict=True):
        space = facts["filesystem"]["space"][when]
        names = ("total_bytes", "used_bytes", "available_bytes", "inodes", "inodes_used")
        assert tuple(space[name] for name in names) == tuple(map(int, said)), when
    fsck = facts["filesystem"]["fsck"]
    assert fsck["clean"] is True
    assert fsck["command"] == f"fsck.ext3 -f -n /dev/{facts['device']['name']}"
    assert 0 < fsck["seconds"] <= facts["timing"]["fsck_s"] + 0.01
    # e2fsck's own summary: inodes and blocks in use, and of how many
    used = re.fullmatch(r"/dev/\S+: (\d+)/(\d+) files .*, (\d+)/(\d+) blocks", fsck["said"][-1])
    assert used is not None
    assert (space["inodes_used"], space["inodes"]) == (int(used[1]), int(used[2]))
    free = space["total_bytes"] - space["used_bytes"]
    assert (int(used[4]) - int(used[3])) * ((64 << 20) // int(used[4])) == free
    assert facts["workload"]["name"] == "command"
    assert facts["workload"]["exit_status"] == 0
    assert set(facts["tools"]) == {"seekmeter", "python", "mkfs"}
    assert set(facts["timing"]) >= {"mkfs_s", "mount_s", "attach_s", "workload_s", "sync_s", "stop_s"}
    assert [phase["name"] for phase in run.phases] == ["command", "sync"]
    assert run.losses["complete"] is True
    assert run.output.splitlines()[-1] == "said"
    # lock_sample: where CPUs can be sampled
    assert {path.stem for path in (out / "tables").glob("*.parquet")} - {"lock_sample"} == {
        *("phase", "block", "lock_wait", "lock", "stack", "call", "counter", "path", "function"),
        *(
            "thread",
            "thread_time",
            "switch",
            "wake",
            "sched_window",
            "event",
            "event_kind",
            "dirtied",
            "cgroup",
        ),
    }
    calls = parquet.read_table(out / "tables/call.parquet").to_pylist()
    written = [row["bytes"] for row in calls if (row["call"], row["target"]) == ("write", "target")]
    assert run.has_counted(sum(written), 30 * 65536, most=65536)
    report = (out / "detail.txt").read_text()
    assert "inode tables" in report
    assert "MKFS, FSCK AND SPACE" in report
    assert f"clean ({fsck['command']})" in report
    for name in ("report.txt", "report.html", "iograph.png", "iograph.svg"):
        assert (out / name).stat().st_size > 1000


@pytest.mark.parametrize("name", SMALL)
def test_application_throughput_equals_the_bytes_written(name: str, tmp_path: Path) -> None:
    # sh writes 6 B to f and 5 B to its output, which is elsewhere; dd says itself how much it copied.
    command = "echo hello >f; echo 1234; dd if=/dev/zero of=g bs=50000 count=77; dd if=g of=h"
    job = finished(tmp_path / "run", FS=name, SIZE=SMALL[name], COLLECT="calls", CMD=command)
    copied = [int(count) for count in re.findall(r"^(\d+) bytes", job.run.output, re.MULTILINE)]
    assert copied == [77 * 50000, 77 * 50000]
    assert job.run.has_counted(job.run.called("read", "bytes"), copied[1], most=50000)
    assert job.run.has_counted(job.run.called("write", "bytes"), 6 + sum(copied), most=50000)


def test_each_of_five_disks_is_recorded(tmp_path: Path) -> None:
    """A plan may have eight disks: the recorder takes as many, and each one's superblock is written."""
    command = "dd if=/dev/zero of=f bs=1M count=300 conv=fsync"
    disks = " ".join(["ram"] * 5)
    job = finished(tmp_path / "run", FS="btrfs", DISK=disks, SIZE="256M", COLLECT="block", CMD=command)
    recorded = job.run.path / "raw/recorder/block.rec"
    table = read_table(recorded)[1]
    written = table[table["op"] == enum_value(recorded, "block_op", "write")]
    assert len(set(written["dev"].tolist())) == 5
    assert written["bytes"].sum() >= 300 << 20
    assert sum(job.run.losses["collectors"]["block"]["lost"].values()) == 0


def test_failing_workload_is_reported_and_exits_1(tmp_path: Path) -> None:
    out = tmp_path / "run"
    done = make(
        *("trace", "FS=ext3", "SIZE=64M", f"OUT={out}", "COLLECT=calls"),
        "CMD=echo so far; echo then this >&2; exit 7",
    )
    assert "Error 1" in done.stderr
    assert "the workload failed (exit status 7: then this)" in done.stderr
    assert "failed with exit status 7" in (out / "report.txt").read_text()
    run = Run(out)
    assert (run.facts["state"], run.facts["exit_status"]) == ("complete", 1)
    assert run.facts["workload"]["exit_status"] == 7


def test_command_survives_make_byte_for_byte(tmp_path: Path) -> None:
    text = "a $HOME $$ $(shell id) `id` \"two  spaces\" 'q' \\n \\\\ # % & ; | * ~ é {x,y} $@ :="
    quoted = text.replace("'", "'\\''")
    command = f"printf %s '{quoted}' >said; pwd >where; printf %s \"$SEEKMETER_DIR\" >dir"
    done = make("trace", f"DIR={tmp_path}", f"OUT={tmp_path}/a run", "COLLECT=counters", "CMD=" + command)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "said").read_text() == text
    assert (tmp_path / "where").read_text() == f"{tmp_path}\n"
    assert (tmp_path / "dir").read_text() == str(tmp_path)
    assert Run(tmp_path / "a run").facts["words"]["CMD"] == command


def test_recorder_has_cpu_priority_in_its_session(tmp_path: Path) -> None:
    """Nice counts inside of its own session only: its session's group has one of its own, and no other."""
    here = Path("/proc/self/autogroup")
    if not here.exists():
        pytest.skip("the kernel groups no sessions: use one with CONFIG_SCHED_AUTOGROUP")
    before = here.read_text()
    job = Job("trace", tmp_path / "run", FS="ext3", SIZE="64M", COLLECT="counters", CMD="sleep 30")
    job.until("workload")
    of_recorder = Path(f"/proc/{job.recorder()}/autogroup").read_text()
    os.kill(job.process.pid, signal.SIGINT)
    assert job.end() == 1
    assert of_recorder.split()[1:] == ["nice", "-15"]
    assert here.read_text() == before


@pytest.fixture
def tmpfs(tmp_path: Path) -> Iterator[Path]:
    """A small tmpfs."""
    place = tmp_path / "tmpfs"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", place], check=True)
    yield place
    subprocess.run(["umount", place], check=True)


def test_directory_on_no_disk_has_all_tables_but_block(tmpfs: Path, tmp_path: Path) -> None:
    job = finished(tmp_path / "run", DIR=str(tmpfs), CMD="echo hello >f")
    assert job.run.losses["collectors"]["block"]["state"] == "off"
    assert job.run.losses["collectors"]["block"]["why"]
    for name in ("locks", "calls", "counters"):
        assert job.run.losses["collectors"][name]["state"] == "on"
    assert job.run.has_counted(job.run.called("write", "bytes"), 6, most=6)
    assert any("no disk" in warning for warning in job.run.facts["warnings"])
    assert (tmpfs / "f").read_text() == "hello\n"


def test_directory_on_a_disk_records_that_disk(tmp_path: Path) -> None:
    place = json.loads(
        subprocess.run(
            ["findmnt", "-J", "-o", "SOURCE,MAJ:MIN,FSTYPE", "-T", tmp_path], capture_output=True, check=True
        ).stdout
    )["filesystems"][0]
    if not place["source"].startswith("/dev/"):
        pytest.skip("the tests' directory is on no disk: give pytest a --basetemp on one")
    command = "dd if=/dev/zero of=f bs=1M count=2 conv=fsync 2>/dev/null"
    job = finished(tmp_path / "run", DIR=str(tmp_path), CMD=command, COLLECT="block calls")
    assert job.run.facts["filesystem"]["name"] == place["fstype"]
    assert job.run.facts["device"]["kind"] == "directory"
    rows = read_table(job.run.path / "raw/recorder/block.rec")[1]
    assert rows["bytes"].sum() >= 2 << 20
    assert job.run.has_counted(job.run.called("write", "bytes"), 2 << 20, most=1 << 20)


def test_remedy_for_a_directory_on_no_disk_works(tmpfs: Path, tmp_path: Path) -> None:
    """The report says DEV=NAME, so DEV goes with DIR: that disk is recorded, whoever uses it."""
    with (tmp_path / "image").open("wb") as image:
        image.truncate(64 << 20)
    with attached(tmp_path / "image") as disk:
        command = f"dd if=/dev/zero of={disk} bs=4k count=20 oflag=direct 2>/dev/null; echo hello >f"
        words = {"DIR": str(tmpfs), "DEV": Path(disk).name, "CMD": command, "COLLECT": "block calls"}
        job = finished(tmp_path / "run", **words)
        rows = read_table(job.run.path / "raw/recorder/block.rec")[1]
        assert (rows["bytes"] == 4096).sum() == 20
        facts = job.run.facts
        assert (facts["device"]["name"], facts["filesystem"]["name"]) == (Path(disk).name, "tmpfs")
        assert job.run.called("write", "bytes") == 6
        said = " ".join(job.run.report().split())
        assert re.search(rf"tmpfs \({tmp_path.parts[0]}\S+\), disk {Path(disk).name}: dd if=", said), said


def test_overlay_records_the_disk_of_its_upper_directory(tmp_path: Path) -> None:
    """As the root of every container is one."""
    if blockdev.under(tmp_path).disk is None:
        pytest.skip("the tests' directory is on no disk: give pytest a --basetemp on one")
    for name in ("lower", "upper", "work", "merged"):
        (tmp_path / name).mkdir()
    options = ",".join(f"{name}dir={tmp_path / name}" for name in ("lower", "upper", "work"))
    merged = tmp_path / "merged"
    if subprocess.run(["mount", "-t", "overlay", "overlay", "-o", options, merged], check=False).returncode:
        pytest.skip("the kernel has no overlay: use one that has")
    try:
        command = "dd if=/dev/zero of=f bs=1M count=2 conv=fsync 2>/dev/null"
        job = finished(tmp_path / "run", DIR=str(merged), CMD=command, COLLECT="block calls")
    finally:
        subprocess.run(["umount", merged], check=True)
    assert job.run.facts["device"]["name"] == blockdev.under(tmp_path).disk
    assert "the overlay's upper directory" in job.said
    rows = read_table(job.run.path / "raw/recorder/block.rec")[1]
    assert rows["bytes"].sum() >= 2 << 20
    assert job.run.called("write", "bytes") == 2 << 20


def test_run_whose_only_collector_is_off_completes(tmp_path: Path) -> None:
    """A recorder without a collector ends at once, which is no death; the report says what is missing."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as place:  # no disk
        job = finished(tmp_path / "run", DIR=place, COLLECT="block", CMD="echo hi")
    assert "block is off: no disk to watch" in job.said
    assert job.run.output == "hi\n"
    assert (job.run.facts["collect"], job.run.losses["complete"]) == (["block"], True)
    report = " ".join(job.run.report().split())
    first, _, rest = report.partition("WHAT WAS RUN")
    words = "block is off (no requests): no disk to watch (remedy: name a disk: DEV=NAME, or a DIR"
    assert words in first.replace("!! ", "")
    assert f"- {words}" in rest[rest.index("WARNINGS AND GAPS") :]
    assert "ended early" not in first + rest[rest.index("WARNINGS AND GAPS") :]


def test_run_with_no_collector_misses_nothing(tmp_path: Path) -> None:
    job = finished(tmp_path / "run", FS="ext3", SIZE="64M", COLLECT="none", CMD="true")
    report = job.run.report()
    assert "!!" not in report  # what was not asked for is no loss
    assert "recorded     nothing: no collector was asked for (COLLECT=none)" in report
    assert report.endswith("\n  - none\n"), report[-1000:]


def test_processes_left_by_a_workload_are_ended(tmp_path: Path) -> None:
    command = (
        "(trap '' TERM INT HUP; exec 3>held; while :; do echo x >&3; sleep 0.05; done) & setsid sleep 77 &"
    )
    job = finished(tmp_path / "run", FS="ext3", SIZE="64M", COLLECT="none", CMD=command)
    assert job.run.facts["state"] == "complete"


def test_mem_limits_the_workloads_memory(tmp_path: Path) -> None:
    # What the kernel says that the cgroup had at most, after writing three times as much.
    command = (
        "dd if=/dev/zero of=f bs=1M count=96 2>/dev/null;"
        "m=/sys/fs/cgroup/memory$(sed -n 's/^[0-9]*:memory://p' /proc/self/cgroup)/memory.max_usage_in_bytes;"
        "u=/sys/fs/cgroup$(sed -n 's/^0:://p' /proc/self/cgroup)/memory.peak;"
        "cat $m 2>/dev/null || cat $u;"
        "python3 -c 'x = bytearray(128 << 20)'; echo status $?"
    )
    job = finished(tmp_path / "run", FS="ext3", SIZE="256M", COLLECT="none", MEM="32M", CMD=command)
    most, status = [line for line in job.run.output.splitlines() if re.fullmatch(r"(status )?\d+", line)]
    assert 28 << 20 < int(most) <= 32 << 20
    assert status == "status 137"
    assert job.run.facts["workload"]["mem_bytes"] == 32 << 20


def test_cpus_and_cgroup_are_seen_inside_the_workload(tmp_path: Path) -> None:
    last = max(os.sched_getaffinity(0))
    command = "grep Cpus_allowed_list /proc/self/status; nproc; cat /proc/self/cgroup"
    job = finished(tmp_path / "run", DIR=str(tmp_path), COLLECT="none", CPUS=f"{last}-{last}", CMD=command)
    allowed, count, *cgroups = job.run.output.splitlines()
    assert (allowed.split(), count) == (["Cpus_allowed_list:", str(last)], "1")
    mine = f"/seekmeter-{job.process.pid}-"
    assert any(line.startswith("0::") and mine in line for line in cgroups)
    assert job.run.facts["workload"]["cpus"] == [last]


def test_catalog_workload_marks_its_phases(tmp_path: Path) -> None:
    job = finished(
        tmp_path / "run", FS="ext3", WL="compilebench", SCALE="quick", COLLECT="none",
        ARGS="-i 1 -r 1", DISK="ram",
    )  # fmt: skip
    names = [phase["name"] for phase in job.run.phases]
    assert "initial create" in names
    assert names[-1] == "sync"
    times = [time for phase in job.run.phases for time in (phase["start_ns"], phase["end_ns"])]
    assert times == sorted(times)
    assert job.run.facts["device"]["kind"] == "ram"


def test_full_disk_is_reported_and_leaves_nothing(tmpfs: Path) -> None:
    filler = "head -c 300k /dev/zero"  # into workload.out, which lies in the run directory
    job = Job("trace", tmpfs / "run", FS="ext3", SIZE="64M", CMD=f"{filler}; echo >f; sleep 1; exit 0")
    assert job.end() == 0, job.said
    assert "the recording stops here, as its file system has only" in job.said
    assert job.left_behind() == []
    facts = job.run.facts
    assert (facts["state"], facts["exit_status"]) == ("complete", 0)
    assert facts["workload"]["exit_status"] == 0
    assert any("no space left on device" in warning for warning in facts["warnings"])
    assert any("the recording stops here" in warning for warning in facts["warnings"])
    sources = job.run.losses["collectors"].values()
    assert sum(source["lost"]["no room"] for source in sources) > 0
    for source in sources:
        # a wait or call that nobody saw end is no event that was kept or lost
        open_still = sum(count for name, count in source["notes"].items() if name.endswith("open at the end"))
        assert source["seen"] == source["recorded"] + sum(source["lost"].values()) + open_still


def test_run_directory_without_space_is_refused(tmpfs: Path) -> None:
    (tmpfs / "all").write_bytes(b"\xff" * (216 << 10))
    job = Job("trace", tmpfs / "run", FS="ext3", SIZE="64M", CMD="true")
    assert job.end() == 3
    assert "no space left on device" in job.said
    assert "OUT=" in job.said
    assert job.left_behind() == []
    assert sorted(path.name for path in tmpfs.iterdir()) == ["all"]


def test_unusable_out_directories_are_refused(tmpfs: Path, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there/file").touch()
    subprocess.run(["mount", "-o", "remount,ro", tmpfs], check=True)
    for place, code, text in (
        (tmp_path / "there", 2, "exists"),
        (tmp_path / "no/parent", 3, "no such file or directory"),
        (tmpfs / "run", 3, "read-only file system"),
        (tmp_path / "there/file/below", 3, "not a directory"),
    ):
        job = Job("trace", place, DIR=str(tmp_path), CMD="touch ran")
        assert job.end() == code, job.said
        assert text in job.said
        assert len(job.said.splitlines()) == 1
        assert job.left_behind() == []
    assert not (tmp_path / "ran").exists()


_WRONG: list[tuple[str, tuple[str, ...], str]] = [
    ("trace", ("FS=ext33", "WL=compilebench"), "ext3"),
    ("trace", ("FS=ext3:btrfs2008", "WL=compilebench"), "btrfs2007"),
    ("trace", ("FS=ext3", "WL=compilebnch"), "compilebench"),
    ("trace", ("FS=ext3", "CMD=true", "SCALE=quick"), "SCALE contradicts CMD"),
    ("trace", ("FS=ext3", "WL=compilebench", "SCALE=quik"), "quick"),
    ("trace", ("FS=ext3", "CMD=true", "COLLECT=blok"), "block"),
    ("trace", ("FS=ext3", "CMD=true", "SIZ=64M"), "SIZE"),
    ("trace", ("FS=ext3", "CMD=true", "SIZE=big"), "512M"),
    ("trace", ("FS=ext3", "CMD=true", "DISK=/dev/nosuch"), "ERASE"),
    ("trace", ("FS=ext3", "CMD=true", "MOUNT=data=writebak"), "data=writebak"),
    ("trace", ("FS=ext3", "CMD=true", "MKFS=-Q"), "mkfs.ext3"),
    ("trace", ("FS=ext3", "CMD=true", "SCHED=cfq"), "bfq"),
    ("trace", ("FS=ext3", "CMD=true", "MEM=1"), "MEM=1 is too small"),
    ("trace", ("FS=ext3", "CMD=true", "CPUS=4-x"), "CPUS=4-x"),
    ("trace", ("FS=ext3", "WL=compilebench", "SEED=-1"), "SEED=-1"),
    ("trace", ("FS=ext3", "WL=compilebench", "THREADS=many"), "THREADS=many"),
    ("trace", ("FS=ext3", "CMD=true", "REPS=5"), "REPS does not fit the job trace"),
    ("trace", ("DIR=/nosuch", "CMD=true"), "DIR=/nosuch"),
    ("watch", ("DEV=loop99999x",), "DEV=loop99999x"),
    ("watch", ("DEV=vda", "SECS=soon"), "SECS=soon"),
    ("watch", ("FS=ext3",), "FS does not fit"),
]


@pytest.mark.parametrize(("job", "words", "text"), _WRONG, ids=lambda value: " ".join(value) if isinstance(value, tuple) else "")  # fmt: skip  # noqa: E501
def test_wrong_variables_change_nothing(job: str, words: tuple[str, ...], text: str, tmp_path: Path) -> None:
    disks = tmp_path / "disks"
    done = make(job, *words, f"OUT={tmp_path}/run", SEEKMETER_SCRATCH=str(disks))
    assert "Error 2" in done.stderr, done.stderr
    said = [line for line in done.stderr.splitlines() if line.startswith("seekmeter: ")]
    assert text in " ".join(said)
    assert done.stdout == ""
    assert not (tmp_path / "run").exists()
    assert not disks.exists() or list(disks.iterdir()) == []
