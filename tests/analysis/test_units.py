# SPDX-License-Identifier: BSD-2-Clause
"""Requests and thread time by service and container, against sums made row by row."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from analysis.measures.results import measure
from analysis.measures.units.by_unit import KERNEL_THREADS, NOT_KNOWN, SEEKMETER, UnitResults
from analysis.rundir.run import open_run
from analysis.sections.units import build_units
from analysis.tables.load import load_tables
from tests.analysis.measured import draw
from tests.analysis.synthetic import START_NS, Spec, request, run_json
from tests.analysis.thread_tables import thread_row

MS = 1_000_000
UNITS = {
    1: ("root", "/"),
    11: ("service", "web.service"),
    12: ("service", "web.service"),  # a cgroup below the service's own
    13: ("container", "shop/web-0/app"),
    14: ("vm", "VM 101 db"),
}
UNKNOWN = 99  # it has no line


def write(folder: Path, block: list[dict[str, Any]], watched: bool = True, **more: Any) -> Path:
    facts = run_json(10)
    if watched:
        facts["workload"] = {"name": "watch"}
    facts["units"] = {"root": 1, "controllers": [], "left_out": 0}
    path = Spec(block=block, run=facts, **more).write(folder)
    lines = [
        {
            "cgroup": number,
            "path": f"/{name}",
            "kind": kind,
            "name": name,
            "pod": "",
            "first_ns": 1,
            "gone_ns": None,
        }
        for number, (kind, name) in UNITS.items()
    ]
    # the last line of a number counts
    lines.insert(0, lines[1] | {"name": "web.service", "kind": "cgroup"})
    (path / "raw/units.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def measured(path: Path) -> UnitResults | None:
    run = open_run(path)
    return measure(run, load_tables(run)).units


def some_requests(seed: int = 7, count: int = 400) -> list[dict[str, Any]]:
    """Requests of all kinds of cgroups, many in flight at once, of two disks."""
    chance = random.Random(seed)
    rows = []
    for number in range(count):
        issue_ns = START_NS + 500 * MS + chance.randrange(8_000 * MS)
        rows.append(
            request(
                issue_ns,
                number * 8,
                4096 * chance.randrange(1, 9),
                queue_ns=issue_ns - chance.randrange(1, 20 * MS),
                complete_ns=issue_ns + chance.randrange(1, 300 * MS),
                op=chance.choice(["read", "write", "write"]),
                cgroup=chance.choice([0, *UNITS, UNKNOWN]),
                submitter=chance.choice(["other", "other", "kernel_thread", "recorder"]),
                dev=chance.choice([7 << 20, 8 << 20 | 16]),
            )
        )
    return sorted(rows, key=lambda row: int(row["complete_ns"]))


def unit_of(row: dict[str, Any]) -> tuple[str, str]:
    """The naive rule."""
    if row["submitter"] == "recorder":
        return SEEKMETER
    if row["submitter"] == "kernel_thread" and row["cgroup"] in (0, 1):
        return KERNEL_THREADS
    return UNITS.get(row["cgroup"], NOT_KNOWN)


def busy_by_unit(rows: list[dict[str, Any]]) -> dict[tuple[str, str], float]:
    """Walk each disk's time from event to event: each request in flight has an equal part."""
    sums: dict[tuple[str, str], float] = defaultdict(float)
    for dev in {row["dev"] for row in rows}:
        own = [row for row in rows if row["dev"] == dev]
        edges = sorted({edge for row in own for edge in (row["issue_ns"], row["complete_ns"])})
        for begin, end in pairwise(edges):
            flying = [row for row in own if row["issue_ns"] <= begin and row["complete_ns"] >= end]
            for row in flying:
                sums[unit_of(row)] += (end - begin) / len(flying)
    return sums


def test_sums_by_unit_equal_those_row_by_row(tmp_path: Path) -> None:
    rows = some_requests()
    found = measured(write(tmp_path / "r", rows))
    assert found is not None
    busy = busy_by_unit(rows)
    assert {(row.kind, row.name) for row in found.rows} == {unit_of(row) for row in rows}
    for unit in found.rows:
        mine = [row for row in rows if unit_of(row) == (unit.kind, unit.name)]
        written = [row for row in mine if row["op"] == "write"]
        assert unit.requests == len(mine)
        assert unit.read_bytes == sum(row["bytes"] for row in mine if row["op"] == "read")
        assert unit.write_bytes == sum(row["bytes"] for row in written)
        assert unit.written_back_bytes == sum(
            row["bytes"] for row in written if row["submitter"] == "kernel_thread"
        )
        latencies = sorted(row["complete_ns"] - row["queue_ns"] for row in mine)
        assert latencies[0] <= unit.q2c_ns[0] <= unit.q2c_ns[1] <= latencies[-1]
        assert unit.q2c_ns[0] == pytest.approx(latencies[(len(latencies) - 1) // 2], rel=0.2)
        assert unit.busy_ns == pytest.approx(busy[unit.kind, unit.name], rel=1e-9)
    assert found.bytes == sum(row["bytes"] for row in rows)
    assert found.busy_ns == pytest.approx(sum(busy.values()))


def test_thread_time_is_summed_by_unit(tmp_path: Path) -> None:
    threads = [
        thread_row({"thread": 1, "tid": 11, "comm": "nginx", "role": "other", "cgroup": 11}),
        thread_row({"thread": 2, "tid": 12, "comm": "nginx", "role": "other", "cgroup": 12}),
        thread_row({"thread": 3, "tid": 13, "comm": "app", "role": "other", "cgroup": 13}),
        thread_row({"thread": 4, "tid": 14, "comm": "kworker", "role": "kernel", "cgroup": 1}),
        thread_row({"thread": 5, "tid": 15, "comm": "brief", "role": "other"}),
    ]
    spans = [(number, "running", number) for number in (1, 2, 3, 4, 5)] + [(3, "runnable", 7)]
    times = [
        {
            "bin_ns": START_NS + 1_000 * MS,
            "length_ns": 100 * MS,
            "ns": length * MS,
            "thread": number,
            "state": state,
            "count": 1,
        }
        for number, state, length in spans
    ]
    block = [request(START_NS + 900 * MS, 8, cgroup=11, submitter="other")]
    found = measured(write(tmp_path / "r", block, thread=threads, thread_time=times))
    assert found is not None
    cpu = {row.name: row.cpu_ns for row in found.rows}
    assert cpu["web.service"] == 3 * MS
    assert cpu["shop/web-0/app"] == 3 * MS
    assert cpu[KERNEL_THREADS[1]] == 4 * MS
    assert cpu[NOT_KNOWN[1]] == 5 * MS
    assert found.of(UNITS[13]).waits_ns["ready"] == 7 * MS


@pytest.mark.parametrize(
    ("watched", "cgroups", "is_shown"),
    [(True, (11,), True), (True, (1, 0), False), (False, (11, 1), False), (False, (11, 13), True)],
)
def test_only_runs_of_several_units_show_them(
    tmp_path: Path, watched: bool, cgroups: tuple[int, ...], is_shown: bool
) -> None:
    block = [
        request(START_NS + (900 + number) * MS, 8, cgroup=number, submitter="other") for number in cgroups
    ]
    assert (measured(write(tmp_path / "r", block, watched)) is not None) == is_shown


def test_section_tells_unknown_shares(tmp_path: Path) -> None:
    run = open_run(write(tmp_path / "r", some_requests()))
    tables = load_tables(run)
    (section,) = build_units(run, tables, measure(run, tables))
    notes = "\n".join(section.notes)
    assert "not known: " in notes
    assert "neither the io nor the memory controller" in notes
    assert "written back by kernel threads for them" in notes
    assert [row[0] for row in section.tables[0].rows if row[1] == "vm"] == ["VM 101 db"]


def test_panel_is_drawn_of_several_units_only(tmp_path: Path) -> None:
    title = "Read and written by service and container, MB/s"

    def titles(path: Path) -> list[str]:
        return [ax.get_title(loc="left") for ax in draw(path).axes]

    assert any(one.startswith(title) for one in titles(write(tmp_path / "several", some_requests())))
    one = [request(START_NS + 900 * MS, 8, cgroup=11, submitter="other")]
    assert not any(text.startswith(title) for text in titles(write(tmp_path / "one", one, watched=False)))


def test_older_runs_and_hostile_lines_read_as_before(tmp_path: Path) -> None:
    path = Spec(block=[request(START_NS + 900 * MS, 8)]).write(tmp_path / "older")
    assert measured(path) is None
    path = write(tmp_path / "hostile", some_requests())
    hostile = ["[]", "{}", '{"cgroup": -5}', '{"cgroup": 11, "path": 1}', "\x00", '{"cgroup": 1e99}']
    hostile.append(
        json.dumps({"cgroup": 13, "path": "/\x1b[31m", "kind": "\x1b", "name": "\x1b[2J", "pod": ""})
    )
    with (path / "raw/units.jsonl").open("a") as file:
        file.write("\n".join(hostile) + "\n")
    found = measured(path)
    assert found is not None
    assert all(row.name.isprintable() and row.kind.isprintable() for row in found.rows)
