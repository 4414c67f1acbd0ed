# SPDX-License-Identifier: BSD-2-Clause
"""iomatrix: its work to the byte, its metrics against the cells', the disk's part, its errors and memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as parquet
import pytest

from tests.collectors.loop_disk import sectors_of, tmpfs
from tests.collectors.recording import needs_btf
from tests.collectors.sessions import finished
from tests.marks import needs_root
from tests.workloads.conftest import each_filesystem, filesystem_of, open_disk, plan
from tests.workloads.programs import (
    FAILING_WRITES,
    clear_error,
    compile_generator,
    lines,
    lying_library,
    read_only,
    run,
)
from tests.workloads.reports import report_text
from workloads import catalog, filesystems
from workloads.cleanup.janitor import Janitor

OPERATIONS = list(catalog.load("iomatrix").phases[:-1])
WORDS = ("-f", 4, "-F", 256, "-x", 4)
# file size and record size, KiB: no record is larger than its file
CELLS = [(file, record) for file in (4, 16, 64, 256) for record in (1, 4, 16, 64, 256) if record <= file]


@pytest.fixture(scope="module")
def iomatrix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The generator, compiled as the Makefile does it."""
    return compile_generator("iomatrix", tmp_path_factory.mktemp("program"))


def test_matrix_is_complete_and_metrics_are_means(iomatrix: Path, ram: Path) -> None:
    files = {"SEEKMETER_PHASES": ram / "phases", "SEEKMETER_FIGURES": ram / "figures"}
    done = run(iomatrix, "-D", ram, *WORDS, "-m", 1, **files)
    assert (done.returncode, done.stderr) == (0, "")
    rows = lines(ram / "figures")
    cells = [row for row in rows if row["table"] == "iomatrix cell"]
    assert [(c["file_kib"], c["record_kib"], c["operation"]) for c in cells] == [
        (*cell, operation) for cell in CELLS for operation in OPERATIONS
    ]
    phases = lines(ram / "phases")
    assert [phase["name"] for phase in phases] == [*OPERATIONS, "verify"] * len(CELLS)
    measured = [phase for phase in phases if phase["name"] != "verify"]
    for cell, phase in zip(cells, measured, strict=True):
        assert cell["bytes"] == phase["bytes"] == cell["file_kib"] * 1024 * cell["times"]
        assert phase["ops"] == cell["bytes"] // 1024 // cell["record_kib"]
        assert (cell["start_ns"], cell["end_ns"]) == (phase["start_ns"], phase["end_ns"])
        assert 0 < cell["measured_ns"] <= cell["end_ns"] - cell["start_ns"]
        assert cell["kib_per_s"] == pytest.approx(
            cell["bytes"] / 1024 / (cell["measured_ns"] / 1e9), rel=0.01
        )
    assert max(cell["times"] for cell in cells) > 1  # 4 KiB take less than a millisecond
    assert all(0 < cell["ino_min"] <= cell["ino_max"] for cell in cells)
    own = {name: value for row in rows if row["table"] == "" for name, value in row.items()}
    all_s = sum(phase["end_ns"] - phase["start_ns"] for phase in measured) / 1e9
    assert 0 <= own["own_user_cpu_s"] <= all_s * 1.1  # by the kernel's ticks
    chosen: dict[str, Callable[[int, int], bool]] = {  # stepan2005: records, files
        "total_average": lambda file, record: True,
        "target_average": lambda file, record: 1 <= record <= 32 and 4 <= file <= 2048,
        "ora_ta": lambda file, record: 4 <= record <= 16 and 4 <= file <= 4 << 20,
        "specfp_ta": lambda file, record: 1 <= record <= 4 and 4 <= file <= 4 << 20,
    }
    summary = {row["operation"]: row for row in rows if row["table"] == "KiB/s by operation"}
    assert list(summary) == OPERATIONS
    for operation, row in summary.items():
        speeds = {
            (c["file_kib"], c["record_kib"]): c["kib_per_s"] for c in cells if c["operation"] == operation
        }
        assert (row["maximum"], row["minimum"]) == (max(speeds.values()), min(speeds.values()))
        for metric, belongs in chosen.items():
            of = [speed for cell, speed in speeds.items() if belongs(*cell)]
            assert row[metric] == pytest.approx(sum(of) / len(of), rel=1e-6, abs=0.2)
    assert sorted(path.name for path in ram.iterdir()) == ["figures", "phases"]


@needs_root
@needs_btf
def test_calls_and_requests_match_the_results(tmp_path: Path) -> None:
    """Once each (-m 0), with fsync: what it wrote reached the disk in the cell's time, reads were cached."""
    job = finished(
        tmp_path / "run", FS="ext4", WL="iomatrix:flush", SCALE="quick", SIZE="256M", COLLECT="block calls",
        ARGS="-F 256 -m 0",
    )  # fmt: skip
    text = report_text(job.run.path)
    calls = parquet.read_table(job.run.path / "tables/call.parquet").to_pylist()
    of = {
        name: [row for row in calls if (row["call"], row["target"]) == (name, "target")]
        for name in ("read", "write", "fsync")
    }
    file_bytes = sum(file for file, _ in CELLS) * 1024
    records = sum(file // record for file, record in CELLS)
    assert job.run.has_counted(sum(row["bytes"] for row in of["write"]), 3 * file_bytes, most=256 << 10)
    assert job.run.has_counted(sum(row["count"] for row in of["write"]), 3 * records)
    # reads of three operations and of verify, which meets the end of each file too
    assert job.run.has_counted(sum(row["bytes"] for row in of["read"]), 4 * file_bytes, most=256 << 10)
    assert job.run.has_counted(sum(row["count"] for row in of["read"]), 4 * records + len(CELLS))
    assert job.run.has_counted(sum(row["count"] for row in of["fsync"]), 3 * len(CELLS))
    requests = parquet.read_table(job.run.path / "tables/block.parquet").to_pylist()
    data = [r for r in requests if r["class"] == "data" and r["op"] == "write" and r["ino"] is not None]
    writes = [phase for phase in job.run.phases if "write" in phase["name"]]
    assert sum(phase["bytes"] for phase in writes) == 3 * file_bytes
    found = 0
    for phase in writes:
        inside = [r for r in data if phase["start_ns"] <= r["issue_ns"] <= phase["end_ns"]]
        assert len(sectors_of(inside)) * 512 == phase["bytes"]
        found += len(inside)
    assert found == len(data)
    assert "write 14+0/14, rewrite 14+0/14, read 0+0/14, reread 0+0/14, random write 14+0/14," in text
    assert "random read 0+0/14" in text


@needs_root
@pytest.mark.parametrize("fs", each_filesystem())
def test_workload_runs_on_every_filesystem(iomatrix: Path, fs: str, janitor: Janitor, tmp_path: Path) -> None:
    decided = plan(FS=fs, SIZE="512M", words={"WL": "iomatrix", "SCALE": "quick"})
    with open_disk(decided, janitor) as disk:
        filesystems.format(filesystem_of(decided), disk, janitor)
        target = tmp_path / "mnt"
        target.mkdir()
        filesystems.mount(filesystem_of(decided), disk, target, janitor)
        done = run(iomatrix, "-D", target, *WORDS, "-m", 0, "--flush")
        assert (done.returncode, done.stderr) == (0, "")
        assert not (target / "iomatrix").exists()
        filesystems.unmount(target, janitor)
        clean, said = filesystems.fsck(filesystem_of(decided), disk)
        assert clean, said


def test_no_memory_errors(ram: Path, tmp_path: Path) -> None:
    program = compile_generator(
        "iomatrix", tmp_path, "-fsanitize=address,undefined", "-fno-sanitize-recover=all"
    )
    done = run(program, "-D", ram, "-F", 2048, "-x", 8, "-r", 1, "-R", 1024, "-m", 0)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "function",
    [
        # A kernel that says it wrote and did not; one that writes the first bytes of all it is given alone.
        "ssize_t pwrite64(int fd, const void *b, size_t n, off_t at) "
        "{ (void)fd; (void)b; (void)at; return n; }\n"
        "ssize_t pwrite(int fd, const void *b, size_t n, off_t at) { return pwrite64(fd, b, n, at); }",
        "ssize_t write(int fd, const void *b, size_t n) { static char bad[1 << 20]; memcpy(bad, b, n); "
        "bad[0] ^= fd > 2; return syscall(SYS_write, fd, bad, n); }",
    ],
)
def test_verify_finds_damage(iomatrix: Path, ram: Path, tmp_path: Path, function: str) -> None:
    done = run(iomatrix, "-D", ram, *WORDS, "-m", 0, LD_PRELOAD=lying_library(tmp_path, function))
    assert done.returncode == 1
    assert done.stderr.startswith("seekmeter: iomatrix/file: is not what was written; look in dmesg")
    assert "Verified" not in done.stdout


@pytest.mark.root
def test_io_error_and_read_only_disk_are_reported(iomatrix: Path, tmp_path: Path) -> None:
    with tmpfs(tmp_path / "bad", "16m") as place:
        lies = lying_library(tmp_path, FAILING_WRITES)
        done = run(iomatrix, "-D", place, *WORDS, "-m", 0, LD_PRELOAD=lies)
        assert clear_error(done) == "seekmeter: iomatrix/file: cannot write: input/output error\n"
    with tmpfs(tmp_path / "bad", "1m") as place:
        read_only(place)
        assert "read-only file system" in clear_error(run(iomatrix, "-D", place))


@pytest.mark.root
def test_full_disk_is_one_error(iomatrix: Path, tmp_path: Path) -> None:
    with tmpfs(tmp_path / "full", "1m") as place:
        done = run(iomatrix, "-D", place, "-F", 4096, "-r", 64, "-m", 0)
    assert done.returncode == 1
    assert done.stderr == (
        "seekmeter: iomatrix/file: cannot write: no space left on device; give a larger disk (SIZE=)"
        " or a smaller SCALE=\n"
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-f", "0"], "-f '0' is not a number that can be used; give one from 1 to"),
        (["-x", "1"], "-x '1' is not a number"),
        (["-r", "64", "-F", "8"], "no record fits into any file"),
        (["extra"], "unknown argument extra"),
        (["--fast"], "unknown option --fast"),
    ],
)
def test_wrong_value_names_a_remedy(iomatrix: Path, tmp_path: Path, words: list[str], message: str) -> None:
    done = run(iomatrix, "-D", tmp_path, *words)
    assert done.returncode == 2
    assert done.stderr.startswith("seekmeter: ") and message in done.stderr
    assert list(tmp_path.iterdir()) == []
