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
from tests.collectors.sessions import finished, in_own_mount_namespace, wait_for
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
from tests.workloads.reports import report_text
from workloads import filesystems
from workloads.cleanup.janitor import Janitor

MIX = Path(__file__).resolve().parents[2] / "workloads/datasets/aim7-shared.mix"
JOBS = [line.split()[0] for line in MIX.read_text().splitlines() if not line.startswith("#")]


@pytest.fixture(scope="module")
def aim7(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The generator, compiled as the Makefile does it."""
    return compile_generator("aim7", tmp_path_factory.mktemp("program"))


def test_a_short_step_is_done_again(aim7: Path, ram: Path, tmp_path: Path) -> None:
    """Its rate is that of all rounds; without the last of them it was not long enough.

    A unit of each job: some ten milliseconds, so that one round does not take the second on a busy machine.
    """
    mix = tmp_path / "mix"
    mix.write_text("".join(f"{name} 1\n" for name in JOBS))
    files = {"SEEKMETER_PHASES": ram / "phases", "SEEKMETER_FIGURES": ram / "figures"}
    done = run(aim7, "-D", ram, "-m", mix, "-N", 1, "-l", 60, "-r", 1, **files)
    assert (done.returncode, done.stderr) == (0, "")
    step = lines(ram / "figures")[0]
    rounds = [(phase["end_ns"] - phase["start_ns"]) / 1e9 for phase in lines(ram / "phases")]
    assert len(rounds) > 1 and sum(rounds[:-1]) < 1 <= sum(rounds)
    assert step["seconds"] == pytest.approx(sum(rounds), abs=0.001)
    assert step["jobs"] == len(rounds) * len(JOBS)
    assert step["jobs_per_min"] == pytest.approx(step["jobs"] / sum(rounds) * 60, rel=1e-3)


def test_the_mix_has_every_kind_of_job(aim7: Path) -> None:
    done = run(aim7, "--jobs")
    assert sorted(done.stdout.split()) == sorted(JOBS)
    assert len(set(JOBS)) == len(JOBS) >= 40


def test_the_ramp_and_its_peak(aim7: Path, ram: Path) -> None:
    files = {"SEEKMETER_PHASES": ram / "phases", "SEEKMETER_FIGURES": ram / "figures"}
    done = run(aim7, "-D", ram, "-m", MIX, "-N", 8, "-l", 60, **files)
    assert (done.returncode, done.stderr) == (0, "")
    *steps, figures, own = lines(ram / "figures")
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
    # as a share of two CPUs at most, by the kernel's ticks
    assert all(0 <= step["own_user_cpu_pct"] <= 110 for step in steps)
    assert 0 < own["own_user_cpu_s"] < sum(step["seconds"] for step in steps) * (os.cpu_count() or 1) * 1.1
    assert sorted(path.name for path in ram.iterdir()) == ["figures", "phases"]


@needs_root
@needs_btf
def test_bytes_match_the_kernels_count(tmp_path: Path) -> None:
    job = finished(
        tmp_path / "run", FS="ext4", WL="aim7", SCALE="quick", SIZE="512M", COLLECT="calls", ARGS="-n 3 -N 3"
    )
    text = report_text(job.run.path)
    assert "aim7 peak tasks 3" in text
    assert f"aim7 kinds of jobs {len(JOBS)}" in text
    calls = parquet.read_table(job.run.path / "tables/call.parquet").to_pylist()
    moved = sum(c["bytes"] for c in calls if c["call"] in ("read", "write") and c["target"] == "target")
    (phase,) = [phase for phase in job.run.phases if phase["name"] == "3 tasks"]
    disk_file = 256 * 1024  # each task's, written before and read after
    assert job.run.has_counted(moved, phase["bytes"] + 3 * 2 * disk_file, most=disk_file)


@needs_root
@pytest.mark.parametrize("fs", each_filesystem())
def test_workload_runs_on_every_filesystem(aim7: Path, fs: str, janitor: Janitor, tmp_path: Path) -> None:
    decided = plan(FS=fs, SIZE="512M", words={"WL": "aim7", "SCALE": "quick"})
    with open_disk(decided, janitor) as disk:
        filesystems.format(filesystem_of(decided), disk, janitor)
        target = tmp_path / "mnt"
        target.mkdir()
        filesystems.mount(filesystem_of(decided), disk, target, janitor)
        done = run(aim7, "-D", target, "-m", MIX, "-n", 4, "-N", 4)
        assert (done.returncode, done.stderr) == (0, "")
        assert not (target / "aim7").exists()
        filesystems.unmount(target, janitor)
        clean, said = filesystems.fsck(filesystem_of(decided), disk)
        assert clean, said


@pytest.mark.parametrize("sanitizer", ["address,undefined", "thread"])
def test_no_memory_errors_and_no_races(ram: Path, tmp_path: Path, sanitizer: str) -> None:
    program = compile_generator("aim7", tmp_path, f"-fsanitize={sanitizer}", "-fno-sanitize-recover=all")
    mix = tmp_path / "mix"
    mix.write_text("".join(f"{name} 2\n" for name in JOBS))
    done = run(program, "-D", ram, "-m", mix, "-n", 2, "-N", 2)
    assert (done.returncode, done.stderr) == (0, "")


def test_verify_finds_damage(aim7: Path, ram: Path, tmp_path: Path) -> None:
    function = (
        "ssize_t pwrite(int fd, const void *b, size_t n, off_t at) { static char bad[4096]; "
        "memcpy(bad, b, n); bad[n - 1] ^= at == 8192; return syscall(SYS_pwrite64, fd, bad, n, at); }"
    )
    done = run(aim7, "-D", ram, "-m", MIX, "-N", 4, LD_PRELOAD=lying_library(tmp_path, function))
    assert done.returncode == 1
    assert "is not what was written; look in dmesg" in done.stderr
    assert done.stderr.startswith("seekmeter: ") and done.stderr.count("\n") == 1


@pytest.mark.root
def test_full_failing_or_read_only_disk_is_reported(aim7: Path, tmp_path: Path) -> None:
    with tmpfs(tmp_path / "full", "2m") as place:
        done = run(aim7, "-D", place, "-m", MIX, "-n", 32, MARK=str(tmp_path))
        assert "give a larger disk (SIZE=)" in clear_error(done)
    with tmpfs(tmp_path / "bad", "32m") as place:
        lies = lying_library(tmp_path, FAILING_WRITES)
        done = run(aim7, "-D", place, "-m", MIX, "-n", 4, LD_PRELOAD=lies, MARK=str(tmp_path))
        assert clear_error(done) == "seekmeter: disk: cannot write: input/output error\n"
        wait_for(lambda: marked(f"MARK={tmp_path}") == 0)
    with tmpfs(tmp_path / "bad", "1m") as place:
        read_only(place)
        assert "read-only file system" in clear_error(run(aim7, "-D", place, "-m", MIX))


# In namespaces of its own: no network but lo, all file systems read-only but DIR and an empty /dev/shm.
# Those of sessions are let go first, which could not unmount them meanwhile. At the end there must be no
# System V object (their tables have one line, the head) and nothing in /dev/shm.
ALONE = """
    dir=$1 lo=$2; shift 2
    while read -r _ _ _ _ place _; do
        case $place in
            "$dir") ;;
            /run/seekmeter/*) umount --lazy "$place" ;;
            *) mount -o remount,bind,ro "$(printf %b "$place")" ;;
        esac || true
    done < /proc/self/mountinfo 2>/dev/null
    mount -t tmpfs none /dev/shm
    [ "$lo" = no ] || ip link set lo up
    ! touch /var/tmp/seekmeter-test 2>/dev/null || exit 99
    "$@" -D "$dir"; status=$?
    [ "$(cat /proc/sysvipc/shm /proc/sysvipc/sem /proc/sysvipc/msg | wc -l)" = 3 ] || exit 98
    [ -z "$(ls -A /dev/shm)" ] || exit 97
    exit $status
"""


@needs_root
@pytest.mark.parametrize(
    ("before", "lo", "status"), [((), "yes", 0), (("timeout", "-s", "KILL", "1"), "yes", 137), ((), "no", 1)]
)
def test_it_reaches_nothing_but_its_directory_and_lo(
    aim7: Path, ram: Path, tmp_path: Path, before: tuple[str, ...], lo: str, status: int
) -> None:
    """Whole, killed, and without even lo. A socket bound to another address than 127.0.0.1 fails."""
    library = lying_library(
        tmp_path,
        """
        #include <netinet/in.h>
        #include <sys/socket.h>
        int bind(int fd, const struct sockaddr *a, socklen_t n) {
            if (((const struct sockaddr_in *)a)->sin_addr.s_addr == htonl(INADDR_LOOPBACK))
                return syscall(SYS_bind, fd, a, n);
            errno = EACCES; return -1; }
        """,
    )
    steps = ["-n", "64", "-l", "600"] if before else ["-n", "2", "-N", "2"]
    words = [*before, "env", f"LD_PRELOAD={library}", str(aim7), "-m", str(MIX), *steps]
    namespaces = ["unshare", "--net", "--ipc", *in_own_mount_namespace(ram)]
    done = subprocess.run(
        [*namespaces, "sh", "-c", ALONE, "sh", ram, lo, *words],
        check=False,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == status, done.stderr
    if lo == "no":
        assert "a socket on 127.0.0.1: cannot be connected (is the interface lo up?)" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_kill_ends_all_tasks(aim7: Path, ram: Path, number: int) -> None:
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
        (["-m", __file__], "is not a line of a mix"),
        (["extra"], "unknown argument extra"),
    ],
)
def test_wrong_value_names_a_remedy(
    aim7: Path, tmp_path: Path, words: list[str | Path], message: str
) -> None:
    done = run(aim7, "-D", tmp_path, *words)
    assert done.returncode == 2
    assert done.stderr.startswith("seekmeter: ") and message in done.stderr
    assert list(tmp_path.iterdir()) == []
