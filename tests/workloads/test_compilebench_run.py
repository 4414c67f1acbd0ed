# SPDX-License-Identifier: BSD-2-Clause
"""compilebench under trace: its calls, requests and figures; its own check of what is left; memory errors."""

from __future__ import annotations

import re
import statistics
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from scipy import stats

from tests.collectors.recording import enum_value, needs_btf, read_table
from tests.collectors.sessions import TREE, finished
from tests.marks import needs_root
from tests.workloads.conftest import each_filesystem
from tests.workloads.programs import compile_generator, lines, lying_library, run
from tests.workloads.test_compilebench import (
    OBJECT,
    SOURCE,
    Row,
    done,
    expected,
    load,
    parents,
    replay,
    write_dataset,
)
from workloads import catalog

BLOCK = 4096
MARKS = {"order", "sync after initial create", "verify"}  # phases that are no operations
LINE = re.compile(r"^\[\d+/28\] ([a-z ]+) (tree-\d+): (\d+) files", re.MULTILINE)
READ_ONE_IN = 64  # files whose contents the check reads (README.md of the generators)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The generator."""
    return compile_generator("compilebench", tmp_path_factory.mktemp("program"))


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    """A few hundred files of every kind of change, up to 100 kB."""
    rows: dict[str, Row] = {}
    for number in range(300):
        name, size = f"d{number % 7}/e{number % 3}/{number}", number * 331 + 1
        kind = number % 5
        if kind == 0:
            rows[f"{name}.o"] = Row(size, size + number % 2, number % 2 == 1, OBJECT)
        elif kind == 1:
            rows[f"{name}.c"] = Row(size, size + 5, True, SOURCE)
        else:
            rows[f"{name}.h"] = Row(size, size, False, SOURCE)
    rows |= {"d0/gone.c": Row(9000, None, True, SOURCE), "new/added.c": Row(None, 7, True, SOURCE)}
    return write_dataset(tmp_path / "dataset", rows)


def left_of(operations: list[tuple[str, str, int]], dataset: Path) -> dict[str, dict[str, int]]:
    """The files of the trees that are left."""
    rows = load(dataset)
    return {tree: expected(rows, state) for tree, state in replay(operations).items() if state != "deleted"}


def promised(operations: list[tuple[str, str, int]], dataset: Path) -> tuple[list[int], int, int]:
    """What these operations promise: size of each file written, bytes read, files and directories removed."""
    rows = load(dataset)
    names = sorted(rows)
    written: list[int] = []
    read = 0
    removed = len(rows) + len(parents(dict.fromkeys(rows, 0))) + 1  # the throwaway directory
    for at, (operation, tree, _) in enumerate(operations):
        before = replay(operations[:at]).get(tree, "")
        held = expected(rows, before) if before else {}
        after = replay(operations[: at + 1])[tree]
        holds = expected(rows, after) if after != "deleted" else {}
        if operation == "patch tree":
            changed = [row for row in rows.values() if row.changed and not row.built]
            written += [row.patched for row in changed if row.patched is not None]
            read += sum(row.unpatched or 0 for row in changed)
            removed += sum(row.patched is None for row in changed)
        elif operation.startswith("read"):
            read += sum(held.values())
        elif not operation.startswith("stat"):
            written += [size for name, size in holds.items() if name not in held]
            removed += len(held.keys() - holds.keys())
            removed += len(parents(held) | {"top"}) if after == "deleted" else 0
    for tree, files in left_of(operations, dataset).items():
        number = int(tree.removeprefix("tree-"))
        read += sum(size for name, size in files.items() if (names.index(name) + number) % READ_ONE_IN == 0)
    return written, read, removed


def named(found: list[dict[str, Any]], table: str) -> dict[str, dict[str, Any]]:
    """Rows of one table of the figures, by their operation."""
    return {row["operation"]: row for row in found if row["table"] == table}


@needs_root
@needs_btf
@pytest.mark.parametrize("fs", each_filesystem())
def test_under_trace_all_is_counted(tmp_path: Path, fs: str, dataset: Path) -> None:
    job = finished(
        tmp_path / "run", FS=fs, WL="compilebench:operations", SCALE="quick", COLLECT="block,calls",
        ARGS=f"-i 3 -r 25 --dataset {dataset}", SIZE="512M", DISK="ram", SEED="2",
    )  # fmt: skip
    operations = [(name, tree, int(files)) for name, tree, files in LINE.findall(job.run.output)]
    assert len(operations) == 28
    assert len({name for name, _, _ in operations}) > 8
    written, read, removed = promised(operations, dataset)
    path = job.run.path / "raw/recorder/call.rec"
    calls = read_table(path)[1]
    calls = calls[calls["target"] == enum_value(path, "call_target", "target")]

    assert job.run.has_counted(job.run.called("write", "bytes"), sum(written), most=max(written))
    assert job.run.has_counted(job.run.called("read", "bytes"), read, most=max(written))
    assert job.run.has_counted(job.run.called("unlink", "count"), removed)
    assert job.run.has_counted(
        job.run.called("syncfs", "count"), 25 + 1
    )  # in each operation, and after the initial creates
    assert job.run.has_counted(int(calls["errors"].sum()), 1)  # mkdir: the directory is there
    path = job.run.path / "raw/recorder/block.rec"
    block = read_table(path)[1]
    block = block[block["op"] == enum_value(path, "block_op", "write")]
    data = int(block[block["class"] == enum_value(path, "block_class", "data")]["bytes"].sum())
    whole = sum(-(-size // BLOCK) * BLOCK for size in written)  # each is synced before it can be removed
    if fs == "btrfs":  # small ones are in its tree, and some data is of no class that can be known
        assert data <= whole
    else:
        assert data == whole

    told = lines(job.run.path / "raw/figures.jsonl")
    rates, seconds = named(told, "MB/s by operation"), named(told, "seconds by operation")
    values = defaultdict(list)
    for phase in job.run.phases:
        values[phase["name"]].append(phase)
    assert set(rates) | set(seconds) == {name for name, _, _ in operations}
    for name, row in [*rates.items(), *seconds.items()]:
        times = [(phase["end_ns"] - phase["start_ns"]) / 1e9 for phase in values[name]]
        if name in rates:
            each = [phase["bytes"] / 1e6 / s for phase, s in zip(values[name], times, strict=True)]
        else:
            each = times
        assert (row["count"], row["mean"]) == (len(each), pytest.approx(statistics.mean(each), abs=0.002))
        if len(each) == 1:
            assert (row["half_of_95_pct_interval"], row["std_deviation"]) == ("single", "single")
            continue
        deviation = statistics.stdev(each)
        assert row["std_deviation"] == pytest.approx(deviation, abs=0.002)
        half = stats.t.ppf(0.975, len(each) - 1) * deviation / len(each) ** 0.5
        assert row["half_of_95_pct_interval"] == pytest.approx(half, rel=1e-3, abs=0.002)
    assert [phase["ops"] for phase in values["verify"]] == [
        sum(len(files) for files in left_of(operations, dataset).values())
    ]
    if fs != "ext4":
        return  # one report is enough
    report = " ".join(job.run.report().split())
    assert "WORKLOAD RESULTS: MB/S BY OPERATION" in report.upper()
    assert "own user cpu pct" in report


@pytest.mark.parametrize(
    ("function", "says"),
    [
        # Kernels that say they did it and did not.
        ("ssize_t write(int fd, const void *b, size_t n) { static char bad[262144]; memcpy(bad, b, n); "
         "bad[n - 1] ^= fd > 2; return syscall(SYS_write, fd, bad, n); }", ": is not what was written; run"),
        ("ssize_t write(int fd, const void *b, size_t n) "
         "{ return fd > 2 ? (ssize_t)n : syscall(SYS_write, fd, b, n); }", r"has 0 bytes where \d+ were"),
        ("int openat(int d, const char *n, int flags, ...) { static int times; "
         "if (flags & O_CREAT && strstr(n, \"/77.h\") && ++times == 2) "
         "close(syscall(SYS_openat, d, \"stray.h\", flags, 0644)); "
         "return syscall(SYS_openat, d, n, flags, 0644); }", "stray.h: unknown file"),
    ],
)  # fmt: skip
def test_verify_finds_damage(
    program: Path, dataset: Path, ram: Path, tmp_path: Path, function: str, says: str
) -> None:
    library = lying_library(tmp_path, function)
    words = ("-D", ram / "t", "-i", 2, "-r", 0, "--dataset", dataset)
    result = run(program, *words, LD_PRELOAD=library)
    assert result.returncode == 1
    assert re.search(says, result.stderr), result.stderr
    assert result.stderr.startswith("seekmeter: ")
    assert result.stderr.count("\n") == 1


def test_verify_knows_every_state(program: Path, dataset: Path, ram: Path) -> None:
    """After some of the operations of a sequence; nothing that is right is complained about."""
    seen: set[str] = set()
    for count in range(0, 30, 3):
        words = ("-D", ram / f"{count}", "-i", 2, "-r", count, "-s", 1, "--dataset", dataset)
        phases = ram / f"phases-{count}"
        operations = done(run(program, *words, SEEKMETER_PHASES=phases))
        verify = lines(phases)[-1]
        assert verify["name"] == "verify"
        assert verify["ops"] == sum(map(len, left_of(operations, dataset).values()))
        seen |= set(replay(operations).values())
    assert seen >= {"unpatched", "unpatched compiled", "patched", "patched compiled"}


def test_the_aging_run_has_every_operation(program: Path, ram: Path) -> None:
    """With the seed that the catalog names, at the published size."""
    (seed,) = re.findall(r"SEED=(\d+)", (TREE / "workloads/catalog/compilebench.toml").read_text())
    size = catalog.load("compilebench", "operations").scales["paper"].args
    assert size == ("-i", "90", "-r", "150")  # btrfs2007, B
    tiny = {"a.c": Row(1, 2, True, SOURCE), "a.o": Row(1, 1, False, OBJECT)}
    dataset = write_dataset(ram / "dataset", tiny)
    operations = done(run(program, "-D", ram / "t", *size, "-s", seed, "--dataset", dataset))
    names = [name for name, _, _ in operations]
    assert set(names) == set(catalog.load("compilebench", "operations").phases) - MARKS
    assert min(names.count(name) for name in names) >= 2


@pytest.mark.parametrize("sanitizer", ["thread", "address,undefined"])
@pytest.mark.parametrize("mode", [("-r", 30), ("--makej",)])
def test_no_races_and_no_memory_errors(
    dataset: Path, ram: Path, tmp_path: Path, sanitizer: str, mode: tuple[str | int, ...]
) -> None:
    checked = compile_generator(
        "compilebench", tmp_path, f"-fsanitize={sanitizer}", "-fno-sanitize-recover=all"
    )
    assert done(run(checked, "-D", ram / "t", "-i", 2, *mode, "--dataset", dataset))
