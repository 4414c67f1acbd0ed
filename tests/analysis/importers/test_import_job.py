# SPDX-License-Identifier: BSD-2-Clause
"""make import: values of TRACE=, the run directory, and the report of an imported run."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import re
import signal
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import numpy as np
import pytest

from analysis.__main__ import main
from analysis.importers.blktrace import find_files
from analysis.importers.trace import import_trace
from analysis.measures.results import measure
from analysis.render import text
from analysis.rundir.run import open_run
from analysis.sections.document import make_document
from analysis.tables.load import load_tables
from analysis.tables.volume import bio_ids
from tests.analysis.importers.blktrace_files import (
    AHEAD,
    FLUSH,
    FS,
    READ,
    WRITE,
    Event,
    dev,
    numbered,
    process_note,
    remap_pdu,
    timestamp_note,
    write_cpus,
    write_dump,
)
from tests.analysis.importers.blktrace_requests import NAMES, Requests
from tests.analysis.importers.test_text_formats import snoop_rows

START_NS = 10**12
TRACES = ["sda", "sda.blktrace.0", "sda.blktrace", "sda.blktrace.2", "."]


def run_job(cwd: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """What python -m analysis does, from a folder of the test's own; without a second's start each time."""
    with contextlib.chdir(cwd), redirect_stdout(StringIO()) as said, redirect_stderr(StringIO()) as errors:
        code = main(list(words))
    return subprocess.CompletedProcess(words, code, said.getvalue(), errors.getvalue())


def imported(cwd: Path, trace: str) -> str:
    """Import a trace as `run`; return the report's text alone, without its figures."""
    with contextlib.chdir(cwd):
        run = open_run(import_trace(Path(trace), Path("run")))
        tables = load_tables(run)
        return text.render(make_document(run, tables, measure(run, tables)))


def events() -> list[Event]:
    notes = [process_note(START_NS - 1, pid, name) for pid, name in NAMES.items()]
    clock = timestamp_note(START_NS - 1, 1_700_000_000, 0, "<")
    return numbered([*notes, clock, *Requests(1, dev(8, 0)).events])


@pytest.mark.parametrize("name", TRACES)
def test_every_name_of_a_trace_imports_all_its_files(tmp_path: Path, name: str) -> None:
    paths = write_cpus(tmp_path / "traces", "sda", events())
    (tmp_path / "traces" / "report.txt").touch()
    (tmp_path / "traces" / "sda.blktrace.x").touch()
    found, files = find_files(tmp_path / "traces" / name)
    assert files == paths and len(files) == 4
    assert found == ("traces" if name == "." else "sda")


def test_trace_becomes_a_complete_run(tmp_path: Path) -> None:
    write_cpus(tmp_path / "traces", "sda", events())
    done = run_job(tmp_path, "import", "traces/sda")
    assert done.returncode == 0, done.stderr
    run = (tmp_path / "runs" / "latest").resolve()
    assert run.parent == (tmp_path / "runs").resolve() and "import" in run.name
    facts = json.loads((run / "run.json").read_text())
    assert facts["state"] == "complete" and facts["command"] == "make import TRACE=traces/sda"
    assert facts["device"]["name"] == "sda" and facts["device"]["dev"] == "8:0"
    assert facts["start_realtime"] == "2023-11-14T22:13:20Z"
    assert facts["imported"]["file_count"] == 4
    assert not {"filesystem", "workload", "kernel", "machine"} & facts.keys()  # nobody knows them
    said = " ".join((run / "report.txt").read_text().split())
    for words in (
        "imported from blktrace",
        "a block trace has no lock waits (remedy: record with make trace or make watch)",
        "a block trace has no file-system calls",
        "a block trace has no system counters",
        "class is unknown",
    ):
        assert words in said
    assert "its process" not in said  # the trace has it, and the tables show it
    for words in ("are not known, all numbers are marked", "no phase table", "no lock table", "not readable"):
        assert words not in said
    for file in ("report.html", "iograph.png", "iograph.svg", "tables/block.parquet", "losses.json"):
        assert (run / file).stat().st_size > 0
    again = run_job(tmp_path, "report", "runs/latest")
    assert again.returncode == 0, again.stderr
    assert "Seekmeter" in again.stdout


def test_devices_are_named_by_their_files(tmp_path: Path) -> None:
    """A volume on a disk, both traced: bios of the one, requests of the other, and which lies on which."""
    upper = [
        Event(START_NS + 1000 * i + step, action, 8 * i, 4096, READ | AHEAD, device=dev(253, 0))
        for i in range(50)
        for step, action in ((0, "Q"), (900, "C"))
    ]
    lower = [
        Event(
            START_NS + 1000 * i + step,
            action,
            8 * i + 64,
            4096,
            READ | AHEAD,
            pdu=remap_pdu(dev(253, 0), dev(8, 0), 8 * i) if action == "A" else b"",
        )
        for i in range(50)
        for step, action in ((10, "A"), (20, "Q"), (30, "D"), (800, "C"))
    ]
    write_cpus(tmp_path, "dm-0", numbered(upper))
    write_cpus(tmp_path, "sda", numbered(lower))
    report = imported(tmp_path, ".")
    assert not (tmp_path / "runs").exists()
    facts = json.loads((tmp_path / "run/run.json").read_text())
    devices = [facts["device"], *facts["more_devices"]]
    assert {device["dev"]: device["name"] for device in devices} == {"253:0": "dm-0", "8:0": "sda"}
    assert facts["stack"]["nodes"] == [
        {
            "name": name,
            "dev": number,
            "kind": kind,
            "label": name,
            "recorded": recorded,
            "why_not": "",
            "below": below,
        }
        for name, number, kind, recorded, below in (
            ("dm-0", "253:0", "volume", "bios", ["sda"]),
            ("sda", "8:0", "disk", "requests", []),
        )
    ]
    tables = load_tables(open_run(tmp_path / "run"))
    assert tables.block is not None and tables.volume is not None
    assert np.unique(tables.block.dev).tolist() == [dev(8, 0)]
    assert (tables.block.origin == bio_ids(tables.volume)).all()
    assert (tables.block.origin_dev == dev(253, 0)).all() and tables.volume.rows == 50
    assert "twice" not in report and "takes bios" not in report


def test_lost_events_mark_the_results(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    write_dump(path, events())
    path.write_bytes(path.read_bytes()[:-20])
    words = " ".join(imported(tmp_path, "trace").split())
    assert "block: 1 lost" in words and "events cut off by the end of a file" in words


@pytest.mark.parametrize(
    ("trace", "says"),
    [
        ("nothing", "neither it nor nothing.blktrace.0 is a file"),
        ("empty", "has no files NAME.blktrace.CPU"),
        ("text", "holds no event of a disk in any format known"),
        ("zero", "is empty"),
        ("fifo", "is a file"),
        ("packed", "is compressed; unpack it first (gzip -d)"),
        ("bytes", "is no block trace of a known format"),
        ("perf.data", "can't be read by perf ("),
        ("trace.dat", "holds no event of a disk in any format known"),
        ("untimed", "its events have no times in seconds"),
        ("others", "it has events, but none of a disk"),
        ("broken", "its events are not as the kernel prints them"),
        ("", "nothing to import: add TRACE="),
        ("x" * 300, ""),
    ],
)
def test_file_that_is_no_trace_is_refused(tmp_path: Path, trace: str, says: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "text").write_text("hello\n")
    (tmp_path / "zero").write_bytes(b"")
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "packed").write_bytes(gzip.compress(b"hello"))
    (tmp_path / "bytes").write_bytes(bytes(range(256)))
    (tmp_path / "perf.data").write_bytes(b"PERFILE2" + bytes(100))
    (tmp_path / "trace.dat").write_bytes(b"\x17\x08\x44tracing" + bytes(100))
    (tmp_path / "untimed").write_text(" dd-1 [000] 12345: block_rq_issue: 8,0 R 4096 () 0 + 8 [dd]\n")
    (tmp_path / "others").write_text(" dd-1 [000] 1.000001: sched_switch: prev_comm=dd\n")
    (tmp_path / "broken").write_text(" dd-1 [000] 1.000001: block_rq_issue: 8,0 R\n")
    done = run_job(tmp_path, "import", trace)
    assert done.returncode == 2, done.stderr
    assert says in done.stderr and "Traceback" not in done.stderr
    assert all(line.startswith("seekmeter: ") for line in done.stderr.splitlines())
    assert not list((tmp_path / "runs").glob("*"))  # nothing is left of it


def test_missing_perf_is_named_with_a_remedy(tmp_path: Path, tree: Path) -> None:
    """perf.data on a machine without perf: exit 3, with the remedy."""
    (tmp_path / "perf.data").write_bytes(b"PERFILE2" + bytes(100))
    done = subprocess.run(
        [sys.executable, "-m", "analysis", "import", "perf.data"],
        cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(tree), "PATH": str(tmp_path)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 3, done.stderr
    assert "perf, which is not installed" in done.stderr and "linux-perf" in done.stderr
    assert "perf script --ns" in done.stderr and "Traceback" not in done.stderr
    assert not (tmp_path / "runs").exists()


def test_biosnoop_text_becomes_a_run(tmp_path: Path) -> None:
    """biosnoop: the report has its latencies, no stage that nobody measured, and says what is not known."""
    trace, rows = snoop_rows("bcc", False)
    (tmp_path / "snoop.txt").write_text(trace + "hello\n0.1 dd 1 sda R")
    report = imported(tmp_path, "snoop.txt")
    facts = json.loads((tmp_path / "run/run.json").read_text())
    assert facts["imported"]["format"] == "biosnoop" and facts["imported"]["lines"] == len(rows) + 2
    assert {facts["device"]["name"], facts["more_devices"][0]["name"]} == {"sda", "nvme0n1"}
    losses = json.loads((tmp_path / "run/losses.json").read_text())["collectors"]["block"]
    assert losses["lost"] == {"events cut off by the end of a file": 1}
    assert losses["notes"]["lines that are no events"] == 1
    assert not (tmp_path / "run/raw/translated").exists()
    reads = sorted(row[5] - row[4] for row in rows if row[1] == "read")  # type: ignore[operator]
    slowest = f"{reads[-1] / 1e6:.3g} ms"
    assert any(
        line.split()[:3] == ["read", "D2C", str(len(reads))] and line.endswith(slowest)
        for line in report.splitlines()
    ), slowest
    figures = report[: report.index("[Q2D: queue to issue")]
    assert "Q2D" not in figures
    words = " ".join(report.split())
    assert "queue times are not known: there is no Q2D, and Q2C is D2C" in words
    assert "times count from biosnoop's first row" in words and "imported from biosnoop" in words


def test_existing_out_directory_is_refused(tmp_path: Path) -> None:
    write_dump(tmp_path / "trace", events())
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").touch()
    done = run_job(tmp_path, "import", "--out=taken", "trace")
    assert done.returncode == 2 and "taken is there already" in done.stderr


def test_interrupted_import_leaves_an_interrupted_run(tmp_path: Path, tree: Path) -> None:
    """^C while the reader reads: the run stays, called interrupted."""
    write_dump(tmp_path / "part", events())
    data = (tmp_path / "part").read_bytes()
    with (tmp_path / "trace").open("wb") as file:
        file.write(data)
        file.truncate(1 << 40)  # a hole that takes an hour to read
    started = subprocess.Popen(
        [sys.executable, "-m", "analysis", "import", "--out=run", "trace"],
        cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(tree)}, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    while not (tmp_path / "run/raw/recorder/block.rec").exists():
        assert started.poll() is None
    os.killpg(started.pid, signal.SIGINT)
    _, said = started.communicate(timeout=300)
    assert started.returncode == 1 and "Traceback" not in said, said
    facts = json.loads((tmp_path / "run/run.json").read_text())
    assert facts["state"] == "interrupted"
    assert any("interrupted" in warning for warning in facts["warnings"])
    (tmp_path / "trace").unlink()
    report = run_job(tmp_path, "report", "run")
    assert report.returncode == 0, report.stderr
    assert "this run's state is 'interrupted'" in (tmp_path / "run/report.txt").read_text()


def test_trace_of_flushes_alone_is_reported(tmp_path: Path) -> None:
    """iowatcher crashes on it. No data, so no seeks and no throughput, but the flushes' lives."""
    flush = [Event(START_NS + 10**7 * i, "Q", 0, 0, WRITE | FLUSH, 50) for i in range(20)]
    flush += [Event(e.t_ns + 100, "D", 0, 0, READ | FLUSH | FS, 7) for e in flush]
    flush += [Event(e.t_ns + 5000, "C", 0, 0, READ | FLUSH | FS, 0) for e in flush[20:]]
    write_dump(tmp_path / "dump", numbered(flush))
    done = run_job(tmp_path, "import", "--out=run", "dump")
    assert done.returncode == 0, done.stderr
    report = (tmp_path / "run/report.txt").read_text()
    assert re.search(r"^ *(flush +)?D2C +5\.00 us", report, re.MULTILINE)
    assert (tmp_path / "run/iograph.svg").stat().st_size > 0
