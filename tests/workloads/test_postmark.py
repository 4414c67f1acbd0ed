# SPDX-License-Identifier: BSD-2-Clause
"""postmark: its report, the kernel's counts, our figures; filemark's transaction is PostMark's; errors."""

from __future__ import annotations

import math
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.collectors.loop_disk import tmpfs
from tests.collectors.recording import enum_value, needs_btf, read_table
from tests.collectors.sessions import TREE, Run, finished
from tests.marks import needs_root
from tests.workloads.conftest import each_filesystem, filesystem_of, open_disk, plan
from tests.workloads.programs import compile_generator, lines, lying_library, run
from workloads import catalog, filesystems
from workloads.cleanup.janitor import Janitor

FILES, TRANSACTIONS = 4000, 16000
READS, CREATES = 80, 40  # percent
CHANCE = 5 * math.sqrt(2 * TRANSACTIONS) / 2  # five deviations of the difference of two such counts, at most


@pytest.fixture
def postmark() -> Path:
    """The generator, as make test has built it."""
    return TREE / "build/generators/postmark"


def number(pattern: str, said: str) -> float:
    """The number that PostMark says there."""
    found = re.search(pattern, said)
    assert found, said
    return float(found[1])


def figures_of(figures: Path) -> dict[str, Any]:
    """Single figures by name."""
    return {name: value for row in lines(figures) if row["table"] == "" for name, value in row.items()}


def counts_of(figures: Path) -> dict[str, int]:
    return {row["operation"]: row["count"] for row in lines(figures) if row["table"] == "postmark operations"}


def test_results_match_postmarks_output(postmark: Path, ram: Path) -> None:
    files = {"SEEKMETER_PHASES": ram / "phases", "SEEKMETER_FIGURES": ram / "figures"}
    words = ("-n", 2000, "-o", 50000, "-d", 7, "-b", 4096)
    done = run(postmark, "-D", ram, *words, **files)
    assert (done.returncode, done.stderr) == (0, "")
    created, deleted = (
        re.findall(rf"{kind} (?:alone|with transactions): (\d+) files", done.stdout.replace("Mixed", kind))
        for kind in ("Creation", "Deletion")
    )
    counts = counts_of(ram / "figures")
    assert counts == {
        "create alone": 2000,
        "create in transactions": int(created[1]),
        "read": number(r"(\d+) read \(", done.stdout),
        "append": number(r"(\d+) appended", done.stdout),
        "delete in transactions": int(deleted[2]),
        "delete alone": int(deleted[1]),
    }
    assert counts["create in transactions"] + counts["delete in transactions"] == 50000
    told = figures_of(ram / "figures")
    # PostMark's megabytes are 2^20; the kernel counts its few lines of output and the C library's file, too.
    for word in ("read", "written"):
        said = number(rf"([\d.]+) megabytes {word}", done.stdout) * 2**20
        assert told[f"postmark_{word}_bytes"] == pytest.approx(said, abs=2**20 / 100 + 20000)
    phases = lines(ram / "phases")
    assert [phase["name"] for phase in phases] == list(catalog.load("postmark").phases)
    assert [phase["ops"] for phase in phases] == [2000, 50000, counts["delete alone"]]
    seconds = (phases[1]["end_ns"] - phases[1]["start_ns"]) / 1e9
    assert told["postmark_transactions_per_s"] == pytest.approx(50000 / seconds, rel=1e-3)
    assert 0 < told["own_user_cpu_pct"] < 100
    assert sorted(path.name for path in ram.iterdir()) == ["figures", "phases"]
    # The seed decides.
    (ram / "figures").unlink()
    run(postmark, "-D", ram, *words, SEEKMETER_FIGURES=ram / "figures", SEEKMETER_SEED="1")
    assert counts_of(ram / "figures") == counts
    (ram / "figures").unlink()
    run(postmark, "-D", ram, *words, "-s", 2, SEEKMETER_FIGURES=ram / "figures")
    assert counts_of(ram / "figures") != counts


def blocks(rows: Any, size: int) -> set[int]:
    """Where the blocks of these requests lie, each once."""
    return {int(row["sector"]) * 512 + at for row in rows for at in range(0, int(row["bytes"]), size)}


@dataclass
class Counted:
    """One run as the kernel counted it: calls and bytes of these calls on the file system under test."""

    run: Run
    operations: dict[str, int]  # by the generator's own figures

    def calls(self, call: str, column: str) -> int:
        return self.run.called(call, column)


def traced(out: Path, workload: str) -> Counted:
    words = f"-n {FILES} -o {TRANSACTIONS} -d 10 -l 512 -u 10004 -b 512 -r {READS} -c {CREATES}"
    more = {"filemark": " -p 1 -P 1", "postmark": ""}
    done = finished(
        out, FS="ext4", WL=workload, SCALE="quick", ARGS=words + more[workload], COLLECT="calls",
        DISK="ram", SIZE="512M", **({"THREADS": "1"} if workload == "filemark" else {}),
    ).run  # fmt: skip
    figures = lines(done.path / "raw/figures.jsonl")
    return Counted(done, {row["operation"]: row["count"] for row in figures if "operation" in row})


@needs_root
@needs_btf
def test_filemark_transaction_matches_postmark(tmp_path: Path) -> None:
    """One thread, the same words: by PostMark's report, by filemark's figures, and by the kernel's counts."""
    theirs = traced(tmp_path / "postmark", "postmark")
    ours = traced(tmp_path / "filemark", "filemark")
    # A transaction: a read or an append (none, if the file is full), and a create or a delete.
    one, other = theirs.operations, ours.operations
    full = figures_of(ours.run.path / "raw/figures.jsonl")["appends_to_full_files"]
    assert other["read"] + other["append"] + full == TRANSACTIONS
    assert one["read"] + one["append"] <= TRANSACTIONS
    assert TRANSACTIONS - one["read"] - one["append"] == pytest.approx(full, abs=6 * math.sqrt(full) + 6)
    mixed = other["create"] - FILES
    assert mixed + other["delete"] == TRANSACTIONS
    assert one["create in transactions"] + one["delete in transactions"] == TRANSACTIONS
    for count in (one["read"], other["read"]):
        assert abs(count - TRANSACTIONS * READS / 100) < CHANCE
    for count in (one["create in transactions"], mixed):
        assert abs(count - TRANSACTIONS * CREATES / 100) < CHANCE
    # The kernel saw what each of them says that it did.
    left = other["create"] - other["delete"]
    verify = ours.run.phases[-2]
    assert (verify["name"], verify["ops"]) == ("verify", left)
    removed = FILES + one["create in transactions"]
    assert theirs.run.has_counted(theirs.calls("unlink", "count"), removed)
    assert ours.run.has_counted(ours.calls("unlink", "count"), other["delete"])
    told = figures_of(theirs.run.path / "raw/figures.jsonl")
    lost = theirs.run.calls_lost * 10004  # of each a file's bytes, at most
    for call, around, slack in (("write", "written", 4096), ("read", "read", 20000)):
        moved = theirs.calls(call, "bytes") - told[f"postmark_{around}_bytes"]
        assert -slack - lost <= moved <= slack, call
    rows = lines(ours.run.path / "raw/figures.jsonl")
    size = {row["operation"]: row["bytes"] for row in rows if row["table"] == "filemark operations"}
    written = size["create"] + size["append"]
    assert ours.run.has_counted(ours.calls("write", "bytes"), written, most=10004)
    read = size["read"] + verify["bytes"]
    assert ours.run.has_counted(ours.calls("read", "bytes"), read, most=10004)
    # And the same of both: bytes and calls of a read, and of all that is written.
    assert size["read"] / other["read"] == pytest.approx(
        theirs.calls("read", "bytes") / one["read"], rel=0.05
    )
    read_calls = ours.calls("read", "count") - 2 * left  # verify: the file, and its end
    assert read_calls / other["read"] == pytest.approx(theirs.calls("read", "count") / one["read"], rel=0.05)
    for column in ("count", "bytes"):
        assert ours.calls("write", column) == pytest.approx(theirs.calls("write", column), rel=0.04)


@needs_root
@needs_btf
def test_filemark_calls_match_the_results(tmp_path: Path) -> None:
    """Files of one block, read and created only: to the byte, on the way in and on the disk."""
    files, transactions, size = 1000, 600, 4096
    words = f"-n {files} -o {transactions} -l {size} -u {size} -b {size} -r 100 -c 100 -p 1 -P 1"
    done = finished(
        tmp_path / "run", FS="ext4", WL="filemark", SCALE="quick", ARGS=words, COLLECT="block,calls",
        DISK="ram", SIZE="512M", THREADS="3",
    ).run  # fmt: skip
    seen = Counted(done, {})
    everything = files + transactions
    assert seen.calls("write", "count") == everything
    assert seen.calls("write", "bytes") == everything * size
    assert seen.calls("unlink", "count") == 0
    # each is verified, up to its end
    assert seen.calls("read", "count") == transactions + 2 * everything
    assert seen.calls("read", "bytes") == (transactions + everything) * size
    path = done.path / "raw/recorder/block.rec"
    rows = read_table(path)[1]
    data = rows[rows["class"] == enum_value(path, "block_class", "data")]
    writes = data[data["op"] == enum_value(path, "block_op", "write")]
    assert writes["bytes"].sum() == everything * size
    # those of before the remount are read from the disk; the others are in memory, unless others on the
    # machine needed it
    (remount,) = [phase for phase in done.phases if phase["name"] == "remount"]
    before = blocks(writes[writes["issue_ns"] < remount["end_ns"]], size)
    assert len(before) == files
    reads = data[data["op"] == enum_value(path, "block_op", "read")]
    assert before <= blocks(reads, size) <= blocks(writes, size)


@needs_root
@pytest.mark.parametrize("fs", each_filesystem())
def test_workload_runs_on_every_filesystem(postmark: Path, fs: str, janitor: Janitor, tmp_path: Path) -> None:
    decided = plan(FS=fs, SIZE="512M", words={"WL": "postmark", "SCALE": "quick"})
    with open_disk(decided, janitor) as disk:
        filesystems.format(filesystem_of(decided), disk, janitor)
        target = tmp_path / "mnt"
        target.mkdir()
        filesystems.mount(filesystem_of(decided), disk, target, janitor)
        done = run(postmark, "-D", target, "-n", 1000, "-o", 3000)
        assert (done.returncode, done.stderr) == (0, "")
        assert not (target / "postmark").exists()
        filesystems.unmount(target, janitor)
        clean, said = filesystems.fsck(filesystem_of(decided), disk)
        assert clean, said


def test_no_memory_errors(ram: Path, tmp_path: Path) -> None:
    """It has no threads. One directory and the seed 0 are other things to PostMark."""
    flags = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
    program = compile_generator("postmark", tmp_path, *flags)
    done = run(program, "-D", ram, "-n", 100, "-o", 500, "-r", 30, "-c", 60, "-d", 1, "-s", 0)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("limit", "says"),
    [("2m", "the disk is full; give a larger disk (SIZE=) or a smaller SCALE="),
     ("100m,nr_inodes=300", "the disk is full; give a larger disk (SIZE=) or a smaller SCALE="),
     ("100m,ro", "postmark: cannot make the directory: read-only file system; look in dmesg")],
)  # fmt: skip
@pytest.mark.root
def test_full_or_read_only_disk_is_one_error(postmark: Path, tmp_path: Path, limit: str, says: str) -> None:
    with tmpfs(tmp_path / "full", limit) as place:
        done = run(postmark, "-D", place, "-n", 1000, "-o", 1000)
    assert done.returncode == 1
    assert done.stderr.startswith("seekmeter: postmark: ") and says in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.root
def test_momentarily_full_disk_is_detected(postmark: Path, tmp_path: Path) -> None:
    """PostMark goes on, and deletes files: who asks late for the room, on a busy machine, is waited for."""
    slowly = (
        "int statvfs(const char *p, struct statvfs *s) { usleep(500000); int f = open(p, O_RDONLY);"
        " int r = fstatvfs(f, s); close(f); return r; }"
    )
    library = lying_library(tmp_path, f"#include <sys/statvfs.h>\n{slowly}")
    with tmpfs(tmp_path / "full", "100m,nr_inodes=300") as place:
        done = run(postmark, "-D", place, "-n", 1000, "-o", 1000, LD_PRELOAD=str(library))
    assert done.returncode == 1
    assert done.stderr == (
        "seekmeter: postmark: the disk is full; give a larger disk (SIZE=) or a smaller SCALE=\n"
    )


AFTER = "static int n; if (fd > 2 && fd < 10 && ++n > 3000)"  # writes to files, once it is in the middle


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (f"ssize_t write(int fd, const void *b, size_t n_) {{ {AFTER} {{ errno = EIO; return -1; }}"
         " return syscall(SYS_write, fd, b, n_); }", "reports written"),
        ("ssize_t read(int fd, void *b, size_t n) { if (fd > 3) { errno = EIO; return -1; }"
         " return syscall(SYS_read, fd, b, n); }", "reports read"),
        ('int open(const char *p, int f, ...) { static int n; if (strncmp(p, "postmark/", 9) == 0 &&'
         " ++n > 99) { errno = EROFS; return -1; } return syscall(SYS_openat, AT_FDCWD, p, f, 0644); }",
         "postmark: cannot open 'postmark/"),
        ("int remove(const char *p) { static int n; if (++n > 50) { errno = EIO; return -1; }"
         " return syscall(SYS_unlink, p); }", "postmark: Cannot delete 'postmark/"),
    ],
)  # fmt: skip
def test_error_in_the_middle_is_one_error(
    postmark: Path, ram: Path, tmp_path: Path, function: str, says: str
) -> None:
    """PostMark itself goes on, and ends well."""
    library = lying_library(tmp_path, function)
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "postmark").write_text(f'#!/bin/sh\nLD_PRELOAD={library} exec /usr/bin/postmark "$@"\n')
    (tools / "postmark").chmod(0o755)
    done = run(postmark, "-D", ram, "-n", 400, "-o", 400, PATH=f"{tools}:{os.environ['PATH']}")
    assert done.returncode == 1
    assert done.stderr.startswith("seekmeter: ") and says in done.stderr, done.stderr
    full = "; look in dmesg, or give a larger disk (SIZE=) if it was full\n"
    assert done.stderr.endswith((full, "; look in dmesg, and check the file system\n"))
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("-n", 20, "-o", 3000, "-c", 10), "deleted all its files; give more files or fewer transactions"),
        (("-n", 20, "-o", 3000, "-c", 90), "has twice as many files as at the beginning, the most it keeps"),
    ],
)
def test_sizes_beyond_postmarks_table_are_refused(
    postmark: Path, ram: Path, words: tuple[str | int, ...], says: str
) -> None:
    done = run(postmark, "-D", ram, *words)
    assert done.returncode == 1
    assert done.stderr.startswith("seekmeter: postmark: ") and says in done.stderr
    assert done.stderr.count("\n") == 1


def test_existing_files_are_left_alone(postmark: Path, ram: Path) -> None:
    (ram / "postmark").mkdir()
    (ram / "postmark/mine").write_text("keep")
    done = run(postmark, "-D", ram)
    assert done.returncode == 1
    assert done.stderr == "seekmeter: postmark: cannot make the directory: file exists\n"
    assert [path.name for path in (ram / "postmark").iterdir()] == ["mine"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-n", "0"], "-n '0' is not a number that can be used; give one from 1 to"),
        (["-r", "75", "-D", "/"], "-r takes whole tens of percent, as PostMark does"),
        (["-l", "9000", "-u", "8000", "-D", "/"], "-l is above -u"),
        (["--fast"], "unknown option --fast"),
        (["extra"], "unknown argument extra"),
        ([], "no directory"),
    ],
)
def test_wrong_value_names_a_remedy(postmark: Path, words: list[str], message: str) -> None:
    done = run(postmark, *words)
    assert done.returncode == 2
    assert done.stderr.startswith("seekmeter: ") and message in done.stderr
    assert done.stderr.count("\n") == 1
