# SPDX-License-Identifier: BSD-2-Clause
"""The recorder's packed tables: what a killed recorder leaves, torn ends, a full disk; and --unpack."""

from __future__ import annotations

import json
import struct
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

from tests.collectors.loop_disk import MIB, loop_disk, tmpfs
from tests.collectors.recording import RECORDER, needs_btf, read_table, recording
from tests.collectors.sessions import wait_for
from tests.collectors.test_block_faults import FIO, load
from tests.marks import needs_root

HEAD = struct.Struct("<II")  # packed_bytes, raw_bytes


def data_offset(packed: bytes) -> int:
    """Where the blocks begin."""
    return (16 + int.from_bytes(packed[8:12], "little") + 7) // 8 * 8


def blocks_of(packed: bytes) -> list[bytes]:
    """The zstd frames, as zstd's own program unpacks them."""
    at, blocks = data_offset(packed), []
    while at < len(packed):
        bytes_, raw_bytes = HEAD.unpack_from(packed, at)
        frame = packed[at + HEAD.size : at + HEAD.size + bytes_]
        rows = subprocess.run(["zstd", "-dc"], input=frame, check=True, capture_output=True).stdout
        assert len(rows) == raw_bytes
        blocks.append(rows)
        at += HEAD.size + bytes_
    assert at == len(packed)
    return blocks


def unpack(packed: bytes) -> subprocess.CompletedProcess[bytes]:
    """What --unpack says of a file."""
    return subprocess.run([RECORDER, "--unpack", "-"], input=packed, check=False, capture_output=True)


@pytest.fixture(scope="module")
def counters(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A recorder's counter.rec, of some seconds: some blocks."""
    out = tmp_path_factory.mktemp("packed") / "out"
    with recording(out, "--collect", "counters") as run:
        time.sleep(2.5)
    packed = (run.out / "counter.rec").read_bytes()
    assert run.source("counters")["recorded"] == len(run.table("counter")) > 0
    return packed


@needs_root
@needs_btf
def test_table_is_blocks_of_whole_records(counters: bytes) -> None:
    blocks = blocks_of(counters)
    assert len(blocks) >= 3  # one a second, and the last
    header = json.loads(counters[16 : 16 + int.from_bytes(counters[8:12], "little")])
    assert all(len(block) % header["record_bytes"] == 0 for block in blocks)
    done = unpack(counters)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == b"SKMREC01" + counters[8 : data_offset(counters)] + b"".join(blocks)
    # A table that is not packed is printed as it is.
    assert unpack(done.stdout).stdout == done.stdout


@needs_root
@needs_btf
def test_torn_last_block_is_left_out(counters: bytes) -> None:
    """At each of its bytes."""
    start = data_offset(counters)
    first = start + HEAD.size + HEAD.unpack_from(counters, start)[0]
    second = first + HEAD.size + HEAD.unpack_from(counters, first)[0]
    whole = unpack(counters[:first])
    assert whole.returncode == 0
    for end in range(first, second, 7):
        done = unpack(counters[:end])
        assert (done.returncode, done.stdout, done.stderr) == (0, whole.stdout, b""), end
    assert len(unpack(counters[:second]).stdout) > len(whole.stdout)


@needs_root
@needs_btf
def test_damaged_tables_are_refused(counters: bytes) -> None:
    start = data_offset(counters)
    packed, raw = HEAD.unpack_from(counters, start)
    frame = counters[start + HEAD.size : start + HEAD.size + packed]
    for damage in (
        b"x" * 100,
        counters[:10],
        counters[:20],
        counters[:8] + struct.pack("<I", 1 << 30) + counters[12:],
        counters[:start] + HEAD.pack(0, raw) + frame,
        counters[:start] + HEAD.pack(packed, 0) + frame,
        counters[:start] + HEAD.pack(packed, 1 << 31) + frame,
        counters[:start] + HEAD.pack(1 << 31, raw) + frame,
        counters[:start] + HEAD.pack(packed, raw - 1) + frame,
        counters[:start] + HEAD.pack(packed, raw + 1) + frame,
        counters[:start] + HEAD.pack(packed, raw) + frame[:-1] + bytes([frame[-1] ^ 1]),
        counters[:start] + HEAD.pack(packed, raw) + b"x" * packed,
    ):
        done = unpack(damage)
        assert done.returncode == 1, damage[:20]
        assert done.stderr.startswith(b"recorder: -: ")
    gone = subprocess.run([RECORDER, "--unpack", "/no/file"], check=False, capture_output=True, text=True)
    assert (gone.returncode, gone.stderr) == (1, "recorder: /no/file: No such file or directory\n")


@needs_root
@needs_btf
def test_killed_recorder_loses_at_most_a_second(tmp_path: Path) -> None:
    """Killed at some moment, while requests come in all the time."""
    with tmpfs(tmp_path / "ram", "80M") as ram, loop_disk(ram / "image", 64 * MIB) as disk:
        with recording(tmp_path / "out", "--collect", "block,counters", "--disk", disk.name) as run:
            words = [*FIO, f"--filename={disk.path}", "--rw=randread", "--bs=4k", "--rate_iops=500",
                     "--time_based", "--runtime=60"]  # fmt: skip
            with subprocess.Popen(words, stdout=subprocess.DEVNULL) as fio:
                wait_for(lambda: len(read_table(run.out / "block.rec")[1]) > 500)
                time.sleep(0.77)
                killed_ns = time.monotonic_ns()
                run.process.kill()
                run.process.wait()
                fio.terminate()
            run.stopped_ns = killed_ns
        rows = run.table("block")
        counts = json.loads((run.out / "losses.json").read_text())
    last_ns = int(rows["complete_ns"].max())
    print(f"last of {len(rows)} rows {(killed_ns - last_ns) / 1e6:.0f} ms before the kill")
    assert 0 < killed_ns - last_ns <= 1_000_000_000
    assert killed_ns - int(run.table("counter")["t_ns"].max()) <= 1_100_000_000  # sampled each 0.1 s
    assert not counts["complete"]
    assert counts["collectors"]["block"]["recorded"] <= len(rows)
    # Up to there all are in it: fio is evenly slow.
    ends = np.sort(rows["complete_ns"].astype(np.int64))
    assert np.diff(ends).max() < 500_000_000


@needs_root
@needs_btf
def test_full_disk_keeps_what_was_written(tmp_path: Path) -> None:
    """Blocks before the disk was full are whole, those that fit again are there, and the sum is exact."""
    with (
        loop_disk(tmp_path / "image", 64 * MIB) as disk,
        tmpfs(tmp_path / "small", "512k") as small,
        recording(small / "out", "--collect", "block", "--disk", disk.name, "--floor-bytes", "0") as run,
    ):
        words = ("--rw=randread", "--bs=512", "--number_ios=8000", "--ioengine=libaio", "--iodepth=8")
        load(disk, *words)
        wait_for(lambda: len(run.table("block")) >= 8000)
        filler = small / "filler"
        with filler.open("wb", buffering=0) as file:
            try:
                while file.write(b"x" * 4096):
                    pass
            except OSError:
                pass
        load(disk, *words)
        time.sleep(1.2)
        filler.unlink()
        load(disk, *words)
        run.stop()
        rows, state = run.table("block"), run.source("block")
        blocks_of((run.out / "block.rec").read_bytes())
    assert 16_000 <= len(rows) < 24_000
    assert state["recorded"] == len(rows)
    assert sum(state["lost"].values()) == state["lost"]["disk full"] == state["seen"] - len(rows) > 0
