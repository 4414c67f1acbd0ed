# SPDX-License-Identifier: BSD-2-Clause
"""A real trace, imported, against blkparse's output and against the recorder at the same time."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.analysis.importers.blktrace_files import NOTIFY, Imported, named_rows, process_note, run_reader
from tests.analysis.importers.naive_pairing import PAIRED, pair
from tests.bench.big_trace import write_trace
from tests.collectors.blk_tracer import BLK_IO_TRACE, BlkTracer, blk_tracer, copy_without_splits, records
from tests.collectors.loop_disk import MIB, loop_disk
from tests.collectors.recording import needs_btf, recording
from tests.collectors.same_moments import Moments
from tests.collectors.test_block_blkparse import op_of
from tests.marks import needs_root

SECTOR_BYTES = 512


def write_as_blktrace(stream: bytes, folder: Path, names: dict[int, str]) -> list[Path]:
    """The tracer's stream as blktrace leaves it: a file of each CPU, numbered, names of threads in front."""
    files: dict[int, bytearray] = {}
    numbers: Counter[int] = Counter()
    first_ns = 0
    for was, pdu in records(stream):
        fields = list(was)
        cpu = fields[8]
        numbers[cpu] += not fields[5] & NOTIFY
        fields[1] = 0 if fields[5] & NOTIFY else numbers[cpu]
        first_ns = first_ns or fields[2]
        files.setdefault(cpu, bytearray()).extend(BLK_IO_TRACE.pack(*fields) + pdu)
    notes = b"".join(process_note(first_ns, pid, name, min(files)).pack("<") for pid, name in names.items())
    paths = [folder / f"disk.blktrace.{cpu}" for cpu in range(max(files) + 1)]
    for cpu, path in enumerate(paths):
        path.write_bytes((notes if cpu == min(files) else b"") + bytes(files.get(cpu, b"")))
    return paths


def assert_same_as_blkparse(got: Imported, tracer: BlkTracer, folder: Path) -> None:
    """Counts by action, and each request's times, to the nanosecond."""
    actions = Counter(event.action for event in tracer.events)
    assert {k: n for k, n in got.facts["actions"].items() if n} == dict(actions)
    data = [row for row in got.rows if row["bytes"]]
    pairs: dict[tuple[str, int, int], dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for event in tracer.events:
        if event.size and event.action in "DC":
            pairs[op_of(event.rwbs), event.sector, event.size][event.action].append(event.t_ns)
    mine: dict[tuple[str, int, int], list[tuple[int, int]]] = defaultdict(list)
    for row in sorted(data, key=lambda row: row["issue_ns"]):
        mine[row["op"], row["sector"], row["bytes"]].append((row["issue_ns"], row["complete_ns"]))
    # no request here completes in parts or is requeued: the k-th D and the k-th C are one request's
    truth = {key: list(zip(both["D"], both["C"], strict=True)) for key, both in pairs.items()}
    assert mine == truth

    # blkparse's sums, by its own arithmetic
    unsplit = copy_without_splits(folder, "disk", folder / "unsplit")
    words: list[str | Path] = ["blkparse", "-i", "disk", "-D", unsplit, "-f", ""]
    summary = subprocess.run(words, capture_output=True, text=True, check=True, cwd=folder).stdout
    total = summary[summary.index("Total (disk)") :]

    def said(words: str) -> tuple[int, int]:
        found = re.search(rf"{words}:\s+(\d+),\s+(\d+)KiB", total)
        assert found, total
        return int(found[1]), int(found[2])

    for name, kinds in (("Reads", ("read",)), ("Writes", ("write", "discard"))):
        size = sum(row["bytes"] for row in data if row["op"] in kinds) // 1024
        assert said(f"{name} Completed")[1] == size
    issued = said("Read Dispatches")[0] + said("Write Dispatches")[0]
    assert issued == len(got.rows)
    assert said("Read Merges")[0] + said("Write Merges")[0] == actions["M"] + actions["F"]
    assert sum(row["merges"] for row in got.rows) == actions["M"] + actions["F"]

    # Q: of all bios that a request covers, each last queued before its issue, the first
    bios = [event for event in tracer.events if event.action == "Q" and event.size]
    ops = np.array([op_of(bio.rwbs) for bio in bios])
    starts, times = (np.array([getattr(bio, name) for bio in bios]) for name in ("sector", "t_ns"))
    ends = starts + np.array([bio.size for bio in bios]) // SECTOR_BYTES
    for row in data:
        at, end, queued = row["sector"], row["sector"] + row["bytes"] // SECTOR_BYTES, []
        while at < end:
            holding = (ops == row["op"]) & (starts <= at) & (at < ends) & (times <= row["issue_ns"])
            last = int(np.flatnonzero(holding)[-1])
            queued.append(int(times[last]))
            at = int(ends[last])
        assert row["queue_ns"] == min(queued), row


def by_request(rows: Iterable[dict[str, Any]]) -> dict[tuple[str, int, int], list[dict[str, Any]]]:
    found: dict[tuple[str, int, int], list[dict[str, Any]]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: row["issue_ns"]):
        found[row["op"], row["sector"], row["bytes"]].append(row)
    return found


def assert_same_as_bpf(got: Imported, recorded: list[dict[str, Any]], moments: Moments) -> None:
    """The same requests, submitters, merges and flags, at the same times."""
    mine, theirs = by_request(got.rows), by_request(recorded)
    assert {key: len(rows) for key, rows in mine.items()} == {key: len(rows) for key, rows in theirs.items()}
    pairs = [pair for key, rows in mine.items() for pair in zip(rows, theirs[key], strict=True)]
    moments.assert_same("D", [(b["issue_ns"], a["issue_ns"]) for a, b in pairs])
    moments.assert_same("C", [(b["complete_ns"], a["complete_ns"]) for a, b in pairs if b["complete_ns"]])
    # Of some the recorder had forgotten the bio, and says so.
    known = [(a, b) for a, b in pairs if not b["queue_source"]]
    moments.assert_same("Q", [(b["queue_ns"], a["queue_ns"]) for a, b in known])
    prio = 32  # not in a block trace
    names = ("op", "sector", "bytes", "pid", "comm", "merges", "error", "requeues")
    for a, b in known:
        assert [a[name] for name in names] == [b[name] for name in names]
        assert a["flags"] == b["flags"] & ~prio
        assert bool(a["insert_ns"]) == bool(b["insert_ns"])


@needs_root
@needs_btf
@pytest.mark.parametrize("scheduler", [pytest.param("none", marks=pytest.mark.long), "mq-deadline"])
def test_real_trace_equals_blkparse_and_the_recorder(reader: Path, tmp_path: Path, scheduler: str) -> None:
    mountpoint = tmp_path / "mnt"
    mountpoint.mkdir()
    with loop_disk(tmp_path / "image", 256 * MIB, "--direct-io=on") as disk:
        disk.set_scheduler(scheduler)
        with (
            blk_tracer(disk.name, tmp_path) as tracer,
            recording(tmp_path / "rec", "--collect", "block", "--disk", disk.name) as run,
        ):
            disk.idle_stat()
            common = ["fio", "--name=io", f"--filename={disk.path}", "--ioengine=libaio", "--direct=1",
                      "--allow_file_create=0", "--iodepth=16"]  # fmt: skip
            for words in (
                ["--rw=randrw", "--bsrange=4k-256k", "--number_ios=500", "--fsync=32"],
                ["--rw=write", "--bs=4k", "--io_size=1M", "--iodepth_batch_submit=16"],
                ["--rw=randtrim", "--bs=64k", "--number_ios=50", "--iodepth=1"],
            ):
                subprocess.run([*common, *words], check=True, capture_output=True)
            subprocess.run(["mkfs.ext4", "-q", disk.path], check=True)
            subprocess.run(["mount", disk.path, mountpoint], check=True)
            try:
                shutil.copytree(Path(__file__).parents[3] / "analysis", mountpoint / "copy")
            finally:
                subprocess.run(["umount", mountpoint], check=True)
            disk.idle_stat()
    header, recorded = named_rows(run.out / "block.rec")
    for row in recorded:
        if row["op"] == "write_zeroes":
            row["op"] = "write"  # a block trace calls it that
    names = {row["pid"]: row["comm"] for row in recorded}
    folder = tmp_path / "trace"
    folder.mkdir()
    paths = write_as_blktrace(tracer.stream, folder, names)
    got = run_reader(reader, tmp_path / "out", paths)
    mine = len(header["fields"])
    assert got.header["fields"][:mine] == header["fields"]
    same = ("table", "byte_order", "clock", "bin_ns")
    assert [got.header[name] for name in same] == [header[name] for name in same]
    # an import names the values that a trace can have: of calls and events only "none"
    assert got.header["enums"].keys() == header["enums"].keys()
    for enum, named in got.header["enums"].items():
        assert named.items() <= header["enums"][enum].items(), enum
        assert (
            enum in ("call_name", "event_kind", "block_waited", "block_call_state")
            or named == header["enums"][enum]
        )
    assert got.lost == {} and got.notes.keys() <= {"flush-only bios", "submitter from the request"}
    assert_same_as_blkparse(got, tracer, folder)
    # with splits, of which btt loses some: each request's times and merges, told a third way
    truth = sorted(tuple(getattr(one, name) for name in PAIRED) for one in pair(tracer.events))
    assert [row for row in got.tuples(PAIRED) if row[2]] == truth
    notes = run.source("block")["notes"]
    assert sum(row["queue_source"] for row in recorded) == notes["submitter from the request"]
    assert sum(not row["complete_ns"] for row in recorded) == notes["end not seen (no latency)"]
    assert_same_as_bpf(got, recorded, Moments([tracer.stream]))

    # blkparse's own dump of it: the same requests, from its own zero
    subprocess.run(["blkparse", "-q", "-O", "-i", "disk", "-d", "dump"], check=True, cwd=folder)
    dumped = run_reader(reader, tmp_path / "dumped", [folder / "dump"])
    columns = ("issue_ns", "op", "sector", "bytes", "queue_ns", "complete_ns", "pid", "comm", "merges")
    move = min(event.t_ns for event in tracer.events) - 10**9
    moved = [
        (a + move, op, s, n, q + move, c + move, *rest) for a, op, s, n, q, c, *rest in dumped.tuples(columns)
    ]
    assert moved == got.tuples(columns)


@pytest.mark.parametrize("major", [8, 9, 253, 254])
def test_latencies_equal_btts_for_any_major(reader: Path, tmp_path: Path, major: int) -> None:
    """btt takes 9, 253 and 254 for remappers and finds no queueing there; where it does look, we agree."""
    folder = tmp_path / "trace"
    folder.mkdir()
    write_trace(folder, "disk", 3000, major << 20)
    got = run_reader(reader, tmp_path, sorted(folder.glob("disk.blktrace.*")))
    assert got.lost == {} and len(got.rows) == 3000
    subprocess.run(["blkparse", "-q", "-O", "-i", "disk", "-d", "dump"], check=True, cwd=folder)
    btt = subprocess.run(["btt", "-i", "dump"], capture_output=True, text=True, check=True, cwd=folder)
    stages = {
        "Q2I": [row["insert_ns"] - row["queue_ns"] for row in got.rows],
        "I2D": [row["issue_ns"] - row["insert_ns"] for row in got.rows],
        "D2C": [row["complete_ns"] - row["issue_ns"] for row in got.rows],
        "Q2C": [row["complete_ns"] - row["queue_ns"] for row in got.rows],
    }
    assert set(stages["Q2I"]) == {1500} and set(stages["I2D"]) == {1100}  # as written
    if major != 8:
        return
    for stage in ("I2D", "D2C", "Q2C"):
        words = re.search(rf"^{stage} +([\d.]+) +([\d.]+) +([\d.]+) +(\d+)$", btt.stdout, re.MULTILINE)
        assert words, btt.stdout
        least, mean, most = (round(float(word) * 1e9) for word in words.groups()[:3])
        values = stages[stage]
        assert (least, most, int(words[4])) == (min(values), max(values), len(values))
        assert abs(mean - sum(values) / len(values)) <= 1
