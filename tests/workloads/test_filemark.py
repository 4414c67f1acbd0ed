# SPDX-License-Identifier: BSD-2-Clause
"""filemark: its biases, its check, its errors, races and memory. PostMark's beside it: test_postmark.py."""

from __future__ import annotations

import math
import os
import re
import resource
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.collectors.loop_disk import tmpfs
from tests.marks import needs_root
from tests.workloads.conftest import each_filesystem, filesystem_of, open_disk, plan
from tests.workloads.programs import compile_generator, lines, lying_library, run
from workloads import catalog, filesystems
from workloads.cleanup.janitor import Janitor

SUMMARY = re.compile(r"^(create|read|append|delete) +(\d+) +(\d+) +[\d.]+ +[\d.]+$", re.MULTILINE)
PHASE = re.compile(r"^\[(\d+)\] (\d+) transactions in ([\d.]+) s, ([\d.]+) a second$", re.MULTILINE)


@pytest.fixture(scope="module")
def filemark(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The generator, compiled as the Makefile does it."""
    return compile_generator("filemark", tmp_path_factory.mktemp("program"))


def done(result: subprocess.CompletedProcess[str]) -> dict[str, tuple[int, int]]:
    """Counts and bytes by operation of a run that must have gone well; "full": appends to full files."""
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    assert "as they were written" in result.stdout
    full = re.search(r"together; (\d+) appends", result.stdout)
    assert full
    counts = {name: (int(count), int(size)) for name, count, size in SUMMARY.findall(result.stdout)}
    return counts | {"full": (int(full[1]), 0)}


def files_of(place: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(place)): path.read_bytes()
        for path in (place / "filemark").rglob("*")
        if path.is_file()
    }


def test_biases_and_what_is_left(filemark: Path, ram: Path) -> None:
    phases_file = ram / "phases"
    words = ("-t", 5, "-n", 3000, "-d", 7, "-o", 20000, "-p", 2, "-P", 2, "-r", 80, "-c", 60)
    counts = done(run(filemark, "-D", ram, *words, SEEKMETER_PHASES=phases_file))
    phases = lines(phases_file)
    assert [phase["name"] for phase in phases] == ["create", "transactions", "transactions", "verify"]
    assert [phase["ops"] for phase in phases[:3]] == [3000, 20000, 20000]
    # A transaction is one of two and one of two; each within five standard deviations of its share.
    assert counts["read"][0] + counts["append"][0] + counts["full"][0] == 40000
    assert counts["create"][0] - 3000 + counts["delete"][0] == 40000
    for operation, expected, share in (
        ("read", 0.80 * 40000, 0.80),
        ("create", 0.60 * 40000 + 3000, 0.60),
    ):
        assert abs(counts[operation][0] - expected) < 5 * math.sqrt(40000 * share * (1 - share))
    # By the file system itself: as many, in all directories, of sizes within bounds, each thread's.
    left = files_of(ram)
    assert len(left) == counts["create"][0] - counts["delete"][0] == phases[3]["ops"]
    assert sum(map(len, left.values())) == phases[3]["bytes"]
    assert all(512 <= len(data) <= 10004 for data in left.values())
    assert {name.split("/")[1] for name in left} == {f"d{number:05}" for number in range(7)}
    assert {name.split("/")[2][:5] for name in left} == {f"t{number:04}" for number in range(5)}
    assert len(set(left.values())) == len(left)


def test_phases_by_time_until_it_is_certain(filemark: Path, ram: Path) -> None:
    phases_file = ram / "phases"
    words = ("-t", 2, "-n", 200, "-w", 1, "-m", 1, "-p", 3, "-P", 4)
    result = run(filemark, "-D", ram, *words, SEEKMETER_PHASES=phases_file)
    done(result)
    phases = lines(phases_file)
    assert [phase["name"] for phase in phases[:3]] == ["create", "warm-up", "transactions"]
    assert [*dict.fromkeys(phase["name"] for phase in phases)] == list(catalog.load("filemark").phases)
    measured = [phase for phase in phases if phase["name"] == "transactions"]
    assert 3 <= len(measured) <= 4
    assert all(phase["end_ns"] - phase["start_ns"] == 1_000_000_000 for phase in measured)
    told = PHASE.findall(result.stdout)
    assert [int(ops) for _, ops, _, _ in told] == [phase["ops"] for phase in measured]
    # Mean and half width of the kept phases, computed anew (t for 95 %, 2 to 4 degrees).
    said = re.search(
        r"a second: ([\d.]+) \+- ([\d.]+) .* in (\d+) phases, the first (\d+) left", result.stdout
    )
    assert said
    kept = [phase["ops"] for phase in measured[int(said[4]) :]]
    assert len(kept) == int(said[3]) >= 3
    mean = sum(kept) / len(kept)
    deviation = math.sqrt(sum((rate - mean) ** 2 for rate in kept) / (len(kept) - 1))
    half = {2: 4.303, 3: 3.182}[len(kept) - 1] * deviation / math.sqrt(len(kept))
    assert float(said[1]) == pytest.approx(mean, rel=1e-3)
    assert float(said[2]) == pytest.approx(half, rel=1e-2, abs=0.1)
    assert ("not certain" in result.stdout) == (half > 0.1 * mean)


def test_same_seed_same_files(filemark: Path, ram: Path, tmp_path: Path) -> None:
    words = ("-n", 300, "-o", 900, "-p", 1, "-P", 1, "-t", 3)
    here, other = tmp_path / "here", ram / "other"
    for place in (here, other):
        place.mkdir()
    first = done(run(filemark, "-D", here, *words, "-s", 3))
    assert done(run(filemark, "-D", ram, *words, SEEKMETER_SEED="3")) == first
    assert files_of(here) == files_of(ram)
    done(run(filemark, "-D", other, *words, "-s", 4))
    assert files_of(other) != files_of(ram)


def test_its_own_share_of_the_cpus(filemark: Path, ram: Path, tmp_path: Path) -> None:
    """A millisecond of CPU time outside the kernel for each delete, by the thread's own clock.

    The kernel divides CPU time by where its ticks find the thread, some 250 of them here: to a few percent.
    """
    library = lying_library(
        tmp_path,
        """
        #include <time.h>
        static long used(void) { struct timespec t; clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
            return t.tv_sec * 1000000000 + t.tv_nsec; }
        int unlinkat(int d, const char *n, int f) { volatile long x = 0; long end = used() + 1000000;
            do for (int i = 0; i < 100000; i++) x++; while (used() < end);
            return syscall(SYS_unlinkat, d, n, f); }
        """,
    )
    files = {"SEEKMETER_PHASES": ram / "phases", "SEEKMETER_FIGURES": ram / "figures"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    words = ("-t", 3, "-n", 500, "-o", 1000, "-p", 2, "-P", 2)
    counts = done(run(filemark, "-D", ram, *words, LD_PRELOAD=library, **files))
    all_s = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
    told = {name: value for line in lines(ram / "figures") for name, value in line.items()}
    assert counts["delete"][0] / 1e3 * 0.85 < told["own_user_cpu_s"] <= all_s + 0.001
    phases = [phase for phase in lines(ram / "phases") if phase["name"] != "verify"]
    wall_s = sum(phase["end_ns"] - phase["start_ns"] for phase in phases) / 1e9
    possible_s = wall_s * min(3, len(os.sched_getaffinity(0)))
    assert told["own_user_cpu_pct"] == pytest.approx(100 * told["own_user_cpu_s"] / possible_s, rel=0.03)
    last_s = (phases[-1]["end_ns"] - phases[-1]["start_ns"]) / 1e9
    assert told["transactions_per_s"] == pytest.approx(1000 / last_s, abs=0.1)  # too few for a mean
    assert told["phases_kept"] == 1


@needs_root
@pytest.mark.parametrize("fs", each_filesystem())
def test_workload_runs_on_every_filesystem(filemark: Path, fs: str, janitor: Janitor, tmp_path: Path) -> None:
    """On a disk of its own; its fsck agrees afterwards."""
    decided = plan(FS=fs, SIZE="512M", words={"WL": "filemark", "SCALE": "quick"})
    with open_disk(decided, janitor) as disk:
        filesystems.format(filesystem_of(decided), disk, janitor)
        target = tmp_path / "mnt"
        target.mkdir()
        filesystems.mount(filesystem_of(decided), disk, target, janitor)
        words = ("-t", 8, "-n", 1000, "-o", 3000, "-p", 1, "-P", 1)
        here = done(run(filemark, "-D", target, *words))
        with tmpfs(tmp_path / "ram", "200m") as ram:
            assert done(run(filemark, "-D", ram, *words)) == here
            assert files_of(ram) == files_of(target)
        filesystems.unmount(target, janitor)
        clean, said = filesystems.fsck(filesystem_of(decided), disk)
        assert clean, said


@pytest.mark.parametrize("sanitizer", ["thread", "address,undefined"])
def test_no_races_and_no_memory_errors(ram: Path, tmp_path: Path, sanitizer: str) -> None:
    program = compile_generator("filemark", tmp_path, f"-fsanitize={sanitizer}", "-fno-sanitize-recover=all")
    done(run(program, "-D", ram, "-t", 8, "-n", 500, "-o", 2000, "-p", 2, "-P", 2))
    shutil.rmtree(ram / "filemark")
    done(run(program, "-D", ram, "-t", 8, "-n", 500, "-w", 0, "-m", 1, "-p", 1, "-P", 1))


@pytest.mark.parametrize(
    ("function", "says"),
    [
        ("int unlinkat(int d, const char *n, int f) { (void)d; (void)n; (void)f; return 0; }", "are listed"),
        ("ssize_t write(int fd, const void *b, size_t n) { static char bad[65536]; memcpy(bad, b, n); "
         "bad[n - 1] ^= fd > 2; return syscall(SYS_write, fd, bad, n); }", "is not what was written"),
        ("ssize_t write(int fd, const void *b, size_t n) "
         "{ if (fd > 2) return n; return syscall(SYS_write, fd, b, n); }", "bytes of"),
    ],
)  # fmt: skip
def test_verify_finds_damage(filemark: Path, ram: Path, tmp_path: Path, function: str, says: str) -> None:
    library = lying_library(tmp_path, function)
    result = run(filemark, "-D", ram, "-n", 200, "-o", 200, "-p", 1, "-P", 1, LD_PRELOAD=library)
    assert result.returncode == 1
    assert says in result.stderr
    assert result.stderr.startswith("seekmeter: ")
    assert "as they were written" not in result.stdout


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ("4m", r"d\d+/t00\d\d-\d+: cannot write: no space left on device; give a larger disk .*"),
        ("100m,nr_inodes=300", r"d\d+/t00\d\d-\d+: cannot create: no space left on device; give .*"),
        ("4m,ro", "filemark: cannot make the directory: read-only file system; look in dmesg for why .*"),
    ],
)
@pytest.mark.root
def test_full_or_read_only_disk_is_one_error(filemark: Path, tmp_path: Path, options: str, says: str) -> None:
    with tmpfs(tmp_path / "full", options) as place:
        result = run(filemark, "-D", place, "-t", 16, "-n", 20000)
    assert result.returncode == 1
    assert re.fullmatch(f"seekmeter: {says}\n", result.stderr), result.stderr


@pytest.mark.parametrize(
    ("function", "says"),
    [
        ("ssize_t write(int fd, const void *b, size_t n) { FAIL(fd > 2, EIO)"
         " return syscall(SYS_write, fd, b, n); }",
         "cannot write: input/output error"),
        ("ssize_t read(int fd, void *b, size_t n) { FAIL(fd > 2, EIO) return syscall(SYS_read, fd, b, n); }",
         "cannot read: input/output error"),
        ("int openat(int d, const char *p, int f, ...) { FAIL(f & O_CREAT, EROFS)"
         " return syscall(SYS_openat, d, p, f, 0644); }",
         "cannot create: read-only file system; look in dmesg for why the file system went read-only"),
        ("int close(int fd) { FAIL(fd > 4, EDQUOT) return syscall(SYS_close, fd); }",
         "cannot close: disk quota exceeded; give a larger disk (SIZE=) or a smaller SCALE="),
        ("int unlinkat(int d, const char *n, int f) { FAIL(1, EIO) return syscall(SYS_unlinkat, d, n, f); }",
         "cannot delete: input/output error"),
    ],
)  # fmt: skip
def test_error_in_the_middle_is_one_error(
    filemark: Path, ram: Path, tmp_path: Path, function: str, says: str
) -> None:
    """Of four threads, one says it: the thousandth call of this kind, and all after it, fail."""
    fails = (
        "if ((when) && __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED) > 1000) { errno = why; return -1; }"
    )
    library = lying_library(tmp_path, f"static int calls;\n#define FAIL(when, why) {fails}\n{function}")
    words = ("-t", 4, "-n", 800, "-o", 4000, "-p", 1, "-P", 1)
    result = run(filemark, "-D", ram, *words, LD_PRELOAD=library)
    assert result.returncode == 1
    pattern = rf"seekmeter: d\d+/t000[0-3]-\d+: {re.escape(says)}\n"
    assert re.fullmatch(pattern, result.stderr), result.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-t", "0"], "-t '0' is not a number that can be used; give one from 1 to 1024"),
        (["-r", "101"], "-r '101' is not a number"),
        (["-l", "9000", "-u", "8000", "-D", "/"], "-l is above -u"),
        (["-o"], "-o needs a value"),
        (["--fast"], "unknown option --fast"),
        (["extra"], "unknown argument extra"),
        ([], "no directory"),
    ],
)
def test_wrong_value_names_a_remedy(filemark: Path, words: list[str], message: str) -> None:
    result = run(filemark, *words)
    assert result.returncode == 2
    assert result.stderr.startswith("seekmeter: ") and message in result.stderr
    assert result.stderr.count("\n") == 1
