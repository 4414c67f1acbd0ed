# SPDX-License-Identifier: BSD-2-Clause
"""Ends of an emulated disk: its server or its session is killed, its server hangs, its file does not grow."""

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.marks import needs_root, real_time
from tests.workloads.conftest import run
from tests.workloads.emulated import FastDrive, fast_disk, load
from workloads.cgroup import WorkloadCgroup
from workloads.cleanup.janitor import Janitor
from workloads.disks import Disk, hdd
from workloads.system import mounts
from workloads.system.rights import as_ids

TREE = Path(__file__).resolve().parents[2]
pytestmark = [needs_root, real_time]
_SESSION = """
import sys, time
from pathlib import Path
from tests.workloads.emulated import fast_disk
from workloads.cleanup.janitor import Janitor
from workloads.system import mounts

mounts.go_apart()
with Janitor(Path(sys.argv[1])) as janitor, fast_disk(janitor) as disk:
    print(disk.path, disk.server.pid, flush=True)
    time.sleep(600)
"""


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put media files into a directory of the test."""
    monkeypatch.setenv("SEEKMETER_SCRATCH", str(tmp_path / "scratch"))
    return tmp_path / "scratch"


@pytest.fixture
def session(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], str, int]]:
    """A session of another process with an emulated disk: the process, the disk, its server's pid."""
    command = [sys.executable, "-c", _SESSION, str(tmp_path / "state")]
    with subprocess.Popen(command, cwd=TREE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        path, pid = process.stdout.readline().split()
        yield process, path, int(pid)
        process.kill()


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def assert_nothing_is_left(tmp_path: Path, path: str, pid: int) -> None:
    assert [entry.name for entry in (tmp_path / "state").iterdir()] == ["lock"]
    assert not Path("/sys/block", Path(path).name, "loop/backing_file").exists()
    assert not [mount for _, mount in mounts.everywhere() if str(tmp_path) in mount.target]
    assert not list((tmp_path / "scratch").iterdir())
    assert not is_alive(pid)


def server_of(disk: Disk) -> int:
    assert disk.server is not None
    return disk.server.pid


def test_server_and_session_hand_nothing_on(tmp_path: Path) -> None:
    """Programs inherit no descriptor of the disk; nobody else reaches its file."""
    before = {int(name) for name in os.listdir("/proc/self/fd")}
    with Janitor(tmp_path / "state") as janitor, fast_disk(janitor) as disk:
        pid = server_of(disk)
        made = [fd for fd in map(int, os.listdir("/proc/self/fd")) if fd not in before and is_open(fd)]
        assert made and not [fd for fd in made if os.get_inheritable(fd)]
        has = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
        assert not [name for name in has if "undo.jsonl" in name or "/dev/loop" in name]
        lines = dict(line.split(":") for line in Path(f"/proc/{pid}/status").read_text().splitlines())
        locked = int(lines["VmLck"].split()[0]) * 1024
        assert locked <= hdd.locked_bytes(256 << 20, hdd.Emulated(FastDrive())) <= 2 * max(locked, 64 << 20)
        served = janitor.session_dir / "disk0"
        if mounts.number_at(served):  # by FUSE
            janitor.session_dir.chmod(0o711)
            session = os.open(janitor.session_dir, os.O_PATH)
            with as_ids(65534, 65534), pytest.raises(PermissionError):
                os.open("disk0", os.O_RDONLY, dir_fd=session)
            os.close(session)
    assert_nothing_is_left(tmp_path, disk.path, pid)


def is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def test_killed_server_fails_requests_and_leaves_nothing(tmp_path: Path) -> None:
    """As a pulled plug: requests in flight fail, none hangs, and the disk can be taken apart."""
    with Janitor(tmp_path / "state") as janitor, fast_disk(janitor) as disk:
        with load(disk.path) as fio:
            time.sleep(0.3)
            assert fio.poll() is None
            os.kill(server_of(disk), signal.SIGKILL)
            assert fio.wait(10) != 0
        with open(disk.path, "rb", buffering=0) as file, pytest.raises(OSError) as failed:
            os.pread(file.fileno(), 4096, 128 << 20)
        assert failed.value.errno == errno.EIO
    assert_nothing_is_left(tmp_path, disk.path, server_of(disk))


@pytest.mark.parametrize("also_server", [False, True])
def test_killed_session_leaves_nothing_at_next_start(
    also_server: bool, session: tuple[subprocess.Popen[str], str, int], tmp_path: Path
) -> None:
    """Its server ends by itself; the loop device, whose file has no mount any more, is removed."""
    process, path, pid = session
    with load(path) as fio:
        time.sleep(0.3)
        if also_server:
            os.kill(pid, signal.SIGKILL)
        process.kill()
        process.wait()
        assert fio.wait(10) != 0
    assert [line for line in Janitor.sweep(tmp_path / "state") if "cleaned" not in line] == []
    assert_nothing_is_left(tmp_path, path, pid)


def test_hanging_server_is_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stopped server answers no request: its connection is aborted, so that its disk can be detached."""
    monkeypatch.setattr(hdd, "_CHECK_SECONDS", 0.5)
    with Janitor(tmp_path / "state") as janitor, fast_disk(janitor) as disk:
        fio = load(disk.path)
        time.sleep(0.3)
        os.kill(server_of(disk), signal.SIGSTOP)
        fio.terminate()
    assert fio.wait(10) != 0
    assert_nothing_is_left(tmp_path, disk.path, server_of(disk))


def test_full_backing_file_system_fails_writes(
    tmp_path: Path, ram: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A write or its flush fails, none hangs; what was flushed before is read back whole."""
    monkeypatch.setenv("SEEKMETER_SCRATCH", str(ram / "scratch"))
    block = os.urandom(1 << 20)
    with Janitor(tmp_path / "state") as janitor, fast_disk(janitor, time=100.0) as disk:
        file = os.open(disk.path, os.O_RDWR)
        try:
            os.pwrite(file, block, 0)
            os.fsync(file)
            room = os.statvfs(ram)
            with (ram / "filler").open("wb") as filler:
                os.posix_fallocate(filler.fileno(), 0, room.f_bavail * room.f_frsize - (4 << 20))
            with pytest.raises(OSError) as failed:
                for number in range(1, 64):
                    os.pwrite(file, block, number << 20)
                    os.fsync(file)
            assert failed.value.errno in (errno.EIO, errno.ENOSPC)
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
            assert os.pread(file, 1 << 20, 0) == block
        finally:
            os.close(file)
            (ram / "filler").unlink()


def test_writer_with_limited_memory_does_not_deadlock(tmp_path: Path) -> None:
    """The server is outside of the writer's cgroup, so its own pages never wait for the writer's write-back.

    In one cgroup of 64 MiB, with the server's file in the page cache, both wait for each other for ever.
    """
    with Janitor(tmp_path / "state") as janitor:
        cgroup = WorkloadCgroup(janitor.name, 64 << 20, None, janitor)
        with fast_disk(janitor, time=100.0) as disk:
            run("mkfs.ext2", "-q", disk.path)
            target = janitor.session_dir / "mnt"
            target.mkdir()
            listed = janitor.add_mount(target, disk.path)
            run("mount", disk.path, str(target))
            writer = subprocess.Popen(
                [
                    "dd",
                    "if=/dev/zero",
                    f"of={target}/file",
                    "bs=1M",
                    "count=200",
                    "conv=fsync",
                    "status=none",
                ],
                preexec_fn=cgroup.enter,  # noqa: PLW1509 (no threads here)
            )
            try:
                assert server_of(disk) not in cgroup.pids()
                assert writer.pid in cgroup.pids()
                assert writer.wait(60) == 0
            finally:
                writer.kill()
                writer.wait()
                janitor.undo_one(listed)
