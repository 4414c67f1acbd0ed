# SPDX-License-Identifier: BSD-2-Clause
"""Reports of large runs: arrays in files give the same report as arrays in memory, in bounded memory."""

from __future__ import annotations

import json
import math
import os
import re
import signal
import struct
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest

from analysis import spill
from tests.bench.big_run import write_run
from workloads.cgroup import find_layout

TREE = Path(__file__).resolve().parents[2]
FILES = (
    "report.txt",
    "detail.txt",
    "findings.json",
    "answer.txt",
    "report.html",
    "iograph.png",
    "iograph.svg",
)
# words: least bytes of an array in a file, bytes of files that stay in the process, code
BEGIN = """
import json, os, resource, sys, time
from pathlib import Path
import numpy as np
from analysis import spill
from analysis.report import make_report
spill.LEAST_BYTES, spill.RESIDENT_BYTES = int(sys.argv[1]), int(sys.argv[2])
"""
REPORT = """
made = []
if not int(sys.argv[1]):
    spill.LIBRARY = Path("/nonexistent")
make_report(Path(sys.argv[3]))
own, forked = (resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
print(json.dumps([max(own, forked) * 1024, spill.files_made()]))
"""

if not spill.LIBRARY.exists():
    pytest.skip("build/spill.so is not built: run make build", allow_module_level=True)


def python(code: str, *words: object, group: Path | None = None) -> subprocess.Popen[str]:
    """Start Python with the code, in the control group if one is given; its stdout is a pipe."""
    argv = [sys.executable, "-c", BEGIN + code, *map(str, words)]
    if group is not None:
        argv = ["sh", "-c", 'echo $$ >"$0" && exec "$@"', str(group / "cgroup.procs"), *argv]
    return subprocess.Popen(argv, cwd=TREE, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def answer(code: str, *words: object) -> object:
    """What the code prints as JSON."""
    with python(code, *words) as process:
        output, _ = process.communicate()
    assert process.returncode == 0
    return json.loads(output)


def report(run: Path, least_bytes: int, resident_bytes: int = spill.RESIDENT_BYTES) -> tuple[int, int]:
    """Report the run; returns the peak of resident memory and how many arrays were in files."""
    made = answer(REPORT, least_bytes, resident_bytes, run)
    assert isinstance(made, list)
    return int(made[0]), int(made[1])


def test_report_from_files_equals_report_from_memory(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", 300_000)
    _, in_memory = report(run, 0)
    expected = {name: (run / name).read_bytes() for name in FILES}
    for name in FILES:
        (run / name).unlink()
    _, in_files = report(run, 1 << 16, 1 << 20)
    assert in_memory == 0
    assert in_files > 100
    for name in FILES:
        assert (run / name).read_bytes() == expected[name], name


def test_arrays_in_files_hold_what_is_stored() -> None:
    code = """
assert spill.use()
n = 3_000_000
a = np.arange(n)
assert spill.mapped_bytes() == n * 8
z = np.zeros(n, dtype=np.int64)
assert not z.any()
time.sleep(0.1)  # all pages leave the process
b = a[::-1] * 2 + z
a.resize(2 * n, refcheck=False)
assert (a[:n] == np.arange(n)).all()
a.resize(10, refcheck=False)
small = (a == np.arange(10)).all()
order = np.argsort(b, kind="stable")
assert (b[order] == np.arange(n) * 2).all()
try:
    np.add(b, "x")  # arrays are freed while an exception is set
except TypeError:
    pass
same = bool((np.sort(b) == np.arange(n) * 2).all())
del z, b, order
print(json.dumps([bool(small), same, spill.mapped_bytes()]))
"""
    assert answer(code, 1 << 20, 1 << 20) == [True, True, 0]


def test_files_have_no_names_and_end_with_a_killed_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    code = """
assert spill.use()
a = np.ones(4_000_000)
maps = Path("/proc/self/maps").read_text().splitlines()
print(json.dumps([line.split(None, 5)[5] for line in maps if "(deleted)" in line]), flush=True)
sys.stdin.read()
"""
    with python(code, 1 << 20, 1 << 20) as process:
        assert process.stdout is not None
        mapped = json.loads(process.stdout.readline())
        # the name that the kernel shows is the inode's number
        assert [Path(name).parent for name in mapped] == [tmp_path]
        assert os.listdir(tmp_path) == []
        process.send_signal(signal.SIGKILL)
    assert os.listdir(tmp_path) == []


def test_files_are_not_in_a_file_system_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    if os.path.ismount("/dev/shm"):
        monkeypatch.setenv("TMPDIR", "/dev/shm")
        assert spill.directory() in (Path("/var/tmp"), None)
    monkeypatch.setenv("TMPDIR", "/nonexistent")
    assert spill.directory() in (Path("/var/tmp"), None)


def test_forked_process_can_not_change_an_array_of_its_parent() -> None:
    code = """
assert spill.use()
a = np.arange(1_000_000)
pid = os.fork()
if pid == 0:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    own = a + 1
    own[0] = int(a.sum()) == 499999500000
    if own[0] != 1:
        os._exit(3)
    a[0] = 5
    os._exit(0)
status = os.waitpid(pid, 0)[1]
print(json.dumps([os.WTERMSIG(status), int(a[0])]))
"""
    assert answer(code, 1 << 20, 1 << 20) == [signal.SIGSEGV, 0]


@contextmanager
def limited(limit_bytes: int) -> Iterator[Path]:
    """A control group whose processes, page cache included, have so much memory and no swap."""
    layout = find_layout()
    if "memory" in layout.v1:
        limits = {"memory.limit_in_bytes": limit_bytes}
    else:
        limits = {"memory.max": limit_bytes, "memory.swap.max": 0}
    above = layout.v1.get("memory") or layout.v2
    assert above is not None, "no cgroup hierarchy is mounted here"
    group = above / f"seekmeter-test-{os.getpid()}"
    group.mkdir()
    try:
        for name, value in limits.items():
            if not (group / name).exists():
                pytest.skip(f"cgroup2 has no {name} here: write +memory to cgroup.subtree_control")
            (group / name).write_text(str(value))
        yield group
    finally:
        group.rmdir()


def recorded(run: Path) -> Iterator[tuple[int, ...]]:
    """Op, class, sector, bytes, queue, issue and completion time of each row, read without the analysis."""
    rows = struct.Struct("<QQQQQ8xI4x4x4x4x4x2x2xBB1x1x16x")
    with (run / "raw/recorder/block.rec").open("rb") as file:
        file.seek(16 + struct.unpack("<8xI4x", file.read(16))[0])
        while part := file.read(rows.size * 10_000):
            for queue, _, issue, complete, sector, size, op, kind in rows.iter_unpack(part):
                yield op, kind, sector, size, queue, issue, complete


def in_ns(text: str) -> float:
    number, unit = text.split()
    return float(number) * {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}[unit]


def check_with_slow_reference(run: Path) -> None:
    """Requests by class, seeks and percentiles in detail.txt are those that a plain program finds."""
    requests: Counter[tuple[int, int]] = Counter()
    times: dict[tuple[int, str], list[int]] = defaultdict(list)
    moved: list[tuple[int, int, int, int]] = []
    (first, end), *_ = json.loads((run / "run.json").read_text())["filesystem"]["geometry"]["journal"]
    journal = range(first, end)
    for op, kind, sector, size, queue, issue, complete in recorded(run):
        requests[op, 3 if sector in journal else kind] += 1
        times[op, "Q2D"].append(issue - queue)
        times[op, "D2C"].append(complete - issue)
        times[op, "Q2C"].append(complete - queue)
        if op in (0, 1):
            moved.append((issue, len(moved), sector, sector + size // 512))
    moved.sort()
    seeks = sum(abs(after[2] - before[3]) > 128 for before, after in pairwise(moved))
    text = (run / "detail.txt").read_text()
    found = re.findall(r"^  (read|write) +(data|metadata|journal) +([\d,]+) ", text, re.MULTILINE)
    assert {(op, kind): int(count.replace(",", "")) for op, kind, count in found} == {
        (("read", "write")[op], ("unknown", "data", "metadata", "journal")[kind]): count
        for (op, kind), count in requests.items()
        if op in (0, 1)
    }
    assert re.search(rf"^  all +{len(moved):,} +{seeks:,} ", text, re.MULTILINE)
    latency = text.partition("REQUEST LATENCY")[2].partition("QUEUE DEPTH")[0]
    names = ("read", "write", "discard", "flush")
    op, checked = -1, 0
    for line in latency.splitlines():
        words = re.match(r"  (\w*) +(Q2D|D2C|Q2C) ", line)
        if not words:
            continue  # of one class
        if words[1]:
            op = names.index(words[1])
        values = sorted(times[op, words[2]])
        shown = re.findall(r"[\d.]+ (?:ns|us|ms|s)\b", line)
        for pct, value in zip((50, 90, 99, 99.9, 100), shown, strict=True):
            exact = values[max(math.ceil(len(values) * pct / 100), 1) - 1]
            assert in_ns(value) == pytest.approx(exact, rel=0.005), (line, exact, pct)
            checked += 1
    assert checked == 4 * 3 * 5


@pytest.mark.root
@pytest.mark.long
@pytest.mark.parametrize("is_in_files", [True, False])
def test_report_of_a_large_run_fits_in_little_memory(tmp_path: Path, is_in_files: bool) -> None:
    run = write_run(tmp_path / "run", 8_000_000)
    with limited(600 << 20) as group:
        with python(
            REPORT, spill.LEAST_BYTES * is_in_files, spill.RESIDENT_BYTES, run, group=group
        ) as process:
            process.communicate()
        # In memory its arrays are 80 bytes a request: the kernel ends the process, or one that it forked.
        assert (process.returncode == 0) is is_in_files
    if is_in_files:
        check_with_slow_reference(run)


@pytest.mark.long
def test_memory_hardly_grows_with_the_run(tmp_path: Path) -> None:
    peaks = {}
    for rows in (2_000_000, 6_000_000):
        run = write_run(tmp_path / str(rows), rows)
        peaks[rows], files = report(run, spill.LEAST_BYTES)
        assert files
    # in memory it is 80 bytes a request
    assert peaks[6_000_000] - peaks[2_000_000] < 4_000_000 * 30, peaks
