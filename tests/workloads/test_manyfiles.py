# SPDX-License-Identifier: BSD-2-Clause
"""manyfiles and acp: what they do, their own checks, their rank correlations against SciPy's, under trace."""

from __future__ import annotations

import fcntl
import os
import re
import struct
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from tests.collectors.loop_disk import sectors_of, tmpfs
from tests.collectors.recording import enum_value, needs_btf, read_table
from tests.collectors.sessions import TREE, Run, finished
from tests.marks import needs_root
from tests.workloads.conftest import each_filesystem, filesystem_of, open_disk, plan
from tests.workloads.programs import FLAGS, GENERATORS, compile_generator, lines, lying_library
from tests.workloads.programs import run as run_generator
from workloads import catalog, filesystems
from workloads.cleanup.janitor import Janitor

PHASES = ["create", "find", "tar read", "acp read", "verify", "delete"]
BUILT = TREE / "build/generators/manyfiles"
_FIEMAP = 0xC020660B  # linux/fs.h: FS_IOC_FIEMAP


@pytest.fixture(scope="module")
def manyfiles(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The generator, and acp beside it."""
    folder = tmp_path_factory.mktemp("program")
    compile_generator("acp", folder)
    return compile_generator("manyfiles", folder)


def figures(path: Path) -> dict[str, Any]:
    """The figures that stand alone."""
    return {name: value for line in lines(path) for name, value in line.items() if name != "table"}


def good(result: subprocess.CompletedProcess[str]) -> str:
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    return result.stdout


def test_what_it_does(manyfiles: Path, ram: Path) -> None:
    files = {"SEEKMETER_PHASES": ram / "phases", "SEEKMETER_FIGURES": ram / "figures"}
    said = good(run_generator(manyfiles, "-D", ram, "-n", 3000, "-b", 700, "--keep", **files))
    phases = lines(ram / "phases")
    assert [phase["name"] for phase in phases] == PHASES[:-1] == list(catalog.load("manyfiles").phases)[:-1]
    assert {phase["ops"] for phase in phases} == {3000}
    assert [phase["bytes"] for phase in phases] == [3000 * 700, 0, *[3000 * 700] * 3]
    times = [phase[edge] for phase in phases for edge in ("start_ns", "end_ns")]
    assert times == sorted(times)
    made = sorted(ram.glob("manyfiles/*"))
    assert [path.name for path in made] == [f"f{number:08}" for number in range(3000)]
    contents = [path.read_bytes() for path in made]
    assert {len(content) for content in contents} == {700}
    assert len(set(contents)) > 2980  # from any of a million places in the text
    assert "caches are not cold: there is no session" in said
    assert said.count("caches are not cold") == 1
    told = figures(ram / "figures")
    assert told["cold_caches"] == "no"
    assert 0 <= told["own_user_cpu_s"] < 0.5
    assert told["spearman_readdir_inode"] == -1  # as tmpfs lists: the newest first
    assert told["spearman_readdir_place"] == "not measured: the file system gives no disk offsets"
    assert told["files_with_a_place"] == 0

    subprocess.run(["rm", "-r", ram / "manyfiles"], check=True)
    good(run_generator(manyfiles, "-n", 5, "-b", 700, "--keep", SEEKMETER_DIR=ram, SEEKMETER_SEED="1"))
    assert [path.read_bytes() for path in sorted(ram.glob("manyfiles/*"))] == contents[:5]
    subprocess.run(["rm", "-r", ram / "manyfiles"], check=True)
    good(run_generator(manyfiles, "-D", ram, "-n", 5, "-b", 700, "--keep", "-s", 7))
    assert [path.read_bytes() for path in sorted(ram.glob("manyfiles/*"))] != contents[:5]


@pytest.mark.parametrize(("count", "size"), [(0, 512), (1, 512), (2, 0), (300, 511), (300, 513), (19, 512)])
def test_any_number_of_any_size(manyfiles: Path, ram: Path, count: int, size: int) -> None:
    """Archives that just fill a record of tar's, or just do not, among them."""
    said = good(run_generator(manyfiles, "-D", ram, "-n", count, "-b", size, SEEKMETER_PHASES=ram / "phases"))
    assert [phase["ops"] for phase in lines(ram / "phases")] == [count] * 6
    assert not (ram / "manyfiles").exists()
    assert "not measured: " + ("too few files" if count < 2 else "") in said


def test_correlations_match_scipy(tmp_path: Path) -> None:
    source = tmp_path / "rank.c"
    source.write_text(
        '#include <stdio.h>\n#include <inttypes.h>\n#include "common/stats/rank.h"\n'
        "int main(void) { static uint64_t a[1000], b[1000]; size_t n;\n"
        'while (scanf("%zu", &n) == 1) { for (size_t i = 0; i < n; i++)\n'
        'if (scanf("%" SCNu64 " %" SCNu64, a + i, b + i) != 2) return 1;\n'
        'printf("%.12f\\n", rank_correlation(a, b, n)); } return 0; }\n'
    )
    program = tmp_path / "rank"
    parts = [GENERATORS / "common" / name for name in ("stats/rank.c", "session/fail.c")]
    subprocess.run(["gcc", *FLAGS, source, *parts, "-o", program, "-lm", "-pthread"], check=True)
    rng = np.random.default_rng(6)
    cases = []
    for number in range(300):
        count = int(rng.integers(2, 1000))
        highest = [2, 10, 2**63][number % 3]  # nearly all equal, many equal, none
        a = rng.integers(0, highest, count, dtype=np.uint64)
        b = rng.integers(0, highest, count, dtype=np.uint64) if number % 2 else np.sort(a)
        cases.append((a, b))
    cases.append((np.arange(5, dtype=np.uint64), np.zeros(5, dtype=np.uint64)))
    cases.append((np.arange(1, dtype=np.uint64), np.arange(1, dtype=np.uint64)))
    text = "\n".join(f"{len(a)} " + " ".join(f"{x} {y}" for x, y in zip(a, b, strict=True)) for a, b in cases)
    done = subprocess.run([program], input=text, capture_output=True, text=True, check=True)
    ours = [float(line) for line in done.stdout.split()]
    assert len(ours) == len(cases)
    for (a, b), rho in zip(cases[:-2], ours[:-2], strict=True):
        if len(set(a.tolist())) > 1 and len(set(b.tolist())) > 1:
            assert rho == pytest.approx(stats.spearmanr(a, b).statistic, abs=1e-9)
    assert np.isnan(ours[-2:]).all()


def place_of(path: Path) -> int | None:
    """Where its first extent lies, asked independently; None: not told, or not of its own."""
    with path.open("rb") as file:
        request = bytearray(struct.pack("=QQIIII", 0, 2**64 - 1, 0, 0, 1, 0) + bytes(56))
        fcntl.ioctl(file, _FIEMAP, request)
    (count,) = struct.unpack_from("=I", request, 20)
    (physical,) = struct.unpack_from("=Q", request, 40)
    (flags,) = struct.unpack_from("=I", request, 72)
    return physical if count and not flags & 0x206 else None


@needs_root
@pytest.mark.parametrize("size", [512, 16384])
@pytest.mark.parametrize("fs", each_filesystem())
def test_orders_on_every_filesystem(
    manyfiles: Path, fs: str, size: int, janitor: Janitor, tmp_path: Path
) -> None:
    decided = plan(FS=fs, SIZE="512M", words={"WL": "manyfiles", "SCALE": "quick"})
    with open_disk(decided, janitor) as disk:
        filesystems.format(filesystem_of(decided), disk, janitor)
        target = tmp_path / "mnt"
        target.mkdir()
        filesystems.mount(filesystem_of(decided), disk, target, janitor)
        said = tmp_path / "figures"
        words = ("-D", target, "-n", 3000, "-b", size, "--keep")
        good(run_generator(manyfiles, *words, SEEKMETER_FIGURES=said))
        with os.scandir(target / "manyfiles") as entries:
            listed = [(entry.inode(), place_of(Path(entry.path))) for entry in entries]
        filesystems.unmount(target, janitor)
        clean, complaint = filesystems.fsck(filesystem_of(decided), disk)
        assert clean, complaint
    told = figures(said)
    inodes = [inode for inode, _ in listed]
    turns = range(len(listed))
    assert told["spearman_readdir_inode"] == pytest.approx(stats.spearmanr(turns, inodes).statistic, abs=1e-6)
    placed = [(turn, inode, place) for turn, (inode, place) in enumerate(listed) if place is not None]
    assert told["files_with_a_place"] == len(placed)
    if placed:
        turn, inode, place = zip(*placed, strict=True)
        expected = stats.spearmanr(turn, place).statistic, stats.spearmanr(inode, place).statistic
        assert told["spearman_readdir_place"] == pytest.approx(expected[0], abs=1e-6)
        assert told["spearman_inode_place"] == pytest.approx(expected[1], abs=1e-6)
    else:  # 512 bytes fit into btrfs's tree
        assert (fs, size) == ("btrfs", 512)
        assert told["spearman_readdir_place"] == "not measured: the file system gives no disk offsets"
    if fs in ("ext3", "ext4"):  # listed by the hash of the name
        assert abs(told["spearman_readdir_inode"]) < 0.1
    elif fs in ("xfs", "btrfs"):  # listed as they were created
        assert told["spearman_readdir_inode"] > 0.9


def rows_in(run: Run, name: str, op: str) -> Any:
    """Requests of one kind that were issued in a phase."""
    path = run.path / "raw/recorder/block.rec"
    rows = read_table(path)[1]
    (phase,) = [phase for phase in run.phases if phase["name"] == name]
    inside = (rows["issue_ns"] >= phase["start_ns"]) & (rows["issue_ns"] < phase["end_ns"])
    return rows[inside & (rows["op"] == enum_value(path, "block_op", op))]


@needs_root
@needs_btf
@pytest.mark.parametrize("fs", each_filesystem())
def test_under_trace_all_is_counted_and_cold(tmp_path: Path, fs: str) -> None:
    count, size = 2000, 16384
    run = finished(
        tmp_path / "run", FS=fs, WL="manyfiles:16k", SCALE="quick", ARGS=f"-n {count}", COLLECT="block,calls",
        SIZE="512M",
    ).run  # fmt: skip
    names = [phase["name"] for phase in run.phases]
    reads = ["find", "remount", "tar read", "remount", "acp read"]
    assert names == ["create", "remount", *reads, "verify", "remount", "delete", "sync"]
    told = figures(run.path / "raw/figures.jsonl")
    assert told["cold_caches"] == "yes"
    path = run.path / "raw/recorder/call.rec"
    calls = read_table(path)[1]
    calls = calls[calls["target"] == enum_value(path, "call_target", "target")]

    assert run.has_counted(run.called("write", "bytes"), count * size, most=size)
    assert run.has_counted(run.called("read", "bytes"), 3 * count * size, most=size)  # tar, acp, verify
    assert run.has_counted(run.called("readahead", "count"), count)  # acp's announcements
    assert run.has_counted(run.called("unlink", "count"), count)
    assert int(calls["errors"].sum()) <= 2  # the directory is looked for once it is gone; tar's lookups
    data = enum_value(run.path / "raw/recorder/block.rec", "block_class", "data")
    for name in ("tar read", "acp read"):
        rows = rows_in(run, name, "read")
        rows = rows[rows["class"] == data]
        assert 512 * len(sectors_of(rows)) == count * size, name
    assert rows_in(run, "find", "read")["bytes"].sum() >= count * 16  # the directory itself
    assert rows_in(run, "delete", "read").size > 0  # of inodes
    report = " ".join(run.report().split())
    assert "remount 4 " in report
    assert "spearman readdir inode" in report


@needs_root
def test_remount_is_refused_in_a_users_directory(tmp_path: Path, ram: Path) -> None:
    run = finished(tmp_path / "run", DIR=str(ram), CMD=f"{BUILT} -n 500", COLLECT="none").run
    assert f"caches are not cold: {ram} is not a disk of the run's own" in run.output
    assert [phase["name"] for phase in run.phases] == [*PHASES, "sync"]
    assert any("cold caches" in text for text in run.facts["warnings"])


@pytest.mark.parametrize("sanitizer", ["thread", "address,undefined"])
def test_no_races_and_no_memory_errors(ram: Path, tmp_path: Path, sanitizer: str) -> None:
    for name in ("acp", "manyfiles"):
        compile_generator(name, tmp_path, f"-fsanitize={sanitizer}", "-fno-sanitize-recover=all")
    good(run_generator(tmp_path / "manyfiles", "-D", ram, "-n", 1000, "-b", 3000))
    good(run_generator(tmp_path / "manyfiles", "-D", ram, "-n", 0))


@pytest.mark.parametrize(
    ("function", "says"),
    [
        # Kernels that say they did it and did not.
        ("ssize_t write(int fd, const void *b, size_t n) { char bad[512]; if (fd > 2 && n == 512) "
         "{ memcpy(bad, b, n); bad[99] ^= 1; b = bad; } return syscall(SYS_write, fd, b, n); }",
         "is not what was written"),
        ("ssize_t write(int fd, const void *b, size_t n) "
         "{ return fd > 2 && n == 512 ? (ssize_t)n : syscall(SYS_write, fd, b, n); }",
         "bytes in the archive where"),
        ("int unlinkat(int d, const char *n, int f) { (void)d; (void)n; (void)f; return 0; }",
         "manyfiles: cannot delete the directory: directory not empty"),
        ("int rmdir(const char *n) { (void)n; return 0; }", "still exists after it was deleted"),
    ],
)  # fmt: skip
def test_verify_finds_damage(manyfiles: Path, ram: Path, tmp_path: Path, function: str, says: str) -> None:
    library = lying_library(tmp_path, function)
    result = run_generator(manyfiles, "-D", ram, "-n", 200, LD_PRELOAD=library)
    assert result.returncode == 1
    assert says in result.stderr
    assert result.stderr.startswith("seekmeter: ")


@pytest.mark.parametrize(
    ("program", "text", "says"),
    [
        ("find", "echo manyfiles", "find: 1 names where 201 must be"),
        ("find", "exec /usr/bin/find manyfiles/f0000001*; ", "find: 10 names where 201"),
        ("find", "echo not today >&2; exit 3", "not today\nseekmeter: find: failed with exit status 3"),
        ("tar", "exit 0", "tar: 0 bytes in the archive where 215040 must be"),
        ("tar", "kill -9 $$", "tar: ended by signal 9"),
    ],
)
def test_a_program_that_does_not_do_it(
    manyfiles: Path, ram: Path, tmp_path: Path, program: str, text: str, says: str
) -> None:
    (tmp_path / program).write_text(f"#!/bin/sh\n{text}\n")
    (tmp_path / program).chmod(0o755)
    search = f"{tmp_path}:{os.environ['PATH']}"
    result = run_generator(manyfiles, "-D", ram, "-n", 200, PATH=search)
    assert result.returncode == 1
    assert says in result.stderr


def test_missing_program_is_reported(manyfiles: Path, ram: Path) -> None:
    result = run_generator(manyfiles, "-D", ram, "-n", 2, PATH="/nowhere")
    assert (result.returncode, result.stderr) == (1, "seekmeter: find: cannot be run; install it\n")


@pytest.mark.root
def test_full_disk_is_one_error(manyfiles: Path, tmp_path: Path) -> None:
    with tmpfs(tmp_path / "full", "2m") as place:
        result = run_generator(manyfiles, "-D", place, "-n", 20000)
    assert result.returncode == 1
    said = r"seekmeter: f\d{8}: cannot write: no space left on device; give a larger disk .*\n"
    assert re.fullmatch(said, result.stderr), result.stderr


def test_existing_files_are_left_alone(manyfiles: Path, ram: Path) -> None:
    (ram / "manyfiles").mkdir()
    (ram / "manyfiles" / "mine").write_text("keep")
    result = run_generator(manyfiles, "-D", ram)
    assert result.returncode == 1
    assert result.stderr.startswith("seekmeter: manyfiles: cannot make the directory: file exists")
    assert [path.name for path in (ram / "manyfiles").iterdir()] == ["mine"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-n", "many"], "-n 'many' is not a number"),
        (["-b", "-1"], "-b '-1' is not a number"),
        (["-n"], "-n needs a value"),
        (["--fast"], "unknown option --fast"),
        (["extra"], "unknown argument extra"),
        ([], "no directory"),
    ],
)
def test_wrong_value_names_a_remedy(manyfiles: Path, words: list[str], message: str) -> None:
    result = run_generator(manyfiles, *words)
    assert result.returncode == 2
    assert result.stderr.startswith("seekmeter: ") and message in result.stderr
    assert result.stderr.count("\n") == 1


# --- acp by itself ---------------------------------------------------------------------------------


def test_acp_reads_everything_once(manyfiles: Path, ram: Path) -> None:
    acp = manyfiles.parent / "acp"
    sizes = [0, 1, 4095, 4096, 300_000, *range(400)]
    for number, size in enumerate(sizes):
        folder = ram / f"d{number % 7}" / "deep"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number}").write_bytes(bytes(size))
    (ram / "d0/link").symlink_to("deep/0")
    (ram / "d0/loop").symlink_to(ram, target_is_directory=True)
    os.mkfifo(ram / "d0/pipe")
    expected = f"acp: {len(sizes)} files, {sum(sizes)} bytes, 15 directories in "
    for batch in (1, 3, 900):
        assert good(run_generator(acp, "-b", batch, ram)).startswith(expected)
    both = good(run_generator(acp, ram / "d0", ram / "d1"))
    assert int(both.split()[1]) == len([n for n in range(len(sizes)) if n % 7 < 2])


def test_acp_reads_in_the_order_of_inodes(manyfiles: Path, ram: Path, tmp_path: Path) -> None:
    """Announced a batch at a time before it is read; tmpfs lists the newest file first."""
    for number in range(10):
        (ram / f"f{number}").write_text("x")
    log = tmp_path / "log"
    library = lying_library(
        tmp_path,
        f"""
        static void put(const char *what, const char *name) {{ FILE *f = fopen("{log}", "a");
            fprintf(f, "%s %s\\n", what, name); fclose(f); }}
        int openat(int d, const char *n, int flags, ...) {{
            if (n[0] == 'f') put("open", n); return syscall(SYS_openat, d, n, flags, 0); }}
        ssize_t readahead(int fd, off64_t o, size_t n) {{ put("ahead", "-");
            return syscall(SYS_readahead, fd, o, n); }}
        int close(int fd) {{ if (fd > 4) put("close", "-"); return syscall(SYS_close, fd); }}
        """,
    )
    good(run_generator(manyfiles.parent / "acp", "-b", 4, ram, LD_PRELOAD=library))
    done = log.read_text().splitlines()
    opened = [line.split()[1] for line in done if line.startswith("open")]
    assert opened == [f"f{number}" for number in range(10)]
    kinds = "".join(line[0] for line in done if line[0] in "oa")
    assert kinds == "oa" * 10
    text = " ".join(line.split()[0] for line in done)
    assert text.startswith("open ahead open ahead open ahead open ahead close")


def test_acp_reports_unreadable_files(manyfiles: Path, tmp_path: Path) -> None:
    acp = manyfiles.parent / "acp"
    result = run_generator(acp, tmp_path / "nowhere")
    assert (result.returncode, result.stderr) == (
        1, f"seekmeter: {tmp_path}/nowhere: cannot open the directory: no such file or directory\n",
    )  # fmt: skip
    assert run_generator(acp, "-b", 0).returncode == 2
