# SPDX-License-Identifier: BSD-2-Clause
"""Our scripts for bpftrace (bpf/scripts) against what the kernel itself counted: journal commits, log writes,
transactions, pages, bytes read ahead."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from collectors.with_programs import bpftrace
from tests.collectors.loop_disk import MIB, LoopDisk, loop_disk, mounted
from tests.collectors.recording import EMULATED
from tests.collectors.test_block import LAZY_OFF
from tests.marks import needs_root
from workloads.cli.with_options import SCRIPTS, our_scripts, script_summary
from workloads.filesystems import kernel_has

pytestmark = [needs_root]
TRACEFS = Path("/sys/kernel/tracing")
SECONDS = 60 * (10 if EMULATED else 1)


class Traced:
    """What a script said, once it has ended."""

    text = ""

    def lines(self, kind: str, device: str) -> list[dict[str, str]]:
        """Its lines of one kind and one device, their fields by name; ns is the first."""
        found = []
        for line in self.text.splitlines():
            words = line.split()
            if len(words) > 2 and words[0].isdigit() and words[1] == kind and words[2] == device:
                found.append({"ns": words[0], **dict(word.split("=", 1) for word in words[3:])})
        return found

    def value(self, name: str) -> int:
        """The number of one key of one map at the end: @commits[7, 12]."""
        found = re.search(rf"^{re.escape(name)}: (\d+)$", self.text, re.MULTILINE)
        assert found, self.text
        return int(found[1])


@contextmanager
def tracefs() -> Iterator[None]:
    """It is mounted."""
    mine = not any(TRACEFS.iterdir())
    try:
        if mine:
            subprocess.run(["mount", "-t", "tracefs", "none", TRACEFS], check=True)
        yield
    finally:
        if mine:  # unless somebody else uses it by now
            subprocess.run(["umount", TRACEFS], check=False, capture_output=True)


@contextmanager
def traced(name: str, folder: Path, module: str | None = None) -> Iterator[Traced]:
    """Run a script of ours while the block runs. module: what brings its tracepoints, if not there yet."""
    with tracefs(), traced_there(name, folder, module) as said:
        yield said


@contextmanager
def traced_there(name: str, folder: Path, module: str | None) -> Iterator[Traced]:
    """The same, where tracefs is mounted."""
    if module is not None:
        if not kernel_has(module):
            pytest.skip(f"this kernel has no {module}: use one that has it")
        subprocess.run(["modprobe", "-q", module], check=False)
    assert bpftrace.lacking(SCRIPTS / f"{name}.bt") == []
    out, err = folder / "out", folder / "err"
    start_ns = time.monotonic_ns()
    with out.open("wb") as one, err.open("wb") as other:
        process = subprocess.Popen(
            ["bpftrace", "-B", "line", SCRIPTS / f"{name}.bt"],
            stdout=one,
            stderr=other,
            env={**os.environ, "__BPFTRACE_NOTIFY_PROBES_ATTACHED": "1"},
            start_new_session=True,
        )
    result = Traced()
    try:
        end = time.monotonic() + SECONDS
        while not bpftrace.is_ready(out, err):
            assert process.poll() is None, err.read_text()
            assert time.monotonic() < end, "it never attached its probes"
            time.sleep(0.05)
        yield result
        process.send_signal(signal.SIGINT)
        assert process.wait(SECONDS) == 0, err.read_text()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    result.text = out.read_text()
    assert bpftrace.lost(result.text + err.read_text()) == 0
    for line in result.text.splitlines():  # on the run's clock
        if line[:1].isdigit():
            assert start_ns < int(line.split()[0]) < time.monotonic_ns()


@contextmanager
def formatted(folder: Path, size_bytes: int, *mkfs: str) -> Iterator[LoopDisk]:
    """A loop device with a file system on it."""
    with loop_disk(folder / "disk", size_bytes) as disk:
        subprocess.run([*mkfs, disk.path], check=True, capture_output=True)
        yield disk


def number(disk: LoopDisk) -> str:
    """7:12."""
    return (disk.sysfs / "dev").read_text().strip()


def write_and_sync(folder: Path, files: int) -> None:
    """So many new files, each followed by fsync."""
    for i in range(files):
        with (folder / f"file{i}").open("wb") as file:
            file.write(os.urandom(20_000))
            file.flush()
            os.fsync(file.fileno())


def wait_until_jbd2_sleeps(disk: LoopDisk) -> None:
    """It counts a transaction after it has woken those who waited for it: when it sleeps, all are counted."""
    words = ["pgrep", f"^jbd2/{disk.name}-"]
    pid = subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()
    stat = Path(f"/proc/{pid}/stat")
    deadline = time.monotonic() + SECONDS
    while not stat.read_text().rpartition(") ")[2].startswith("S"):
        assert time.monotonic() < deadline, "it does not come to rest"


def test_journal_commits(tmp_path: Path) -> None:
    # Nothing is left for the kernel to initialise, and so to commit, behind the test's back.
    with formatted(tmp_path, 256 * MIB, "mkfs.ext4", "-q", "-F", "-E", LAZY_OFF) as disk:
        dev = number(disk)
        with (
            traced("journal_commits", tmp_path, "ext4") as said,
            mounted(disk.path, tmp_path / "mnt") as place,
        ):
            write_and_sync(place, 12)
            wait_until_jbd2_sleeps(disk)
            info = next(Path("/proc/fs/jbd2").glob(f"{disk.name}-*")) / "info"
            text = info.read_text()
            noted_ns = time.monotonic_ns()
    found = re.match(r"(\d+) transactions", text)
    assert found, text
    then = [line for line in said.lines("commit", dev) if int(line["ns"]) < noted_ns]
    assert len(then) == int(found[1]) >= 12
    # The kernel says means, rounded down.
    for words, field in (("handles per transaction", "handles"), ("logged blocks per transaction", "blocks")):
        mean = re.search(rf"(\d+) {words}", text)
        assert mean, text
        assert sum(int(line[field]) for line in then) // len(then) == int(mean[1])
    every = said.lines("commit", dev)  # and those of the unmount
    assert said.value(f"@commits[{dev.replace(':', ', ')}]") == len(every) >= len(then)
    assert all(0 < int(line["us"]) < 60e6 for line in every)
    assert len({line["transaction"] for line in every}) == len(every)


def test_writeback_reasons(tmp_path: Path) -> None:
    with (
        formatted(tmp_path, 256 * MIB, "mkfs.ext4", "-q", "-F", "-E", LAZY_OFF) as disk,
        mounted(disk.path, tmp_path / "mnt") as place,
    ):
        os.sync()
        with traced("writeback_reasons", tmp_path) as said:
            (place / "file").write_bytes(bytes(8 * MIB))
            os.sync()
    rounds = said.lines("round", number(disk))
    pages = sum(int(line["pages"]) for line in rounds)
    assert 8 * MIB // 4096 <= pages < 8 * MIB // 4096 + 300  # and some of metadata
    by_sync = said.value(f"@pages[{number(disk)}, sync]")
    assert by_sync == sum(int(line["pages"]) for line in rounds if line["reason"] == "sync")
    assert by_sync > 0  # some may have been written by the flusher before
    summed = re.findall(rf"^@pages\[{number(disk)}, \w+\]: (\d+)$", said.text, re.MULTILINE)
    assert sum(map(int, summed)) == pages
    # The names that the script has for the kernel's numbers are the kernel's.
    with tracefs():
        form = (TRACEFS / "events/writeback/writeback_start/format").read_text()
    names = dict(re.findall(r'\{ (\d+), "(\w+)" \}', form))
    ours = dict(re.findall(r'@name\[(\d+)\] = "(\w+)"', (SCRIPTS / "writeback_reasons.bt").read_text()))
    assert len(names) > 5
    assert names.items() <= ours.items()


def test_xfs_log(tmp_path: Path) -> None:
    if shutil.which("mkfs.xfs") is None:
        pytest.fail("make test installs xfsprogs")
    with formatted(tmp_path, 512 * MIB, "mkfs.xfs", "-q", "-f") as disk:
        dev = number(disk)
        with traced("xfs_log", tmp_path, "xfs") as said, mounted(disk.path, tmp_path / "mnt") as place:
            stats = Path(f"/sys/fs/xfs/{disk.name}/stats/stats")

            def counted() -> list[int]:
                """Log writes, their 512-byte blocks, -, forces (fs/xfs/xfs_stats.c)."""
                line = next(line for line in stats.read_text().splitlines() if line.startswith("log "))
                return [int(word) for word in line.split()[1:]]

            write_and_sync(place, 12)
            deadline = time.monotonic() + SECONDS
            while True:  # until what is on its way has arrived, and nothing new has come
                at_end = counted()
                time.sleep(0.1)
                noted_ns = time.monotonic_ns()
                if counted() == at_end:
                    break
                assert time.monotonic() < deadline, "the log does not come to rest"
    then = [line for line in said.lines("write", dev) if int(line["ns"]) < noted_ns]
    assert len(then) == at_end[0] >= 12
    # The kernel counts whole blocks, and the header of each write.
    blocks = sum(-(-int(line["bytes"]) // 512) for line in then)
    assert blocks <= at_end[1] <= blocks + 70 * len(then)
    key = dev.replace(":", ", ")
    every = said.lines("write", dev)
    assert said.value(f"@writes[{key}]") == len(every)
    forces = sum(int(n) for n in re.findall(rf"^@forces\[{key}, .*\]: (\d+)$", said.text, re.MULTILINE))
    assert forces >= at_end[3] >= 12


def test_btrfs_transactions(tmp_path: Path) -> None:
    with formatted(tmp_path, 512 * MIB, "mkfs.btrfs", "-q", "-f") as disk:
        uuid = subprocess.run(
            ["blkid", "-p", "-o", "value", "-s", "UUID", disk.path],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        with (
            traced("btrfs_transactions", tmp_path, "btrfs") as said,
            mounted(disk.path, tmp_path / "mnt") as place,
        ):
            stats = Path(f"/sys/fs/btrfs/{uuid}/commit_stats")
            for i in range(7):
                (place / f"file{i}").write_bytes(os.urandom(100_000))
                subprocess.run(["sync", "-f", place], check=True)
            write_and_sync(place, 5)
            text = stats.read_text()
            noted_ns = time.monotonic_ns()
    found = re.search(r"commits (\d+)", text)
    assert found, text
    every = said.lines("commit", uuid[:8])
    then = [line for line in every if int(line["ns"]) < noted_ns]
    assert len(then) == int(found[1]) >= 7
    assert len([line for line in then if line["comm"] == "sync"]) == 7
    assert sum(int(line["fsyncs"]) for line in every) == 5
    # Each commit has the number after the last one's; the next transaction may have begun before its end.
    ahead = [int(line["generation"]) - at for at, line in enumerate(every)]
    assert max(ahead) - min(ahead) <= 1
    assert all(int(line["cowed"]) > 0 for line in then[-6:])


def test_readahead(tmp_path: Path) -> None:
    with formatted(tmp_path, 256 * MIB, "mkfs.ext4", "-q", "-F") as disk:
        dev = number(disk)
        window_bytes = int((disk.sysfs / "queue/read_ahead_kb").read_text()) << 10
        with mounted(disk.path, tmp_path / "mnt") as place:
            (place / "file").write_bytes(os.urandom(48 * MIB))
        with traced("readahead", tmp_path) as said:
            before = disk.idle_stat()["read_sectors"]
            with mounted(disk.path, tmp_path / "mnt") as place:
                words = ["dd", "bs=64k", "status=none", f"if={place}/file", "of=/dev/null"]
                subprocess.run([*words, "count=512"], check=True)
                subprocess.run([*words, "skip=512", "iflag=direct"], check=True)
            read_bytes = (disk.idle_stat()["read_sectors"] - before) * 512
    key = dev.replace(":", ", ")

    def by_name(what: str) -> dict[str, int]:
        found = re.findall(rf"^@{what}_bytes\[{key}, (.*)\]: (\d+)$", said.text, re.MULTILINE)
        return {name: int(size) for name, size in found}

    ahead, asked = by_name("ahead"), by_name("asked")
    assert sum(ahead.values()) + sum(asked.values()) == read_bytes
    assert 32 * MIB <= ahead["dd"] <= 33 * MIB + 2 * window_bytes  # it reads ahead at the end, too
    assert 16 * MIB <= asked["dd"] <= 17 * MIB


@pytest.mark.parametrize("name", our_scripts())
def test_each_script_has_licence_needs_and_description(name: str) -> None:
    script = SCRIPTS / f"{name}.bt"
    text = script.read_text()
    assert "SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)" in text
    used = set(re.findall(r"^tracepoint:(\S+)", text, re.MULTILINE))
    assert set(bpftrace.needs(script)) == used
    assert 20 < len(script_summary(name)) < 120
    assert max(len(line) for line in text.expandtabs(8).splitlines()) <= 110
