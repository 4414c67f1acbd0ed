# SPDX-License-Identifier: BSD-2-Clause
"""createdelete: what it leaves on disk, its figures, its own check, its errors, races and memory."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.collectors.loop_disk import tmpfs
from tests.marks import needs_root
from tests.workloads.conftest import each_filesystem, filesystem_of, open_disk, plan
from tests.workloads.programs import compile_generator, lying_library, run
from workloads import catalog, filesystems
from workloads.cleanup.janitor import Janitor

LINE = re.compile(r"^\[\d/4\] (\w+): (\d+) in ")
SUMMARY = re.compile(r"^(\w+) +(create|fsync|rename|delete) +(\d+) +([\d.]+) +([\d.]+)$", re.MULTILINE)


@pytest.fixture(scope="module")
def createdelete(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The generator, compiled as the Makefile does it."""
    return compile_generator("createdelete", tmp_path_factory.mktemp("program"))


def done(result: subprocess.CompletedProcess[str]) -> dict[tuple[str, str], int]:
    """Counts by (phase, operation) of the summary of a run that must have gone well."""
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    assert "as they were written" in result.stdout
    return {(phase, operation): int(count) for phase, operation, count, *_ in SUMMARY.findall(result.stdout)}


def files_of(place: Path) -> dict[str, tuple[int, str]]:
    """Size and checksum of every file left."""
    return {
        str(path.relative_to(place)): (path.stat().st_size, hashlib.md5(path.read_bytes()).hexdigest())
        for path in (place / "createdelete").rglob("*")
        if path.is_file()
    }


def test_what_is_left_is_what_was_done(createdelete: Path, ram: Path) -> None:
    phases_file = ram / "phases"
    words = ("-D", ram, "-t", 7, "-n", 5000, "-o", 6001, "-f", 10)
    counts = done(run(createdelete, *words, SEEKMETER_PHASES=phases_file))
    phases: list[dict[str, Any]] = [json.loads(line) for line in phases_file.read_text().splitlines()]
    assert [phase["name"] for phase in phases] == list(catalog.load("createdelete").phases)
    ops = {phase["name"]: phase["ops"] for phase in phases}
    assert counts["create", "create"] == ops["create"] == 5000
    mixed = [counts["mixed", operation] for operation in ("create", "rename", "delete")]
    assert sum(mixed) == ops["mixed"] == 6001
    assert all(1800 < count < 2200 for count in mixed)  # a third each: 2000 +- 5.5 standard deviations
    created = 5000 + counts["mixed", "create"]
    assert 0.07 * created < counts["create", "fsync"] + counts["mixed", "fsync"] < 0.13 * created

    left = files_of(ram)
    assert len(left) == created - counts["mixed", "delete"] - counts["delete", "delete"] == ops["verify"]
    before = created - counts["mixed", "delete"]
    assert before / 10 - 7 < len(left) <= before / 10  # every thread rounds down
    assert {str(Path(name).parent) for name in left} == {"createdelete/shared"}
    assert sum(size for size, _ in left.values()) == phases[3]["bytes"]
    assert all(1 <= size <= 8192 for size, _ in left.values())
    assert len({checksum for _, checksum in left.values()}) == len(left)
    assert {name.split("/")[2].split("-")[0] for name in left} == {f"t{number:04}" for number in range(7)}
    assert any(not name.endswith("-0") for name in left), "no file that is left was ever renamed"
    # Bytes are those of the creates: 4,096.5 each on average, and by chance 1.5 % from that at most.
    assert phases[0]["bytes"] == pytest.approx(5000 * 4096.5, rel=0.04)
    times = [phase[edge] for phase in phases for edge in ("start_ns", "end_ns")]
    assert times == sorted(times)


def test_same_seed_same_files(createdelete: Path, ram: Path, tmp_path: Path) -> None:
    """On two file systems, by -s and by the session's variables; threads have no part in the totals."""
    here, there, other = tmp_path / "here", ram / "there", ram / "other"
    for place in (here, there, other):
        place.mkdir()
    words = ("-n", 600, "-o", 900)
    first = done(run(createdelete, "-D", here, "-t", 5, "-s", 3, *words))
    environment: dict[str, str | Path] = {
        "SEEKMETER_DIR": there,
        "SEEKMETER_THREADS": "5",
        "SEEKMETER_SEED": "3",
    }
    assert done(run(createdelete, *words, **environment)) == first
    assert files_of(here) == files_of(there)
    assert files_of(here)
    second = done(run(createdelete, "-D", other, "-t", 5, "-s", 4, *words))
    assert files_of(other) != files_of(here)
    assert second["create", "create"] == first["create", "create"] == 600


def test_a_directory_each(createdelete: Path, ram: Path) -> None:
    done(run(createdelete, "-D", ram, "-t", 3, "-n", 300, "-o", 0, "--private"))
    names = [name.split("/")[1:] for name in files_of(ram)]
    assert {(folder, name[:5]) for folder, name in names} == {
        (f"thread-000{i}", f"t000{i}") for i in range(3)
    }


def test_more_threads_than_files(createdelete: Path, ram: Path) -> None:
    counts = done(run(createdelete, "-D", ram, "-t", 40, "-n", 3, "-o", 50, "-f", 100))
    assert counts["create", "create"] == counts["create", "fsync"] == 3


@needs_root
@pytest.mark.parametrize("fs", each_filesystem())
def test_workload_runs_on_every_filesystem(
    createdelete: Path, fs: str, janitor: Janitor, tmp_path: Path
) -> None:
    """On a disk of its own; its fsck agrees afterwards."""
    decided = plan(FS=fs, SIZE="512M", words={"WL": "createdelete", "SCALE": "quick"})
    with open_disk(decided, janitor) as disk:
        filesystems.format(filesystem_of(decided), disk, janitor)
        target = tmp_path / "mnt"
        target.mkdir()
        filesystems.mount(filesystem_of(decided), disk, target, janitor)
        words = ("-t", 16, "-n", 2000, "-o", 2000)
        here = done(run(createdelete, "-D", target, *words))
        with tmpfs(tmp_path / "ram", "200m") as ram:
            assert done(run(createdelete, "-D", ram, *words)) == here
            assert files_of(ram) == files_of(target)
        filesystems.unmount(target, janitor)
        clean, said = filesystems.fsck(filesystem_of(decided), disk)
        assert clean, said


@pytest.mark.parametrize("sanitizer", ["thread", "address,undefined"])
@pytest.mark.parametrize("layout", [(), ("--private",)])
def test_no_races_and_no_memory_errors(
    ram: Path, tmp_path: Path, sanitizer: str, layout: tuple[str, ...]
) -> None:
    program = compile_generator(
        "createdelete", tmp_path, f"-fsanitize={sanitizer}", "-fno-sanitize-recover=all"
    )
    counts = done(run(program, "-D", ram, "-t", 8, "-n", 1500, "-o", 1500, "-f", 20, *layout))
    assert counts["create", "create"] == 1500


@pytest.mark.parametrize(
    ("function", "says"),
    [
        ("int unlinkat(int d, const char *n, int f) { (void)d; (void)n; (void)f; return 0; }", "are listed"),
        ("int renameat(int a, const char *b, int c, const char *d) "
         "{ (void)a; (void)b; (void)c; (void)d; return 0; }", "cannot "),
        ("ssize_t write(int fd, const void *b, size_t n) { static char bad[262144]; memcpy(bad, b, n); "
         "bad[n - 1] ^= fd > 2; return syscall(SYS_write, fd, bad, n); }", "is not what was written"),
        ("ssize_t write(int fd, const void *b, size_t n) "
         "{ if (fd > 2) return n; return syscall(SYS_write, fd, b, n); }", "is not what was written"),
    ],
)  # fmt: skip
def test_verify_finds_damage(createdelete: Path, ram: Path, tmp_path: Path, function: str, says: str) -> None:
    library = lying_library(tmp_path, function)
    result = run(createdelete, "-D", ram, "-t", 1, "-n", 200, "-o", 200, LD_PRELOAD=library)
    assert result.returncode == 1
    assert says in result.stderr
    assert result.stderr.startswith("seekmeter: ")
    assert "as they were written" not in result.stdout


@pytest.mark.root
def test_full_disk_is_one_error(createdelete: Path, tmp_path: Path) -> None:
    for attempt in range(5):  # sixteen threads find it full at once
        with tmpfs(tmp_path / f"full{attempt}", "4m") as place:
            result = run(createdelete, "-D", place, "-t", 16, "-n", 20000)
        assert result.returncode == 1
        assert re.fullmatch(
            r"seekmeter: t00\d\d-\d+-0: cannot write: no space left on device; give a larger disk .*\n",
            result.stderr,
        ), result.stderr


def test_existing_files_are_left_alone(createdelete: Path, ram: Path) -> None:
    (ram / "createdelete").mkdir()
    (ram / "createdelete" / "mine").write_text("keep")
    result = run(createdelete, "-D", ram)
    assert result.returncode == 1
    assert result.stderr.startswith("seekmeter: createdelete: cannot make the directory: file exists")
    assert [path.name for path in (ram / "createdelete").iterdir()] == ["mine"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-t", "0"], "-t '0' is not a number that can be used; give one from 1 to 1024"),
        (["-f", "101"], "-f '101' is not a number"),
        (["-n", "many"], "-n 'many' is not a number"),
        (["-o"], "-o needs a value"),
        (["--fast"], "unknown option --fast"),
        (["extra"], "unknown argument extra"),
        ([], "no directory"),
    ],
)
def test_wrong_value_names_a_remedy(createdelete: Path, words: list[str], message: str) -> None:
    result = run(createdelete, *words)
    assert result.returncode == 2
    assert result.stderr.startswith("seekmeter: ") and message in result.stderr
    assert result.stderr.count("\n") == 1
