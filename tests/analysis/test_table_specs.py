# SPDX-License-Identifier: BSD-2-Clause
"""TableSpec: tables are found by folder, agree with the C structs, are documented, and are typed."""

from __future__ import annotations

import json
import struct
import subprocess
from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analysis.measures.clip import clip_tables
from analysis.measures.common.window import Window
from analysis.rundir.run import open_run
from analysis.tables.__main__ import markdown
from analysis.tables.load import TABLES, load_tables
from analysis.tables.row_time import RowTime
from analysis.tables.spec import TableSpec, columns_of
from analysis.tables.store import I64, Categorical, Column
from collectors.perf import samples
from tests.analysis import synthetic
from tests.analysis.importers.blktrace_files import Event, run_reader, write_cpus
from tests.analysis.synthetic import START_NS, Spec
from tests.collectors.recording import read_table

TREE = Path(__file__).parents[2]
# table: BPF object and the struct that the recorder describes in the table's header
STRUCTS = {
    "block": ("block/block", "block_record"),
    "volume": ("block/block", "volume_record"),
    "call": ("calls/calls", "call_record"),
    "event": ("events/events", "event_record"),
    "switch": ("sched/sched", "switch_record"),
    "wake": ("sched/sched", "wake_record"),
    "dirtied": ("events/events", "dirtied_record"),
    "hold": ("holds/holds", "hold_record"),
    "lock_wait": ("locks/locks", "lock_wait_record"),
    "lock_sample": ("locks/locks", "lock_sample_record"),
}
BY_TRACE = {"get_request_ns", "q2m_ns", "m2d_ns"}  # block columns that only block traces have
KINDS = {"u": {"int", "id"}, "i": {"int"}}


@dataclass(frozen=True)
class Member:
    """A member of a record struct: type as in a .rec header, elements of an array, name of its enum."""

    type: str
    count: int = 1
    enum: str | None = None


class Btf:
    """The types of a BPF object."""

    def __init__(self, file: Path) -> None:
        command = ["bpftool", "--json", "btf", "dump", "file", str(file), "format", "raw"]
        dumped = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
        self.types: dict[int, dict[str, Any]] = {entry["id"]: entry for entry in dumped["types"]}

    def resolve(self, number: int) -> dict[str, Any]:
        entry = self.types[number]
        while entry["kind"] in ("TYPEDEF", "CONST", "VOLATILE"):
            entry = self.types[entry["type_id"]]
        return entry

    def named(self, kind: str, name: str) -> dict[str, Any]:
        return next(e for e in self.types.values() if e["kind"] == kind and e["name"] == name)

    def members(self, name: str) -> dict[str, Member]:
        """Members of a struct by name."""
        found = {}
        for member in self.named("STRUCT", name)["members"]:
            entry, count = self.resolve(member["type_id"]), 1
            if entry["kind"] == "ARRAY":
                entry, count = self.resolve(entry["type_id"]), entry["nr_elems"]
            if entry["kind"] == "ENUM":
                found[member["name"]] = Member(f"u{entry['size'] * 8}", count, entry["name"])
            elif entry["name"] == "char":
                found[member["name"]] = Member("char", count)
            else:
                sign = "i" if "SIGNED" in entry["encoding"] else "u"
                found[member["name"]] = Member(f"{sign}{entry['size'] * 8}", count)
        return found

    def enum(self, name: str) -> dict[int, str]:
        """An enum's values with their names in lower case, without the prefix that all names share."""
        values = {value["val"]: value["name"].lower() for value in self.named("ENUM", name)["values"]}
        words = [name.split("_") for name in values.values()]
        shared = 0
        while len({tuple(w[: shared + 1]) for w in words}) == 1:
            shared += 1
        return {number: "_".join(name.split("_")[shared:]) for number, name in values.items()}


def header_members(header: dict[str, Any]) -> dict[str, Member]:
    """Members of a record as a .rec header describes them."""
    return {
        entry["name"]: Member(
            entry["type"],
            entry["bytes"] if entry["type"] == "char" else entry.get("count", 1),
            entry.get("enum"),
        )
        for entry in header["fields"]
    }


def assert_agrees(spec: TableSpec[Any], members: dict[str, Member], ignored: Collection[str] = ()) -> None:
    """Every column is a member of a fitting type, and every member but padding is a column."""
    columns = {c.name: c for c in spec.columns if c.name not in ignored and not c.is_derived}
    assert set(columns) == {name for name in members if not name.startswith("pad")}, spec.name
    for name, column in columns.items():
        member = members[name]
        where = f"{spec.name}.{name}: {member} for a column of kind {column.kind}"
        if column.kind == "category":
            assert member.enum and member.count == 1, where
        elif column.kind == "text":
            assert member.type == "char", where
        elif column.kind == "hist":
            assert member == Member("u32", 256), where
        elif column.kind == "bool":
            assert member == Member("u8"), where
        else:
            assert column.kind in KINDS[member.type[0]] and member.count == 1, where


@pytest.mark.parametrize("table", sorted(STRUCTS))
def test_columns_are_the_members_of_the_c_struct(table: str) -> None:
    file, name = STRUCTS[table]
    members = Btf(TREE / f"build/bpf/{file}.bpf.o").members(name)
    assert_agrees(TABLES[table], members, BY_TRACE if table == "block" else ())


def test_columns_are_the_fields_of_an_imported_trace(tmp_path: Path) -> None:
    """Block and plug records of build/import-blktrace."""
    events = [Event(1000 + t, action, sector=8, bytes=4096) for t, action in enumerate("QGIDC")]
    run_reader(TREE / "build/import-blktrace", tmp_path / "out", write_cpus(tmp_path, "sda", events))
    for table in ("block", "plug"):
        assert_agrees(TABLES[table], header_members(read_table(tmp_path / f"out/{table}.rec")[0]))


def test_columns_are_the_fields_of_perf_samples() -> None:
    (length,) = struct.unpack("<I", samples._header()[8:12])
    header = json.loads(samples._header()[16 : 16 + length])
    assert_agrees(TABLES["cpu_sample"], header_members(header))


def test_columns_are_the_fields_of_the_disks_server() -> None:
    """The server writes this header, which is a text of its program; the fixture has the same."""
    program = (TREE / "build/drive-server").read_bytes()
    at = program.index(b'{"table":"disk_service"')
    header = json.loads(program[at : program.index(b"\0", at)])
    members = header_members(header)
    assert_agrees(TABLES["disk_service"], members)
    assert {name: (m.type, m.count, m.enum) for name, m in members.items()} == written_fields(
        synthetic.DISK_SERVICE
    )
    for enum, labels in header["enums"].items():
        assert {int(number): label for number, label in labels.items()} == synthetic.ENUMS[enum]
    assert header["record_bytes"] == synthetic.layout(synthetic.DISK_SERVICE)[0].size


def test_columns_are_the_fields_of_counters(tmp_path: Path) -> None:
    """The recorder itself writes the header: it needs no rights to read counters."""
    command = [str(TREE / "build/recorder"), f"--out={tmp_path}", "--collect=counters"]
    subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=True, timeout=60)
    assert_agrees(TABLES["counter"], header_members(read_table(tmp_path / "counter.rec")[0]))


@pytest.mark.parametrize("table", sorted(synthetic.TABLES))
def test_synthetic_records_have_the_recorders_fields(table: str) -> None:
    """Types and enums of the fixtures; columns with if_missing may be absent, as in an older recording."""
    written = written_fields(synthetic.TABLES[table])
    columns = {column.name: column for column in TABLES[table].columns}
    assert set(written) <= set(columns)
    assert {name for name, c in columns.items() if c.if_missing is None} <= set(written)
    if table not in STRUCTS:
        return
    assert_recorded(written, *STRUCTS[table])


def test_thread_time_fixture_has_the_recorders_fields() -> None:
    """Conversion makes the table's columns from these, from other files and by rules."""
    written = written_fields(synthetic.THREAD_TIME)
    members = assert_recorded(written, "threads/threads", "thread_time_record")
    assert set(written) == {name for name in members if not name.startswith("pad")}
    made = {"tid", "comm", "role", "cause", "place"}
    consumed = {"samples_user", "samples_softirq", "samples_spin"}
    assert {column.name for column in TABLES["thread_time"].columns} == (set(written) | made) - consumed


Written = dict[str, tuple[str, int, str | None]]


def written_fields(layout: Sequence[synthetic.Field]) -> Written:
    """Type, elements and enum of each field of a fixture."""
    return {name: (kind, count, enum) for name, _, kind, count, enum in layout}


def assert_recorded(written: Written, file: str, struct_name: str) -> dict[str, Member]:
    """The fixture's fields and enums are the recorder's; returns the struct's members."""
    btf = Btf(TREE / f"build/bpf/{file}.bpf.o")
    members = btf.members(struct_name)
    for name, (kind, count, enum) in written.items():
        member = members[name]
        assert (kind, count) == (member.type, member.count), f"{struct_name}.{name}"
        if member.enum:
            assert enum == member.enum, f"{struct_name}.{name}"
        if enum and enum != "block_flag":
            assert synthetic.ENUMS[enum] == btf.enum(enum), enum
    return members


def test_each_field_of_a_table_is_read_by_its_columns_kind() -> None:
    """Annotations of the dataclasses agree with what columns_of() puts into them."""
    arrays = {
        "int": "I64",
        "hist": "I64",
        "id": "npt.NDArray[np.uint64]",
        "bool": "npt.NDArray[np.bool_]",
        "category": "Categorical",
        "text": "Categorical",
    }
    from analysis.tables import call, counter, cpu_sample, dirtied, event, hold, lock_sample, lock_wait, plug

    for made, spec in (
        (call.Call, call.TABLE),
        (counter.Counter, counter.TABLE),
        (cpu_sample.CpuSample, cpu_sample.TABLE),
        (dirtied.Dirtied, dirtied.TABLE),
        (event.Event, event.TABLE),
        (hold.Hold, hold.TABLE),
        (lock_sample.LockSample, lock_sample.TABLE),
        (lock_wait.LockWait, lock_wait.TABLE),
        (plug.Plug, plug.TABLE),
    ):
        kinds = {column.name: column.kind for column in spec.columns} | {"bin_length_ns": "int"}
        for field in fields(made):
            assert field.type == arrays[kinds[field.name]], f"{spec.name}.{field.name}"


def test_tables_document_is_current() -> None:
    path = TREE / "docs/TABLES.md"
    assert path.read_text() == markdown(), "stale; run python -m analysis.tables > docs/TABLES.md"


@dataclass(frozen=True)
class Commit:
    """A table that load.py knows nothing of."""

    start_ns: I64
    end_ns: I64
    kind: Categorical


COMMIT = TableSpec(
    name="commit",
    one_row="one journal commit",
    collector="journal",
    file="raw/recorder/commit.rec",
    time=RowTime("span", "start_ns", "end_ns"),
    is_optional=True,
    columns=(
        Column("start_ns", "int", "ns", "start of the commit"),
        Column("end_ns", "int", "ns", "end of the commit"),
        Column("kind", "category", "", "what started it"),
        Column("blocks", "int", "blocks", "blocks written", if_missing=0),
    ),
    read=columns_of(Commit),
)


def test_a_new_table_is_converted_clipped_and_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layout = (
        ("start_ns", "Q", "u64", 1, None),
        ("end_ns", "Q", "u64", 1, None),
        ("kind", "B", "u8", 1, "commit_kind"),
    )
    monkeypatch.setitem(synthetic.ENUMS, "commit_kind", {0: "timer", 1: "fsync"})
    monkeypatch.setitem(synthetic.DEFAULTS, "commit", {})
    starts = [START_NS - 50, *(START_NS + i * 1_000_000_000 for i in range(5)), START_NS + 11 * 10**9]
    rows = [
        {"start_ns": t, "end_ns": t + 10, "kind": "fsync" if i % 2 else "timer"} for i, t in enumerate(starts)
    ]
    path = Spec().write(tmp_path / "r")
    (path / "raw/recorder/commit.rec").write_bytes(synthetic.rec_bytes("commit", rows, layout))
    monkeypatch.setitem(TABLES, "commit", COMMIT)
    run = open_run(path)
    tables = load_tables(run)
    assert run.missing == []
    commits = tables.get(COMMIT)
    assert commits is not None
    assert commits.start_ns.tolist() == starts[1:-1]  # the recorded time is 10 s
    assert commits.kind.is_("fsync").tolist() == [True, False, True, False, True]
    assert (tables.left_out["commit"].before, tables.left_out["commit"].after) == (1, 1)
    end = START_NS + 2 * 10**9
    clipped = clip_tables(tables, Window(START_NS + 5, end, START_NS + 5, end, True)).get(COMMIT)
    assert clipped is not None and np.array_equal(clipped.start_ns, starts[1:3])


@dataclass(frozen=True)
class Sample:
    """One column of each kind that a table of JSON lines can have."""

    t_ns: I64
    load: np.ndarray
    name: list[str]
    frames: list[list[str]]
    is_idle: np.ndarray


SAMPLE = TableSpec(
    name="sample",
    one_row="one sample",
    file="raw/samples.jsonl",
    is_optional=True,
    columns=(
        Column("t_ns", "int", "ns", "time of the sample"),
        Column("load", "real", "tasks", "load average", zero_is_null=True),
        Column("name", "string", "", "name"),
        Column("frames", "frames", "", "functions"),
        Column("is_idle", "bool", "", "the CPU was idle"),
    ),
    lines=list,
    read=columns_of(Sample),
)


def test_a_new_table_of_json_lines_has_columns_of_any_kind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [
        {"t_ns": START_NS, "load": 0.25, "name": "a", "frames": ["f", "g"], "is_idle": True},
        {"t_ns": START_NS + 1, "load": None, "name": "b", "frames": [], "is_idle": False},
    ]
    path = Spec().write(tmp_path / "r")
    (path / "raw/samples.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    monkeypatch.setitem(TABLES, "sample", SAMPLE)
    samples = load_tables(open_run(path)).get(SAMPLE)
    assert samples is not None
    assert samples.t_ns.tolist() == [START_NS, START_NS + 1]
    assert samples.load[0] == 0.25 and np.isnan(samples.load[1])
    assert (samples.name, samples.frames) == (["a", "b"], [["f", "g"], []])
    assert samples.is_idle.tolist() == [True, False]
