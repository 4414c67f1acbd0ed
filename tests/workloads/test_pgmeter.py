# SPDX-License-Identifier: BSD-2-Clause
"""pgmeter: its jobs against the table of mixes, its figures against fio's own log, its check, its errors."""

from __future__ import annotations

import configparser
import math
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from tests.collectors.loop_disk import tmpfs
from tests.workloads.conftest import needs_root, plan
from tests.workloads.programs import GENERATORS, compile_generator, lines, run
from workloads import catalog, disks, filesystems
from workloads.janitor import Janitor

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


def log_samples(path: Path, whole: int) -> list[int]:
    """Requests a second at each time for which the log has all lines."""
    times: dict[int, list[int]] = {}
    for line in path.read_text().splitlines():
        ms, rate = (int(part) for part in line.split(",")[:2])
        times.setdefault(round(ms / 1000), []).append(rate)
    return [sum(rates) for rates in times.values() if len(rates) == whole]


def test_the_table_is_the_studys() -> None:
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
    words = ("-M", MIXES, "-J", jobs, "-f", 2, "-m", 32, "-w", 1, "-l", 4, "-a", 1, "-x", "web,file", "-q", 8)
    said = done(run(pgmeter, "-D", ram / "work", *words, SEEKMETER_FIGURES=figures, SEEKMETER_PHASES=phases))
    assert "caches are not cold" in said  # there is no session here
    rows = {row["test"]: row for row in lines(figures) if row["table"] == "pgmeter"}
    spans = {phase["name"]: phase for phase in lines(phases)}
    assert [phase["name"] for phase in lines(phases)] == ["layout", "warm-up", "web-8", "warm-up", "file-8"]
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
        assert {thread["rw"] for thread in threads} == {"randread" if test == "web" else "randrw"}
        # Bytes a request, from fio's totals: the table's mean but for chance.
        span, row = spans[f"{test}-8"], rows[test]
        mean = sum(size * share for size, share, _, _ in mix_of(test)) / 100
        assert span["bytes"] / span["ops"] == pytest.approx(mean, rel=0.05)
        assert span["end_ns"] - span["start_ns"] == pytest.approx(4e9, rel=0.05)
        # Mean and half width of the samples, from fio's log anew.
        samples = log_samples(jobs / f"pgmeter-{test}-8_iops.log", 2 * 8 * directions)
        assert len(samples) == row["samples"] >= 2
        centre = sum(samples) / len(samples)
        deviation = math.sqrt(sum((x - centre) ** 2 for x in samples) / (len(samples) - 1))
        half = T95[len(samples) - 1] * deviation / math.sqrt(len(samples))
        assert row["sample_mean"] == pytest.approx(centre, abs=0.1)
        assert row["half_95_pct"] == pytest.approx(half, rel=1e-3, abs=0.1)
        assert row["requests_per_s"] == pytest.approx(span["ops"] / 4, rel=0.05)
    # Reads are four of five of the file server's requests.
    log = [line.split(",") for line in (jobs / "pgmeter-file-8_iops.log").read_text().splitlines()]
    reads = sum(int(rate) for _, rate, direction, *_ in log if int(direction) == 0)
    assert reads / sum(int(rate) for _, rate, *_ in log) == pytest.approx(0.8, abs=0.02)


def test_threads_of_a_sequential_test_take_turns(pgmeter: Path, ram: Path, tmp_path: Path) -> None:
    """Together they ask for each request of the file once, up to its end and not beyond."""
    words = ("-M", MIXES, "-J", tmp_path, "-m", 8, "-w", 0, "-l", 1, "-a", 1, "-x", "seqwrite64", "-q", 3)
    done(run(pgmeter, "-D", ram, *words))
    job = configparser.ConfigParser(allow_no_value=True)
    job.read(tmp_path / "pgmeter-seqwrite64-3.fio")
    places: list[int] = []
    for section in job.sections()[1:]:
        way, skip = job[section]["rw"].split(":")
        assert way == "write"
        start, size = int(job[section]["offset"]), int(job[section]["size"])
        assert start + size == 8 * 2**20
        places += range(start, start + size, 65536 + int(skip))
    assert sorted(places) == list(range(0, 8 * 2**20, 65536))


def test_the_catalogs_tests_are_in_the_table() -> None:
    names = {line.split()[0] for line in MIXES.read_text().splitlines() if not line.startswith("#")}
    for variant in [None, *catalog.load("pgmeter").variants]:
        phases = catalog.load("pgmeter", variant).phases
        assert {phase.rsplit("-", 1)[0] for phase in phases} - {"layout", "warm"} <= names


@needs_root
@pytest.mark.parametrize("fs", [name for name in filesystems.names() if filesystems.kernel_has(name)])
def test_every_filesystem(pgmeter: Path, fs: str, janitor: Janitor, tmp_path: Path) -> None:
    """On a disk of its own; its fsck agrees afterwards."""
    decided = plan(FS=fs, SIZE="512M", words={"WL": "pgmeter", "SCALE": "quick"})
    with disks.open_disk(decided, janitor) as disk:
        filesystems.format(decided, disk, janitor)
        target = tmp_path / "mnt"
        target.mkdir()
        filesystems.mount(decided, disk, target, janitor)
        words = ("-M", MIXES, "-J", tmp_path, "-m", 32, "-w", 0, "-l", 1, "-a", 1, "-x", "oltp", "-q", 4)
        said = done(run(pgmeter, "-D", target, *words))
        assert "oltp" in said
        filesystems.unmount(target, janitor)
        clean, text = filesystems.fsck(decided, disk)
        assert clean, text


@pytest.mark.parametrize("sanitizer", ["address,undefined"])
def test_no_memory_errors(ram: Path, tmp_path: Path, sanitizer: str) -> None:
    program = compile_generator("pgmeter", tmp_path, f"-fsanitize={sanitizer}", "-fno-sanitize-recover=all")
    words = (
        "-M",
        MIXES,
        "-J",
        tmp_path,
        "-m",
        8,
        "-w",
        0,
        "-l",
        1,
        "-a",
        1,
        "-x",
        "seqread8,web",
        "-q",
        "1,2",
    )
    done(run(program, "-D", ram, *words))


def test_a_full_disk_is_one_clear_error(pgmeter: Path, tmp_path: Path) -> None:
    with tmpfs(tmp_path / "full", "4m") as place:
        result = run(pgmeter, "-D", place, "-M", MIXES, "-J", tmp_path, "-m", 64)
    assert result.returncode == 1
    assert result.stderr.count("\n") == 1
    assert "give a larger disk" in result.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-x", "word"], "there is no test word"),
        (["-q", "4,none"], "-q 'none' is not a number"),
        (["-m"], "-m needs a value"),
        (["extra"], "unknown word extra"),
    ],
)
def test_wrong_words(pgmeter: Path, tmp_path: Path, words: list[str], message: str) -> None:
    result = run(pgmeter, "-D", tmp_path, "-M", MIXES, "-J", tmp_path, *words)
    assert result.returncode == 2
    assert result.stderr.startswith("seekmeter: ") and message in result.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("table", ["web 512 50 100 100\n", "web 10 100 100 100\n", "web 512\n", "\0\0\n"])
def test_a_broken_table(pgmeter: Path, tmp_path: Path, table: str) -> None:
    mixes = tmp_path / "mixes"
    mixes.write_text(table)
    result = run(pgmeter, "-D", tmp_path, "-M", mixes, "-J", tmp_path, "-x", "web")
    assert result.returncode == 2
    assert result.stderr.startswith("seekmeter: ") and result.stderr.count("\n") == 1
