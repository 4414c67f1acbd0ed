# SPDX-License-Identifier: BSD-2-Clause
"""aim7: its ramp and its peak, bytes against the kernel's count, every file system, errors, kills."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pyarrow.parquet as parquet
import pytest

from tests.collectors.loop_disk import tmpfs
from tests.collectors.recording import needs_btf
from tests.collectors.sessions import finished, wait_for
from tests.workloads.conftest import needs_root, plan
from tests.workloads.programs import compile_generator, lines, lying_library, run
from workloads import disks, filesystems
from workloads.janitor import Janitor

MIX = Path(__file__).resolve().parents[2] / "workloads/datasets/aim7-shared.mix"
JOBS = [line.split()[0] for line in MIX.read_text().splitlines() if not line.startswith("#")]


@pytest.fixture(scope="module")
def aim7(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The generator, compiled as the Makefile does it."""
    return compile_generator("aim7", tmp_path_factory.mktemp("program"))


def test_the_mix_has_every_kind_of_job(aim7: Path) -> None:
    done = run(aim7, "--jobs")
    assert sorted(done.stdout.split()) == sorted(JOBS)
    assert len(set(JOBS)) == len(JOBS) >= 40


def test_the_ramp_and_its_peak(aim7: Path, ram: Path) -> None:
    files = {"SEEKMETER_PHASES": ram / "phases", "SEEKMETER_FIGURES": ram / "figures"}
    done = run(aim7, "-D", ram, "-m", MIX, "-N", 8, "-l", 60, **files)
    assert (done.returncode, done.stderr) == (0, "")
    *steps, figures = lines(ram / "figures")
    phases = lines(ram / "phases")
    assert [step["tasks"] for step in steps][:2] == [1, 2]
    assert all(step["tasks"] <= 8 for step in steps)
    assert len({step["tasks"] for step in steps}) == len(steps) == len(phases)
    for step, phase in zip(steps, phases, strict=True):
        seconds = (phase["end_ns"] - phase["start_ns"]) / 1e9
        assert phase["name"] == f"{step['tasks']} tasks"
        assert phase["ops"] == step["jobs"] == step["tasks"] * len(JOBS)
        assert step["jobs_per_min"] == pytest.approx(step["jobs"] / seconds * 60, rel=1e-3)
    best = max(steps, key=lambda step: step["jobs_per_min"])
    assert (figures["aim7_peak_tasks"], figures["aim7_peak_jobs_per_min"]) == (
        best["tasks"],
        best["jobs_per_min"],
    )
    assert figures["aim7_kinds_of_jobs"] == len(JOBS)
    passed = best["tasks"] < max(step["tasks"] for step in steps)
    assert figures["aim7_peak_passed"] == ("yes" if passed else "no")
    assert sorted(path.name for path in ram.iterdir()) == ["figures", "phases"]


@needs_root
@needs_btf
def test_bytes_are_those_that_the_kernel_counts(tmp_path: Path) -> None:
    job = finished(
        tmp_path / "run", FS="ext4", WL="aim7", SCALE="quick", SIZE="512M", COLLECT="calls", ARGS="-n 3 -N 3"
    )
    text = " ".join(job.run.report().split())
    assert "aim7 peak tasks 3" in text
    assert f"aim7 kinds of jobs {len(JOBS)}" in text
    calls = parquet.read_table(job.run.path / "tables/call.parquet").to_pylist()
    moved = sum(c["bytes"] for c in calls if c["call"] in ("read", "write") and c["target"] == "target")
    (phase,) = [phase for phase in job.run.phases if phase["name"] == "3 tasks"]
    disk_file = 256 * 1024  # each task's, written before and read after
    assert moved == phase["bytes"] + 3 * 2 * disk_file


@needs_root
@pytest.mark.parametrize("fs", [name for name in filesystems.names() if filesystems.kernel_has(name)])
def test_every_filesystem(aim7: Path, fs: str, janitor: Janitor, tmp_path: Path) -> None:
    decided = plan(FS=fs, SIZE="512M", words={"WL": "aim7", "SCALE": "quick"})
    with disks.open_disk(decided, janitor) as disk:
        filesystems.format(decided, disk, janitor)
        target = tmp_path / "mnt"
        target.mkdir()
        filesystems.mount(decided, disk, target, janitor)
        done = run(aim7, "-D", target, "-m", MIX, "-n", 4, "-N", 4)
        assert (done.returncode, done.stderr) == (0, "")
        assert not (target / "aim7").exists()
        filesystems.unmount(target, janitor)
        clean, said = filesystems.fsck(decided, disk)
        assert clean, said


@pytest.mark.parametrize("sanitizer", ["address,undefined", "thread"])
def test_no_memory_errors_and_no_races(ram: Path, tmp_path: Path, sanitizer: str) -> None:
    program = compile_generator("aim7", tmp_path, f"-fsanitize={sanitizer}", "-fno-sanitize-recover=all")
    mix = tmp_path / "mix"
    mix.write_text("".join(f"{name} 2\n" for name in JOBS))
    done = run(program, "-D", ram, "-m", mix, "-n", 2, "-N", 2)
    assert (done.returncode, done.stderr) == (0, "")


def test_its_check_finds_what_is_wrong(aim7: Path, ram: Path, tmp_path: Path) -> None:
    function = (
        "ssize_t pwrite(int fd, const void *b, size_t n, off_t at) { static char bad[4096]; "
        "memcpy(bad, b, n); bad[n - 1] ^= at == 8192; return syscall(SYS_pwrite64, fd, bad, n, at); }"
    )
    done = run(aim7, "-D", ram, "-m", MIX, "-N", 4, LD_PRELOAD=lying_library(tmp_path, function))
    assert done.returncode == 1
    assert "is not what was written; look in dmesg" in done.stderr
    assert done.stderr.startswith("seekmeter: ") and done.stderr.count("\n") == 1


def test_a_full_disk_is_one_clear_error(aim7: Path, tmp_path: Path) -> None:
    with tmpfs(tmp_path / "full", "2m") as place:
        done = run(aim7, "-D", place, "-m", MIX, "-n", 32)
    assert done.returncode == 1
    assert done.stderr.startswith("seekmeter: ") and done.stderr.count("\n") == 1
    assert "give a larger disk (SIZE=)" in done.stderr


def marked(mark: str) -> int:
    """How many processes have this in their environment."""
    count = 0
    for environ in Path("/proc").glob("[0-9]*/environ"):
        try:
            count += mark.encode() in environ.read_bytes().split(b"\0")
        except OSError:
            continue
    return count


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_killed_it_takes_its_tasks_along(aim7: Path, ram: Path, number: int) -> None:
    process = subprocess.Popen(
        [aim7, "-D", ram, "-m", MIX, "-n", "16", "-l", "60"],
        stdout=subprocess.DEVNULL,
        env={**os.environ, "SEEKMETER_TEST_MARK": str(ram)},
    )
    mark = f"SEEKMETER_TEST_MARK={ram}"
    wait_for(lambda: marked(mark) > 16)
    process.send_signal(number)
    assert process.wait(20) == -number
    wait_for(lambda: marked(mark) == 0)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-m", MIX, "-n", "9", "-N", "8"], "-n 9 is more than -N 8"),
        ([], "no mix of jobs"),
        (["-m", MIX, "-N", "0"], "-N '0' is not a number"),
        (["-m", __file__], "is no line of a mix"),
        (["extra"], "unknown word extra"),
    ],
)
def test_wrong_words(aim7: Path, tmp_path: Path, words: list[str | Path], message: str) -> None:
    done = run(aim7, "-D", tmp_path, *words)
    assert done.returncode == 2
    assert done.stderr.startswith("seekmeter: ") and message in done.stderr
    assert list(tmp_path.iterdir()) == []
