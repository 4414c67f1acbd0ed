# SPDX-License-Identifier: BSD-2-Clause
"""Conversion of recordings to tables: every value survives; invalid recordings are refused by their fault."""

from __future__ import annotations

import json
import shutil
import struct
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from analysis.errors import TableError
from analysis.measures.results import measure
from analysis.render.text import render
from analysis.report import make_report
from analysis.rundir.run import open_run
from analysis.sections.document import make_document
from analysis.tables import store
from analysis.tables.load import load_tables
from analysis.tables.rec import open_recording
from tests.analysis.synthetic import BIN_NS, MAGIC, START_NS, Spec, decaying_ext3, rec_bytes, request


def one_of_each() -> Spec:
    hist = [0] * 256
    hist[3], hist[255] = 7, 2**32 - 1
    return Spec(
        block=[
            request(START_NS, 2**40 + 1, 4096, ino=7, insert_ns=START_NS - 5, flags=3, error=5, requeues=2),
            request(START_NS + 9, 0, 0, op="flush", comm=b"k<b>&\x01\xff", queue_source="request"),
            request(START_NS + 20, 8, 512, op=77, **{"class": 9}),
        ],
        lock_wait=[
            {"bin_ns": START_NS, "lock_id": 2**64 - 64, "spin_ns": 5, "sleep_ns": 6, "count": 2, "max_ns": 9}
        ],
        call=[{"bin_ns": START_NS, "count": 3, "bytes": 2**40, "call": "fsync", "hist": hist}],
        counter=[{"t_ns": START_NS, "name": "mem.dirty_bytes", "value": -(2**62)}],
        lock=[
            {"lock_id": 2**64 - 64, "kind": "mutex", "name": None, "slab": "ext4_inode_cache", "member": "m"}
        ],
        stack=[{"stack_id": 17, "frames": ["mutex_lock+0x1f", "ext4_write+0x2"]}],
        phases=[{"name": "p", "start_ns": START_NS, "end_ns": START_NS + 10, "ops": 1, "bytes": 2}],
    )


def test_every_value_survives_the_conversion(tmp_path: Path) -> None:
    run = open_run(one_of_each().write(tmp_path / "r"))
    load_tables(run)
    assert run.missing == []
    block = pq.read_table(run.path / "tables" / "block.parquet").to_pylist()
    assert block[0]["sector"] == 2**40 + 1
    assert block[0]["ino"] == 7 and block[1]["ino"] is None
    assert block[0]["insert_ns"] == START_NS - 5 and block[1]["insert_ns"] is None
    assert (block[0]["flags"], block[0]["error"], block[0]["requeues"]) == (3, 5, 2)
    assert [row["op"] for row in block] == ["write", "flush", "unknown:77"]
    assert [row["class"] for row in block] == ["data", "data", "unknown:9"]
    assert [row["queue_source"] for row in block] == ["bio", "request", "bio"]
    assert [row["comm"] for row in block] == ["worker", "k<b>&\\x01\\xff", "worker"]
    assert block[0]["in_workload"] is True
    wait = pq.read_table(run.path / "tables" / "lock_wait.parquet").to_pylist()[0]
    assert (wait["lock_id"], wait["kind"], wait["stack_id"]) == (2**64 - 64, "mutex", -1)
    call = pq.read_table(run.path / "tables" / "call.parquet").to_pylist()[0]
    assert (call["call"], call["target"], call["bytes"]) == ("fsync", "target", 2**40)
    assert (call["hist"][3], call["hist"][255], sum(call["hist"])) == (7, 2**32 - 1, 2**32 + 6)
    assert pq.read_table(run.path / "tables" / "counter.parquet").to_pylist()[0]["value"] == -(2**62)
    assert (
        pq.read_table(run.path / "tables" / "stack.parquet").to_pylist()[0]["frames"][1] == "ext4_write+0x2"
    )
    assert pq.read_table(run.path / "tables" / "lock.parquet").to_pylist()[0]["lock_id"] == 2**64 - 64
    assert pq.read_table(run.path / "tables" / "phase.parquet").to_pylist()[0]["name"] == "p"


def test_rows_keep_their_order_over_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two sets of buffers take turns: one is written while the other is filled. The last is not full."""
    monkeypatch.setattr(store, "ROW_GROUP", 64)
    monkeypatch.setattr(store, "CACHE_BYTES", 1000)
    rows = [
        request(START_NS + i, i * i, 512 * (i % 9), comm=f"thread {i % 70}".encode(), ino=i % 3)
        for i in range(1000)
    ]
    run = open_run(Spec(block=rows).write(tmp_path / "r"))
    load_tables(run)
    file = pq.ParquetFile(run.path / "tables" / "block.parquet")
    assert file.num_row_groups == 16
    found = file.read().to_pylist()
    for name in ("issue_ns", "sector", "bytes"):
        assert [row[name] for row in found] == [row[name] for row in rows]
    assert [row["comm"] for row in found] == [row["comm"].decode() for row in rows]
    assert [row["ino"] for row in found] == [row["ino"] or None for row in rows]


def test_parquet_metadata_has_version_and_units(tmp_path: Path) -> None:
    run = open_run(one_of_each().write(tmp_path / "r"))
    load_tables(run)
    schema = pq.read_schema(run.path / "tables" / "block.parquet")
    about = json.loads(schema.metadata[b"seekmeter"])
    assert about["schema"] == 1 and about["table"] == "block"
    assert about["units"]["queue_ns"] == "ns" and about["units"]["sector"] == "512 B sectors"
    assert schema.field("bytes").metadata[b"unit"] == b"bytes"
    assert str(schema.field("queue_ns").type) == "int64"
    assert str(schema.field("op").type).startswith("dictionary")


def test_partial_record_is_left_out_and_counted(tmp_path: Path) -> None:
    path = one_of_each().write(tmp_path / "r")
    rec = path / "raw" / "recorder" / "block.rec"
    rec.write_bytes(rec.read_bytes()[:-1])
    assert open_recording(rec, "block").truncated_bytes == 127
    make_report(path)
    text = (path / "report.txt").read_text()
    assert "the last record is incomplete (127 bytes left out)" in text
    assert "the recorder wrote 3 rows, the table holds 2" in " ".join(text.split())


@pytest.mark.usefixtures("words_only")
def test_report_without_raw_is_the_same_to_the_byte(tmp_path: Path) -> None:
    path = decaying_ext3(4, 300).write(tmp_path / "r")
    with (path / "raw" / "recorder" / "block.rec").open("ab") as file:
        file.write(b"xyz")
    make_report(path)
    first = {name: (path / name).read_bytes() for name in ("report.txt", "iograph.png", "iograph.svg")}
    shutil.rmtree(path / "raw")
    make_report(path)
    assert {name: (path / name).read_bytes() for name in first} == first


def test_longer_recording_is_converted_again(tmp_path: Path) -> None:
    spec = Spec(block=[request(START_NS + i, i * 8) for i in range(5)])
    path = spec.write(tmp_path / "r")
    assert load_tables(open_run(path)).rows["block"] == 5
    spec.block.append(request(START_NS + 9, 0))
    (path / "raw" / "recorder" / "block.rec").write_bytes(rec_bytes("block", spec.block))
    assert load_tables(open_run(path)).rows["block"] == 6


def test_damaged_parquet_is_converted_again(tmp_path: Path) -> None:
    path = one_of_each().write(tmp_path / "r")
    load_tables(open_run(path))
    (path / "tables" / "block.parquet").write_bytes(b"PAR1 not really PAR1")
    run = open_run(path)
    assert load_tables(run).rows["block"] == 3
    assert run.missing == []


def header_of(data: bytes) -> dict[str, object]:
    (size,) = struct.unpack("<I", data[8:12])
    loaded = json.loads(data[16 : 16 + size])
    assert isinstance(loaded, dict)
    return loaded


def with_header(header: object, size: int | None = None) -> bytes:
    text = json.dumps(header).encode()
    head = MAGIC + struct.pack("<II", len(text) if size is None else size, 0) + text
    padding: bytes = b"\0" * (-len(head) % 8)
    return head + padding + b"\0" * 256


GOOD = header_of(rec_bytes("block", []))
FIELD = {"name": "queue_ns", "offset": 0, "bytes": 8, "type": "u64"}


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "not a seekmeter recording"),
        (b"\x7fELF" + b"\0" * 100, "not a seekmeter recording"),
        (MAGIC, "not a seekmeter recording"),
        (with_header(GOOD, 2**32 - 1), "claims 4294967295 bytes"),
        (with_header(GOOD, 500_000), "ends inside its header"),
        (with_header([1, 2]), "not a JSON object"),
        (MAGIC + struct.pack("<II", 4, 0) + b"{nop", "not valid JSON"),
        (MAGIC + struct.pack("<II", 60_000, 0) + b"[" * 60_000, "nested too deeply"),
        (with_header({**GOOD, "table": "call"}), "holds the table call"),
        (with_header({**GOOD, "byte_order": "big"}), "byte order big"),
        (with_header({**GOOD, "record_bytes": 0}), "record of 0 bytes"),
        (with_header({**GOOD, "record_bytes": 1e300}), "not possible"),
        (with_header({**GOOD, "fields": "all"}), "describes no fields"),
        (with_header({**GOOD, "fields": [FIELD, FIELD]}), "no valid name"),
        (with_header({**GOOD, "fields": [{**FIELD, "name": "../x"}]}), "no valid name"),
        (with_header({**GOOD, "fields": [{**FIELD, "offset": 124}]}), "outside the record"),
        (with_header({**GOOD, "fields": [{**FIELD, "offset": -8}]}), "no valid offset"),
        (with_header({**GOOD, "fields": [{**FIELD, "type": "O8"}]}), "unknown type O8"),
        (with_header({**GOOD, "fields": [{**FIELD, "count": 3}]}), "not 3 of u64"),
        (with_header({**GOOD, "fields": [FIELD]}), "has no field insert_ns"),
    ],
)
def test_invalid_recording_is_refused_with_its_fault(tmp_path: Path, data: bytes, says: str) -> None:
    path = one_of_each().write(tmp_path / "r")
    (path / "raw" / "recorder" / "block.rec").write_bytes(data)
    run = open_run(path)
    tables = load_tables(run)
    assert tables.block is None
    assert any(says in gap and "block" in gap for gap in run.missing), run.missing
    text = render(make_document(run, tables, measure(run, tables)))  # and the rest of the report is made
    assert says in " ".join(text.split())


def test_recording_of_another_table_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "call.rec"
    file.write_bytes(rec_bytes("block", []))
    with pytest.raises(TableError, match="holds the table block, not call"):
        open_recording(file, "call")


def test_bin_length_comes_from_the_recording(tmp_path: Path) -> None:
    path = one_of_each().write(tmp_path / "r")
    tables = load_tables(open_run(path))
    assert tables.call is not None and tables.call.bin_length_ns == BIN_NS


def test_requests_to_journal_extents_are_class_journal(tmp_path: Path) -> None:
    """By sector alone, both ends of each extent, whatever class was recorded; not discards."""
    journal = [(2000, 3000), (100, 200)]  # [start, end), in no order
    rows = [
        (99, "metadata"),
        (100, "metadata"),
        (199, "data"),
        (200, "data"),
        (2500, "unknown"),
        (3000, "data"),
    ]
    spec = Spec(
        block=[request(START_NS + i, sector, 512, **{"class": name}) for i, (sector, name) in enumerate(rows)]
        + [request(START_NS + 9, 150, 4096, op="discard")]
    )
    path = spec.write(tmp_path / "r")
    facts = json.loads((path / "run.json").read_text())
    facts["filesystem"]["geometry"] = {"journal": [*map(list, journal), ["x", 1], [5], None]}
    (path / "run.json").write_text(json.dumps(facts))
    load_tables(open_run(path))
    found = pq.read_table(path / "tables" / "block.parquet").column("class").to_pylist()
    assert found == ["metadata", "journal", "journal", "data", "journal", "data", "data"]


@pytest.mark.parametrize(
    ("name", "written", "read"),
    [
        ("nilfs2", "unknown", "metadata"),
        ("ntfs-3g", "unknown", "unknown"),
        ("fuseblk", "unknown", "unknown"),
        ("ext4", "metadata", "metadata"),
    ],
)
def test_metadata_that_says_nothing_is_class_unknown(
    tmp_path: Path, name: str, written: str, read: str
) -> None:
    rows = [("write", "metadata"), ("read", "metadata"), ("write", "data"), ("read", "data")]
    spec = Spec(
        block=[
            request(START_NS + i, 8 * i, 4096, op=op, **{"class": class_})
            for i, (op, class_) in enumerate(rows)
        ]
    )
    path = spec.write(tmp_path / "r")
    facts = json.loads((path / "run.json").read_text())
    facts["filesystem"] = {"name": name}
    (path / "run.json").write_text(json.dumps(facts))
    load_tables(open_run(path))
    found = pq.read_table(path / "tables" / "block.parquet").column("class").to_pylist()
    assert found == [written, read, "data", "data"]


def test_request_without_completion_counts_without_latency(tmp_path: Path) -> None:
    rows = [request(START_NS + i * 1000, 8 * i) for i in range(10)]
    rows[4]["complete_ns"] = 0
    path = Spec(block=rows).write(tmp_path / "r")
    run = open_run(path)
    block = load_tables(run).block
    assert block is not None
    assert block.rows == 10 and int(block.bytes.sum()) == 10 * 4096
    assert int(block.timed.sum()) == 9
    stored = pq.read_table(path / "tables" / "block.parquet").column("complete_ns")
    assert stored.null_count == 1 and stored[4].as_py() is None
    assert "10" in make_report(path)


def test_recorder_that_ended_early_marks_its_results(tmp_path: Path) -> None:
    """After SIGKILL no event counts as lost, but later events are missing."""
    path = Spec(block=[request(START_NS, 8)]).write(tmp_path / "r")
    losses = json.loads((path / "losses.json").read_text())
    assert open_run(path).lossy("block") == ""
    (path / "losses.json").write_text(json.dumps({**losses, "complete": False}))
    assert "ended early" in open_run(path).lossy("block")
