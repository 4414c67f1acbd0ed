# SPDX-License-Identifier: BSD-2-Clause
"""The fio workloads: laying out is a phase of its own, and fio's figures are those of its JSON."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.workloads.conftest import plan
from tests.workloads.programs import lines, run
from workloads import catalog
from workloads.plan.planner import TREE

FIO_PHASES = TREE / "build/generators/fio_phases"
NAMES = [name for name in catalog.names() if catalog.load(name).generator == "fio_phases"]
SIZE = 4 << 20
# Prints its words, and makes of what $SAYS has the file that --output= names; $FAILS: what it ends with.
FAKE = """#!/bin/sh
printf '%s\\n' "$*" >>"$WORDS"
for word; do case $word in
--output=*) output=${word#--output=};;
--create_only=1) [ -z "$LAYS_OUT" ] || head -c "$LAYS_OUT" /dev/zero >file; sync file; sleep 0.2;;
esac; done
[ "$output" = /dev/null ] || { cat "$SAYS" >"$output"; sleep 0.3; }
[ -z "$FAILS" ] || { echo "$FAILS" >&2; exit 1; }
"""


def facts_of(direction: dict[str, Any], seconds: float) -> dict[str, Any]:
    """A row of what fio's JSON says of a direction, or of its fsyncs."""
    times = direction.get("clat_ns", direction.get("lat_ns", {}))

    def us(ns: float | None) -> Any:
        return "-" if ns is None else pytest.approx(ns / 1e3, abs=1e-3)

    return {
        "requests": direction["total_ios"],
        "bytes": direction.get("io_bytes", 0),
        "runtime_s": pytest.approx(seconds, abs=1e-3),
        "requests_per_s": pytest.approx(direction["total_ios"] / seconds, rel=1e-5),
        "MB_per_s": pytest.approx(direction.get("io_bytes", 0) / 1e6 / seconds, rel=1e-5),
        "mean_us": us(times.get("mean")),
        "p50_us": us(times.get("percentile", {}).get("50.000000")),
        "p99_us": us(times.get("percentile", {}).get("99.000000")),
        "max_us": us(times.get("max")),
    }


@pytest.mark.parametrize("name", NAMES)
def test_the_fio_workloads_run_and_report(name: str, tmp_path: Path) -> None:
    # direct=0: a tmpfs has no direct I/O
    words = f"--size={SIZE} --direct=0 --loops=3"
    words += " --runtime=1" if any("runtime" in w for w in catalog.load(name).scales["quick"].args) else ""
    decided = plan(trial=False, FS="ext4", WL=name, SCALE="quick", ARGS=words)
    raw, work = tmp_path / "raw", tmp_path / "work dir"
    raw.mkdir()
    work.mkdir()
    program, *arguments = decided.command_in(work, raw)
    assert Path(program) == FIO_PHASES
    before_ns = time.monotonic_ns()
    done = run(
        FIO_PHASES, *arguments, SEEKMETER_DIR=work,
        SEEKMETER_PHASES=raw / "phases.jsonl", SEEKMETER_FIGURES=raw / "figures.jsonl",
    )  # fmt: skip
    after_ns = time.monotonic_ns()
    assert (done.returncode, done.stderr) == (0, "")
    said = json.loads((raw / "fio.json").read_text())  # as fio wrote it
    (job,) = said["jobs"]
    assert job["error"] == 0
    (size,) = [path.stat().st_size for path in work.iterdir()]
    assert 0 < size <= SIZE  # random writes come to its last block by chance
    assert size == SIZE or name == "fio-syncwrite"

    phases = lines(raw / "phases.jsonl")
    assert tuple(phase["name"] for phase in phases) == catalog.load(name).phases
    times = [time for phase in phases for time in (phase["start_ns"], phase["end_ns"])]
    assert before_ns < times[0] and times == sorted(times) and times[-1] < after_ns
    if name == "fio-randread":
        assert phases[0]["bytes"] == SIZE
    measured = phases[-1]
    assert measured["bytes"] == job["read"]["io_bytes"] + job["write"]["io_bytes"] > 0
    assert measured["ops"] == job["read"]["total_ios"] + job["write"]["total_ios"]
    runtime_ms = max(job["read"]["runtime"], job["write"]["runtime"])
    assert measured["end_ns"] - measured["start_ns"] == runtime_ms * 1_000_000

    figures = lines(raw / "figures.jsonl")
    rows = [figure for figure in figures if figure["table"] == "fio"]
    expected = [
        {
            "table": "fio",
            "job": job["jobname"],
            "direction": of,
            **facts_of(job[of], job[of]["runtime"] / 1e3),
        }
        for of in ("read", "write")
        if job[of]["total_ios"]
    ]
    if job["sync"]["total_ios"]:
        seconds = runtime_ms / 1e3
        row = {"table": "fio", "job": job["jobname"], "direction": "fsync", **facts_of(job["sync"], seconds)}
        expected.append(row)
    assert rows == expected
    alone = {key: value for figure in figures if figure["table"] == "" for key, value in figure.items()}
    assert alone["fio_version"] == said["fio version"]
    direction = "read" if job["read"]["total_ios"] else "write"
    assert alone[f"fio_{direction}_p99_us"] == rows[0]["p99_us"]
    assert alone[f"fio_{direction}_MB_per_s"] == rows[0]["MB_per_s"]
    assert (job["sync"]["total_ios"] > 0) == ("fio_fsync_p99_us" in alone) == (name == "fio-syncwrite")


@pytest.fixture
def fake(tmp_path: Path) -> Path:
    """A directory of programs with a fio of its own."""
    place = tmp_path / "programs"
    place.mkdir()
    (place / "fio").write_text(FAKE)
    (place / "fio").chmod(0o755)
    return place


def faked(
    fake: Path, json_text: str, lays_out: str = "", fails: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run fio_phases on it, in fake/work. What it leaves lies in fake."""
    work = fake / "work"
    work.mkdir(exist_ok=True)
    (fake / "says").write_text(json_text)
    return run(
        Path("/usr/bin/env"), "-C", work, FIO_PHASES, "--name=a b", f"--output={fake / 'out.json'}",
        "--output-format=normal", SEEKMETER_DIR=work, PATH=f"{fake}:{os.environ['PATH']}",
        SEEKMETER_PHASES=fake / "phases", SEEKMETER_FIGURES=fake / "figures", SAYS=fake / "says",
        WORDS=fake / "words", LAYS_OUT=lays_out, FAILS=fails,
    )  # fmt: skip


def direction(requests: int, runtime_ms: int) -> dict[str, Any]:
    """A direction of fio's JSON, without percentiles."""
    return {"total_ios": requests, "io_bytes": requests * 10, "runtime": runtime_ms, "clat_ns": {"mean": 5e3}}


def test_jobs_beside_each_other_and_one_after_the_other(fake: Path) -> None:
    jobs = [
        {"jobname": 'a"\\\n', "groupid": 0, "read": direction(10, 100), "write": direction(5, 120)},
        {"jobname": "beside", "groupid": 0, "read": direction(20, 110)},
        {"jobname": "after", "groupid": 1, "write": direction(40, 50), "sync": {"total_ios": 7}},
    ]
    text = "fio: something odd\n" + json.dumps({"fio version": "fio-9", "jobs": jobs}, indent=1) + "\nbye\n"
    done = faked(fake, text)
    assert (done.returncode, done.stderr) == (0, "")
    layout, measured = (fake / "words").read_text().splitlines()
    assert layout.startswith("--name=global --create_only=1 --name=a b ")
    assert layout.endswith(" --output=/dev/null --output-format=json")
    assert measured.endswith(f" --output={fake / 'out.json'} --output-format=json")
    assert "create_only" not in measured
    (phase,) = lines(fake / "phases")  # nothing was laid out
    assert (phase["name"], phase["ops"], phase["bytes"]) == ("measured", 75, 750)
    assert phase["end_ns"] - phase["start_ns"] == 170_000_000
    figures = lines(fake / "figures")
    rows = [(row["job"], row["direction"], row["requests"]) for row in figures if row["table"] == "fio"]
    assert rows == [
        ("a___", "read", 10),
        ("a___", "write", 5),
        ("beside", "read", 20),
        ("after", "write", 40),
        ("after", "fsync", 7),
    ]
    first = next(row for row in figures if row["table"] == "fio")
    assert (first["mean_us"], first["p50_us"], first["p99_us"], first["max_us"]) == (5, "-", "-", "-")
    assert not any(name.startswith("fio_read") for row in figures for name in row)  # of several: in no sum


def test_layout_is_a_phase(fake: Path) -> None:
    said = {"jobs": [{"jobname": "x", "groupid": 0, "read": direction(3, 100)}]}
    for bytes_there in (100_000, 100_000):  # the second time all is there
        assert faked(fake, json.dumps(said), lays_out=str(bytes_there)).returncode == 0
    names = [(phase["name"], phase["bytes"]) for phase in lines(fake / "phases")]
    assert names == [("layout", 100_000), ("measured", 30), ("measured", 30)]
    layout = lines(fake / "phases")[0]
    assert layout["end_ns"] - layout["start_ns"] >= 200_000_000


def test_failing_fio_is_reported_with_its_message(fake: Path) -> None:
    why = "fio: io_u error on file /x/randread.0.0: No space left on device: write offset=4096, buflen=4096"
    done = faked(fake, "{}", fails=why)
    assert done.returncode == 1
    assert done.stderr == (
        "seekmeter: fio failed (exit status 1, layout): io_u error on file /x/randread.0.0: "
        "No space left on device; give a larger disk (SIZE=) or a smaller SCALE=\n"
    )
    assert not (fake / "phases").read_text()


@pytest.mark.parametrize("text", ["", '{"jobs": []}', '{"jobs": {}}', "[" * 1000, '{"jobs": 7}'])
def test_json_without_a_job_is_refused(fake: Path, text: str) -> None:
    done = faked(fake, text)
    assert done.returncode == 1
    assert "out.json: has no jobs; give fio a job" in done.stderr


NO_JSON = ("{", "noise {" + "[" * 9999, '{"jobs": [{"read"', '{"jobs": [NaN]}', "{\0}")


@pytest.mark.parametrize("text", NO_JSON)
def test_invalid_json_is_refused(fake: Path, text: str) -> None:
    done = faked(fake, text)
    assert done.returncode == 1
    assert "out.json: is no JSON (" in done.stderr


def test_missing_output_option_is_reported() -> None:
    done = run(FIO_PHASES, "--name=x")
    assert done.returncode == 2
    assert done.stderr.startswith("seekmeter: fio_phases: give --output=FILE and fio's options")
