# SPDX-License-Identifier: BSD-2-Clause
"""What an emulated disk did, against sums over each moment that are made row by row."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from analysis.figures.panel import Graph
from analysis.figures.panels import disk_time, head_position
from analysis.findings.device_flush import RULES as FLUSH
from analysis.findings.device_latency import RULES as LATENCY
from analysis.findings.device_seeks import RULES as SEEKS
from analysis.findings.throttle import RULES as THROTTLING
from analysis.measures.disk.joined import join
from analysis.measures.disk.states import BUSY, Spent, State
from analysis.measures.results import measure
from analysis.report import make_report
from analysis.rundir.run import open_run
from analysis.sections.critical_path import build_critical_path
from analysis.sections.disk_banners import disk_banners
from analysis.tables.disk_service import TABLE
from analysis.tables.load import load_tables
from tests.analysis.device_cases import BEGIN, DIRECT, US, case_of, found_by, one
from tests.analysis.disk_runs import MS, PIECES, emulated, hdd_run, random_run, served
from tests.analysis.measured import draw, measured_of
from tests.analysis.test_finding_waits import THROTTLE
from tests.analysis.waiting_runs import Sleep
from tests.analysis.waiting_runs import case_of as waiting

EXTREME = (-1, 0, 1, 1 << 31, 1 << 62, (1 << 63) - 1, -(1 << 63))


@pytest.mark.parametrize("seed", range(3))
def test_each_row_is_joined_to_its_request(tmp_path: Path, seed: int) -> None:
    spec, known = random_run(seed)
    run = open_run(spec.write(tmp_path / "r"))
    tables = load_tables(run)
    service = tables.get(TABLE)
    assert service is not None and service.rows == len(known) and not run.missing
    joined = join(service, tables.block)
    assert joined.request.tolist() == known
    assert (joined.unmatched, joined.without_row) == (0, 0)


def moments(rows: list[dict[str, Any]], start: int, end: int) -> dict[str, int]:
    """Time by state, moment by moment: the head's pieces first, then read-ahead, then the electronics'."""
    spans: list[tuple[int, int, int, str]] = []
    for row in rows:
        at = int(row["start_ns"])
        for name in PIECES[:4]:
            length = int(row.get(name, 0))
            rank = {"media": 0, "read_ahead": 1, "cache": 2}[row["how"]]
            if row["op"] != "flush" and length:
                spans.append((at, at + length, rank, "overhead_ns" if rank == 2 else name))
            at += length
    edges = sorted({start, end} | {t for first, last, *_ in spans for t in (first, last) if start < t < end})
    sums = dict.fromkeys([*PIECES[:4], "idle"], 0)
    for first, last in pairwise(edges):
        here = [span for span in spans if span[0] < last and span[1] > first]
        sums[min(here, key=lambda span: span[2])[3] if here else "idle"] += last - first
    return sums


@pytest.mark.parametrize("seed", range(2))
def test_states_are_what_goes_on_at_each_moment(tmp_path: Path, seed: int) -> None:
    spec, _ = random_run(seed, 150)
    results = measured_of(spec, tmp_path / "r")
    assert results.disks is not None
    (disk,) = results.disks.disks
    window = results.window
    wanted = moments(spec.disk_service or [], window.start_ns, window.end_ns)
    names = dict(zip(("overhead_ns", "seek_ns", "rotation_ns", "transfer_ns"), (3, 0, 1, 2), strict=True))
    assert {name: disk.state_ns[State(state)] for name, state in names.items()} == {
        name: wanted[name] for name in names
    }
    assert disk.state_ns[State.IDLE] == wanted["idle"]
    assert sum(disk.state_ns.values()) == disk.span_ns == window.end_ns - window.start_ns
    by_class = {state: sum(ns for (one_, _), ns in disk.class_ns.items() if one_ == state) for state in BUSY}
    assert by_class == {state: disk.state_ns[state] for state in BUSY}
    lengths = np.diff(results.timeline.edges_ns)
    for state in State:
        assert float((disk.series[state] * lengths).sum()) == pytest.approx(disk.state_ns[state], abs=1e3)


def test_kinds_and_lateness_are_sums_over_the_rows(tmp_path: Path) -> None:
    spec, known = random_run(7)
    results = measured_of(spec, tmp_path / "r")
    assert results.disks is not None
    (disk,) = results.disks.disks
    rows = spec.disk_service or []
    for kind in disk.kinds:
        mine = [row for row in rows if row["op"] == kind.op]
        same = [one_ for one_ in disk.kinds if one_.op == kind.op]
        assert sum(one_.rows for one_ in same) == len(mine)
        assert sum(one_.seek_ns for one_ in same) == sum(row.get("seek_ns", 0) for row in mine)
        assert sum(one_.read_ahead for one_ in same) == sum(row["how"] == "read_ahead" for row in mine)
    destaged = {kind.class_ for kind in disk.kinds if kind.op == "destage"}
    assert destaged == {"data", "metadata", "journal"}
    late = disk.lateness
    assert late is not None and (late.p50_ns, late.most_ns) == (5_000, 5_000)
    assert late.replies == sum(request >= 0 for request in known)


def test_time_within_spans_is_that_of_each_moment() -> None:
    spans = Spent(np.array([10, 20, 40]), np.array([15, 30, 41]))
    inside = np.zeros(60, dtype=np.int64)
    for first, last in zip(spans.begin, spans.end, strict=True):
        inside[first:last] = 1
    begin, end = (part.ravel() for part in np.meshgrid(np.arange(60), np.arange(60)))
    wanted = [int(inside[a:b].sum()) if b > a else 0 for a, b in zip(begin, end, strict=True)]
    assert spans.within(begin, end).tolist() == wanted


def seeking(own_us: int, seek_us: int, count: int, class_: str = "data", **more: Any) -> dict[str, Any]:
    """Arguments of a run whose reads take so long each, of it a seek."""
    step = own_us + 5 + 20 + 2  # as device_cases.py paces them
    rows = [
        served(
            BEGIN + (25 + i * step) * US,
            seek_ns=seek_us * US,
            transfer_ns=(own_us - seek_us) * US,
            sector=(1 << 20) + (i << 12),
            cylinder=i,
        )
        for i in range(count)
    ]
    own = [
        one(own_us, class_=class_, end_io_id=DIRECT, wait="direct", sector=(1 << 20) + (i << 12))
        for i in range(count)
    ]
    return {"own": own, "disk_service": rows, "disk": emulated()} | more


def test_seeks_are_the_disks_own_seconds(tmp_path: Path) -> None:
    words = {"FS": "ext4", "WL": "fio-randread", "DISK": "hdd:sata2007@50%", "TIME": "2"}
    case = case_of(tmp_path / "r", **seeking(4000, 3000, 60), words=words)
    (found,) = found_by(SEEKS, case)
    assert found.cost.value_s == pytest.approx(60 * 3e-3, rel=1e-3)
    assert found.certainty == "sure"
    assert "seeking 0.18 s (all for data)" in found.because[0] and "transferring 0.06 s" in found.because[0]
    assert found.remedy is not None and found.remedy.words == {"DISK": "file", "TIME": ""}
    (section,) = build_critical_path(case.run, case.tables, case.results)
    (table,) = [one_ for one_ in section.tables if "emulated disk" in one_.titles[-2]]
    assert [(row[0], *row[-2:]) for row in table.rows] == [
        ("180 ms", "seeking", "data"),
        ("60.0 ms", "transferring", "data"),
        ("300 us", "idle", ""),  # each request is queued for 5
    ]
    (latency,) = found_by(LATENCY, case)
    assert "seeking 0.18 s" in latency.because[-1] and "DISK=file" in latency.test
    assert "hdd" not in latency.test


def test_seeks_of_a_late_disk_are_in_doubt(tmp_path: Path) -> None:
    case = case_of(tmp_path / "r", **seeking(4000, 3000, 60) | {"disk": emulated(is_kept=False)})
    (found,) = found_by(SEEKS, case)
    assert found.certainty == "likely" and "did not keep time" in found.doubt


def test_a_disk_that_records_no_seek_has_no_such_finding(tmp_path: Path) -> None:
    case = case_of(tmp_path / "r", **seeking(4000, 0, 60))
    assert not found_by(SEEKS, case)


def test_flushes_say_what_the_disk_did(tmp_path: Path) -> None:
    """Each flush is 2 ms, of which a destage of a journal's block takes 1.5: 1 of it a seek."""
    own = [one(2000, wait="flush", op="flush", bytes=0, sector=0) for _ in range(40)]
    rows = []
    for i in range(40):
        t = BEGIN + (25 + i * 2027) * US
        rows.append(served(t, "destage", seek_ns=MS, transfer_ns=MS // 2, sector=64))
        rows.append(served(t, "flush", wait_ns=2 * MS) | {"sectors": 0})
    case = case_of(tmp_path / "r", own, disk=emulated(), disk_service=rows)
    (found,) = found_by(FLUSH, case)
    assert "seeking 0.04 s" in found.because[-1] and "idle 0.02 s" in found.because[-1]


@pytest.mark.parametrize("share", [0.5, 1.0])
def test_throttling_is_the_disks_where_it_is_full(tmp_path: Path, share: float) -> None:
    sleeps = [Sleep(t, t + 80, THROTTLE, state="io_wait") for t in range(100, 600, 100)]
    rows = [
        served(BEGIN + t * MS, "destage", seek_ns=int(80 * share) * MS, sector=64)
        for t in range(100, 600, 100)
    ]
    run = hdd_run(1.1)
    case = waiting(tmp_path / "r", sleeps, run=run, disk_service=rows)
    (found,) = found_by(THROTTLING, case)
    assert ("at the pace of loop3" in found.what) == (share == 1.0)
    if share == 1.0:
        assert found.remedy is None and "more dirty pages" in found.no_remedy and "100 %" in found.because[-1]


def report_of(path: Path, run: dict[str, Any], **more: Any) -> tuple[str, str]:
    spec, _ = random_run(3, 100)
    spec.run = run
    for name, value in more.items():
        setattr(spec, name, value)
    make_report(spec.write(path))
    return (path / "report.txt").read_text(), (path / "answer.txt").read_text()


@pytest.mark.usefixtures("words_only")
def test_report_names_drive_speed_and_lateness(tmp_path: Path) -> None:
    run = hdd_run(3.0, time=10.0, is_kept=False, late_p99_ns=1_200_000)
    report, answer = report_of(tmp_path / "r", run)
    words = " ".join(answer.replace("!!", "").split())
    assert "loop3 (disk) is an emulated disk: 7200 rpm SATA disk (sata2007) TIME=10: loop3 (disk) is" in words
    assert "could not keep time for loop3 (disk): 1 % of its replies were more than 1.20 ms late" in words
    assert "rotating " in words and " idle" in words
    assert "WHAT THE DISK DID" in report and "of it destages" in report


@pytest.mark.usefixtures("words_only")
def test_older_runs_read_as_before(tmp_path: Path) -> None:
    spec, _ = random_run(3, 100)
    spec.run["device"] |= {"kind": "file", "emulated": None, "kept_time": None}
    spec.run["words"].pop("DISK")
    spec.disk_service = None
    spec.losses = None
    path = spec.write(tmp_path / "r")
    make_report(path)
    report = (path / "report.txt").read_text()
    assert "emulated" not in report and "WHAT THE DISK DID" not in report
    run = open_run(path)
    assert measure(run, load_tables(run)).disks is None


def test_panels_of_two_disks_name_them(tmp_path: Path) -> None:
    spec, _ = random_run(5, 120)
    rows = spec.disk_service or []
    spec.disk_service = rows + [row | {"dev": 7 << 20 | 4} for row in rows]
    spec.run["journal_device"] = {**spec.run["device"], "name": "loop4", "dev": "7:4"}
    path = spec.write(tmp_path / "r")
    run = open_run(path)
    assert disk_banners(run, measure(run, load_tables(run))) == [
        "loop3 (disk), loop4 (journal) are emulated disks: 7200 rpm SATA disk (sata2007)"
    ]
    figure = draw(path)
    axes = {ax.get_title(loc="left").split(",")[0]: ax for ax in figure.axes}
    for title in ("What the disk did", "Head position: cylinders that it served"):
        labels = [label.get_text() for label in axes[title].get_yticklabels()]
        assert labels == ["loop3", "loop4"]


@pytest.mark.usefixtures("words_only")
@pytest.mark.parametrize("seed", range(6))
def test_spoilt_rows_cost_no_report(tmp_path: Path, seed: int) -> None:
    """Extreme numbers, words without a meaning, facts of wrong types: sums stay within the recorded time."""
    spec, _ = random_run(seed, 120)
    draw_ = np.random.default_rng(seed)
    rows = spec.disk_service or []
    unsigned = {"sector": 64, "dev": 32, "sectors": 32, "cylinder": 32, "queued": 32}
    for row in rows:
        for name in (*PIECES, "arrival_ns", "start_ns", "end_ns", "reply_ns", *unsigned, "op", "how"):
            if draw_.random() < (0.05, 0.3, 0.7)[seed % 3]:
                value = EXTREME[draw_.integers(len(EXTREME))]
                bits = 8 if name in ("op", "how") else unsigned.get(name, 0)
                row[name] = value % (1 << bits) if bits else value
    if seed % 2:
        wrong = {"model": ["x"], "title": 7, "time": float("nan"), "transport": None}
        spec.run["device"] |= {"emulated": wrong, "kept_time": {"is_kept": "no", "late_p99_ns": "x"}}
    path = spec.write(tmp_path / "r")
    run = open_run(path)
    results = measure(run, load_tables(run))
    for disk in results.disks.disks if results.disks is not None else []:
        assert all(0 <= ns <= disk.span_ns for ns in disk.state_ns.values())
        assert sum(disk.state_ns.values()) == disk.span_ns
        for series in disk.series.values():
            assert np.isfinite(series).all() and (series >= 0).all() and (series <= 1 + 1e-9).all()
    for panel in (disk_time.PANEL, head_position.PANEL):
        if results.disks is not None:
            panel.draw(Figure().subplots(), Graph(run, results))
    if seed < 2:
        make_report(path)
