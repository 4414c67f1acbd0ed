# SPDX-License-Identifier: BSD-2-Clause
"""dbench: phases and figures against what dbench itself printed; a full disk; ended early, none is left."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.collectors.loop_disk import tmpfs
from tests.collectors.sessions import wait_for
from tests.marks import needs_root
from tests.workloads.conftest import each_filesystem, filesystem_of, open_disk, plan
from tests.workloads.programs import (
    FAILING_WRITES,
    clear_error,
    compile_generator,
    lines,
    lying_library,
    marked,
    read_only,
    run,
)
from workloads import catalog, filesystems
from workloads.cleanup.janitor import Janitor

OPERATION = re.compile(r"^ (\w+) +(\d+) +([\d.]+) +([\d.]+)$", re.MULTILINE)
LATER = re.compile(r"^ +\d+ .*\b(warmup|execute|cleanup) +(\d+) sec", re.MULTILINE)
RESULT = re.compile(r"^Throughput ([\d.]+) MB/sec .* max_latency=([\d.]+) ms$", re.MULTILINE)


@pytest.fixture(scope="module")
def dbench(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The generator, compiled as the Makefile does it."""
    return compile_generator("dbench", tmp_path_factory.mktemp("program"))


def test_phases_and_results_match_dbenchs_output(dbench: Path, ram: Path) -> None:
    files = {"SEEKMETER_PHASES": ram / "phases", "SEEKMETER_FIGURES": ram / "figures"}
    start_ns = time.monotonic_ns()
    done = run(dbench, "-D", ram, "-t", 2, "-T", 5, **files)
    end_ns = time.monotonic_ns()
    assert (done.returncode, done.stderr) == (0, "")
    (throughput, latency) = RESULT.findall(done.stdout)[0]
    *operations, figures, own = lines(ram / "figures")
    assert 0 < own["own_user_cpu_s"] <= (end_ns - start_ns) / 1e9 * 2
    assert figures == {
        "table": "",
        "dbench_processes": 2,
        "dbench_MB_per_s": float(throughput),
        "dbench_max_latency_ms": float(latency),
    }
    said = [
        (name, int(n), float(mean), float(most)) for name, n, mean, most in OPERATION.findall(done.stdout)
    ]
    assert [(o["operation"], o["count"], o["mean_ms"], o["longest_ms"]) for o in operations] == said
    assert len(said) > 10
    phases = lines(ram / "phases")
    assert [phase["name"] for phase in phases] == list(catalog.load("dbench").phases)
    warmup, measured, cleanup = phases
    assert start_ns < warmup["start_ns"] < warmup["end_ns"] == measured["start_ns"]
    assert measured["end_ns"] == cleanup["start_ns"] < cleanup["end_ns"] < end_ns
    # A fifth of 5 s, then 5 s, each to its next look: once a second, or when it has a CPU. Its own seconds
    # are whole: the border between the two is found to half a second either way, and so is the end.
    said_s: dict[str, int] = {}
    for name, seconds in LATER.findall(done.stdout):
        said_s[name] = int(seconds) if name != "cleanup" else said_s.get(name, int(seconds))  # its first
    assert 0.5 < (warmup["end_ns"] - warmup["start_ns"]) / 1e9 < said_s.get("warmup", 0) + 3.5
    measured_s = (measured["end_ns"] - measured["start_ns"]) / 1e9
    assert measured_s > 4.5 and abs(measured_s - said_s["cleanup"]) < 1.5
    assert measured["ops"] == sum(count for _, count, _, _ in said)
    rate = measured["bytes"] / 1e6 / ((measured["end_ns"] - measured["start_ns"]) / 1e9)
    assert rate == pytest.approx(float(throughput), rel=1e-3)


def test_no_warm_up_begins_and_ends_at_the_release(dbench: Path, ram: Path) -> None:
    """With less than 5 s there is none, whenever the first line comes."""
    program = ram / "dbench"
    program.write_text(
        "#!/bin/sh\necho releasing clients; sleep 0.1\n"
        "echo '   4  100  10.00 MB/sec  execute   1 sec  latency 1.0 ms'; sleep 0.1\n"
        "echo '   4  cleanup   2 sec'\n"
        "echo 'Throughput 10.00 MB/sec  4 clients  4 procs  max_latency=1.000 ms'\n"
    )
    program.chmod(0o755)
    path = f"{ram}:{os.environ['PATH']}"
    done = run(dbench, "-D", ram, "-t", 4, "-T", 2, PATH=path, SEEKMETER_PHASES=ram / "phases")
    assert (done.returncode, done.stderr) == (0, "")
    warmup, measured, _ = lines(ram / "phases")
    assert warmup["start_ns"] == warmup["end_ns"] == measured["start_ns"]


@needs_root
@pytest.mark.parametrize("fs", each_filesystem())
def test_workload_runs_on_every_filesystem(dbench: Path, fs: str, janitor: Janitor, tmp_path: Path) -> None:
    decided = plan(FS=fs, SIZE="1G", words={"WL": "dbench", "SCALE": "quick"})
    with open_disk(decided, janitor) as disk:
        filesystems.format(filesystem_of(decided), disk, janitor)
        target = tmp_path / "mnt"
        target.mkdir()
        filesystems.mount(filesystem_of(decided), disk, target, janitor)
        done = run(dbench, "-D", target, "-t", 4, "-T", 2)
        assert (done.returncode, done.stderr) == (0, "")
        assert not any(path.is_file() for path in target.rglob("*"))  # it cleans up
        filesystems.unmount(target, janitor)
        clean, said = filesystems.fsck(filesystem_of(decided), disk)
        assert clean, said


@pytest.mark.root
def test_full_disk_is_one_error_and_ends_all(dbench: Path, tmp_path: Path) -> None:
    with tmpfs(tmp_path / "full", "8m") as place:
        begin = time.monotonic()
        done = run(dbench, "-D", place, "-t", 3, "-T", 60)
        assert time.monotonic() - begin < 50  # and not until the others' time is over
    assert done.returncode == 1
    assert done.stderr.startswith("seekmeter: dbench failed: [")
    assert done.stderr.endswith("; give a larger disk (SIZE=) or fewer processes (THREADS=)\n")
    assert done.stderr.count("\n") == 1


@pytest.mark.root
def test_io_error_and_read_only_disk_are_reported(dbench: Path, tmp_path: Path) -> None:
    with tmpfs(tmp_path / "bad", "64m") as place:
        lies = lying_library(tmp_path, FAILING_WRITES)
        error = clear_error(run(dbench, "-D", place, "-t", 2, "-T", 9, LD_PRELOAD=lies, MARK=str(tmp_path)))
        assert error.startswith("seekmeter: dbench failed: [") and "Input/output error" in error
        wait_for(lambda: marked(f"MARK={tmp_path}") == 0)
    with tmpfs(tmp_path / "bad", "1m") as place:
        read_only(place)
        assert "read-only file system" in clear_error(run(dbench, "-D", place))


def test_no_memory_errors(ram: Path, tmp_path: Path) -> None:
    program = compile_generator(
        "dbench", tmp_path, "-fsanitize=address,undefined", "-fno-sanitize-recover=all"
    )
    done = run(program, "-D", ram, "-t", 2, "-T", 1, "-c", "/usr/share/dbench/client.txt", "--", "-s")
    assert done.stderr in ("", "seekmeter: dbench: the warm-up did not end in time; give more seconds (-T)\n")


def test_early_end_kills_all_processes(dbench: Path, ram: Path) -> None:
    mark = f"SEEKMETER_TEST_MARK={ram}"
    process = subprocess.Popen(
        [dbench, "-D", ram, "-t", "3", "-T", "60"],
        stdout=subprocess.DEVNULL,
        env={**os.environ, "SEEKMETER_TEST_MARK": str(ram)},
    )

    wait_for(lambda: marked(mark) == 5)  # itself, dbench, three processes
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == -signal.SIGTERM
    wait_for(lambda: marked(mark) == 0)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-t", "0"], "-t '0' is not a number that can be used; give one from 1 to 1000"),
        (["-x"], "unknown option -x"),
        (["-s", "1"], "unknown option -s"),
        (["--", *["-s"] * 21], "more than 20 options after --"),
        (["fast"], "unknown argument fast"),
        (["-T"], "-T needs a value"),
    ],
)
def test_wrong_value_names_a_remedy(dbench: Path, tmp_path: Path, words: list[str], message: str) -> None:
    done = run(dbench, "-D", tmp_path, *words)
    assert done.returncode == 2
    assert done.stderr.startswith("seekmeter: ") and message in done.stderr


def test_missing_load_file_is_reported(dbench: Path, ram: Path) -> None:
    done = run(dbench, "-D", ram, "-T", 1, "-c", "/nowhere")
    assert done.returncode == 1
    assert done.stderr.startswith("seekmeter: dbench failed: dbench: error opening '/nowhere'")
