# SPDX-License-Identifier: BSD-2-Clause
"""COLLECT=blktrace: its files against blkparse, btt, /proc/diskstats and our table; nothing is left changed.

The tracer is the whole machine's, so one test at a time (blk_tracer.py's lock).
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from collectors.blktrace import tracefs as settings
from tests.analysis.importers.blktrace_files import run_reader
from tests.analysis.importers.test_blktrace_real import by_request
from tests.collectors.blk_tracer import LOCK, copy_without_splits, records
from tests.collectors.loop_disk import MIB, loop_disk
from tests.collectors.recording import EMULATED, INSIDE, needs_btf, read_table
from tests.collectors.same_moments import Moments
from tests.collectors.sessions import TREE, Job, Run, finished, wait_for
from tests.marks import needs_root
from workloads.system.guest import GUEST

pytestmark = [needs_root, needs_btf]

TRACEFS = Path("/sys/kernel/tracing")
SETTINGS = ("current_tracer", "trace_clock", "buffer_size_kb", "tracing_on", "set_event", "trace_options")
NOTE_PROCESS, NOTE_TIME = 0x04000000, 0x04000001  # linux/blktrace_api.h: BLK_TN_PROCESS, BLK_TN_TIMESTAMP
# Three programs with names of their own; direct writes, cached ones, reads and flushes.
COMMAND = (
    "dd if=/dev/zero of=one bs=64k count=100 oflag=direct status=none;"
    " cp one two; sync; head -c 300k two >three; sync two three;"
    " dd if=one of=/dev/null iflag=direct bs=16k status=none; (true; cp one four; sync)"
)


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """tracefs, nobody else's for the length of the test; mounted if it is not. As before at the end."""
    # Inside a virtual machine too: a machine as others, whose sessions have disks of their own.
    monkeypatch.delenv(GUEST, raising=False)
    LOCK.parent.mkdir(exist_ok=True)
    with LOCK.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (TRACEFS / "trace_pipe").exists():
            subprocess.run(["mount", "-t", "tracefs", "none", TRACEFS], check=True)
        if "blk" not in (TRACEFS / "available_tracers").read_text().split():
            pytest.skip("the kernel has no blk tracer: use one with CONFIG_BLK_DEV_IO_TRACE")
        tracer = (TRACEFS / "current_tracer").read_text()
        assert tracer == "nop\n", f"another program uses the tracer: echo nop >{TRACEFS}/current_tracer"
        # The first use of the tracer gives its buffers their size for good, which is no setting of anybody's.
        (TRACEFS / "current_tracer").write_text("blk")
        (TRACEFS / "current_tracer").write_text("nop")
        before = all_settings()
        yield TRACEFS
        assert all_settings() == before


def all_settings() -> dict[str, str]:
    found = {name: (TRACEFS / name).read_text() for name in SETTINGS}
    found |= {str(file): file.read_text() for file in TRACEFS.glob("per_cpu/*/buffer_size_kb")}
    found |= {str(file): file.read_text() for file in TRACEFS.glob("options/*")}
    traced = [str(f) for f in Path("/sys/class/block").glob("*/trace/enable") if f.read_text() != "0\n"]
    return {**found, "traced disks": " ".join(traced)}


def kib(text: str, what: str) -> tuple[int, int]:
    """blkparse's total of a thing: how many, how many KiB."""
    total = text[text.index("Total (") :] if "Total (" in text else text
    found = re.search(rf"{what}:\s*(\d+),\s*(\d+)KiB", total)
    assert found, total
    return int(found[1]), int(found[2])


def parse(raw: Path, disk: str) -> str:
    done = subprocess.run(
        ["blkparse", "-i", disk, "-D", raw], capture_output=True, text=True, errors="replace", check=True
    )
    complaints = [
        line for line in done.stderr.splitlines() if not re.fullmatch(r"Input file \S+ added", line)
    ]
    assert complaints == []
    return done.stdout


def noted_names(files: Iterable[Path]) -> set[tuple[int, str]]:
    """The names of processes that the files have, with their ids: of one that took a new name, both."""
    return {
        (fields[6], pdu.split(b"\0")[0].decode())
        for file in files
        for fields, pdu in records(file.read_bytes())
        if fields[5] & 0x0FFFFFFF == NOTE_PROCESS
    }


@pytest.fixture(scope="module")
def runs() -> dict[str, Job]:
    """The runs there are, by their way. None is made here: `alone` has to hold the tracer then."""
    return {}


@pytest.fixture(params=["tracefs", "program"])
def traced(
    request: pytest.FixtureRequest,
    runs: dict[str, Job],
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> Job:
    """A run with block and blktrace, each way once."""
    if request.param not in runs:
        monkeypatch.setenv("SEEKMETER_BLKTRACE", request.param)
        out = tmp_path_factory.mktemp("traced") / "run"
        job = Job("trace", out, None, FS="ext3", SIZE="256M", COLLECT="block blktrace", CMD=COMMAND)
        job.end()
        runs[request.param] = job
    job = runs[request.param]
    if request.param == "program" and "lockdown" in job.said:
        pytest.skip("lockdown closes the blktrace program's files: boot without it")
    assert job.process.returncode == 0, job.said
    assert job.left_behind() == []
    by = {"tracefs": "tracefs", "program": "blktrace"}[request.param]
    assert job.run.facts["blktrace"]["by"] == by
    return job


def test_unrequested_collectors_are_not_missing_in_the_report(traced: Job) -> None:
    """Of locks, calls and counters there are no tables, and nobody asked for any."""
    report = traced.run.report()
    assert report.endswith(f"WARNINGS AND GAPS {'-' * 62}\n  - none\n"), report[-1000:]
    assert not [line for line in report.splitlines() if line.startswith("!!") and "emulated" not in line]
    assert "not available: locks was not asked for (name it in COLLECT)" in report


def surely_recorded(run: Run) -> tuple[int, int]:
    """When the recorder was at work for sure: it starts after the blk tracer and stops before it."""
    start_ns: int = run.facts["clock"]["record_start_ns"]
    return start_ns, run.phases[-1]["end_ns"]


def test_blkparse_and_btt_read_the_files_and_agree(traced: Job, tmp_path: Path) -> None:
    run, disk = traced.run, str(traced.run.facts["device"]["name"])
    raw = run.path / "raw"
    text = parse(raw, disk)
    source = run.losses["collectors"]["blktrace"]
    assert source["state"] == "on"
    assert sum(source["lost"].values()) == 0
    assert source["seen"] == source["recorded"] > 1000
    assert source["cpu_ns"] > 0
    assert int(re.search(r"Events \(\S+\): ([\d,]+) entries", text)[1].replace(",", "")) == source["recorded"]  # type: ignore[index]
    assert "Skips: 0 forward" in text

    # Each request of the table is in the files: what, where, how much. The files begin earlier and end later.
    header, table = read_table(run.path / "raw/recorder/block.rec")
    ops = [header["enums"]["block_op"][str(value)] for value in table["op"]]
    count = Counter(ops)
    assert min(count["read"], count["write"]) > 10
    start_ns, end_ns = surely_recorded(run)
    issued: Counter[tuple[int, int]] = Counter()
    outside: Counter[tuple[int, int]] = Counter()
    for file in raw.glob(f"{disk}.blktrace.*"):
        for fields, _ in records(file.read_bytes()):
            if fields[5] & 0xFFFF == 7 and not fields[5] & 0x04000000:
                issued[fields[3] if fields[4] else 0, fields[4]] += 1
                if not start_ns <= fields[2] <= end_ns:
                    outside[fields[3] if fields[4] else 0, fields[4]] += 1
    mine = Counter((int(row["sector"]) if row["bytes"] else 0, int(row["bytes"])) for row in table)
    assert issued - outside <= mine <= issued

    # blkparse's totals are our table's and those. It takes a flush for a read of nothing when it is
    # issued, and when it is done now and then for a write.
    text = parse(copy_without_splits(raw, disk, tmp_path / "totals"), disk)
    few = (issued - mine).total()
    few_kib = sum(size * number for (_, size), number in (issued - mine).items()) // 1024
    for op, issues, ends, flushes in (
        ("read", "Read Dispatches", "Reads Completed", count["flush"]),
        ("write", "Write Dispatches", "Writes Completed", 0),
    ):
        table_kib = int(table["bytes"][[one == op for one in ops]].sum()) // 1024
        assert 0 <= kib(text, issues)[0] - count[op] - flushes <= few
        assert 0 <= kib(text, ends)[0] - count[op] <= few + count["flush"]
        assert 0 <= kib(text, ends)[1] - table_kib <= few_kib

    dump = tmp_path / "dump"
    subprocess.run(["blkparse", "-i", disk, "-D", raw, "-d", dump, "-O"], check=True, capture_output=True)
    btt = subprocess.run(["btt", "-i", dump], capture_output=True, text=True, cwd=tmp_path, check=True)
    assert re.search(r"^D2C +[\d.]+ +[\d.]+ +[\d.]+ +\d+$", btt.stdout, re.MULTILINE), btt.stdout

    # It leaves outliers out of its scale, so that this ends at a request, but not always the last.
    copies = shutil.copytree(raw, tmp_path / "iowatcher")
    subprocess.run(["iowatcher", "-t", disk, "-o", "graph.svg"], cwd=copies, check=True, capture_output=True)
    offsets = (copies / "graph.svg").read_text().split("Throughput")[0]
    last_mib = max(int(text) for text in re.findall(r">(\d+)</text>", offsets))
    assert 10 < last_mib <= max(sector + size // 512 for sector, size in issued) / 2048 + 1

    if EMULATED:
        return  # the report's minutes would show nothing of this kernel
    report = run.report()
    assert re.search(rf"^\s*blktrace +on +{source['seen']:,}", report, re.MULTILINE), report


def test_import_equals_the_block_table_request_by_request(traced: Job, tmp_path: Path) -> None:
    """What make import makes of the files is what our block source recorded at the same moments, and more."""
    run, disk = traced.run, str(traced.run.facts["device"]["name"])
    files = sorted((run.path / "raw").glob(f"{disk}.blktrace.*"))
    got = run_reader(TREE / "build/import-blktrace", tmp_path / "imported", files)
    assert got.lost == {}
    header, table = read_table(run.path / "raw/recorder/block.rec")
    theirs: dict[tuple[str, int, int], list[dict[str, Any]]] = defaultdict(list)
    for record in table:
        row = {entry["name"]: record[entry["name"]].item() for entry in header["fields"]}
        op = header["enums"]["block_op"][str(row["op"])]
        op = "write" if op == "write_zeroes" else op  # a block trace calls it that
        row["comm"] = row["comm"].decode()
        theirs[op, row["sector"], row["bytes"]].append(row)
    start_ns, end_ns = surely_recorded(run)
    pairs: list[tuple[dict[str, Any], dict[str, Any]]] = []
    for key, mine in by_request(got.rows).items():
        others = sorted(theirs.pop(key, []), key=lambda row: row["issue_ns"])
        while len(mine) > len(others) and mine[0]["issue_ns"] < start_ns:
            del mine[0]
        while len(mine) > len(others) and mine[-1]["issue_ns"] > end_ns:
            del mine[-1]
        pairs += zip(mine, others, strict=True)
    assert not theirs and len(pairs) > 10
    moments = Moments(file.read_bytes() for file in files)
    moments.assert_same("D", [(other["issue_ns"], mine["issue_ns"]) for mine, other in pairs])
    ended = [(other["complete_ns"], mine["complete_ns"]) for mine, other in pairs if other["complete_ns"]]
    notes = run.losses["collectors"]["block"]["notes"]
    assert len(pairs) - len(ended) == notes["end not seen (no latency)"]
    moments.assert_same("C", ended)
    # Of some the recorder had forgotten the bio, and says so.
    known = [(mine, other) for mine, other in pairs if not other["queue_source"]]
    assert len(pairs) - len(known) == notes["submitter from the request"]
    moments.assert_same("Q", [(other["queue_ns"], mine["queue_ns"]) for mine, other in known])
    for row, other in known:
        for name in ("pid", "merges", "error", "requeues"):
            assert row[name] == other[name], (name, row, other)
        assert row["comm"].startswith(other["comm"])  # /proc adds to a kernel worker's name what it is at
    allocated = [mine for mine, _ in pairs if mine["bytes"]]
    assert all(row["queue_ns"] <= row["get_request_ns"] <= row["issue_ns"] for row in allocated)
    assert sum(row["q2m_ns"] > 0 for row in allocated) == sum(row["merges"] > 0 for row in allocated)


def test_files_have_order_names_and_times_of_the_kernel(traced: Job) -> None:
    raw, disk = traced.run.path / "raw", str(traced.run.facts["device"]["name"])
    files = sorted(raw.glob(f"{disk}.blktrace.*"))
    assert [file.name for file in files] == [f"{disk}.blktrace.{cpu}" for cpu in range(len(files))]
    assert len(files) >= (os.cpu_count() or 1)
    clock = traced.run.facts["clock"]
    begin = datetime.fromisoformat(traced.run.facts["start_realtime"])
    begin_ns = int(begin.timestamp()) * 10**9 - clock["realtime_offset_ns"]
    end_ns = clock["record_end_ns"] + 60 * 10**9  # the recorder ends first, and may take so long
    names = dict(noted_names(files))
    seen: set[int] = set()
    notes_of_time = 0
    for cpu, file in enumerate(files):
        before = sequence = 0
        for fields, pdu in records(file.read_bytes()):
            if fields[5] & 0x0FFFFFFF == NOTE_TIME:
                seconds = int.from_bytes(pdu[:4], "little") + int.from_bytes(pdu[4:8], "little") / 1e9
                assert abs(seconds - (fields[2] + clock["realtime_offset_ns"]) / 1e9) < 1
                notes_of_time += 1
            elif not fields[5] & 0x04000000:
                seen.add(fields[6])
                assert fields[8] == cpu
                assert before <= fields[2] <= end_ns
                assert fields[2] >= begin_ns
                assert fields[1] == sequence + 1
                before, sequence = fields[2], fields[1]
    assert notes_of_time >= 1
    assert {"dd", "cp"} <= set(names.values())
    assert any(name.startswith("jbd2/") for name in names.values())
    # On a busy machine one may be gone at once: it is counted, and has no name.
    assert len(seen - names.keys()) == gone(traced.run) < len(seen)
    text = parse(raw, disk)
    assert re.search(r" Q +W\S* .*\[(dd|cp|sync|kworker\S*)\]", text)
    assert "(null)" not in text


def gone(run: Run) -> int:
    """Processes gone before their name was known, as the run says."""
    notes: dict[str, int] = run.losses["collectors"]["blktrace"]["notes"]
    return notes.get("processes gone before their name was known", 0)


def test_short_lived_programs_have_their_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is gone long before its events are read."""
    monkeypatch.setenv("SEEKMETER_BLKTRACE", "tracefs")
    dd = "dd if=/dev/zero of=f bs=4k count=1 oflag=direct conv=notrunc status=none"
    job = finished(
        tmp_path / "run", FS="ext3", SIZE="128M", COLLECT="block blktrace",
        CMD=f"for i in $(seq 150); do {dd}; done",
    )  # fmt: skip
    names = noted_names((job.run.path / "raw").glob("*.blktrace.*"))
    _, table = read_table(job.run.path / "raw/recorder/block.rec")
    writers = {int(row["pid"]) for row in table if row["comm"] == b"dd"}
    assert len(writers) == 150
    assert {(pid, "dd") for pid in writers} <= names
    assert gone(job.run) == 0


# Children that write one block each and are gone.
FORKS = """
import mmap, os, sys
file, block = os.open(sys.argv[1], os.O_WRONLY | os.O_DIRECT), mmap.mmap(-1, 4096)
sys.stdin.readline()
for turn in range(50):
    child = os.fork()
    if not child:
        os.pwrite(file, block, 4096 * turn)
        os._exit(0)
    os.waitpid(child, 0)
    print(child)
"""


def test_children_of_an_older_program_have_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a fork is told of them; their parent's name is from before."""
    monkeypatch.setenv("SEEKMETER_BLKTRACE", "tracefs")
    with (
        loop_disk(tmp_path / "image", 64 * MIB, "--direct-io=on") as disk,
        subprocess.Popen(
            [sys.executable, "-c", FORKS, disk.path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as parent,
    ):
        comm = Path(f"/proc/{parent.pid}/comm").read_text().strip()
        job = Job("watch", tmp_path / "run", None, DEV=disk.name, SECS="300", COLLECT="block blktrace")
        job.until("watch")
        children = [int(line) for line in parent.communicate("go\n", timeout=60)[0].split()]
        disk.idle_stat()
        os.kill(job.process.pid, signal.SIGINT)
        assert job.end() == 0, job.said
    assert len(children) == 50
    names = noted_names((job.run.path / "raw").glob("*.blktrace.*"))
    assert {(child, comm) for child in children} <= names
    assert gone(job.run) == 0


def test_files_of_two_disks_hold_no_requests_of_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two disks of one file system have their own files, both without the other's requests."""
    if shutil.which("mkfs.btrfs") is None:
        pytest.skip("mkfs.btrfs is not installed: make trace FS=btrfs installs it")
    monkeypatch.setenv("SEEKMETER_BLKTRACE", "tracefs")
    job = finished(
        tmp_path / "run", FS="btrfs", DISK="file file", SIZE="300M", COLLECT="block blktrace", CMD=COMMAND
    )
    facts = job.run.facts
    disks = [facts["device"], *facts["more_devices"]]
    for disk in disks:
        major, minor = map(int, disk["dev"].split(":"))
        of = {
            fields[7]
            for file in (job.run.path / "raw").glob(f"{disk['name']}.blktrace.*")
            for fields, _ in records(file.read_bytes())
        }
        assert of == {major << 20 | minor}
        assert kib(parse(job.run.path / "raw", disk["name"]), "Writes Completed")[0] > 10
    assert len(disks) == 2


def test_killed_session_is_restored_at_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEEKMETER_BLKTRACE", "tracefs")
    before = all_settings()
    command = f"{COMMAND}; touch done; sleep 30"
    collect = "block blktrace"
    job = Job("trace", tmp_path / "run", None, FS="ext3", SIZE="128M", COLLECT=collect, CMD=command)
    job.until("workload")
    files = list((tmp_path / "run/raw").glob("*.blktrace.*"))
    wait_for(lambda: sum(file.stat().st_size for file in files) > 50_000)
    changed = all_settings()
    assert changed["current_tracer"] == "blk\n"
    assert changed["traced disks"]
    assert changed["buffer_size_kb"] != before["buffer_size_kb"]
    assert "[mono]" in changed["trace_clock"]
    os.kill(job.process.pid, signal.SIGKILL)
    assert job.process.wait() == -signal.SIGKILL
    later = Job("trace", tmp_path / "later", None, DIR=str(tmp_path), COLLECT="none", CMD="true")
    assert later.end() == 0, later.said
    wait_for(lambda: job.left_behind() == [])
    assert all_settings() == before
    wait_for(lambda: job.run.facts["state"] == "interrupted")
    losses = job.run.losses
    source = losses["collectors"]["blktrace"]
    assert source["state"] == "on" and not losses["complete"] and "block" in losses["collectors"]
    written = sum(
        not fields[5] & 0x04000000
        for file in (job.run.path / "raw").glob("*.blktrace.*")
        for fields, _ in records(file.read_bytes(), killed=True)
    )
    assert source["seen"] == source["recorded"] == written > 100
    assert any("was killed" in note for note in source["notes"])
    assert re.search(rf"^\s*blktrace +on +{written:,}", job.run.report(), re.MULTILINE)
    job.process.communicate()


def test_interrupted_blktrace_run_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEEKMETER_BLKTRACE", "tracefs")
    job = Job("trace", tmp_path / "run", None, FS="ext3", SIZE="128M", COLLECT="blktrace", CMD="sleep 30")
    job.until("workload")
    os.killpg(job.process.pid, signal.SIGINT)
    assert job.end() == 1
    assert job.left_behind() == []
    assert job.run.losses["collectors"]["blktrace"]["state"] == "on"


def refused(out: Path) -> str:
    """A run that cannot have the tracer; what it said."""
    job = Job("trace", out, None, FS="ext3", SIZE="128M", COLLECT="block blktrace", CMD="true")
    assert job.end() == 3, job.said
    assert job.left_behind() == []
    return job.said


def test_foreign_tracer_and_events_are_left_alone(
    tmp_path: Path, alone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEEKMETER_BLKTRACE", "tracefs")
    (alone / "current_tracer").write_text("blk")
    try:
        said = refused(tmp_path / "one")
        assert "seekmeter: the kernel's tracer is in use (its tracer blk is on)" in said
        assert f"echo nop >{alone}/current_tracer" in said
        assert (alone / "current_tracer").read_text() == "blk\n"
    finally:
        (alone / "current_tracer").write_text("nop")
    event = alone / "events/sched/sched_process_fork/enable"
    event.write_text("1")
    try:
        said = refused(tmp_path / "two")
        assert "the event sched:sched_process_fork is on" in said
        assert event.read_text() == "1\n"
    finally:
        event.write_text("0")
    held = sum(settings._entries(file) for file in alone.glob("per_cpu/*/stats"))
    assert held > 0
    try:
        said = refused(tmp_path / "three")
        assert re.search(r"its buffers hold \d+ events", said)
        assert held == sum(settings._entries(file) for file in alone.glob("per_cpu/*/stats"))
    finally:
        (alone / "trace").write_text("")


def test_watch_records_requests_with_blktrace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEEKMETER_BLKTRACE", "tracefs")
    with loop_disk(tmp_path / "image", 64 * MIB, "--direct-io=on") as disk:
        job = Job("watch", tmp_path / "run", None, DEV=disk.name, SECS="300", COLLECT="block blktrace")
        job.until("watch")
        before = disk.idle_stat()
        for words in (
            ["if=/dev/urandom", f"of={disk.path}", "bs=4k", "count=500", "oflag=direct"],
            [f"if={disk.path}", "of=/dev/null", "bs=16k", "count=70", "iflag=direct"],
        ):
            subprocess.run(["dd", *words], check=True, capture_output=True)
        after = disk.idle_stat()
        os.kill(job.process.pid, signal.SIGINT)
        assert job.end() == 0, job.said
        assert job.left_behind() == []
        text = parse(job.run.path / "raw", disk.name)
    for op, what, requests in (("read", "Reads Completed", 70), ("write", "Writes Completed", 500)):
        count, done_kib = kib(text, what)
        assert count == after[f"{op}_requests"] - before[f"{op}_requests"] >= requests
        assert done_kib * 2 == after[f"{op}_sectors"] - before[f"{op}_sectors"]
    place = Path("/dev/shm") if not INSIDE else Path("/run")
    off = Job("trace", tmp_path / "off", None, DIR=str(place), COLLECT="blktrace", CMD="true")
    assert off.end() == 0, off.said
    assert "blktrace is off: there is no disk to trace" in off.said
    assert off.run.losses["collectors"]["blktrace"]["state"] == "off"
    report = " ".join(off.run.report().split())
    said = "blktrace is off (no files for blkparse and btt): there is no disk to trace"
    assert report.index(f"!! {said}") < report.index("WHAT WAS RUN")
    assert f"- {said}" in report[report.index("WARNINGS AND GAPS") :]


def test_full_ring_buffer_is_a_counted_loss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reader is held while requests come in: what found no room is counted, the rest is read well."""
    monkeypatch.setenv("SEEKMETER_BLKTRACE", "tracefs")
    monkeypatch.setenv("SEEKMETER_BLKTRACE_KIB", str(4 << 10))
    fio = (
        "fio --name=io --filename=f --size=64M --rw=randread --bs=4k --direct=1 --ioengine=libaio"
        " --iodepth=16 --norandommap --io_size={} --output=/dev/null"
    )
    job = Job(
        "trace", tmp_path / "run", None, FS="ext3", SIZE="256M", COLLECT="block blktrace",
        CMD=f"{fio.format('4M')}; touch ready; while [ -e ready ]; do sleep 0.1; done;"
        f" until [ -e full ]; do {fio.format('64M')}; done",
    )  # fmt: skip
    job.until("workload")
    mount = next(
        line.split()[4]
        for line in job.mountinfo().splitlines()
        if re.search(rf"seekmeter/{job.process.pid}-\d+/mnt ", line)
    )
    ready = job.inside(mount) / "ready"
    wait_for(ready.exists)
    reader = next(pid for pid, text in job.commands_by_pid().items() if "build/blk-tracer" in text)
    os.kill(reader, signal.SIGSTOP)
    try:
        ready.unlink()
        wait_for(lambda: any(not re.search("^overrun: 0$", stats.read_text(), re.M)
                             for stats in TRACEFS.glob("per_cpu/cpu*/stats")))  # fmt: skip
        (job.inside(mount) / "full").touch()
        job.until("sync")
    finally:
        os.kill(reader, signal.SIGCONT)
    assert job.end(120) == 0, job.said
    source = job.run.losses["collectors"]["blktrace"]
    assert source["lost"]["ring full"] > 0
    assert source["seen"] == source["recorded"] + source["lost"]["ring full"]
    assert "LOSS" in job.said
    disk = str(job.run.facts["device"]["name"])
    parse(job.run.path / "raw", disk)
    missing = 0
    for file in (job.run.path / "raw").glob(f"{disk}.blktrace.*"):
        numbers = [fields[1] for fields, _ in records(file.read_bytes()) if not fields[5] & 0x04000000]
        missing += numbers[-1] - len(numbers) if numbers else 0
    assert 1 <= missing <= source["lost"]["ring full"]  # a page may be too full to say how many
