# SPDX-License-Identifier: BSD-2-Clause
"""webcache: the population against its distribution, the archives it keeps, its own checks, PostMark."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from scipy import stats

from tests.collectors.loop_disk import tmpfs
from tests.collectors.recording import enum_value, needs_btf, read_table
from tests.collectors.sessions import finished
from tests.marks import needs_root
from tests.workloads.conftest import each_filesystem
from tests.workloads.programs import compile_generator, lines, lying_library
from tests.workloads.programs import run as run_generator
from workloads import catalog

CUT, MOST = 133_000, 4 << 20


@pytest.fixture(scope="module")
def webcache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The generator."""
    return compile_generator("webcache", tmp_path_factory.mktemp("program"))


@pytest.fixture
def ram(tmp_path: Path) -> Iterator[Path]:
    """A private tmpfs, with a directory to work in and one for archives."""
    with tmpfs(tmp_path / "ram", "1g") as place:
        (place / "work").mkdir()
        yield place


@pytest.fixture
def scratch() -> Iterator[Path]:
    """Where a disk file and archives go, on a disk."""
    with TemporaryDirectory(dir="/var/tmp") as place:
        yield Path(place)


def run(program: Path, ram: Path, *words: str | int, **more: str | Path) -> subprocess.CompletedProcess[str]:
    files = {"SEEKMETER_PHASES": ram / "phases", "SEEKMETER_FIGURES": ram / "figures"}
    environment: dict[str, str | Path] = {"SEEKMETER_SCRATCH": ram / "scratch", **files, **more}
    return run_generator(program, "-D", ram / "work", *words, **environment)


def good(result: subprocess.CompletedProcess[str]) -> str:
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    return result.stdout


def archives(ram: Path) -> list[Path]:
    return sorted((ram / "scratch/webcache").glob("*.tar"))


def sizes_of(archive: Path) -> list[int]:
    with tarfile.open(archive) as tar:
        return [member.size for member in tar if member.isfile()]


def below(size: np.ndarray) -> np.ndarray:
    """The distribution's share of files of at most so many bytes; sizes are rounded down."""
    body = stats.lognorm(1.318, scale=np.exp(9.357))
    tail = stats.truncpareto(1.1, MOST / CUT, scale=CUT)
    return np.asarray(0.93 * np.minimum(body.cdf(size + 1) / body.cdf(CUT), 1) + 0.07 * tail.cdf(size + 1))


def test_population_matches_the_publication(webcache: Path, ram: Path) -> None:
    """As Python reads the archive: sizes by their distribution, median and tail, directories evenly."""
    said = good(run(webcache, ram, "-m", 400, "-l", 16))
    (archive,) = archives(ram)
    assert 396e6 < archive.stat().st_size <= 400e6
    with tarfile.open(archive) as tar:
        members = tar.getmembers()
    files = [member for member in members if member.isfile()]
    folders = [member.name for member in members if member.isdir()]
    assert len(folders) == 1 + 16 + 16 * 16
    assert all(re.fullmatch(r"webcache/0[0-9A-F]/0[0-9A-F]/[0-9A-F]{8}", file.name) for file in files)
    assert len({file.name for file in files}) == len(files)
    size = np.array([file.size for file in files])
    assert size.max() <= MOST
    # Kolmogorov and Smirnov's distance; 1.95 / sqrt(n) is passed by chance one time in a thousand
    ordered = np.sort(size)
    distance = np.abs(below(ordered) - (np.arange(len(size)) + 0.5) / len(size)).max()
    assert distance < 1.95 / np.sqrt(len(size))
    grid = np.arange(20_000)
    median = int(np.searchsorted(below(grid), 0.5))
    assert 11_580 < median < 13_000  # of the body alone exp(9.357) = 11,580, were it not cut
    assert np.median(size) == pytest.approx(median, rel=0.06)
    assert (size >= CUT).mean() == pytest.approx(0.07, abs=0.01)
    # Hill's estimate of alpha from the tail, which its end at 4 MiB makes larger: as SciPy says by how much
    logs = np.log(size[size >= CUT] / CUT)
    expected = stats.truncpareto(1.1, MOST / CUT).expect(np.log)
    assert logs.mean() == pytest.approx(expected, rel=4 / np.sqrt(len(logs)))
    assert f"{len(files)} files of {size.sum()} bytes; half of them have" in said
    by_folder = np.unique([file.name.rsplit("/", 1)[0] for file in files], return_counts=True)[1]
    chi = ((by_folder - len(files) / 256) ** 2).sum() / (len(files) / 256)
    assert stats.chi2.sf(chi, 255) > 1e-4
    told = {name: value for line in lines(ram / "figures") for name, value in line.items()}
    assert (told["files"], told["file_bytes"]) == (len(files), size.sum())
    assert told["median_file_bytes"] == np.sort(size)[len(size) // 2]


def test_what_it_does(webcache: Path, ram: Path) -> None:
    said = good(run(webcache, ram, "-m", 30, "-l", 3, "-f", 300, "-t", 2000, "-d", 10))
    phases = lines(ram / "phases")
    assert [phase["name"] for phase in phases] == list(catalog.load("webcache").phases)
    size = sizes_of(archives(ram)[0])
    assert [(phase["ops"], phase["bytes"]) for phase in phases[:4]] == [
        *[(len(size), sum(size))] * 3, (len(size), 0),
    ]  # fmt: skip
    times = [phase[edge] for phase in phases for edge in ("start_ns", "end_ns")]
    assert times == sorted(times)
    assert (phases[4]["ops"], phases[5]["ops"]) == (300, 2000)
    alone = re.search(r"Deletion alone: (\d+) files", said)
    assert alone is not None
    assert phases[6]["ops"] == int(alone[1]) > 0
    assert list((ram / "work").iterdir()) == []
    rate = re.search(r"PostMark: ([\d.]+) transactions/s", said)
    assert rate is not None
    seconds = (phases[5]["end_ns"] - phases[5]["start_ns"]) / 1e9
    assert float(rate[1]) == pytest.approx(2000 / seconds, rel=0.01)
    told = {name: value for line in lines(ram / "figures") for name, value in line.items()}
    assert told["postmark_transactions_per_s"] == float(rate[1])
    assert told["extract_s"] == pytest.approx((phases[1]["end_ns"] - phases[1]["start_ns"]) / 1e9, abs=1e-3)
    assert told["cold_caches"] == "no"


def test_archives_are_made_once_and_checked(webcache: Path, ram: Path) -> None:
    words = ("-m", 20, "-l", 2)
    assert "bytes is new" in good(run(webcache, ram, *words))
    (archive,) = archives(ram)
    digest = hashlib.md5(archive.read_bytes()).hexdigest()
    said = good(run(webcache, ram, *words))
    assert "is from an earlier run: its checksum is right" in said
    data = bytearray(archive.read_bytes())
    data[len(data) // 2] ^= 1
    archive.write_bytes(data)
    assert "bytes is new" in good(run(webcache, ram, *words))  # one byte was wrong
    archive.write_bytes(archive.read_bytes()[:-512])
    assert "bytes is new" in good(run(webcache, ram, *words))  # it was too short
    archive.with_suffix(".sum").write_text("nonsense\n")
    assert "bytes is new" in good(run(webcache, ram, *words))
    assert hashlib.md5(archive.read_bytes()).hexdigest() == digest
    shutil.copy(archive, archive.with_suffix(".tar.part"))  # of one that was killed
    archive.unlink()
    assert "bytes is new" in good(run(webcache, ram, *words))
    assert hashlib.md5(archive.read_bytes()).hexdigest() == digest
    assert sorted(path.suffix for path in archive.parent.iterdir()) == [".sum", ".tar"]


def test_archives_are_few_and_can_be_removed(webcache: Path, ram: Path) -> None:
    for megabytes in (3, 4, 5, 6):
        good(run(webcache, ram, "-m", megabytes, "-l", 1))
    assert [path.name.split("-")[2][0] for path in archives(ram)] == ["3", "4", "5"]  # of 2.99... to 5.99...
    good(run(webcache, ram, "-m", 4, "-l", 1))  # the oldest: made anew, or used again
    good(run(webcache, ram, "-m", 7, "-l", 1))
    assert len(archives(ram)) == 3
    (ram / "scratch/webcache/mine").write_text("keep")
    assert good(run(webcache, ram, "--clean")) == "webcache: 3 archives removed\n"
    assert [path.name for path in (ram / "scratch/webcache").iterdir()] == ["mine"]


def test_streamed_is_the_same(webcache: Path, ram: Path) -> None:
    """And keeps nothing. What tar is given, as a tar in front of it sees it."""
    tools = ram / "tools"
    tools.mkdir()
    (tools / "tar").write_text(f'#!/bin/sh\nexec tee {ram}/seen | /bin/tar "$@"\n')
    (tools / "tar").chmod(0o755)
    search = f"{tools}:{os.environ['PATH']}"
    (tools / "tar").write_text(f'#!/bin/sh\ncat >{ram}/seen; exec /bin/tar "$@" <{ram}/seen\n')
    good(run(webcache, ram, "-m", 10, "-l", 4, "--stream", PATH=search))
    assert not (ram / "scratch").exists()
    streamed = hashlib.md5((ram / "seen").read_bytes()).hexdigest()
    good(run(webcache, ram, "-m", 10, "-l", 4))
    (archive,) = archives(ram)
    assert hashlib.md5(archive.read_bytes()).hexdigest() == streamed
    good(run(webcache, ram, "-m", 10, "-l", 4, "-s", 2, "--stream", PATH=search))
    assert hashlib.md5((ram / "seen").read_bytes()).hexdigest() != streamed


@needs_root
@needs_btf
@pytest.mark.parametrize("fs", each_filesystem())
def test_under_trace(tmp_path: Path, fs: str, scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEEKMETER_SCRATCH", str(scratch))
    run = finished(
        tmp_path / "run", FS=fs, WL="webcache", SCALE="quick", ARGS="-m 30 -l 4 -f 300 -t 1000 -d 10",
        COLLECT="block,calls", SIZE="512M",
    ).run  # fmt: skip
    first, *rest = catalog.load("webcache").phases
    extract, verify, delete, *postmark = rest
    cold = ["remount", verify, "remount", delete, "remount"]
    assert [phase["name"] for phase in run.phases] == [first, extract, *cold, *postmark, "sync"]
    phases = {phase["name"]: phase for phase in run.phases}
    path = run.path / "raw/recorder/call.rec"
    rows = read_table(path)[1]
    length = 100_000_000

    def moved(call: str, *names: str) -> int:
        """Bytes on the file system under test in these phases; bins at their edges belong to them."""
        found = 0
        for name in names:
            inside = rows["bin_ns"] + length > phases[name]["start_ns"]
            inside &= rows["bin_ns"] < phases[name]["end_ns"]
            inside &= rows["target"] == enum_value(path, "call_target", "target")
            inside &= rows["call"] == enum_value(path, "call_name", call)
            found += int(rows[inside]["bytes"].sum())
        return found

    size = phases["extract"]["bytes"]
    assert run.has_counted(moved("write", "extract"), size, most=1 << 20)
    assert run.has_counted(moved("read", "verify"), size, most=1 << 20)
    block = read_table(run.path / "raw/recorder/block.rec")[1]
    recording = run.path / "raw/recorder/block.rec"
    inside = (block["issue_ns"] >= phases["verify"]["start_ns"]) & (
        block["issue_ns"] < phases["verify"]["end_ns"]
    )
    inside &= block["op"] == enum_value(recording, "block_op", "read")
    assert block[inside]["bytes"].sum() >= size  # nothing of it was in memory
    match = re.search(r"PostMark: ([\d.]+) transactions/s", run.output)
    assert match is not None and float(match[1]) > 0


@pytest.mark.parametrize("sanitizer", ["thread", "address,undefined"])
def test_no_races_and_no_memory_errors(ram: Path, tmp_path: Path, sanitizer: str) -> None:
    program = compile_generator("webcache", tmp_path, f"-fsanitize={sanitizer}", "-fno-sanitize-recover=all")
    for words in ((), ("--stream",), ("-f", 50, "-t", 300)):
        good(run(program, ram, "-m", 8, "-l", 2, *words))
    good(run(program, ram, "--clean"))


@pytest.mark.parametrize(
    ("program", "text", "says"),
    [
        ("tar", "/bin/tar -x --file=-; rm webcache/00/00/0*", "cannot open what was extracted: no such file"),
        ("tar", "/bin/tar -x --file=-; touch webcache/more", "files in 32 directories where"),
        ("tar", "/bin/tar -x --file=-; mkdir webcache/more", "in 33 directories where"),
        ("tar", "/bin/tar -x --file=-; for f in webcache/00/00/*; do printf X | "
         "dd of=$f conv=notrunc bs=1 seek=9 status=none; done", "is not what was extracted"),
        ("tar", "exec /bin/tar -x --file=- --no-such-option", "tar: failed with exit status 64"),
        ("rm", "true", "webcache: still exists after it was deleted"),
        ("postmark", "echo nothing", "postmark: ended before 'Creating files...'"),
        ("postmark", r"/usr/bin/postmark $1 | sed 's/\([0-9]*\) deleted/1\1 deleted/'",
         "postmark: created"),
        ("postmark", "/usr/bin/postmark $1; echo 'Error: Unable to write'",
         "postmark: Unable to write; look in dmesg"),
    ],
)  # fmt: skip
def test_verify_finds_damage(webcache: Path, ram: Path, program: str, text: str, says: str) -> None:
    tools = ram / "tools"
    tools.mkdir()
    (tools / program).write_text(f"#!/bin/sh\n{text}\n")
    (tools / program).chmod(0o755)
    search = f"{tools}:{os.environ['PATH']}"
    result = run(webcache, ram, "-m", 3, "-l", 1, "-f", 50, "-t", 100, "-d", 1, PATH=search)
    assert result.returncode == 1
    assert says in result.stderr, result.stderr
    assert "seekmeter: " in result.stderr


def test_full_disks_are_clear_errors(webcache: Path, ram: Path, tmp_path: Path) -> None:
    with tmpfs(tmp_path / "full", "2m") as place:
        environment: dict[str, str | Path] = {"SEEKMETER_SCRATCH": ram}
        result = run_generator(webcache, "-D", place, "-m", 5, "-l", 1, **environment)
        assert result.returncode == 1
        assert "No space left on device" in result.stderr  # says tar
        assert "seekmeter: tar: failed with exit status 2" in result.stderr
        subprocess.run(["rm", "-rf", place / "webcache"], check=True)
        result = run_generator(webcache, "-D", place, "-m", 0, "-f", 500, "-d", 1, **environment)
        assert result.returncode == 1
        assert "seekmeter: postmark: the disk is full; give a larger disk (SIZE=)" in result.stderr
        environment = {"SEEKMETER_SCRATCH": place}  # no room for the archive
        result = run_generator(webcache, "-D", ram / "work", "-m", 5, **environment)
        assert result.returncode == 1
        assert " MB free" in result.stderr and "--stream" in result.stderr


def test_archives_writable_by_others_are_refused(webcache: Path, ram: Path) -> None:
    (ram / "scratch/webcache").mkdir(parents=True)
    (ram / "scratch/webcache").chmod(0o777)
    result = run(webcache, ram, "-m", 3)
    assert result.returncode == 1
    assert "can be written by others; remove it" in result.stderr


def test_existing_files_are_left_alone(webcache: Path, ram: Path) -> None:
    for name, words in (("webcache", ("-m", 3)), ("postmark", ("-m", 0, "-f", 10))):
        (ram / "work" / name).mkdir()
        result = run(webcache, ram, *words)
        assert result.returncode == 1
        assert name in result.stderr
        (ram / "work" / name).rmdir()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-m", "many"], "-m 'many' is not a number"),
        (["-l", "257"], "-l '257' is not a number"),
        (["-m", "0", "-f"], "-f needs a value"),
        (["--fast"], "unknown option --fast"),
        (["extra"], "unknown argument extra"),
        ([], "no directory"),
    ],
)
def test_wrong_value_names_a_remedy(webcache: Path, words: list[str], message: str) -> None:
    result = run_generator(webcache, *words)
    assert result.returncode == 2
    assert result.stderr.startswith("seekmeter: ") and message in result.stderr
    assert result.stderr.count("\n") == 1


def test_dead_reader_ends_the_writer(webcache: Path, ram: Path, tmp_path: Path) -> None:
    """Streamed, and the disk's kernel says no: tar's complaint, and ours, and no process is left."""
    says_no = (
        "int mkdirat(int d, const char *n, mode_t m) { (void)d; (void)n; (void)m; errno = EIO; return -1; }"
    )
    library = lying_library(tmp_path, says_no)
    result = run(webcache, ram, "-m", 30, "-l", 1, "--stream", LD_PRELOAD=library)
    assert result.returncode == 1
    assert "Input/output error" in result.stderr
    assert "seekmeter: tar: failed with exit status 2" in result.stderr
    alive = subprocess.run(["ps", "-eo", "args"], check=True, capture_output=True, text=True).stdout
    assert str(webcache) not in alive
