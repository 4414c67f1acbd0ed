# SPDX-License-Identifier: BSD-2-Clause
"""Packed recordings (SKMREC02): their records are those that were packed; damage is refused by its fault."""

from __future__ import annotations

import json
import random
import struct
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.errors import TableError
from analysis.rundir.run import open_run
from analysis.tables import rec_blocks
from analysis.tables.load import load_tables
from analysis.tables.rec import open_recording
from tests.analysis.synthetic import START_NS, Spec, request

HEAD = struct.Struct("<II")
ROW = struct.Struct("<QI")  # and 4 bytes of padding
ROW_BYTES = 16


def zstd(data: bytes) -> bytes:
    """Pack with zstd's own program."""
    return subprocess.run(["zstd", "-1", "-c"], input=data, check=True, capture_output=True).stdout


def header(magic: bytes = b"SKMREC02") -> bytes:
    """Of a table of two numbers."""
    fields = [
        {"name": "a", "offset": 0, "bytes": 8, "type": "u64"},
        {"name": "b", "offset": 8, "bytes": 4, "type": "u32"},
    ]
    about = {"table": "t", "record_bytes": ROW_BYTES, "byte_order": "little", "fields": fields, "enums": {}}
    text = json.dumps(about).encode()
    head = magic + struct.pack("<II", len(text), 0) + text
    return head + bytes(-len(head) % 8)


def raw(rows: Sequence[tuple[int, int]]) -> bytes:
    """The records."""
    return b"".join(ROW.pack(*row) + bytes(4) for row in rows)


def block(rows: Sequence[tuple[int, int]]) -> bytes:
    """A block of these rows."""
    packed = zstd(raw(rows))
    return HEAD.pack(len(packed), len(rows) * ROW_BYTES) + packed


def read(path: Path, rows: int = 1 << 20) -> list[tuple[int, int]]:
    """All records, in chunks of so many."""
    found: list[tuple[int, int]] = []
    recording = open_recording(path, "t")
    for chunk in recording.chunks(rows):
        assert 0 < len(chunk) <= rows
        found += [(int(row["a"]), int(row["b"])) for row in chunk]
    assert len(found) == recording.rows
    return found


ROWS = st.lists(st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 2**32 - 1)), min_size=1, max_size=40)


@given(blocks=st.lists(ROWS, max_size=4), chunk=st.integers(1, 60), torn=st.integers(0, 200))
def test_records_are_those_that_were_packed(
    blocks: list[list[tuple[int, int]]], chunk: int, torn: int
) -> None:
    """Whatever the borders of blocks and chunks are; a part of one more block changes nothing."""
    more = block([(7, 7)] * 30 + [(i * i * 12345678901, i) for i in range(30)])
    torn = min(torn, len(more) - 1)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.rec"
        path.write_bytes(header() + b"".join(map(block, blocks)) + more[:torn])
        assert read(path, chunk) == [row for rows in blocks for row in rows]
        assert open_recording(path, "t").truncated_bytes == torn


def test_torn_last_block_is_left_out_at_each_of_its_bytes(tmp_path: Path) -> None:
    first, last = [(i, i) for i in range(100)], [(i, 2 * i) for i in range(50)]
    path = tmp_path / "t.rec"
    whole = header() + block(first)
    for end in range(len(block(last))):
        path.write_bytes(whole + block(last)[:end])
        recording = open_recording(path, "t")
        assert (recording.rows, recording.truncated_bytes) == (100, end)
        assert read(path, 64) == first


def test_zeros_after_a_crash_of_the_machine_are_left_out(tmp_path: Path) -> None:
    rows = [(i, i) for i in range(100)]
    path = tmp_path / "t.rec"
    path.write_bytes(header() + block(rows) + bytes(4096))
    recording = open_recording(path, "t")
    assert (recording.rows, recording.truncated_bytes) == (100, 4096)
    assert read(path, 64) == rows


def test_blocks_of_several_files_are_one_table(tmp_path: Path) -> None:
    path = tmp_path / "t.rec"
    path.write_bytes(header() + block([(1, 2)]) + block([(3, 4), (5, 6)]))
    assert read(path) == [(1, 2), (3, 4), (5, 6)]
    path.write_bytes(header())
    assert read(path) == []


RAW = raw([(i, i) for i in range(64)])
FRAME = zstd(RAW)
# Fault of the block, and the words of the error. Whether it is found by its head, or by unpacking.
FAULTS = {
    "no raw bytes": (HEAD.pack(len(FRAME), 0) + FRAME, "is not possible"),
    "no packed bytes": (HEAD.pack(0, len(RAW)) + FRAME, "is not possible"),
    "claims gigabytes": (HEAD.pack(len(FRAME), 1 << 31) + FRAME, "is not possible"),
    "more than the limit": (HEAD.pack(len(FRAME), (1 << 20) + ROW_BYTES) + FRAME, "is not possible"),
    "longer packed than raw": (HEAD.pack(1 << 31, len(RAW)) + FRAME, "is not possible"),
    "half a record": (HEAD.pack(len(FRAME), len(RAW) - 8) + FRAME, "holds no whole number of records"),
    "unpacks to more": (HEAD.pack(len(FRAME), len(RAW) - 16) + FRAME, "damaged"),
    "unpacks to less": (HEAD.pack(len(FRAME), len(RAW) + 16) + FRAME, "damaged"),
    "no zstd": (HEAD.pack(64, len(RAW)) + b"x" * 64, "damaged"),
    "a flipped bit": (HEAD.pack(len(FRAME), len(RAW)) + FRAME[:20] + b"\xff\xff" + FRAME[22:], "damaged"),
    "half a frame": (HEAD.pack(20, len(RAW)) + FRAME[:20], "damaged"),
    "a bomb": (HEAD.pack(len(zstd(bytes(1 << 24))), 1 << 20) + zstd(bytes(1 << 24)), "damaged"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_damaged_block_is_refused(tmp_path: Path, fault: str) -> None:
    data, words = FAULTS[fault]
    path = tmp_path / "t.rec"
    path.write_bytes(header() + block([(1, 1)]) + data)
    with pytest.raises(TableError, match=words) as raised:
        read(path)
    assert "t.rec" in str(raised.value)


def test_random_damage_is_an_error_or_fewer_rows(tmp_path: Path) -> None:
    rows = [(i * 977, i) for i in range(500)]
    whole = header() + block(rows[:300]) + block(rows[300:])
    path = tmp_path / "t.rec"
    dice = random.Random(24)
    for _ in range(500):
        data = bytearray(whole)
        for _ in range(dice.randint(1, 4)):
            data[dice.randrange(len(header()), len(data))] = dice.randrange(256)
        path.write_bytes(bytes(data))
        try:
            found = read(path)
        except TableError:
            continue
        assert found == rows[: len(found)]


def test_too_many_records_are_refused_without_unpacking(tmp_path: Path) -> None:
    path = tmp_path / "t.rec"
    path.write_bytes(header() + block([(1, 1)] * 50) + HEAD.pack(8, 160) + b"x" * 8)
    with pytest.raises(TableError, match="has 60 records; no more than 55 are read"):
        open_recording(path, "t", rows_most=55)
    assert open_recording(path, "t", rows_most=60).rows == 60


def test_too_many_blocks_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rec_blocks, "BLOCKS_LIMIT", 3)
    path = tmp_path / "t.rec"
    path.write_bytes(header() + block([(1, 1)]) * 4)
    with pytest.raises(TableError, match="more than 3 blocks"):
        open_recording(path, "t")


def test_file_that_became_shorter_has_fewer_rows(tmp_path: Path) -> None:
    path = tmp_path / "t.rec"
    path.write_bytes(header() + block([(1, 1)]) * 3)
    recording = open_recording(path, "t")
    path.write_bytes(path.read_bytes()[:-3])
    assert sum(len(chunk) for chunk in recording.chunks()) == 2


def test_tables_of_packed_and_unpacked_recordings_are_the_same(tmp_path: Path) -> None:
    rows = [request(START_NS + i * 1000, i * 8, ino=i % 7) for i in range(1000)]
    tables = []
    for name in ("unpacked", "packed"):
        run = Spec(block=rows).write(tmp_path / name)
        rec = run / "raw/recorder/block.rec"
        data = rec.read_bytes()
        if name == "packed":
            start = (16 + int.from_bytes(data[8:12], "little") + 7) // 8 * 8
            packed = b"SKMREC02" + data[8:start]
            step = (len(data) - start) // 1000 * 300
            for at in range(start, len(data), step):
                part = data[at : at + step]
                frame = zstd(part)
                packed += HEAD.pack(len(frame), len(part)) + frame
            rec.write_bytes(packed)
        load_tables(open_run(run))
        tables.append(pq.read_table(run / "tables/block.parquet"))
    assert tables[0].num_rows == 1000
    assert tables[0].equals(tables[1])
