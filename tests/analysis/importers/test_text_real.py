# SPDX-License-Identifier: BSD-2-Clause
"""Real traces in text (perf, ftrace, blk tracer, blkparse, trace-cmd) against another of the same I/O."""

from __future__ import annotations

import fcntl
import json
import os
import random
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.analysis.importers.blktrace_files import Imported, run_reader
from tests.analysis.importers.missed_events import Doubt, in_stream, in_text, place
from tests.analysis.importers.test_blktrace_real import by_request
from tests.analysis.importers.text_traces import TIMES, read_text, without_times
from tests.collectors.blk_tracer import LOCK, blk_tracer, drain
from tests.collectors.loop_disk import MIB, loop_disk
from tests.collectors.recording import read_table
from tests.collectors.same_moments import Moments
from tests.marks import needs_root

pytestmark = [needs_root]
TRACEFS = Path("/sys/kernel/tracing")
EVENTS = [
    "block_bio_queue", "block_getrq", "block_rq_insert", "block_rq_issue", "block_rq_complete",
    "block_rq_requeue", "block_rq_merge", "block_bio_backmerge", "block_bio_frontmerge", "block_split",
    "block_bio_remap", "block_plug", "block_unplug",
]  # fmt: skip
MICROSECOND = 1000
# A name with blanks, brackets and what looks like a time and an event.
SCRIPT = """
cp $(command -v fio) "{folder}/a b] 1.2: x"
cd {folder}
fio() {{ "./a b] 1.2: x" --name=io --filename={disk} --ioengine=libaio --direct=1 --allow_file_create=0 \
    --iodepth=16 "$@"; }}
fio --rw=randrw --bsrange=4k-256k --number_ios=300 --fsync=32
fio --rw=write --bs=4k --io_size=1M --iodepth_batch_submit=16
fio --rw=write --bs=4M --io_size=16M
fio --rw=randtrim --bs=64k --number_ios=50 --iodepth=1
mkfs.ext4 -q {disk}
blkdiscard -z -o 1M -l 2M {disk}
# others look at a disk that was written
! command -v udevadm >&- || udevadm settle || true
"""


@dataclass
class Recorded:
    """One workload, as several tracers saw it."""

    folder: Path
    device: int
    binary: Imported  # the blk tracer's stream, through the reader of blktrace's files
    actions: Counter[str]  # of the stream, by blkparse
    moments: Moments
    texts: dict[str, str] = field(default_factory=dict)

    def expected(self) -> list[dict[str, Any]]:
        return sorted(self.binary.rows, key=lambda row: (row["issue_ns"], row["sector"]))


@contextmanager
def instance(name: str, clock: str = "mono", buffer_kb: int = 20000) -> Iterator[Path]:
    """A tracing instance of our own with the block events on."""
    folder = TRACEFS / "instances" / name
    folder.mkdir()
    try:
        (folder / "trace_clock").write_text(clock)
        (folder / "buffer_size_kb").write_text(str(buffer_kb))
        for event in EVENTS:
            (folder / "events/block" / event / "enable").write_text("1")
        yield folder
    finally:
        (folder / "events/enable").write_text("0")
        folder.rmdir()


@contextmanager
def as_text(disk: str) -> Iterator[None]:
    """The blk tracer has ended, and what is in the buffers, also of instances, reads as text."""
    (Path("/sys/block") / disk / "trace/enable").write_text("0")
    options = TRACEFS / "options"
    try:
        (options / "bin").write_text("0")
        (options / "context-info").write_text("1")
        yield
    finally:
        (options / "bin").write_text("1")
        (options / "context-info").write_text("0")


def trace_dat(events: Path, folder: Path) -> Path:
    """trace.dat of an instance's buffers. trace-cmd record writes ftrace_enabled, which may be forbidden."""
    subprocess.run(
        ["trace-cmd", "restore", "-c", "-o", "head.dat"], check=True, capture_output=True, cwd=folder
    )
    names: list[str] = []
    for pipe in sorted(
        events.glob("per_cpu/cpu*/trace_pipe_raw"), key=lambda path: int(path.parent.name[3:])
    ):
        names.append(f"raw{len(names)}")
        (folder / names[-1]).write_bytes(drain(pipe))
    command = ["trace-cmd", "restore", "-i", "head.dat", "-o", "trace.dat", *names]
    subprocess.run(command, check=True, capture_output=True, cwd=folder)
    return folder / "trace.dat"


@pytest.fixture(scope="module", autouse=True)
def tracefs() -> Iterator[None]:
    """Mounted where perf and trace-cmd look for it."""
    mounted = (TRACEFS / "instances").is_dir()
    if not mounted:
        subprocess.run(["mount", "-t", "tracefs", "none", TRACEFS], check=True)
    yield
    if not mounted:
        subprocess.run(["umount", TRACEFS], check=True)


@pytest.fixture(scope="module")
def recorded(reader: Path, tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """Scheduler mq-deadline, for merges and insertions of every kind."""
    folder = tmp_path_factory.mktemp("recorded")
    texts = {}
    with loop_disk(folder / "image", 256 * MIB, "--direct-io=on") as disk:
        disk.set_scheduler("mq-deadline")
        number = os.stat(disk.path).st_rdev
        device = os.major(number) << 20 | os.minor(number)
        (folder / "script").write_text(SCRIPT.format(folder=folder, disk=disk.path))
        # An instance begins with the options of the top one, which the blk tracer sets to binary.
        with (
            instance(f"seekmeter-test-text-{os.getpid()}") as events,
            blk_tracer(disk.name, folder) as tracer,
        ):
            disk.idle_stat()
            words = [
                "perf",
                "record",
                "-q",
                "-k",
                "CLOCK_MONOTONIC",
                "-a",
                "-g",
                "-m",
                "16M",
                "-o",
                "perf.data",
            ]
            selected = [word for event in EVENTS for word in ("-e", f"block:{event}")]
            command: list[str | Path] = [*words, *selected, "--", "bash", "-e", folder / "script"]
            subprocess.run(command, check=True, capture_output=True, cwd=folder)
            disk.idle_stat()
            (events / "tracing_on").write_text("0")
            with as_text(disk.name):
                texts["blk tracer"] = (TRACEFS / "trace").read_text(errors="replace")
                texts["ftrace"] = (events / "trace").read_text(errors="replace")
                (events / "options/irq-info").write_text("0")
                (events / "options/record-tgid").write_text("1")
                texts["ftrace, other columns"] = (events / "trace").read_text(errors="replace")
                if shutil.which("trace-cmd"):
                    trace_dat(events, folder)
                    for name, options in {"trace-cmd": [], "trace-cmd -t": ["-t"]}.items():
                        report = ["trace-cmd", "report", *options, "-i", str(folder / "trace.dat")]
                        texts[name] = subprocess.run(report, check=True, capture_output=True).stdout.decode(
                            errors="replace"
                        )
    stream = folder / "stream"
    stream.write_bytes(tracer.stream)
    texts["blkparse"] = subprocess.run(
        ["blkparse", "-i", "-"], input=tracer.stream, capture_output=True, check=True
    ).stdout.decode(errors="replace")  # fmt: skip
    for name, options in {
        "perf": [],
        "perf --ns": ["--ns"],
        "perf, no call chains": ["--ns", "-G"],
        "perf, more fields": ["--ns", "-F", "comm,pid,tid,cpu,time,period,event,trace"],
        "perf, fewer fields": ["--ns", "-F", "comm,tid,time,event,trace"],
    }.items():
        texts[name] = subprocess.run(
            ["perf", "script", *options, "-i", "perf.data"], capture_output=True, check=True, cwd=folder
        ).stdout.decode(errors="replace")  # fmt: skip
    binary = run_reader(reader, folder / "binary", [stream])
    actions = Counter(event.action for event in tracer.events)
    return Recorded(folder, device, binary, actions, Moments([tracer.stream]), texts)


@pytest.mark.parametrize("name", ["blk tracer", "blkparse"])
def test_text_of_the_same_stream_gives_the_same_rows(
    translator: Path, reader: Path, tmp_path: Path, recorded: Recorded, name: str
) -> None:
    """Every field as from the binary stream, but for digits, names, and sizes that the text leaves out."""
    text = recorded.texts[name]
    got = read_text(translator, reader, tmp_path, text)
    assert got.said["unreadable"] == got.said["untimed"] == 0
    assert got.said["format"] == {"blk tracer": "text of blk tracer", "blkparse": "text of blkparse"}[name]
    actions = Counter(got.imported.facts["actions"])
    assert actions == recorded.actions
    rows, expected = got.of(recorded.device), recorded.expected()
    unit = MICROSECOND if name == "blk tracer" else 1
    move = 0 if name == "blk tracer" else expected[0]["issue_ns"] - rows[0]["issue_ns"]
    mine, theirs = by_request(rows), by_request(expected)
    pairs = [pair for key, group in theirs.items() for pair in zip(mine[key], group, strict=True)]
    assert len(pairs) == len(rows) == len(expected) > 600
    names = [key for key in without_times(rows[0]) if key != "comm"]  # the stream has no process notes
    for row, other in pairs:
        assert [row[key] for key in names] == [other[key] for key in names]
        for key in ("queue_ns", "insert_ns", "issue_ns", "complete_ns"):
            assert bool(row[key]) == bool(other[key])
            assert not row[key] or abs(row[key] + move - other[key]) <= unit, key
    assert got.imported.lost == {}


PERF = ["perf", "perf --ns", "perf, no call chains", "perf, more fields", "perf, fewer fields"]


def same_requests(
    mine: list[dict[str, Any]], theirs: list[dict[str, Any]], doubt: Doubt
) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Each of mine with the other tracer's, in turn, but for those whose place is in doubt."""

    def sure(rows: list[dict[str, Any]]) -> dict[tuple[str, int, int], list[dict[str, Any]]]:
        kinds = {"discard": "D", "read": "R"}
        return by_request(
            row for row in rows
            if not doubt.holds(place(kinds.get(row["op"], "W"), row["sector"], row["bytes"] // 512))
        )  # fmt: skip

    ours, others = sure(mine), sure(theirs)
    assert {key: len(rows) for key, rows in ours.items()} == {key: len(rows) for key, rows in others.items()}
    return [pair for key, rows in ours.items() for pair in zip(rows, others[key], strict=True)]


def assert_same_otherwise(pairs: list[tuple[dict[str, Any], dict[str, Any]]]) -> None:
    """All but the times, and whether there is one."""
    for stage in ("queue_ns", "insert_ns", "issue_ns", "complete_ns"):
        assert all(bool(row[stage]) == bool(other[stage]) for row, other in pairs), stage
    for key in ("pid", "merges", "requeues", "error", "flags", "op", "queue_source"):
        assert all(row[key] == other[key] for row, other in pairs), key


FTRACE = ["ftrace", "ftrace, other columns", "trace-cmd", "trace-cmd -t"]
NO_TRACE_CMD = "trace-cmd is not installed: make setup installs it"


QUICK = ("perf", "perf --ns", "ftrace", "trace-cmd")


@pytest.mark.parametrize(
    "name",
    [name if name in QUICK else pytest.param(name, marks=pytest.mark.long) for name in (*PERF, *FTRACE)],
)
def test_text_of_another_tracer_gives_the_same_requests(
    translator: Path, reader: Path, tmp_path: Path, recorded: Recorded, name: str
) -> None:
    """Request by request, the blk tracer's; times but for what the tracers cost each other."""
    if name not in recorded.texts:
        pytest.skip(NO_TRACE_CMD)
    text = recorded.texts[name]
    got = read_text(translator, reader, tmp_path, text)
    assert got.said["format"] == ("ftrace text" if name in FTRACE else "perf script")
    assert [got.said[key] for key in ("unreadable", "untimed", "strange", "cut")] == [0] * 4
    assert got.said["time_digits"] == (6 if name in ("perf", "trace-cmd", *FTRACE[:2]) else 9)
    stream = in_stream((recorded.folder / "stream").read_bytes())
    seen = in_text(text, recorded.device)
    missing = stream - seen
    print(f"{missing.total()} of {stream.total()} events not in the text: {missing}")
    if name in PERF:
        assert not seen - stream  # which began before and ended after
    # Of perf's events one in 300 was missing where it was bad; of one in 100 too few requests would be left.
    assert missing.total() <= (stream.total() / 100 if name in PERF else 0)
    pairs = same_requests(got.of(recorded.device), recorded.expected(), Doubt(missing, stream))
    assert len(pairs) > 250
    rounded_ns = 10 ** (9 - got.said["time_digits"])
    for stage in ("queue_ns", "insert_ns", "issue_ns", "complete_ns"):
        times = [(row[stage], other[stage]) for row, other in pairs if row[stage] and other[stage]]
        recorded.moments.assert_same(stage, times, rounded_ns, 0)
    assert_same_otherwise(pairs)
    # The letters that blkparse counts; these events are not only of this disk, whose share the device tells.
    assert {about["dev"] for about in got.imported.facts["devices"]} >= {
        f"{recorded.device >> 20}:{recorded.device & 0xFFFFF}"
    }
    # Who it was: fio, under the name it was copied to, and the others.
    named = Counter(row["comm"].rstrip("\0") for row, _ in pairs)
    assert named["a b] 1.2: x"] > 300 and named["mkfs.ext4"] > 0 and set(named) >= {"blkdiscard"}
    assert "" not in named


def test_missing_event_changes_no_other_request(
    translator: Path, reader: Path, tmp_path: Path, recorded: Recorded
) -> None:
    """Events taken out of perf's text are found missing; only what they leave in doubt changes."""
    lines = recorded.texts["perf, no call chains"].splitlines(keepends=True)
    ours = [at for at, line in enumerate(lines) if in_text(line, recorded.device)]
    stream = in_stream((recorded.folder / "stream").read_bytes())
    expected, pick = recorded.expected(), random.Random(1)
    before = (stream - in_text("".join(lines), recorded.device)).total()
    for count in (1, 1, 1, 1, 2, 3, 5, 15):
        gone = set(pick.sample(ours, count))
        text = "".join(line for at, line in enumerate(lines) if at not in gone)
        missing = stream - in_text(text, recorded.device)
        assert missing.total() == before + count
        rows = read_text(translator, reader, tmp_path, text).of(recorded.device)
        assert_same_otherwise(same_requests(rows, expected, Doubt(missing, stream)))
    with pytest.raises(AssertionError):  # of fifteen, at least one changes a request
        assert_same_otherwise(same_requests(rows, expected, Doubt([], stream)))


def test_all_output_forms_of_perf_give_the_same_rows(
    translator: Path, reader: Path, tmp_path: Path, recorded: Recorded
) -> None:
    read = {name: read_text(translator, reader, tmp_path / name, recorded.texts[name]) for name in PERF}
    finest = read["perf --ns"].imported
    for name in PERF[2:]:
        assert read[name].imported.tuples() == finest.tuples()
    rounded = [
        {
            key: value // 1000 if key in TIMES[:4] else value
            for key, value in row.items()
            if key not in TIMES[4:]
        }
        for row in finest.rows
    ]
    coarse = [
        {
            key: value // 1000 if key in TIMES[:4] else value
            for key, value in row.items()
            if key not in TIMES[4:]
        }
        for row in read["perf"].imported.rows
    ]
    assert sorted(map(str, coarse)) == sorted(map(str, rounded))


def job(folder: Path, tree: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "analysis", "import", "--out=run", *words],
        cwd=folder, env=os.environ | {"PYTHONPATH": str(tree)}, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_perf_data_file_is_imported(
    translator: Path, reader: Path, tmp_path: Path, tree: Path, recorded: Recorded
) -> None:
    done = job(tmp_path, tree, str(recorded.folder / "perf.data"))
    assert done.returncode == 0, done.stderr
    facts = json.loads((tmp_path / "run/run.json").read_text())
    assert facts["imported"]["format"] == "perf.data"
    # perf kept both clocks: the offset is that of this machine now, but for adjustments of the wall clock
    offset_ns = time.time_ns() - time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    assert abs(facts["clock"]["realtime_offset_ns"] - offset_ns) < 2 * 10**9
    assert not any("origin" in warning or "digits" in warning for warning in facts["warnings"])
    _, table = read_table(tmp_path / "run/raw/recorder/block.rec")
    expected = read_text(translator, reader, tmp_path / "text", recorded.texts["perf --ns"]).imported
    issued = sorted(int(row["issue_ns"]) for row in table)
    assert issued == sorted(row["issue_ns"] for row in expected.rows)
    assert not (tmp_path / "run/raw/translated").exists()
    assert "imported" in (tmp_path / "run/report.txt").read_text()


def test_trace_dat_file_is_imported(
    translator: Path, reader: Path, tmp_path: Path, tree: Path, recorded: Recorded
) -> None:
    if "trace-cmd -t" not in recorded.texts:
        pytest.skip(NO_TRACE_CMD)
    done = job(tmp_path, tree, str(recorded.folder / "trace.dat"))
    assert done.returncode == 0, done.stderr
    facts = json.loads((tmp_path / "run/run.json").read_text())
    assert facts["imported"]["format"] == "trace.dat of trace-cmd"
    assert any("origin" in warning for warning in facts["warnings"])
    _, table = read_table(tmp_path / "run/raw/recorder/block.rec")
    expected = read_text(translator, reader, tmp_path / "text", recorded.texts["trace-cmd -t"]).imported
    assert sorted(int(row["issue_ns"]) for row in table) == sorted(row["issue_ns"] for row in expected.rows)


def test_lost_events_are_counted_as_by_the_kernel(translator: Path, reader: Path, tmp_path: Path) -> None:
    """trace_pipe of a buffer that is too small: as many as the kernel counted."""
    LOCK.parent.mkdir(exist_ok=True)
    with LOCK.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # an instance inherits the blk tracer's options: no text
        with (
            loop_disk(tmp_path / "image", 16 * MIB) as disk,
            instance(f"skm-lost-{os.getpid()}", buffer_kb=4) as events,
        ):
            subprocess.run(["dd", f"if={disk.path}", "of=/dev/null", "bs=4k", "iflag=direct"], check=True,
                           capture_output=True)  # fmt: skip
            (events / "tracing_on").write_text("0")
            counted = sum(
                int(re.findall(r"^(?:overrun|dropped events): (\d+)$", stats.read_text(), re.M)[0])
                for stats in events.glob("per_cpu/cpu*/stats")
            )
            text = drain(events / "trace_pipe")
    assert b"LOST" in text
    got = read_text(translator, reader, tmp_path / "text", text)
    assert counted > 1000 and got.imported.lost["events lost, by the kernel's marks"] == counted
