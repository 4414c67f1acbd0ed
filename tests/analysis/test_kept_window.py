# SPDX-License-Identifier: BSD-2-Clause
"""Runs that a watch with UNTIL= kept: the table second, the section and the picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analysis.figures.run import whole_watch
from analysis.measures.flight.normal import measure as measure_normal
from analysis.measures.results import measure
from analysis.render.document import Section
from analysis.render.output import RunSource
from analysis.rundir.flight import Flight, flight
from analysis.rundir.run import open_run
from analysis.sections.kept_window import build_kept_window
from analysis.tables import second
from analysis.tables.load import load_tables
from analysis.tables.second import Second
from tests.analysis.synthetic import START_NS, Field, Spec, layout, rec_bytes, request, run_json

S = 1_000_000_000
FROM_NS, FIRED_NS, TO_NS = START_NS, START_NS + 6 * S, START_NS + 8 * S
LONGS = (
    *("t_ns", "length_ns", "reads", "writes", "read_bytes", "write_bytes", "mean_q2c_ns", "max_q2c_ns"),
    *("lock_wait_ns", "psi_io_some_us", "psi_io_full_us", "lost"),
)
FIELDS: tuple[Field, ...] = (
    *((name, "Q", "u64", 1, "") for name in LONGS),
    ("depth_max", "I", "u32", 1, ""),
    ("flags", "I", "u32", 1, ""),
)
BEFORE = 100  # seconds of the watch before the window


def seconds() -> list[dict[str, Any]]:
    """100 seconds of 10 reads and 20 writes of 4 KiB each; in the window a stall: nothing completes."""
    rows = []
    for i in range(-BEFORE, 8):
        stalled, ended = i in (4, 5, 6), i == 7
        rows.append(
            {
                "t_ns": START_NS + (i + 1) * S,
                "length_ns": S,
                "reads": 0 if stalled else 10,
                "writes": 0 if stalled else 20,
                "read_bytes": 0 if stalled else 40_960,
                "write_bytes": 0 if stalled else 81_920,
                "mean_q2c_ns": 0 if stalled else (300_000_000 if ended else 2_000_000),
                "max_q2c_ns": 0 if stalled else (3 * S if ended else 5_000_000),
                "depth_max": 30 if stalled else 2,
                "lost": 7 if ended else 0,
            }
        )
    return rows


def facts(**more: Any) -> dict[str, Any]:
    return {
        **{"trigger": "request > 500ms", "kind": "request", "fired_ns": FIRED_NS, "value": 500_000_000},
        **{"detail": "loop0 write of sector 2048", "number": 2, "kept_ns": 8 * S, "asked_ns": 60 * S},
        **{
            "after_ns": 2 * S,
            "why_short": "ram",
            "armed_ns": START_NS - BEFORE * S,
            "until": "request > 500ms",
        },
        **more,
    }


def write(path: Path, stated: dict[str, Any] | None, rows: list[dict[str, Any]] | None) -> Path:
    spec = Spec(run=run_json(8))
    spec.block = [request(START_NS + i * S // 2, i * 8, 4096) for i in range(8)]
    spec.run["clock"].update(
        record_start_ns=FROM_NS, record_end_ns=TO_NS, workload_start_ns=FROM_NS, workload_end_ns=TO_NS
    )
    if stated is not None:
        spec.run["flight"] = stated
    spec.write(path)
    if rows is not None:
        (path / "raw/recorder/second.rec").write_bytes(rec_bytes("second", rows, FIELDS))
    return path


def section(path: Path) -> Section | None:
    run = open_run(path)
    tables = load_tables(run)
    found = build_kept_window(run, tables, measure(run, tables))
    return found[0] if found else None


def test_fields_are_those_of_the_recorder() -> None:
    assert {name for name, *_ in FIELDS} == {column.name for column in second.TABLE.columns}
    assert layout(FIELDS)[0].size == 8 * len(LONGS) + 8


def test_request_in_flight_at_the_end_is_named(tmp_path: Path) -> None:
    """The oldest, though it was issued long before the window."""
    path = write(tmp_path / "r", facts(), seconds())
    spec = Spec(run=run_json(8))
    old_ns = FROM_NS - 30 * S
    spec.block = [request(START_NS + i * S // 2, i * 8, 4096) for i in range(8)]
    spec.block += [
        request(ns, sector, 8192, complete_ns=0, end_by_ns=0, op=1, comm=b"dd")
        for ns, sector in ((FIRED_NS, 77), (old_ns, 88))
    ]
    spec.block.append(request(FROM_NS, 99, complete_ns=0, end_by_ns=FIRED_NS))  # it has ended
    spec.run["flight"] = facts()
    spec.run["clock"].update(
        record_start_ns=FROM_NS, record_end_ns=TO_NS, workload_start_ns=FROM_NS, workload_end_ns=TO_NS
    )
    spec.write(tmp_path / "more")
    found = section(tmp_path / "more")
    assert found is not None
    named = dict(found.facts)["not ended"]
    assert named == (
        "write of 8,192 bytes at sector 88 of loop3 by dd, 38.0 s old at the window's end, the oldest of 2"
    )
    ended = section(path)
    assert ended is not None and "not ended" not in dict(ended.facts)


def test_rows_outside_the_window_are_kept(tmp_path: Path) -> None:
    tables = load_tables(open_run(write(tmp_path / "r", facts(), seconds())))
    rows = tables.get(second.TABLE)
    assert rows is not None
    assert rows.t_ns.tolist() == [row["t_ns"] for row in seconds()]
    assert "second" not in tables.left_out


def test_section_states_trigger_length_and_normal(tmp_path: Path) -> None:
    found = section(write(tmp_path / "r", facts(), seconds()))
    assert found is not None
    assert found.facts == [
        (
            "trigger",
            "number 2, request > 500ms, fired 6.00 s after the window's start, at 500 ms: "
            "loop0 write of sector 2048",
        ),
        (
            "kept",
            "6.00 s before the trigger and 2.00 s after it (asked: 60.0 s and 2.00 s); shorter, as the ring"
            " had reached RAM= (a larger RAM= keeps more)",
        ),
        ("in the page", "report.html#t=4.0-8.0 is the trigger"),
        ("watched before", "100.0 s, of which only seconds are kept"),
    ]
    rows = {row[0]: row[1:] for row in found.tables[0].rows}
    assert rows["seconds"] == ("100.0", "8.00", "1.00")
    assert rows["requests/s"] == ("30.0", "18.8", "30.0")
    assert rows["mean Q2C"] == ("2.00 ms", "61.6 ms", "300 ms")
    assert rows["max Q2C"] == ("5.00 ms", "3.00 s", "3.00 s")
    assert rows["highest depth seen"] == ("2", "30", "2")
    assert found.notes == ["7 events were lost in these seconds"]


def test_window_of_the_whole_watch_has_nothing_normal(tmp_path: Path) -> None:
    stated = facts(why_short="start", armed_ns=FROM_NS)
    found = section(write(tmp_path / "r", stated, [row for row in seconds() if row["t_ns"] > FROM_NS]))
    assert found is not None
    assert "shorter, as the watch had begun then" in dict(found.facts)["kept"]
    assert found.tables[0].rows[1] == ("requests/s", "-", "18.8", "30.0")
    assert "nothing is known as normal" in found.notes[0]


def test_killed_watch_has_no_trigger(tmp_path: Path) -> None:
    stated = facts(trigger="", kind="", detail="", fired_ns=None, value=0, why_short="killed")
    found = section(write(tmp_path / "r", stated, seconds()))
    assert found is not None
    assert dict(found.facts)["trigger"].startswith("none: the watch was killed")


def test_other_runs_have_no_such_section(tmp_path: Path) -> None:
    assert section(write(tmp_path / "r", None, None)) is None
    found = section(write(tmp_path / "s", facts(), None))
    assert found is not None
    assert found.notes == ["what was normal is not known: the run has no table second"]


@pytest.mark.parametrize("stated", [{"fired_ns": "x", "number": [], "trigger": 7}, {}])
def test_hostile_facts_are_survived(tmp_path: Path, stated: dict[str, Any]) -> None:
    assert section(write(tmp_path / "r", stated, seconds())) is not None


def columns() -> tuple[Second, Flight]:
    rows = seconds()
    names = [column.name for column in second.TABLE.columns]
    made = Second(**{name: np.array([row.get(name, 0) for row in rows], np.int64) for name in names})
    kept = Flight("x", "request", "", 0, FIRED_NS, 1, FROM_NS, TO_NS, 60 * S, 2 * S, "", None)
    return made, kept


def test_measure_is_a_plain_sum() -> None:
    rows, kept = columns()
    normal = measure_normal(rows, kept)
    inside = [row for row in seconds() if FROM_NS < row["t_ns"] <= TO_NS]
    assert normal.window is not None and normal.before is not None
    assert normal.window.requests == sum(row["reads"] + row["writes"] for row in inside)
    assert normal.before.seconds == BEFORE
    assert normal.window.mb_s == pytest.approx(
        sum(row["read_bytes"] + row["write_bytes"] for row in inside) / 8e6
    )
    assert normal.worst_end_ns == TO_NS


@pytest.mark.parametrize("hours", [0.03, 0.5, 5.0])
def test_picture_shades_the_window(hours: float) -> None:
    rows, kept = columns()
    count = int(hours * 3600)
    long = Second(**{name: np.resize(values, count) for name, values in vars(rows).items()})
    ends = kept.to_ns - np.arange(count - 1, -1, -1) * S
    long = Second(**{**vars(long), "t_ns": ends})
    figure = whole_watch.draw(long, kept)
    axes = figure.axes
    assert len(axes) == 3
    left, right = axes[0].get_xlim()
    assert right == pytest.approx(8) and left == pytest.approx(8 - count)
    labels = [text.get_text() for text in axes[2].get_xticklabels()]
    assert 4 <= len(labels) <= 11 and "0" in labels
    assert axes[2].get_xlabel().split()[0] == ("s" if hours < 0.1 else "min" if hours < 3 else "h")


def test_picture_is_made_of_kept_runs_only(tmp_path: Path) -> None:
    def files(path: Path) -> list[str]:
        run = open_run(path)
        tables = load_tables(run)
        results = measure(run, tables)
        return list(whole_watch.make(RunSource(run, tables, results, tables, results, "", ())).files)

    assert files(write(tmp_path / "r", facts(), seconds())) == ["whole_watch.png", "whole_watch.svg"]
    assert files(write(tmp_path / "s", None, None)) == []


def test_flight_of_facts(tmp_path: Path) -> None:
    kept = flight(open_run(write(tmp_path / "r", facts(), None)))
    assert kept is not None
    assert (kept.number, kept.trigger, kept.fired_ns) == (2, "request > 500ms", FIRED_NS)
