# SPDX-License-Identifier: BSD-2-Clause
"""The recorder of a bundle records what the tree's records, also where there is nothing but busybox."""

from __future__ import annotations

import json
import mmap
import os
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from analysis.importers.trace import import_trace
from analysis.rundir.run import open_run
from analysis.tables.load import load_tables
from tests.bundles import TREE, archive, unpacked
from tests.collectors import recording as recordings
from tests.collectors.loop_disk import MIB, SECTOR_BYTES, LoopDisk, loop_disk, rows_of
from tests.collectors.recording import Recording, cgroup, needs_btf, recording, run_inside
from tests.collectors.sessions import finished
from tests.marks import needs_root

pytestmark = [needs_root, needs_btf]

BUSYBOX = "/usr/bin/busybox"
needs_busybox = pytest.mark.skipif(
    not os.path.exists(BUSYBOX), reason="busybox is not installed: make setup (busybox-static)"
)
# Sector and bytes of each write: of four sizes, forwards and backwards, none beside another.
PATTERN = [(16 * 1024 * (place * 37 % 101), 4096 << place % 4) for place in range(101)]
SKIPPED = "program already running on this CPU"
# Makes the folder / of a mount namespace's process; busybox alone is in it.
_INSIDE = """
mount -t proc proc "$0/proc"
mount --rbind /sys "$0/sys"
mount --rbind /dev "$0/dev"
mount -t tmpfs none "$0/tmp"
exec chroot "$0" /bin/sh -c "$1"
"""


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked bundle."""
    return unpacked(tmp_path_factory.mktemp("bundle"))


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[LoopDisk]:
    """A loop device of a known size."""
    with loop_disk(tmp_path / "image", 2048 * MIB) as made:
        yield made


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A root with busybox and the bundle, in which nothing else is."""
    root = tmp_path / "root"
    for name in ("bin", "proc", "sys", "dev", "tmp"):
        (root / name).mkdir(parents=True)
    shutil.copy(BUSYBOX, root / "bin/busybox")
    for name in ("sh", "cat", "date", "dirname", "mkdir", "id"):
        (root / "bin" / name).symlink_to("busybox")
    unpacked(root).rename(root / "seekmeter")
    return root


def write_pattern(disk: LoopDisk) -> None:
    """Write each part of PATTERN at once, past the page cache."""
    buffer = mmap.mmap(-1, 1 << 16)
    file = os.open(disk.path, os.O_WRONLY | os.O_DIRECT)
    try:
        for sector, size in PATTERN:
            assert os.pwrite(file, memoryview(buffer)[:size], sector * SECTOR_BYTES) == size
    finally:
        os.close(file)


def written(run: Recording) -> list[tuple[int, int]]:
    """Return sector and bytes of each write in block.rec, in the order of issue."""
    return [(int(row["sector"]), int(row["bytes"])) for row in rows_of(run, "write")]


def inside(root: Path, command: str) -> subprocess.Popen[str]:
    """Start a shell command in a root of its own."""
    return subprocess.Popen(
        ["unshare", "--mount", "--propagation", "private", "sh", "-ec", _INSIDE, root, command],
        env={"PATH": os.environ["PATH"] + ":/bin"},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def test_both_recorders_record_the_same(
    bundle: Path, disk: LoopDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ExitStack() as stack:
        group = stack.enter_context(cgroup())
        options = ("--disk", disk.name, "--cgroup", str(group))
        ours = stack.enter_context(recording(tmp_path / "tree", *options))
        monkeypatch.setattr(recordings, "RECORDER", bundle / "build/recorder")
        theirs = stack.enter_context(recording(tmp_path / "bundle", *options))
        write_pattern(disk)
        text = "for i in 1 2 3 4 5; do cat /etc/passwd > /dev/null; done"
        with run_inside(group, ["sh", "-c", text]) as program:
            assert program.wait(60) == 0
        disk.idle_stat()
        # The same collectors are on.
        states = [
            {name: state["state"] for name, state in run.ready["collectors"].items()}
            for run in (ours, theirs)
        ]
        assert states[0] == states[1] and states[0]["block"] == "on"
    assert written(ours) == written(theirs) == PATTERN
    tables = [sorted(path.name for path in run.out.iterdir()) for run in (ours, theirs)]
    assert tables[0] == tables[1]
    assert sum(ours.source("block")["lost"].values()) == sum(theirs.source("block")["lost"].values()) == 0
    assert len(ours.table("block")) == len(theirs.table("block"))
    calls = [run.table("call") for run in (ours, theirs)]
    lost = [Counter(run.source("calls")["lost"]) for run in (ours, theirs)]
    # While a program is held up on a slow CPU, the kernel skips it for others there, and counts that: seen on
    # emulated CPUs of Linux 7.2. The skipped call may be any process's.
    skipped = sum(one.pop(SKIPPED, 0) for one in lost)
    assert lost[0].total() == lost[1].total() == 0
    counts = [int(table["count"].sum()) for table in calls]
    assert min(counts) > 0 and abs(counts[0] - counts[1]) <= skipped
    assert skipped or calls[0]["call"].tolist() == calls[1]["call"].tolist()


# What a workload does by its seed alone: operations on many files, and writes past the page cache.
SAME = {
    "generator": {
        "WL": "filemark", "SCALE": "quick", "SEED": "7", "THREADS": "1",
        "ARGS": "-n 300 -o 500 -w 0 -p 2 -P 2",
    },
    "direct": {"CMD": "dd if=/dev/zero of=x bs=16k count=101 oflag=direct status=none"},
}  # fmt: skip


@pytest.mark.parametrize("name", SAME)
def test_trace_of_tree_and_bundle_have_equal_counts(bundle: Path, tmp_path: Path, name: str) -> None:
    words = {"FS": "ext4", "DISK": "ram", "SIZE": "256M", "COLLECT": "block calls", **SAME[name]}
    runs = [tmp_path / "tree", tmp_path / "bundle"]
    finished(runs[0], **words)
    typed = [f"{key}={value}" for key, value in {**words, "OUT": str(runs[1])}.items()]
    done = subprocess.run(
        [bundle / "seekmeter", "trace", *typed],
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{runs[1]}\n"
    counts = [_counts(run) for run in runs]
    print(counts[0])
    assert counts[0] == counts[1]
    calls, requests = counts[0]
    assert sum(count for count, _, _ in calls.values()) > 100
    if name == "direct":  # dd's writes, and each of them as a request
        assert calls["write"] == (101, 101 << 14, 0)
        assert requests == {1 << 14: 101}


def _counts(path: Path) -> tuple[dict[str, tuple[int, int, int]], dict[int, int]]:
    """Count what the workload did, in tables made by the analysis.

    Calls, bytes and errors of each kind of call on the file system; the workload's own writes of file data by
    their size, which are not a kernel thread's, that writes back when it likes.
    """
    load_tables(open_run(path))  # makes the files
    calls: dict[str, tuple[int, int, int]] = {}
    for row in pq.read_table(path / "tables/call.parquet").to_pylist():
        if row["target"] == "target":
            count, size, errors = calls.get(row["call"], (0, 0, 0))
            calls[row["call"]] = (count + row["count"], size + row["bytes"], errors + row["errors"])
    requests = Counter(
        row["bytes"]
        for row in pq.read_table(path / "tables/block.parquet").to_pylist()
        if row["in_workload"] and (row["op"], row["class"], row["comm"]) == ("write", "data", "dd")
    )
    return calls, dict(requests)


@needs_busybox
def test_recorder_records_in_a_root_with_nothing_else(bare: Path, disk: LoopDisk) -> None:
    (bare / "out").mkdir()
    command = f"exec /seekmeter/build/recorder --out /out --collect block --disk {disk.name}"
    started = time.monotonic()
    with inside(bare, command) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        print(f"ready after {time.monotonic() - started:.2f} s")
        assert line and json.loads(line)["ready"], process.communicate()[1]
        write_pattern(disk)
        disk.idle_stat()
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    run = Recording(bare / "out", process, json.loads(line))
    assert written(run) == PATTERN
    assert sum(run.source("block")["lost"].values()) == 0


@needs_busybox
def test_watch_of_the_front_records_where_nothing_else_is(bare: Path, disk: LoopDisk, tmp_path: Path) -> None:
    front = f"exec /seekmeter/seekmeter watch DEV=/dev/{disk.name} SECS=60 OUT=/run"
    with inside(bare, front) as process:
        said = _until_recording(process)
        write_pattern(disk)
        disk.idle_stat()
        process.send_signal(signal.SIGINT)
        said += process.communicate(timeout=60)[1]
    assert process.returncode == 0, said
    assert said.startswith(
        "seekmeter: Python 3.11 or newer with its standard library is not here: the recorder records"
    )
    assert "make import" in said
    assert _imported(bare / "run", tmp_path / "imported") == PATTERN


@pytest.mark.long  # makes a root of Debian, from the network
@pytest.mark.parametrize("suite", ["bookworm", "trixie"])
def test_watch_of_the_front_records_in_a_bare_debian(suite: str, disk: LoopDisk, tmp_path: Path) -> None:
    if not shutil.which("debootstrap"):
        pytest.skip("debootstrap is not installed: apt-get install debootstrap")
    command = (
        "! command -v python3 && ! command -v gcc && ! command -v clang && "
        "tar xzf - -C /tmp && cd /tmp/seekmeter-*/ && "
        f"./seekmeter watch DEV={disk.name} SECS=8 OUT=/tmp/run && tar cf - -C /tmp run"
    )
    with (
        open(archive()[0], "rb") as file,
        (tmp_path / "run.tar").open("wb") as out,
        subprocess.Popen(
            [TREE / "tests/bare_root.sh", suite, "sh", "-c", command],
            stdin=file, stdout=out, stderr=subprocess.PIPE, text=True,
        ) as process,
    ):  # fmt: skip
        assert process.stderr is not None
        said = _until_recording(process)
        write_pattern(disk)
        said += process.stderr.read()
    assert process.returncode == 0, said
    subprocess.run(["tar", "xf", tmp_path / "run.tar", "-C", tmp_path], check=True)
    assert _imported(tmp_path / "run", tmp_path / "imported") == PATTERN


def _until_recording(process: subprocess.Popen[str]) -> str:
    """Read what the recorder says until it records."""
    assert process.stderr is not None
    said = ""
    for line in process.stderr:
        said += line
        if "(^C ends it" in line:
            return said
    pytest.fail(said)


def _imported(recorded: Path, out: Path) -> list[tuple[int, int]]:
    """Import what the recorder alone recorded, and make its tables. Returns each write's sector and bytes.

    In this process and without a report: in a virtual machine that would take minutes.
    """
    load_tables(open_run(import_trace(recorded, out)))
    rows = pq.read_table(out / "tables/block.parquet").to_pylist()
    return [(row["sector"], row["bytes"]) for row in sorted(rows, key=lambda row: row["issue_ns"])]
