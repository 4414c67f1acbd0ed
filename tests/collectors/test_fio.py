# SPDX-License-Identifier: BSD-2-Clause
"""Latencies of the block and calls sources against fio's own, for the same reads and writes.

fio logs each of its I/Os: where, and how long from outside (clat of psync is the system call). So of the same
I/O Q2C < call < clat, whatever else the machine does: a measure that is too long breaks that. One that is too
short would hide behind the others' time, of which half of all I/Os have little.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from tests.collectors.loop_disk import MIB, SECTOR_BYTES, extents, loop_disk, mounted, rows_of
from tests.collectors.recording import SLOWER, Recording, needs_btf, read_table, recording
from tests.marks import needs_root

pytestmark = [needs_root, needs_btf]

FILE_BYTES = 64 * MIB
BLOCK_BYTES = 4096
OPERATIONS = 6000
# Of half of the I/Os, between Q2C and clat: the file system, making the bio, waking the caller on its CPU, to
# which fio comes first by its real-time priority, and the way out of the kernel. 5,000 to 15,000 here.
OUTSIDE_NS = 40_000 * SLOWER


def edge(bucket: int) -> int:
    """The least latency in a bucket of the calls' histogram: 8 buckets an octave."""
    return bucket if bucket < 8 else (8 + bucket % 8) << (bucket // 8 - 1)


def of_calls(run: Recording, call: str) -> npt.NDArray[np.int64]:
    """The buckets of fio's calls, a bucket a call, in order."""
    header, table = read_table(run.out / "call.rec")
    number = next(int(key) for key, name in header["enums"]["call_name"].items() if name == call)
    target = next(int(key) for key, name in header["enums"]["call_target"].items() if name == "target")
    hist = table[(table["call"] == number) & (table["target"] == target)]["hist"].sum(axis=0)
    assert hist.sum() == OPERATIONS
    return np.repeat(np.arange(len(hist)), hist.astype(np.int64))


def of_block(run: Recording, op: str, file: list[tuple[int, int]]) -> dict[int, int]:
    """Q2C by place in the file of these extents; 0 where the recorder did not see the end."""
    found: dict[int, int] = {}
    first = 0
    for start, end in file:
        rows = rows_of(run, op)
        at_bytes = rows["sector"].astype(np.int64) * SECTOR_BYTES
        mine = (rows["comm"] == b"fio") & (start <= at_bytes) & (at_bytes < end)
        for row, at in zip(rows[mine], at_bytes[mine].tolist(), strict=True):
            assert row["bytes"] == BLOCK_BYTES
            q2c_ns = int(row["complete_ns"]) - int(row["queue_ns"]) if row["complete_ns"] else 0
            assert first + at - start not in found, "one place was asked for twice"
            found[first + at - start] = q2c_ns
        first += end - start
    return found


def record(tmp_path: Path, op: str) -> tuple[Recording, dict[int, int], dict[int, int]]:
    """One run of fio on a file system of its own, recorded; by place in the file, our Q2C and fio's clat."""
    with loop_disk(tmp_path / "image", 128 * MIB, "--direct-io=on") as disk:
        subprocess.run(["mkfs.ext4", "-q", "-F", disk.path], check=True)
        with mounted(disk.path, tmp_path / "mnt") as mnt:
            # Written before, so that a write there changes nothing but the data.
            (mnt / "file").write_bytes(bytes(FILE_BYTES))
            subprocess.run(["sync", "-f", mnt], check=True)
            file = extents(mnt / "file")
            mounts = [line.split() for line in Path("/proc/self/mountinfo").read_text().splitlines()]
            device = next(mount[2] for mount in mounts if mount[4] == str(mnt))
            words = ["--collect", "block,calls", "--disk", disk.name, "--target-dev", device]
            with recording(tmp_path / "out", *words) as run:
                subprocess.run(
                    ["chrt", "--fifo", "10", "fio", "--name=io", f"--filename={mnt / 'file'}",
                     "--ioengine=psync", "--direct=1", f"--rw=rand{op}", f"--bs={BLOCK_BYTES}",
                     f"--number_ios={OPERATIONS}", f"--size={FILE_BYTES}", "--overwrite=1",
                     f"--write_lat_log={tmp_path / 'io'}", "--log_offset=1"],
                    check=True, capture_output=True,
                )  # fmt: skip
    lines = [line.split(",") for line in (tmp_path / "io_clat.1.log").read_text().splitlines()]
    clat = {int(line[4]): int(line[1]) for line in lines}
    assert len(clat) == len(lines) == OPERATIONS
    return run, of_block(run, op, file), clat


@pytest.mark.parametrize("op", ["read", "write"])
def test_latencies_equal_those_of_fio(tmp_path: Path, op: str) -> None:
    run, q2c, clat = record(tmp_path, op)
    assert q2c.keys() == clat.keys()
    assert [at for at in clat if q2c[at] >= clat[at]] == []
    unseen = sum(not one for one in q2c.values())
    assert unseen <= run.source("block")["notes"]["end not seen (no latency)"]
    outside = np.array([clat[at] - q2c[at] for at in clat if q2c[at]])
    print("outside of the request, median and p99:", np.percentile(outside, [50, 99]).round())
    assert np.median(outside) < OUTSIDE_NS
    # The n fastest calls are no faster than the n fastest requests, and no slower than the n fastest clats.
    for bucket, least_ns, most_ns in zip(
        of_calls(run, op).tolist(), sorted(q2c.values()), sorted(clat.values()), strict=True
    ):
        assert least_ns < edge(bucket + 1) and edge(bucket) <= most_ns, (least_ns, edge(bucket), most_ns)
