# SPDX-License-Identifier: BSD-2-Clause
"""An emulated disk by ublk: its queue, its data, power cuts, and its removal at every end.

Where the kernel has no ublk these are skipped; tests/machines/test_emulated_disks_inside.py runs them on
kernels that have it.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.collectors.recording import enum_value, read_table
from tests.marks import needs_root
from tests.workloads.test_janitor import is_alive
from workloads.cleanup.janitor import Janitor
from workloads.disks import by_ublk
from workloads.disks.hdd import Emulated, EmulatedDisk, open_hdd
from workloads.drives import model
from workloads.plan.planner import TREE
from workloads.system import guest, ublkdev

NO_UBLK = by_ublk.why_not() if os.geteuid() == 0 else "needs root"
pytestmark = [
    needs_root,
    pytest.mark.skipif(bool(NO_UBLK), reason=f"{NO_UBLK}: tests/machines has kernels with it"),
]
SIZE_BYTES = 512 << 20
# Fast, so that the drive is not what the tests wait for.
FAST = Emulated(model.load("sata2007"), time=100)
# A session that opens a disk, says which, and waits.
SESSION = """
import sys, time
from pathlib import Path
from tests.workloads.test_ublk_disk import FAST, SIZE_BYTES
from workloads.cleanup.janitor import Janitor
from workloads.disks.hdd import open_hdd
janitor = Janitor(Path(sys.argv[1]))
disk = open_hdd("disk0", SIZE_BYTES, FAST, None, janitor)
print(disk.path, disk.server.pid, flush=True)
time.sleep(600)
"""


def run(*argv: str | Path) -> str:
    """Run a command that must succeed; return its output."""
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


def ublk_devices() -> list[str]:
    """Return all ublk devices, and their nodes."""
    nodes = [*Path("/dev").glob("ublk[bc]*"), *Path("/sys/block").glob("ublkb*")]
    return sorted(map(str, nodes))


@pytest.fixture(autouse=True)
def media_in_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a machine of the tests, too: its one disk has the tests' files."""
    monkeypatch.delenv(guest.GUEST, raising=False)


@pytest.fixture
def record(tmp_path: Path) -> Iterator[int]:
    """The file for disk_service, open for appending."""
    file = os.open(tmp_path / "disk_service.rec", os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC)
    yield file
    os.close(file)


@pytest.fixture
def janitor(tmp_path: Path) -> Iterator[Janitor]:
    """A janitor that must have undone all in the end."""
    keeper = Janitor(tmp_path / "state")
    try:
        yield keeper
    finally:
        problems = keeper.undo()
    assert problems == []
    assert ublk_devices() == []


@pytest.fixture
def disk(janitor: Janitor, record: int) -> EmulatedDisk:
    """An open disk, which the janitor removes."""
    return open_hdd("disk0", SIZE_BYTES, FAST, None, janitor, record)


def has_data(file: int) -> bool:
    """Return whether the disk gives data: one that was removed has an error, or no first byte."""
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    try:
        return os.pread(file, 4096, 0) != b""
    except OSError:
        return False


def queue(disk: EmulatedDisk, setting: str) -> str:
    """Return a setting of the disk's queue."""
    return (Path("/sys/block") / Path(disk.path).name / "queue" / setting).read_text().strip()


def test_kernel_sees_a_sata_disk_with_32_tags(disk: EmulatedDisk) -> None:
    emulated = disk.facts["emulated"]
    assert isinstance(emulated, dict)
    assert (emulated["transport"], emulated["queue_refused"]) == ("ublk", {})
    assert disk.path.startswith("/dev/ublkb")
    settings = {
        "rotational": "1",
        "nr_requests": "64",
        "write_cache": "write back",
        "fua": "1",
        "wbt_lat_usec": "75000",
        "read_ahead_kb": "128",
        "max_sectors_kb": "1024",
        "logical_block_size": "512",
        "discard_max_bytes": "0",
    }
    assert {name: queue(disk, name) for name in settings} == settings
    assert "[mq-deadline]" in queue(disk, "scheduler")
    assert int(run("blockdev", "--getsize64", disk.path)) == SIZE_BYTES


def test_random_writes_read_back_and_have_their_rows(disk: EmulatedDisk, tmp_path: Path) -> None:
    """Blocks of 512 B to 1 MiB; each request of the kernel's count has its row."""
    chance = random.Random(17)
    statistics = Path("/sys/block") / Path(disk.path).name / "stat"
    truth = bytearray(16 << 20)
    file = os.open(disk.path, os.O_RDWR | os.O_CLOEXEC)
    before = [int(word) for word in statistics.read_text().split()]
    begin_ns = time.monotonic_ns()
    try:
        for _ in range(60):
            size = 512 * chance.choice((1, 8, 9, 64, 2048))
            at = 512 * chance.randrange((len(truth) - size) // 512)
            data = chance.randbytes(size)
            truth[at : at + size] = data
            assert os.pwrite(file, data, at) == size
            if chance.random() < 0.2:
                os.fsync(file)
        os.fsync(file)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        got = b"".join(os.pread(file, 1 << 20, at) for at in range(0, len(truth), 1 << 20))
        after = [int(word) for word in statistics.read_text().split()]
    finally:
        os.close(file)
    assert hashlib.sha256(got).digest() == hashlib.sha256(truth).digest()
    disk.close()  # which writes the last rows
    path = tmp_path / "disk_service.rec"
    rows = read_table(path)[1]
    rows = rows[(rows["arrival_ns"] >= begin_ns) & (rows["arrival_ns"] <= rows["reply_ns"])]
    counted = [new - old for new, old in zip(after, before, strict=True)]
    reads, read_sectors, writes, write_sectors, flushes = (counted[place] for place in (0, 2, 4, 6, 15))
    # The kernel counts each flush as a write, too. Closing the device reads its first blocks, last.
    true = {"read": (reads, read_sectors), "write": (writes - flushes, write_sectors), "flush": (flushes, 0)}
    for name, (number, sectors) in true.items():
        of_kind = rows[rows["op"] == enum_value(path, "disk_op", name)]
        if name == "read":
            of_kind = of_kind[:number]
        assert (len(of_kind), of_kind["sectors"].sum()) == (number, sectors), name
        assert number > 0


def test_file_system_is_whole_after_power_cuts(disk: EmulatedDisk, tmp_path: Path) -> None:
    mnt = tmp_path / "mnt"
    mnt.mkdir()
    run("mkfs.ext4", "-q", disk.path)
    for number in range(3):
        run("mount", disk.path, mnt)
        try:
            kept = mnt / f"kept{number}"
            kept.write_bytes(bytes([number + 1]) * 300_000)
            file = os.open(kept, os.O_RDONLY)
            os.fsync(file)
            os.close(file)
            (mnt / f"lost{number}").write_bytes(b"x" * 3_000_000)
            disk.server.cut("now", "some", number)
        finally:
            run("umount", mnt)
        disk.server.power_on()
        run("mount", disk.path, mnt)
        try:
            for earlier in range(number + 1):
                assert (mnt / f"kept{earlier}").read_bytes() == bytes([earlier + 1]) * 300_000
        finally:
            run("umount", mnt)
        run("e2fsck", "-fn", disk.path)


def test_closed_disk_is_gone(disk: EmulatedDisk) -> None:
    disk.close()
    assert ublk_devices() == []


def test_killed_server_gives_errors_and_is_removed(disk: EmulatedDisk) -> None:
    file = os.open(disk.path, os.O_RDWR | os.O_CLOEXEC)
    try:
        os.kill(disk.server.pid, signal.SIGKILL)
        deadline = time.monotonic() + 20
        while has_data(file):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        disk.close()
    finally:
        os.close(file)
    assert ublk_devices() == []


def test_kill_9_of_a_session_leaves_no_device(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with subprocess.Popen(
        [sys.executable, "-c", SESSION, state], cwd=TREE, stdout=subprocess.PIPE, text=True
    ) as session:
        assert session.stdout is not None
        path, server = session.stdout.readline().split()
        assert Path(path).is_block_device()
        session.kill()
        session.wait()
    lines = Janitor.sweep(state)
    assert "cleaned" in "".join(lines)
    assert ublk_devices() == []
    assert not is_alive(int(server))


def test_device_of_another_owner_stays(disk: EmulatedDisk, tmp_path: Path) -> None:
    entry = {"kind": "ublk", "mark": 12345, "number": 1}
    session = tmp_path / "other/1-1"
    session.mkdir(parents=True, mode=0o700)
    (tmp_path / "other").chmod(0o700)
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    lines = [{"kind": "session", "pid": 1, "boot_id": boot}, entry]
    (session / "undo.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    Janitor.sweep(tmp_path / "other")
    assert Path(disk.path).is_block_device()
    assert disk.server.stats()
    assert ublkdev.find(12345) == []
