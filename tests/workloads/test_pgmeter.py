# SPDX-License-Identifier: BSD-2-Clause
"""pgmeter: its jobs against the table of mixes, its figures against fio's own log, its check, its errors."""

from __future__ import annotations

import configparser
import math
import os
import shutil
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import pytest

from tests.collectors.loop_disk import sectors_of, tmpfs
from tests.collectors.recording import needs_btf
from tests.collectors.sessions import finished, wait_for
from tests.marks import needs_root
from tests.workloads.conftest import each_filesystem, filesystem_of, open_disk, plan
from tests.workloads.programs import (
    FAILING_WRITES,
    GENERATORS,
    clear_error,
    compile_generator,
    lines,
    lying_library,
    marked,
    read_only,
    run,
)
from tests.workloads.reports import report_text
from workloads import catalog, filesystems
from workloads.cleanup.janitor import Janitor

MIXES = GENERATORS.parent / "datasets" / "pgmeter.mixes"
T95 = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571}  # Student's t by degrees of freedom

pytestmark = pytest.mark.skipif(shutil.which("fio") is None, reason="no fio: make test installs it")


@pytest.fixture(scope="module")
def pgmeter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The generator, compiled as the Makefile does it."""
    return compile_generator("pgmeter", tmp_path_factory.mktemp("program"))


def mix_of(test: str) -> list[tuple[int, int, int, int]]:
    """Rows of the table: bytes, share of the requests, share of reads, share of random places."""
    rows = [line.split() for line in MIXES.read_text().splitlines() if not line.startswith("#")]
    return [(int(a), int(b), int(c), int(d)) for name, a, b, c, d in rows if name == test]


def done(result: subprocess.CompletedProcess[str]) -> str:
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    assert "have their size" in result.stdout
    return result.stdout


def refaulted_bytes() -> int:
    """What the kernel has read again of files since boot, having needed their memory (/proc/vmstat)."""
    counts = dict(line.split() for line in Path("/proc/vmstat").read_text().splitlines())
    return int(counts["workingset_refault_file"]) * os.sysconf("SC_PAGE_SIZE")


def log_samples(path: Path, seconds: int, whole: int) -> list[int]:
    """Requests a second in each second; the last one counts only if the log has all lines of it.

    In the others a line that is not there is of a thread that did nothing: it had no CPU.
    """
    times: dict[int, list[int]] = {}
    for line in path.read_text().splitlines():
        ms, rate = (int(part) for part in line.split(",")[:2])
        times.setdefault((ms + 500) // 1000, []).append(rate)
    before = [sum(times.get(second, [])) for second in range(1, seconds)]
    last = times.get(seconds, [])
    return [*before, sum(last)] if len(last) == whole else before


def test_table_matches_the_study() -> None:
    """Every test's rows are all of its requests; the mixes' means are what the study's figures come to."""
    names = {line.split()[0] for line in MIXES.read_text().splitlines() if not line.startswith("#")}
    for name in names:
        assert sum(share for _, share, _, _ in mix_of(name)) == 100
    assert {row[2:] for row in mix_of("oltp")} == {(67, 100)}
    assert {row[2:] for row in mix_of("file")} == {(80, 100)}
    assert {row[2:] for row in mix_of("web")} == {(100, 100)}


def test_jobs_and_figures(pgmeter: Path, ram: Path, tmp_path: Path) -> None:
    jobs = tmp_path / "jobs"
    jobs.mkdir()
    (ram / "work").mkdir()
    figures, phases = tmp_path / "figures", tmp_path / "phases"
    words = ("-M", MIXES, "-J", jobs, "-f", 2, "-m", 32, "-w", 1, "-l", 3, "-a", 1, "-x", "web,file", "-q", 8)
    said = done(run(pgmeter, "-D", ram / "work", *words, SEEKMETER_FIGURES=figures, SEEKMETER_PHASES=phases))
    assert "caches are not cold" in said  # there is no session here
    rows = {row["test"]: row for row in lines(figures) if row["table"] == "pgmeter"}
    spans = {phase["name"]: phase for phase in lines(phases)}
    assert [phase["name"] for phase in lines(phases)] == ["layout", "warm-up", "web-8", "warm-up", "file-8"]
    in_order = lines(phases)
    warmups = {test: in_order[in_order.index(spans[f"{test}-8"]) - 1] for test in ("web", "file")}
    assert spans["layout"]["bytes"] == 2 * 32 * 2**20
    assert {p.stat().st_size for p in (ram / "work/pgmeter").iterdir()} == {32 * 2**20}
    for test, directions in (("web", 1), ("file", 2)):
        job = configparser.ConfigParser(allow_no_value=True)
        job.read(jobs / f"pgmeter-{test}-8.fio")
        split = [part.split("/") for part in job["global"]["bssplit"].split(":")]
        assert [(int(size), int(share)) for size, share in split] == [row[:2] for row in mix_of(test)]
        assert job["global"]["rwmixread"] == ("100" if test == "web" else "80")
        threads = [job[section] for section in job.sections() if section != "global"]
        assert Counter(thread["filename"] for thread in threads) == {"file-0": 8, "file-1": 8}
        assert job["global"]["rw"] == ("randread" if test == "web" else "randrw")
        # Bytes a request, from fio's totals: the table's mean but for chance, six deviations of that many.
        span, row = spans[f"{test}-8"], rows[test]
        mean = sum(size * share for size, share, _, _ in mix_of(test)) / 100
        square = sum(size**2 * share for size, share, _, _ in mix_of(test)) / 100
        chance = 6 * math.sqrt((square - mean**2) / span["ops"])
        assert span["bytes"] / span["ops"] == pytest.approx(mean, rel=0.01, abs=chance)
        # A thread that has no CPU just then ends late, however late; none of it is the warm-up's second.
        measured_ns = span["end_ns"] - span["start_ns"]
        assert measured_ns > 2.95e9
        assert warmups[test]["end_ns"] == span["start_ns"]
        assert span["start_ns"] - warmups[test]["start_ns"] > 0.95e9
        # Mean and half width of the samples, from fio's log anew.
        samples = log_samples(jobs / f"pgmeter-{test}-8_iops.log", 3, 2 * 8 * directions)
        assert len(samples) == row["samples"] >= 2
        centre = sum(samples) / len(samples)
        deviation = math.sqrt(sum((x - centre) ** 2 for x in samples) / (len(samples) - 1))
        half = T95[len(samples) - 1] * deviation / math.sqrt(len(samples))
        assert row["sample_mean"] == pytest.approx(centre, abs=0.1)
        assert row["half_95_pct"] == pytest.approx(half, rel=1e-3, abs=0.1)
        assert row["requests_per_s"] == pytest.approx(span["ops"] / measured_ns * 1e9, rel=1e-3)
    # Reads are four of five of the file server's requests.
    log = [line.split(",") for line in (jobs / "pgmeter-file-8_iops.log").read_text().splitlines()]
    reads = sum(int(rate) for _, rate, direction, *_ in log if int(direction) == 0)
    assert reads / sum(int(rate) for _, rate, *_ in log) == pytest.approx(0.8, abs=0.02)


def test_a_sequential_test_asks_for_every_place_in_turn(pgmeter: Path, ram: Path, tmp_path: Path) -> None:
    """Its threads together: each request of the file once before any twice, and none beyond its end."""
    library = lying_library(
        tmp_path,
        """
        #include <stdlib.h>
        static _Atomic long counts[129];
        ssize_t pwrite(int fd, const void *b, size_t n, off_t at) {
            counts[at % 65536 || n != 65536 || at >= 128 * 65536 ? 128 : at / 65536]++;
            return syscall(SYS_pwrite64, fd, b, n, at); }
        __attribute__((destructor)) static void tell(void) {
            FILE *out = fopen(getenv("COUNTS"), "w");
            for (int i = 0; i < 129; i++) fprintf(out, "%ld\\n", counts[i]);
            fclose(out); }
        """,
    )
    words = ("-M", MIXES, "-J", tmp_path, "-m", 8, "-w", 1, "-l", 1, "-a", 1, "-x", "seqwrite64", "-q", 3)
    files = {"SEEKMETER_PHASES": tmp_path / "phases", "COUNTS": tmp_path / "counts"}
    done(run(pgmeter, "-D", ram, *words, LD_PRELOAD=library, **files))
    *counts, others = map(int, (tmp_path / "counts").read_text().split())
    assert others == 0 and len(counts) == 128
    assert max(counts) - min(counts) <= 1 and counts == sorted(counts, reverse=True)
    measured = lines(tmp_path / "phases")[-1]
    assert measured["end_ns"] - measured["start_ns"] == 1_000_000_000
    assert (
        0 < measured["bytes"] == measured["ops"] * 65536 < sum(counts) * 65536
    )  # the warm-up's are left out


@needs_root
@needs_btf
def test_bytes_match_the_kernel_and_caches_are_cold(tmp_path: Path) -> None:
    words = "-x seqread64,oltp -q 4 -m 32 -w 0 -l 1"
    refaulted = -refaulted_bytes()
    job = finished(
        tmp_path / "run",
        FS="ext4",
        WL="pgmeter",
        SCALE="quick",
        SIZE="256M",
        COLLECT="block calls",
        ARGS=words,
    )
    refaulted += refaulted_bytes()
    text = report_text(job.run.path)
    assert "cold caches yes" in text
    spans = {phase["name"]: phase for phase in job.run.phases}
    layout, sequential, oltp = (spans[name] for name in ("layout", "seqread64-4", "oltp-4"))
    assert layout["bytes"] == 32 * 2**20
    calls = parquet.read_table(job.run.path / "tables/call.parquet").to_pylist()
    moved = [row for row in calls if row["call"] in ("read", "write") and row["target"] == "target"]
    lost = job.run.calls_lost
    asked = layout["bytes"] + sequential["bytes"] + oltp["bytes"]
    # Each of four threads has one request that ends when its time is over.
    assert -65536 * lost <= sum(row["bytes"] for row in moved) - asked <= 4 * 65536
    requests = 32 + sequential["ops"] + oltp["bytes"] // 8192
    assert -lost <= sum(row["count"] for row in moved) - requests <= 4
    # fio's own count of requests is a rate, of reads and of writes, times a time
    seconds = (oltp["end_ns"] - oltp["start_ns"]) / 1e9
    assert oltp["ops"] == pytest.approx(oltp["bytes"] / 8192, rel=1e-3, abs=2 * seconds + 1)
    block = parquet.read_table(job.run.path / "tables/block.parquet").to_pylist()
    # Between two remounts lie all of a test's requests: unmounting waits for those still on their way.
    first, second = (phase["end_ns"] for phase in job.run.phases if phase["name"] == "remount")

    def on_disk(op: str, after_ns: int, until_ns: int) -> list[dict[str, Any]]:
        inside = (r for r in block if after_ns <= r["issue_ns"] < until_ns)
        return [r for r in inside if r["class"] == "data" and r["op"] == op]

    assert sum(r["bytes"] for r in on_disk("write", 0, first)) == 32 * 2**20  # with an fsync
    assert not on_disk("read", 0, first)
    # Cold: each page is read once, however often asked for; twice only if the kernel needed its memory.
    read = on_disk("read", first, second)
    whole = 512 * len(sectors_of(read))
    again = sum(r["bytes"] for r in read) - whole
    # A second may be too short for all of the file; what was asked for in turn was read at least.
    assert min(sequential["bytes"], 32 * 2**20) <= whole <= 32 * 2**20, read
    assert again <= 2**20 + refaulted, read
    assert 0 < 512 * len(sectors_of(on_disk("read", second, 2**63))) <= 32 * 2**20  # cold again


def test_the_catalogs_tests_are_in_the_table() -> None:
    names = {line.split()[0] for line in MIXES.read_text().splitlines() if not line.startswith("#")}
    for variant in [None, *catalog.load("pgmeter").variants]:
        phases = catalog.load("pgmeter", variant).phases
        assert {phase.rsplit("-", 1)[0] for phase in phases} - {"layout", "warm"} <= names


@needs_root
@pytest.mark.parametrize("fs", each_filesystem())
def test_workload_runs_on_every_filesystem(pgmeter: Path, fs: str, janitor: Janitor, tmp_path: Path) -> None:
    """On a disk of its own; its fsck agrees afterwards."""
    decided = plan(FS=fs, SIZE="512M", words={"WL": "pgmeter", "SCALE": "quick"})
    with open_disk(decided, janitor) as disk:
        filesystems.format(filesystem_of(decided), disk, janitor)
        target = tmp_path / "mnt"
        target.mkdir()
        filesystems.mount(filesystem_of(decided), disk, target, janitor)
        words = ("-M", MIXES, "-J", tmp_path, "-m", 32, "-w", 0, "-l", 1, "-a", 1, "-x", "oltp", "-q", 4)
        said = done(run(pgmeter, "-D", target, *words))
        assert "oltp" in said
        filesystems.unmount(target, janitor)
        clean, text = filesystems.fsck(filesystem_of(decided), disk)
        assert clean, text


@pytest.mark.parametrize("sanitizer", ["address,undefined", "thread"])
def test_no_memory_errors_and_no_races(ram: Path, tmp_path: Path, sanitizer: str) -> None:
    program = compile_generator("pgmeter", tmp_path, f"-fsanitize={sanitizer}", "-fno-sanitize-recover=all")
    words = ("-M", MIXES, "-J", tmp_path, "-m", 8, "-f", 2, "-w", 0, "-l", 1, "-a", 1)
    done(run(program, "-D", ram, *words, "-x", "seqwrite8,web", "-q", 3))


@pytest.mark.root
def test_full_failing_or_read_only_disk_is_reported(pgmeter: Path, tmp_path: Path) -> None:
    def trouble(place: Path, *words: str | int, **more: str | Path) -> str:
        always = ("-M", MIXES, "-J", tmp_path, "-w", 0, "-l", 1, "-a", 1, "-q", 2)
        return clear_error(run(pgmeter, "-D", place, *always, *words, MARK=str(tmp_path), **more))

    with tmpfs(tmp_path / "full", "4m") as place:
        assert "give a larger disk" in trouble(place, "-m", 64)
    lies = lying_library(tmp_path, FAILING_WRITES)
    with tmpfs(tmp_path / "bad", "32m") as place:
        error = trouble(place, "-m", 8, "-x", "seqwrite8", LD_PRELOAD=lies)
        assert error == "seekmeter: a file in pgmeter: cannot write: input/output error\n"
    with tmpfs(tmp_path / "bad", "32m") as place:
        error = trouble(place, "-m", 8, "-x", "oltp", LD_PRELOAD=lies)  # in fio
        assert error.startswith("seekmeter: fio failed (exit status ") and error.endswith(
            ": Input/output error\n"
        )
    with tmpfs(tmp_path / "bad", "32m") as place:
        read_only(place)
        assert "read-only file system" in trouble(place, "-m", 8)
    assert marked(f"MARK={tmp_path}") == 0


def test_kill_ends_fio(pgmeter: Path, ram: Path, tmp_path: Path) -> None:
    words = ("-M", MIXES, "-J", tmp_path, "-m", "8", "-w", "0", "-l", "60", "-x", "oltp", "-q", "2")
    environment = {**os.environ, "MARK": str(ram)}
    process = subprocess.Popen([pgmeter, "-D", ram, *words], stdout=subprocess.DEVNULL, env=environment)
    mark = f"MARK={ram}"
    wait_for(lambda: (tmp_path / "pgmeter-oltp-2.fio").exists() and marked(mark) == 2)
    process.kill()
    process.wait(20)
    wait_for(lambda: marked(mark) == 0)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-x", "word"], "there is no test word"),
        (["-q", "4,none"], "-q 'none' is not a number"),
        (["-m"], "-m needs a value"),
        (["extra"], "unknown argument extra"),
    ],
)
def test_wrong_value_names_a_remedy(pgmeter: Path, tmp_path: Path, words: list[str], message: str) -> None:
    result = run(pgmeter, "-D", tmp_path, "-M", MIXES, "-J", tmp_path, *words)
    assert result.returncode == 2
    assert result.stderr.startswith("seekmeter: ") and message in result.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "table", ["web 512 50 100 100\n", "web 10 100 100 100\n", "web 512\n", "\0\0\n", "web 512 100 50 0\n"]
)
def test_broken_table_is_reported(pgmeter: Path, tmp_path: Path, table: str) -> None:
    mixes = tmp_path / "mixes"
    mixes.write_text(table)
    result = run(pgmeter, "-D", tmp_path, "-M", mixes, "-J", tmp_path, "-x", "web")
    assert result.returncode == 2
    assert result.stderr.startswith("seekmeter: ") and result.stderr.count("\n") == 1
