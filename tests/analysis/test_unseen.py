# SPDX-License-Identifier: BSD-2-Clause
"""The application's bytes: io_uring and libaio count; what nobody counts makes them lower bounds."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pytest

from analysis.figures.run import iograph
from analysis.measures.compare.compared_run import load_compared
from analysis.measures.results import Results, measure
from analysis.render import text
from analysis.rundir.run import open_run
from analysis.sections.compare.differences import as_csv
from analysis.sections.compare.document import make_document as compared_document
from analysis.sections.document import make_document
from analysis.tables.load import load_tables
from tests.analysis.synthetic import BIN_NS, START_NS, Spec, collector, request

MB = 1_000_000
LOST = "aio: completion taken without a call"
OPEN = "io_uring: open at the end"


def call(name: str, **more: Any) -> dict[str, Any]:
    return {"bin_ns": START_NS + BIN_NS, "call": name, "total_ns": 1000, "max_ns": 1000} | more


def spec(
    *rows: dict[str, Any], lost: dict[str, int] | None = None, notes: dict[str, int] | None = None
) -> Spec:
    """10 MB written by write(2) and 40 MB to the device, and these calls."""
    block = [request(START_NS + i * 7_000_000, i * 2000, MB) for i in range(40)]
    made = Spec(block=block, call=[call("write", bytes=10 * MB, count=1000), *rows])
    made.phases = [
        {"name": "work", "start_ns": START_NS, "end_ns": START_NS + 5_000_000_000, "ops": 5, "bytes": 0}
    ]
    made.losses = {
        "collectors": {
            "block": collector(len(block)),
            "calls": collector(10_000, lost=lost or {}, notes=notes or {}),
        },
        "complete": True,
    }
    return made


def report(made: Spec, path: Path) -> tuple[Results, str]:
    """What is measured, and the report as a line each paragraph."""
    run = open_run(made.write(path))
    tables = load_tables(run)
    m = measure(run, tables)
    return m, " ".join(text.render(make_document(run, tables, m)).split())


def test_io_uring_and_libaio_requests_are_the_applications(tmp_path: Path) -> None:
    rows = [
        call("uring_write", bytes=20 * MB),
        call("aio_write", bytes=10 * MB),
        call("uring_read", bytes=3 * MB),
        call("aio_read", bytes=2 * MB),
        call("uring_read", bytes=7 * MB, target="elsewhere"),
        call("io_uring", target="unknown"),
    ]
    m, words = report(spec(*rows), tmp_path / "r")
    assert m.app.bytes == {"read": 5 * MB, "write": 40 * MB}
    assert m.app.uncounted == ()
    assert "application write 40.0 MB, 4.00 MB/s" in words
    assert "device bytes / application bytes: 0.889" in words
    assert ">=" not in words.partition("CORRELATION")[0]


@pytest.mark.parametrize(
    ("rows", "lost", "notes", "words"),
    [
        ([call("mmap", count=3, errors=1)], {}, {}, "2 mappings of files of the tested file system (mmap)"),
        ([call("copy", bytes=5 * MB)], {}, {}, "5.00 MB copied without read and write"),
        (
            [],
            {},
            {"io_uring calls, bytes outside": 9},
            "9 io_uring calls, whose requests this kernel",
        ),
        ([], {}, {"aio calls, bytes outside": 8}, "8 aio calls, whose requests were not counted"),
        ([], {}, {"io_uring: splice or command, bytes outside": 1}, "1 splices or commands by io_uring"),
        ([call("aio_write", count=999)], {LOST: 1}, {}, "1 of 1,000 requests of io_uring or libaio"),
        ([call("uring_write", count=90)], {}, {OPEN: 10}, "10 of 100 requests of io_uring or libaio"),
        ([], {}, {"32-bit calls: left out": 50}, "50 32-bit calls"),
    ],
)
def test_uncounted_bytes_make_lower_bounds_and_no_ratio(
    tmp_path: Path, rows: list[dict[str, Any]], lost: dict[str, int], notes: dict[str, int], words: str
) -> None:
    m, found = report(spec(*rows, lost=lost, notes=notes), tmp_path / "r")
    assert len(m.app.uncounted) == 1 and m.app.uncounted[0].startswith(words)
    assert "application write >=10.0 MB, >=1.00 MB/s" in found
    assert "application read >=0 B" in found
    assert "device bytes / application bytes" not in found
    sentence = "application bytes are lower bounds (>=); not counted: " + words
    throughput, _, warnings = found.partition("WARNINGS AND GAPS")
    assert sentence in throughput and sentence in warnings
    assert "app MB/s: lower bounds (>=), see throughput" in found


@pytest.mark.parametrize(
    ("rows", "lost", "notes"),
    [
        ([call("mmap", count=3, errors=3)], {}, {}),
        ([call("mmap", count=3, target="elsewhere")], {}, {"mmap calls, bytes outside": 3}),
        ([call("copy", bytes=5 * MB, target="elsewhere")], {}, {}),
        ([call("aio_write", count=100_000)], {LOST: 1}, {OPEN: 1}),
        ([call("io_uring", count=3)], {}, {"io_uring calls, bytes outside": 0}),
        ([], {}, {"32-bit calls: left out": 1}),
    ],
)
def test_negligible_uncounted_bytes_mark_nothing(
    tmp_path: Path, rows: list[dict[str, Any]], lost: dict[str, int], notes: dict[str, int]
) -> None:
    m, found = report(spec(*rows, lost=lost, notes=notes), tmp_path / "r")
    assert m.app.uncounted == ()
    assert "device bytes / application bytes" in found and ">=10.0 MB" not in found


def test_rates_of_phases_are_lower_bounds_too(tmp_path: Path) -> None:
    made = spec(call("mmap", count=1))
    run = open_run(made.write(tmp_path / "r"))
    tables = load_tables(run)
    m = measure(run, tables)
    section = next(s for s in make_document(run, tables, m).sections if s.title == "Time by phase")
    (table,) = section.tables
    column = table.heads.index("app MB/s")
    assert {row[0]: row[column] for row in table.rows}["work"] == ">=2.00"


def test_graph_marks_lower_bounds_of_the_application(tmp_path: Path) -> None:
    for name, rows, drawn in (("a", [call("mmap", count=1)], True), ("b", [], False)):
        run = open_run(spec(*rows).write(tmp_path / name))
        tables = load_tables(run)
        figure = iograph.draw(run, tables, measure(run, tables), "title", "subtitle", [])
        legends = [t.get_text() for ax in figure.axes for g in [ax.get_legend()] if g for t in g.get_texts()]
        assert ("application (>=)" in legends) is drawn
        assert ("application" in legends) is not drawn
        foot = " ".join(t.get_text() for t in figure.texts)
        assert ("application (>=): a lower bound" in foot) is drawn


def test_compared_bounds_have_no_ratio_and_no_verdict(tmp_path: Path) -> None:
    made = [spec(call("mmap", count=1)), spec()]
    made[1].run["words"] = {"FS": "ext3", "WL": "another"}
    paths = [one.write(tmp_path / name) for one, name in zip(made, "ab", strict=True)]
    runs = [load_compared(letter, path) for letter, path in zip("AB", paths, strict=True)]
    document = compared_document(runs)
    rows = [row for section in document.sections for table in section.tables for row in table.rows]
    cells = [row for row in rows if "application write" in row[0]]
    assert cells
    for row in cells:
        assert any(cell.startswith(">=") for cell in row), row
        assert row[-1] == "-", row  # the ratio
    words = " ".join(text.render(document).split())
    assert "A: application bytes are lower bounds (>=)" in words
    lines = {(r["measure"], r["side"]): r for r in csv.DictReader(io.StringIO(as_csv(runs)))}
    first, other = lines["application write", "A"], lines["application write", "B"]
    assert (first["is_lower_bound"], other["is_lower_bound"]) == ("1", "0")
    assert other["ratio"] == other["difference"] == ""
    assert other["verdict"] == "not judged: a lower bound"
    assert lines["workload", "B"]["is_lower_bound"] == "0" and lines["workload", "B"]["ratio"] == "1"
