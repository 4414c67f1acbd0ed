# SPDX-License-Identifier: BSD-2-Clause
"""COLLECT=perf against perf report, a program whose CPU time is known, and the kernel's own counters."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import signal
import subprocess
from math import sqrt
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from collectors import perf, perf_samples
from tests.collectors.recording import (
    EMULATED,
    TICK_NS,
    compile_program,
    needs_root,
    read_table,
    stolen_ns,
)
from tests.collectors.sessions import Job, Run, wait_for
from workloads.errors import RunError
from workloads.machines.choice import GUEST

SECONDS = 60 * (15 if EMULATED else 1)
PHASE_MS = 1000
SIGMAS = 5  # of a count of samples: by chance more once in a million
HERTZ = perf.hertz(os.cpu_count() or 1)
PERIOD_NS = 10**9 // HERTZ


@pytest.fixture(autouse=True)
def as_a_machine_as_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inside a virtual machine too: sessions with disks of their own."""
    monkeypatch.delenv(GUEST, raising=False)


def run_job(out: Path, **words: str) -> Run:
    """A run that is good, and leaves nothing."""
    job = Job("trace", out, None, **words)
    assert job.end(SECONDS) == 0, job.said
    assert job.left_behind() == []
    return job.run


def samples_of(run: Run) -> tuple[npt.NDArray[np.void], dict[int, list[str]]]:
    """The samples, and the functions of each call path, innermost first."""
    table = read_table(run.path / "raw/perf/cpu_sample.rec")[1]
    lines = (run.path / "raw/perf/cpu_stack.jsonl").read_text().splitlines()
    return table, {line["stack_id"]: line["frames"] for line in map(json.loads, lines)}


def cpu_ns_at_the_end_of(child: subprocess.Popen[bytes]) -> int:
    """Wait for it; the CPU time that it used."""
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    return int((used.ru_utime + used.ru_stime) * 1e9)


def statistics(run: Run) -> int:
    """Samples in perf.data by perf report, which must not mind whose file it is."""
    data = run.path / "raw/perf.data"
    done = subprocess.run(
        ["perf", "report", "--stats", "-i", data], capture_output=True, text=True, check=True
    )
    found = re.search(r"cpu-clock stats:\s+SAMPLE events:\s+(\d+)", done.stdout)
    assert found, done.stdout
    return int(found[1])


@needs_root
def test_known_split_by_phase_and_whose(tmp_path: Path) -> None:
    program = compile_program("seventy_thirty", tmp_path)
    command = f"(nice {program} 1 >other; true); exec {program} {PHASE_MS}"
    # Another one beside it, started by nobody of the workload's.
    phases = tmp_path / "phases"
    noise = subprocess.Popen(
        [program, str(10**9)],
        env={**os.environ, "SEEKMETER_PHASES": str(phases)},
        stdout=subprocess.DEVNULL,
    )
    try:
        stolen_s = -stolen_ns() / 1e9
        run = run_job(tmp_path / "run", DIR=str(tmp_path), COLLECT="counters perf", CMD=command)
        stolen_s += (stolen_ns() + TICK_NS * (os.cpu_count() or 1)) / 1e9
    finally:
        noise.kill()
        noise_ns = cpu_ns_at_the_end_of(noise)
    table, stacks = samples_of(run)
    source = run.losses["collectors"]["perf"]
    assert source["state"] == "on"
    assert source["lost"] == {"ring full": 0, "not understood": 0}
    assert source["seen"] == source["recorded"] == len(table) == statistics(run)
    assert 0 < source["cpu_ns"] < 60e9
    assert (np.diff(table["t_ns"].astype(np.int64)) >= 0).all()
    assert (table["period_ns"] == PERIOD_NS).all()

    # All CPUs, idle or not, so often a second as it should be: never oftener from first to last sample,
    # and nearly as often from when it had begun until it was told to end, but when the CPUs were stolen.
    facts, cpus = run.facts["perf"], os.cpu_count() or 1
    assert len(table) <= (int(table["t_ns"][-1] - table["t_ns"][0]) / PERIOD_NS + 1) * cpus
    wanted = (facts["stop_ns"] - facts["start_ns"]) / PERIOD_NS * cpus
    assert len(table) > 0.9 * wanted - cpus - stolen_s * HERTZ

    # The workload's CPU time is what its own clock says; the other one's is none of it.
    inside = table[table["in_workload"] == 1]
    own_ns = int(run.output.split()[-1])
    mine = inside[np.char.startswith(inside["comm"], b"seventy_thirty")]
    expected = own_ns / PERIOD_NS
    assert abs(len(mine) - expected) < SIGMAS * sqrt(expected) + 0.03 * expected + stolen_s * HERTZ
    others = table[(table["in_workload"] == 0) & np.char.startswith(table["comm"], b"seventy_thirty")]
    assert set(np.unique(others["pid"])) == {noise.pid}
    expected = noise_ns / PERIOD_NS  # also before and after the recording
    assert 0 < len(others) < 1.03 * expected + SIGMAS * sqrt(expected) + stolen_s * HERTZ
    assert noise.pid not in inside["pid"]

    # 7 to 3 in one phase, one function alone in the other.
    known = run.phases[:4]  # of the short one, then of this; the session's own come last
    assert [phase["name"] for phase in known] == ["mixed", "alone"] * 2
    for phase in known[2:]:
        then = mine[(mine["t_ns"] >= phase["start_ns"]) & (mine["t_ns"] < phase["end_ns"])]
        user = [stacks[row["stack_id"]][0] for row in then if row["mode"] == 0 and row["stack_id"] >= 0]
        seventy, thirty = user.count("spend_seventy"), user.count("spend_thirty")
        both = seventy + thirty
        if phase["name"] == "mixed":
            assert abs(seventy / both - 0.7) < SIGMAS * sqrt(0.7 * 0.3 / both)
        else:
            assert seventy > 0
            assert thirty == 0

    report = run.report()
    told = report[report.index("WHERE THE CPU WENT") :]
    found = re.search(r"by /proc/stat\s+(\S+) (m?s); by samples of the same time\s+(\S+) (m?s)", told)
    assert found, told
    counted, sampled = float(found[1]), float(found[3])
    assert found[2] == found[4] == "s"
    assert abs(sampled - counted) <= 0.1 * counted + stolen_s
    assert re.search(r"^  mixed .*\n", told, re.MULTILINE)
    # The folded stacks are all busy time, to rounding; perf samples on for a moment after the recorded time.
    folded = (run.path / "on_cpu.folded").read_text().splitlines()
    us = sum(int(line.rpartition(" ")[2]) for line in folded)
    clock = run.facts["clock"]
    recorded = (table["t_ns"] >= clock["record_start_ns"]) & (table["t_ns"] <= clock["record_end_ns"])
    busy = int((recorded & (table["mode"] != 2)).sum())
    assert abs(us - busy * PERIOD_NS / 1e3) <= 2
    assert any(line.startswith("seventy_thirty;") and ";spend_seventy" in line for line in folded)
    assert "<svg" in (run.path / "on_cpu.svg").read_text()[:200]


@needs_root
def test_kernel_functions_and_the_file_system(tmp_path: Path) -> None:
    command = "dd if=/dev/zero of=f bs=64k count=2000 conv=fsync status=none"
    run = run_job(tmp_path / "run", FS="ext4", SIZE="1G", COLLECT="block perf", CMD=command)
    table, stacks = samples_of(run)
    mine = table[(table["in_workload"] == 1) & (table["comm"] == b"dd")]
    frames = {name for row in mine for name in stacks.get(int(row["stack_id"]), [])}
    assert any(name.startswith("ext4_") and name.endswith("_[k]") for name in frames)
    assert any("write" in name and name.endswith("_[k]") for name in frames)
    kernel = (mine["mode"] == 1).sum()
    assert kernel > 0.5 * len(mine)  # all that it does is system calls


@needs_root
def test_it_cannot_sample(tmp_path: Path) -> None:
    """The run goes on, and says why there are no samples, and what to do."""
    place = tmp_path / "bin"
    place.mkdir()
    (place / "perf").write_text("#!/bin/sh\necho 'Error: no samples for you' >&2\nexit 255\n")
    (place / "perf").chmod(0o755)
    job = Job("trace", tmp_path / "run", place, DIR=str(tmp_path), COLLECT="counters perf", CMD="true")
    assert job.end(SECONDS) == 0, job.said
    assert job.left_behind() == []
    source = job.run.losses["collectors"]["perf"]
    assert source["state"] == "off"
    assert "no samples for you" in source["why"]
    assert source["remedy"]
    report = " ".join(job.run.report().split())
    assert "not available: perf cannot sample (Error: no samples for you)" in report
    words = "perf is off (no CPU samples): perf cannot sample (Error: no samples for you)"
    assert report.index(f"!! {words}") < report.index("WHAT WAS RUN")
    assert f"- {words}" in report[report.index("WARNINGS AND GAPS") :]
    assert not (job.run.path / "on_cpu.svg").exists()


@needs_root
@pytest.mark.parametrize("who", ["perf", "session"])
def test_killed(who: str, tmp_path: Path) -> None:
    job = Job("trace", tmp_path / "run", None, DIR=str(tmp_path), COLLECT="perf", CMD="sleep 600")
    job.until("workload")

    def sampler() -> list[int]:
        return [pid for pid, text in job.commands_by_pid().items() if "\0record\0" in text]

    if who == "perf":
        os.kill(sampler()[0], signal.SIGKILL)
        job.until("WARNING")
        os.kill(job.process.pid, signal.SIGINT)
        assert job.end(SECONDS) == 1
        assert "perf ended early" in job.said
        assert any("perf" in warning for warning in job.run.facts["warnings"])
        assert job.run.losses["collectors"]["perf"]["ended_early"] is True
        report = " ".join(job.run.report().split())
        assert report.index("!! perf ended early: figures cover") < report.index("WHAT WAS RUN")
    else:
        job.process.kill()
        job.process.wait()
        wait_for(lambda: not sampler(), SECONDS)  # by itself, and in order
        assert statistics(job.run) > 0
        later = Job("trace", tmp_path / "later", None, DIR=str(tmp_path), COLLECT="none", CMD="true")
        assert later.end(SECONDS) == 0, later.said
        job.process.communicate()
    wait_for(lambda: job.left_behind() == [], SECONDS)


@needs_root
def test_samples_that_are_lost_are_counted(tmp_path: Path) -> None:
    """perf record with hardly any room beside a storm of short programs, whose notes are lost as well.

    Samples and notes are counted apart, and together they are what perf's own warning says.
    """
    data = tmp_path / "perf.data"
    argv: list[str | Path] = [
        "perf",
        "record",
        "-a",
        "-g",
        "-e",
        "cpu-clock",
        "-F",
        "20000",
        "-m",
        "1",
        "-N",
        "-o",
        data,
    ]
    one = "(j=0; while [ $j -lt 150 ]; do /bin/true; j=$((j+1)); done)"
    storm = f"{one} & {one} & {one} & {one} & wait"
    done = subprocess.run([*argv, "--", "sh", "-c", storm], capture_output=True, text=True, check=True)
    counts = perf_samples.convert(data, tmp_path / "perf", 50_000, None)
    rows = len(read_table(tmp_path / "perf/cpu_sample.rec")[1])
    assert counts.samples == rows > 100
    assert counts.not_read == 0
    said = re.search(r"Processed (\d+) samples and lost ([\d.]+)%", done.stderr)
    if said:
        # perf counts what it processed as the samples it has and all that was lost, and the share to 0.01 %.
        processed, share = int(said[1]), float(said[2]) / 100
        assert counts.samples + counts.lost + counts.lost_notes == processed
        assert abs(counts.lost + counts.lost_notes - share * processed) <= 0.00005 * processed + 1
        assert counts.lost > 0
    else:  # what perf warns of is more
        lost = counts.lost + counts.lost_notes
        assert lost <= 0.05 * (lost + counts.samples)


@needs_root
def test_a_file_of_anothers_is_not_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = tmp_path / "perf.data"
    argv = ["perf", "record", "-a", "-g", "-e", "cpu-clock", "-N", "-o", str(data), "--", "true"]
    subprocess.run(argv, capture_output=True, check=True)
    os.chown(data, 61234, 61234)
    with pytest.raises(RunError, match="not owned by current user"):
        perf_samples.convert(data, tmp_path / "perf", 50_000, None)
    monkeypatch.setenv(GUEST, str(tmp_path))  # where all files are the host's user's
    perf_samples.convert(data, tmp_path / "perf", 50_000, None)


def test_odd_names_and_frames() -> None:
    text = (
        "my (odd) [1] na  12/13 [001]   36829.398993284: cpu-clock: \n"
        "\tffffffff81b1b774 ext4_map ([ext4])\n"
        "\tffffffff81b1b774 helper (/lib/modules/6/kernel/fs/xfs/xfs.ko.xz)\n"
        "\t            1234 std::map<int, (x)>::f(int) (/usr/lib/lib c++.so)\n"
        "\t            5678 [unknown] (/usr/bin/stripped (deleted))\n"
        "\t            5678 main (/tmp/my (odd) [1] name)\n"
        "\t               0 [unknown] ([unknown])\n"
        "\n"
        "sh 7/7 [000] 1.000000001: PERF_RECORD_FORK(12:12):(7:7)\n"
        "a 12/12 [000] 1.000000002: PERF_RECORD_LOST lost 5\n"
        "b 12/12 [000] 1.000000003: cpu-clock: \n"
        "\n"
        "swapper 0/0 [000] 1.000000004: cpu-clock: \n"
        "\tffffffff81b1b774 pv_native_safe_halt ([kernel.kallsyms])\n"
        "\n"
        "swapper 0/0 [000] 1.000000005: cpu-clock: \n"
        "\tffffffff81b1b774 blk_done_softirq ([kernel.kallsyms])\n"
        "\tffffffff81b1b774 handle_softirqs ([kernel.kallsyms])\n"
        "\tffffffff81b1b774 pv_native_safe_halt ([kernel.kallsyms])\n"
    )
    rows, stacks = io.BytesIO(), io.StringIO()
    counts = perf_samples._Reader(rows, stacks, PERIOD_NS, 12).read(io.StringIO(text))
    assert (counts.samples, counts.idle, counts.workload, counts.no_stack, counts.lost) == (4, 1, 1, 1, 5)
    found = [json.loads(line)["frames"] for line in stacks.getvalue().splitlines()]
    assert found[0][:3] == ["ext4_map_[k]", "helper_[k]", "std::map<int, (x)>::f(int)"]
    assert found[0][3:] == ["[stripped (deleted)]", "main"]
    assert len(found) == 3
    row = perf_samples._ROW.unpack(rows.getvalue()[: perf_samples._ROW.size])
    assert row[:6] == (36829398993284, 12, 13, 0, 1, 1)
    assert row[7].rstrip(b"\0") == b"my (odd) [1] na"


def test_the_program_is_there() -> None:
    assert shutil.which("perf"), "make test installs linux-perf"
