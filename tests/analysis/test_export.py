# SPDX-License-Identifier: BSD-2-Clause
"""make export: list, refusals, CSV against the tables, fio's log against the rows, hostile and empty runs."""

from __future__ import annotations

import os
import stat
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.__main__ import main
from analysis.discovery import find_parts
from analysis.export import NOT_WRITTEN, make_export
from analysis.exporters import on_request
from analysis.exporters.format import Format
from analysis.exporters.on_request.fio import most_at_once
from analysis.exporters.perfetto import wire
from analysis.exporters.perfetto.lanes import lanes
from tests.analysis.synthetic import START_NS, Spec, decaying_ext3, request

HOSTILE = '<script>"=1+1"</script>,\n\x1b[2J\x00'
MS = 1_000_000


def exported(spec: Spec, to: str, path: Path) -> tuple[Path, str]:
    """The folder of an export, and what the terminal shows."""
    run = spec.write(path)
    text = make_export(run, to, None)
    return run / "export" / to, text


def test_formats_state_unique_keys_and_orders() -> None:
    formats = find_parts(on_request, "FORMAT", Format)
    assert (
        len({known.order for known in formats}) == len({known.key for known in formats}) == len(formats) == 3
    )
    assert not {known.key for known in formats} & NOT_WRITTEN.keys()


def test_export_without_format_lists_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "nowhere"]) == 0
    shown = capsys.readouterr().out
    assert all(f"TO={to} " in shown for to in ("perfetto", "csv", "fio"))


@pytest.mark.parametrize(
    ("to", "answer"),
    [
        ("perfeto", "did you mean perfetto?"),
        ("xyz", "choose from perfetto, csv, fio"),
        ("ctf", "TO=perfetto has"),
    ],
)
def test_export_refuses_what_is_no_format(
    tmp_path: Path, to: str, answer: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Spec().write(tmp_path / "run")
    assert main(["export", f"--to={to}", str(run)]) == 2
    assert answer in capsys.readouterr().err
    assert not (run / "export").exists()


def test_csv_equals_the_tables(tmp_path: Path) -> None:
    """DuckDB reads each CSV file with the types of its Parquet file: the same rows in the same order."""
    folder, _ = exported(decaying_ext3(seconds=2.0), "csv", tmp_path / "run")
    files = sorted(folder.glob("*.csv"))
    assert {"block.csv", "columns.csv", "phase.csv"} <= {file.name for file in files}
    for file in files:
        if file.name == "columns.csv":
            continue
        parquet = f"read_parquet('{tmp_path}/run/tables/{file.stem}.parquet')"
        types = {row[0]: row[1] for row in duckdb.execute(f"describe select * from {parquet}").fetchall()}
        lists = [name for name, kind in types.items() if "[" in kind]
        read = {name: "JSON" if name in lists else kind for name, kind in types.items()}
        texts = "true" if "VARCHAR" in types.values() else "false"
        options = f"header=true, columns={read}, allow_quoted_nulls=false, auto_detect=false, quote='\"'"
        chosen = ", ".join(f'"{n}"::{k} as "{n}"' for n, k in types.items())
        of_csv = duckdb.execute(f"select {chosen} from read_csv('{file}', {options})").fetchall()
        assert of_csv == duckdb.execute(f"select * from {parquet}").fetchall(), (file.name, texts)


def test_csv_states_the_unit_of_each_column(tmp_path: Path) -> None:
    folder, _ = exported(Spec(block=[request(START_NS, 8)]), "csv", tmp_path / "run")
    rows = duckdb.execute(f"select * from read_csv('{folder}/columns.csv', header=true)").fetchall()
    assert ("block", "complete_ns", "int", "ns") in {row[:4] for row in rows}
    assert "block.csv: 1 rows" in (folder / "README.txt").read_text()


def test_fio_log_has_the_rows_by_issue(tmp_path: Path) -> None:
    """Flushes are syncs, discards trims; what fio cannot do is counted; a long discard is cut."""
    gib = 1 << 30
    rows = [
        request(START_NS + 5 * MS, 800, 4096, op="read", complete_ns=START_NS + 9 * MS),
        request(START_NS + 2 * MS, 16, 8192, op="write", complete_ns=START_NS + 8 * MS, flags=5),
        request(START_NS + 6 * MS, 0, 0, op="flush"),
        request(START_NS + 7 * MS, 0, gib + 4096, op="discard"),
        request(START_NS + 8 * MS, 64, 4096, op="write_zeroes"),
        request(START_NS + 9 * MS, 64, 4096, op="write", submitter="recorder"),
    ]
    folder, shown = exported(Spec(block=rows), "fio", tmp_path / "run")
    log = next(folder.glob("*.log"))
    assert log.read_text().splitlines() == [
        "fio version 3 iolog",
        "0 disk add",
        "0 disk open",
        "1 disk write 8192 8192",
        "3001 disk read 409600 4096",
        "4001 disk sync 0 0",
        f"5001 disk trim 0 {gib}",
        f"5001 disk trim {gib} 4096",
        "5001 disk close",
    ]
    for sentence in (
        "1 requests are of the kind write_zeroes, which fio cannot replay: left out",
        "1 requests are Seekmeter's own: left out",
        "1 writes were sent with FUA",
        "1 requests of more than 1 GiB are cut",
    ):
        assert sentence in shown
        assert sentence in (folder / "README.txt").read_text()
    assert "iodepth=3\n" in log.with_suffix(".fio").read_text()


@pytest.mark.parametrize("to", ["perfetto", "csv", "fio"])
def test_export_of_an_empty_run_says_what_is_missing(tmp_path: Path, to: str) -> None:
    folder, shown = exported(Spec(), to, tmp_path / "run")
    assert (folder / "README.txt").is_file()
    assert shown.endswith("bytes\n")


@pytest.mark.parametrize("to", ["perfetto", "csv", "fio"])
def test_export_of_a_hostile_run_counts_the_bad_rows(tmp_path: Path, to: str) -> None:
    """Times, sizes and names that no kernel gives: no crash, nothing of it on the terminal."""
    most, u32, comm = (1 << 64) - 1, (1 << 32) - 1, HOSTILE.encode()[:15]
    rows = [
        request(START_NS, 8, comm=comm),
        request(START_NS, most, complete_ns=START_NS - 1),
        request(START_NS + 1, most >> 2, u32, op="discard"),
        request(START_NS + 2, most, u32, complete_ns=most >> 1, pid=u32),
        request(START_NS + 3, 8, 0, op=250, dev=u32),
        request(START_NS + 9, 8, complete_ns=START_NS + 4),
    ]
    events = [{"start_ns": START_NS, "end_ns": START_NS - 5, "comm": comm, "kind": "jbd2_commit"}]
    thread = {"thread": 1, "tid": -9, "tgid": most, "comm": HOSTILE, "start_ns": 1, "role": "workload"}
    switch = [
        {"t_ns": START_NS + i, "prev": i % 2, "next": 1 - i % 2, "cpu": i % 3 * 30_000, "state": 99}
        for i in range(9)
    ]
    wake = [{"t_ns": START_NS + 3, "wakee": 1, "waker": u32, "cpu": 0, "context": 77}]
    spec = Spec(block=rows, event=events, thread=[thread, {**thread, "thread": 2}], switch=switch, wake=wake)
    folder, shown = exported(spec, to, tmp_path / "run")
    assert "\x1b" not in shown
    assert "<script>" not in shown
    assert "\x1b" not in (folder / "README.txt").read_text()
    if to == "perfetto":
        assert "1 requests have impossible times: left out" in shown


def test_export_folder_is_private_and_made_anew(tmp_path: Path) -> None:
    run = Spec(block=[request(START_NS, 8)]).write(tmp_path / "run")
    run.chmod(0o700)
    make_export(run, "csv", None)
    old = run / "export/csv/old.csv"
    old.write_text("of an earlier export")
    make_export(run, "csv", None)
    assert not old.exists()
    assert stat.S_IMODE((run / "export/csv/block.csv").stat().st_mode) == 0o600
    assert stat.S_IMODE((run / "export/csv").stat().st_mode) == 0o700


def test_export_does_not_follow_a_link_of_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = Spec(block=[request(START_NS, 8)]).write(tmp_path / "run")
    (tmp_path / "other").mkdir()
    os.symlink(tmp_path / "other", run / "export")
    assert main(["export", "--to=csv", str(run)]) == 1
    assert "OUT=DIRECTORY" in capsys.readouterr().err
    assert not any((tmp_path / "other").iterdir())


def test_export_into_a_directory_of_the_users_choice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Spec(block=[request(START_NS, 8)]).write(tmp_path / "run")
    assert main(["export", "--to=fio", f"--out={tmp_path}/mine", str(run)]) == 0
    assert (tmp_path / "mine/README.txt").is_file()
    assert not (run / "export").exists()
    assert main(["export", "--to=fio", f"--out={tmp_path}/mine", str(run)]) == 2
    assert "is there already" in capsys.readouterr().err


SPANS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)), max_size=40)


@given(SPANS)
@settings(max_examples=200, deadline=None)
def test_lanes_never_overlap_and_are_as_few_as_can_be(spans: list[tuple[int, int]]) -> None:
    begin = np.array([at for at, _ in spans], dtype=np.int64)
    end = begin + np.array([length for _, length in spans], dtype=np.int64)
    found = lanes(begin, end)
    for lane in set(found.tolist()):
        mine = sorted(zip(begin[found == lane].tolist(), end[found == lane].tolist(), strict=True))
        assert all(one[1] < other[0] for one, other in pairwise(mine))
    deepest = max((sum(b <= t <= e for b, e in zip(begin, end, strict=True)) for t in begin), default=0)
    assert len(set(found.tolist())) == deepest


def decoded(data: bytes) -> list[int]:
    """The varints of some bytes."""
    values, value, shift = [], 0, 0
    for byte in data:
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            values.append(value - (1 << 64) if value >> 63 else value)
            value = shift = 0
    return values


@given(st.lists(st.integers(-(1 << 63), (1 << 63) - 1), max_size=20))
@settings(max_examples=200, deadline=None)
def test_varints_decode_to_the_values(values: list[int]) -> None:
    column: Any = np.array(values, dtype=np.int64)
    assert decoded(wire.packed(column)) == values
    assert decoded(wire.padded(column).tobytes()) == values
    assert decoded(b"".join(wire.varint(value) for value in values)) == values
    assert wire.packed(column) == b"".join(wire.varint(value) for value in values)


def test_most_at_once_counts_requests_under_way() -> None:
    issue, end = np.array([1, 2, 3, 10]), np.array([5, 3, 9, 0])
    assert most_at_once(issue, end) == 2
