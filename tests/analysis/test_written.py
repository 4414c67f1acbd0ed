# SPDX-License-Identifier: BSD-2-Clause
"""Where the written bytes went: the sums of a run and of its phases, against arithmetic on the rows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from analysis.measures.origin.written import Written
from analysis.measures.results import measure
from analysis.render.text import render
from analysis.rundir.run import open_run
from analysis.sections.document import make_document
from analysis.tables.load import load_tables
from tests.analysis.synthetic import BIN_NS, START_NS, Spec, request

FUNCTIONS = ["ext4_end_bio", "iomap_dio_bio_end_io"]
PHASES = [
    {"name": "create", "start_ns": START_NS + 10 * BIN_NS, "end_ns": START_NS + 20 * BIN_NS},
    {"name": "sync", "start_ns": START_NS + 20 * BIN_NS, "end_ns": START_NS + 30 * BIN_NS},
]


def sent(at_bin: float, size: int, class_: str, **more: Any) -> dict[str, Any]:
    row = request(START_NS + int(at_bin * BIN_NS), 8, size, event_kind="none", submitter="workload", **more)
    return {**row, "class": class_, "call": "write", "call_state": "open"}


BLOCK = [
    sent(12.5, 40960, "data"),
    sent(13.5, 8192, "data", end_io_id=2),
    sent(14.5, 4096, "metadata"),
    sent(21.5, 20480, "journal"),
    sent(22.5, 16384, "data"),
    sent(23.5, 12288, "unknown"),
    sent(24.5, 65536, "data", op="read"),
    sent(35.5, 4096, "metadata", op="write_zeroes"),
]
CALLS = [
    {"bin_ns": START_NS + 12 * BIN_NS, "call": "write", "bytes": 100_000, "target": "target"},
    {"bin_ns": START_NS + 22 * BIN_NS, "call": "write", "bytes": 9000, "target": "target"},
    {"bin_ns": START_NS + 22 * BIN_NS, "call": "write", "bytes": 7777, "target": "elsewhere"},
    {"bin_ns": START_NS + 22 * BIN_NS, "call": "read", "bytes": 5555, "target": "target"},
]


def dirtied(large: int = 0) -> list[dict[str, Any]]:
    return [
        {"bin_ns": START_NS + 12 * BIN_NS, "bytes": 65536, "folios": 16, "large_folio_bytes": large},
        {"bin_ns": START_NS + 22 * BIN_NS, "bytes": 8192, "folios": 2},
    ]


def measured(
    path: Path, dirty: list[dict[str, Any]] | None, deleted: int | None = None
) -> tuple[Written, str]:
    spec = Spec(block=BLOCK, call=CALLS, dirtied=dirty, function=FUNCTIONS, phases=PHASES)
    run = open_run(spec.write(path))
    tables = load_tables(run)
    results = measure(run, tables)
    written = results.origins.written
    assert written is not None
    text = render(make_document(run, tables, results))
    section = text[text.index("WHERE THE WRITTEN") :]
    return written, section[: section.index("\nWHY")]


def test_sums_are_those_of_the_rows(tmp_path: Path) -> None:
    written, _ = measured(tmp_path / "r", dirtied())
    whole = written.whole
    assert (whole.app, whole.dirtied, whole.direct) == (109_000, 73_728, 8192)
    assert (whole.data, whole.metadata, whole.journal) == (65_536, 4096, 20_480)
    assert (whole.zeroed, whole.other) == (4096, 12_288)
    assert whole.device == sum(int(row["bytes"]) for row in BLOCK) - 65_536  # less what was read
    assert whole.amplification == pytest.approx(whole.device / 109_000)
    assert written.overwritten == 109_000 - 8192 - 73_728
    assert written.left == 73_728 - (65_536 - 8192)


@pytest.mark.parametrize(
    ("over", "added", "overwritten", "rest"),
    [
        (0, 0, "27.1 kB, of which 27.1 kB can't be explained by writes", "0 B"),
        (40_000, 0, "27.1 kB to 40.0 kB", "0 B to 12.9 kB"),
        (3000, 30_000, "0 B to 3.00 kB", "2.92 kB to 5.92 kB"),
        (0, 30_000, "0 B", "2.92 kB"),
    ],
)
def test_overwritten_and_rest_lie_between_bounds(
    tmp_path: Path, over: int, added: int, overwritten: str, rest: str
) -> None:
    """27,080 bytes were overwritten, less the rest of pages; `added` more were dirtied."""
    calls = [{**row, "over_bytes": over if row["bytes"] == 100_000 else 0} for row in CALLS]
    dirty = dirtied()
    dirty[0]["bytes"] += added
    spec = Spec(block=BLOCK, call=calls, dirtied=dirty, function=FUNCTIONS)
    run = open_run(spec.write(tmp_path / "r"))
    tables = load_tables(run)
    results = measure(run, tables)
    written = results.origins.written
    assert written is not None and written.over == over
    shown = " ".join(render(make_document(run, tables, results)).split())
    assert f"overwritten while dirty: {overwritten}" in shown
    assert f"rest of pages and mapped stores: {rest}: " in shown


def test_phases_have_what_was_written_in_them(tmp_path: Path) -> None:
    written, text = measured(tmp_path / "r", dirtied())
    rows = {row.name: row for row in written.phases}
    create, sync, rest = rows["create"], rows["sync"], rows["(no phase)"]
    assert (create.app, create.dirtied, create.data, create.metadata) == (100_000, 65_536, 49_152, 4096)
    assert (sync.app, sync.dirtied, sync.data, sync.journal) == (9000, 8192, 16_384, 20_480)
    assert (rest.app, rest.zeroed, rest.data) == (0, 4096, 0)
    assert rest.amplification is None
    assert sum(row.device for row in written.phases) == written.whole.device
    assert "create" in text and all(len(line) <= 80 for line in text.splitlines())


def test_large_folios_leave_only_what_holds(tmp_path: Path) -> None:
    written, text = measured(tmp_path / "r", dirtied(large=16_384))
    assert written.overwritten is None and written.left is None
    assert written.not_sent == 109_000 - 65_536
    words = " ".join(text.split())
    assert "never sent" in words and "of 73.7 kB dirtied 22.2 %" in words and "at most that much" in words
    assert "= dirtied" not in text


def test_hardly_any_large_folio_leaves_all_that_holds(tmp_path: Path) -> None:
    written, text = measured(tmp_path / "r", dirtied(large=512))
    assert written.is_exact and written.left == 73_728 - (65_536 - 8192)
    assert "never sent" not in text


def test_foreign_run_with_more_large_folios_than_bytes(tmp_path: Path) -> None:
    written, text = measured(tmp_path / "r", [{**dirtied(large=4096)[0], "bytes": 0}])
    assert written.whole.dirtied == 0 and "of 0 B dirtied - %" in " ".join(text.split())


def test_lines_of_the_balance_add_up(tmp_path: Path) -> None:
    """In both halves: from the calls to what became dirty, and from there to the disk."""
    _, text = measured(tmp_path / "r", dirtied())
    bytes_of: dict[str, float] = {}
    for line in text.splitlines()[1:]:
        if not line.strip():
            break
        name, number, unit = re.split(r"\s{2,}| (?=[kM]?B)", line.strip())[:3]
        bytes_of[name] = float(number) * {"B": 1, "kB": 1e3}[unit.split(",")[0]]

    def total(names: list[str]) -> float:
        return sum(-bytes_of[name] if name.startswith("-") else bytes_of[name] for name in names)

    names = list(bytes_of)
    sums = [names.index(name) for name in names if name.startswith("=")]
    assert [names[i] for i in sums] == ["= dirtied", "= data sent to the disk", "= written to the disk"]
    begin = 0
    for at in sums:
        assert total(names[begin:at]) == pytest.approx(bytes_of[names[at]], rel=0.01), names[at]
        begin = at


def test_large_folios_that_were_sent_whole_are_exact(tmp_path: Path) -> None:
    sent_whole = dirtied(large=16_384)[:1]
    sent_whole[0]["bytes"] = 65_536 - 8192
    written, text = measured(tmp_path / "r", sent_whole)
    assert written.is_exact and written.left == 0
    assert written.overwritten == 109_000 - 8192 - (65_536 - 8192)
    assert "nearly all of them were sent" in " ".join(text.split())


def test_without_events_dirtied_bytes_are_not_known(tmp_path: Path) -> None:
    written, text = measured(tmp_path / "r", None)
    assert written.whole.dirtied is None and written.left is None
    assert "dirtied bytes are not known" in text
