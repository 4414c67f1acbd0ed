# SPDX-License-Identifier: BSD-2-Clause
"""Disks: the kernel's view while they are open, and that nothing is left when they are closed."""

import os
from pathlib import Path

import pytest

from collectors.collector import choices
from tests.marks import needs_root
from tests.workloads.conftest import LoopDevice, is_attached, open_disk, plan, run
from tests.workloads.emulated import FastDrive
from workloads import disks
from workloads.cleanup.janitor import Janitor
from workloads.cli.parse import parse
from workloads.disks import queue, virtio
from workloads.plan import trial
from workloads.plan.planner import make_plan
from workloads.system import loopdev, mounts, private
from workloads.system.errors import MachineError, OptionError

WORKLOAD = {"WL": "fio-seqwrite", "SCALE": "quick", "SIZE": "512M"}


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put disk files into a directory of the test."""
    monkeypatch.setenv("SEEKMETER_SCRATCH", str(tmp_path / "scratch"))
    return tmp_path / "scratch"


def sysfs(name: str, setting: str) -> str:
    return Path(f"/sys/block/{name}/{setting}").read_text().strip()


@needs_root
@pytest.mark.parametrize("kind", ["file", "ram"])
def test_loop_device_is_removed_after_use(kind: str, scratch: Path, janitor: Janitor) -> None:
    decided = plan(False, words=WORKLOAD, FS="ext4", DISK=kind)
    with open_disk(decided, janitor) as disk:
        name = disk.path.removeprefix("/dev/")
        assert f"{disk.dev[0]}:{disk.dev[1]}" == sysfs(name, "dev")
        assert int(sysfs(name, "size")) * 512 == 512 << 20 == disk.facts["size_bytes"]
        assert sysfs(name, "loop/dio") == "1"
        assert run("losetup", "--noheadings", "--output", "DIO", disk.path).strip() == "1"
        assert sysfs(name, "loop/backing_file").endswith("(deleted)")  # unlinked already
        assert list(scratch.glob("*")) == []
        assert str(disk.facts["rotational"]) == sysfs(name, "queue/rotational")
        settings = disk.facts["queue"]
        assert isinstance(settings, dict)
        for setting in ("nr_requests", "max_sectors_kb", "read_ahead_kb", "write_cache"):
            assert str(settings[setting]) == sysfs(name, f"queue/{setting}")
        tmpfs = [mount for mount in mounts.here() if janitor.name in mount.source]
        assert len(tmpfs) == (kind == "ram")
    assert not is_attached(disk.path, janitor)
    assert janitor.name not in run("losetup", "--list", "--noheadings", "--output", "BACK-FILE")
    assert not [mount for mount in mounts.here() if janitor.name in mount.source]
    assert not list(scratch.glob("*"))


@needs_root
def test_disk_is_closed_after_an_error(scratch: Path, janitor: Janitor) -> None:
    decided = plan(False, words=WORKLOAD, FS="ext4")
    with pytest.raises(ZeroDivisionError), open_disk(decided, janitor) as disk:
        raise ZeroDivisionError
    assert not is_attached(disk.path, janitor)


@needs_root
def test_disk_file_without_direct_io_is_refused(
    scratch: Path, janitor: Janitor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An old tmpfs has no direct I/O; here the flag is dropped, so that the kernel reports it off."""
    attach = loopdev.attach
    monkeypatch.setattr(loopdev, "attach", lambda number, file, direct: attach(number, file, direct=False))
    decided = plan(False, words=WORKLOAD, FS="ext4")
    refusal = pytest.raises(MachineError, match="does not allow direct I/O")
    with refusal, open_disk(decided, janitor):
        pytest.fail("opened without direct I/O")
    assert janitor.name not in run("losetup", "--list")


@needs_root
def test_scheduler_is_set_and_restored(loop: LoopDevice, janitor: Janitor) -> None:
    offered = sorted(queue.offered(loop.name))
    before = Path(f"/sys/block/{loop.name}/queue/scheduler").read_text()
    other = next(name for name in offered if f"[{name}]" not in before)
    decided = plan(trial=False, FS="ext2", WL="fio-seqwrite", DISK=loop.path, ERASE=loop.path, SCHED=other)
    with open_disk(decided, janitor) as disk:
        assert f"[{other}]" in sysfs(loop.name, "queue/scheduler")
        assert disk.facts["scheduler"] == other
        assert (disk.facts["kind"], disk.facts["name"]) == ("device", loop.name)
    assert Path(f"/sys/block/{loop.name}/queue/scheduler").read_text() == before


@needs_root
def test_scheduler_changed_by_another_is_left_alone(loop: LoopDevice, janitor: Janitor) -> None:
    file = Path(f"/sys/block/{loop.name}/queue/scheduler")
    if len(queue.offered(loop.name)) < 3:
        pytest.skip("this kernel has fewer than three schedulers: load bfq and kyber")
    first, second = [
        name for name in sorted(queue.offered(loop.name)) if f"[{name}]" not in file.read_text()
    ][:2]
    queue.set_scheduler(loop.name, first, janitor)
    file.write_text(second)
    assert janitor.undo() == []
    assert f"[{second}]" in file.read_text()


@needs_root
def test_flushes_are_stopped_and_restored(loop: LoopDevice, janitor: Janitor) -> None:
    cache = Path(f"/sys/block/{loop.name}/queue/write_cache")
    assert cache.read_text().strip() == "write back"
    decided = plan(trial=False, FS="ext2", WL="fio-seqwrite", DISK=loop.path, ERASE=loop.path, FLUSH="0")
    with open_disk(decided, janitor) as disk:
        assert cache.read_text().strip() == "write through"
        settings = disk.facts["queue"]
        assert isinstance(settings, dict) and settings["write_cache"] == "write through"
        assert queue.stop_flushes(loop.name, janitor) is None  # it is so already
    assert cache.read_text().strip() == "write back"


@needs_root
def test_unknown_scheduler_is_refused(loop: LoopDevice, janitor: Janitor) -> None:
    with pytest.raises(OptionError, match="SCHED=cfq is not offered"):
        queue.set_scheduler(loop.name, "cfq", janitor)


def test_virtio_disks_are_found_by_serial(tmp_path: Path) -> None:
    """The kernel's names have no fixed order: QEMU's serials identify the disks."""
    for name, serial in (("vda", "journal"), ("vdb", "disk1"), ("vdc", "disk0")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "serial").write_text(serial)
    (tmp_path / "vdd").mkdir()  # another disk of the machine, without a serial
    assert [virtio.find(serial, tmp_path) for serial in ("disk0", "disk1", "journal")] == [
        "vdc",
        "vdb",
        "vda",
    ]
    with pytest.raises(MachineError, match="has no disk disk2"):
        virtio.find("disk2", tmp_path)


@needs_root
@pytest.mark.parametrize(
    ("words", "tried"),
    [
        ({"FS": "ext4"}, False),
        ({"FS": "ext4", "MKFS": "-b 1024"}, False),
        ({"FS": "ext4", "MOUNT": "noatime"}, True),
        ({"FS": "ext4", "JOURNAL": "file"}, False),
        ({"FS": "ext4", "JOURNAL": "file", "MKFS": "-b 1024"}, True),
    ],
)
def test_guest_tries_options_the_host_could_not(
    words: dict[str, str], tried: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Only what the host could not try is tried: mkfs and mount take seconds on emulated CPUs."""
    monkeypatch.setenv("SEEKMETER_GUEST", str(tmp_path))
    trials: list[object] = []

    def note(options: object, *_: object) -> None:
        trials.append(options)

    monkeypatch.setattr(trial, "_try_as_root", note)
    env = {"SEEKMETER_CMD": "true", **{f"SEEKMETER_{name}": text for name, text in words.items()}}
    make_plan(parse({**env, "SEEKMETER_GUEST": str(tmp_path)}, "trace", choices()))
    assert bool(trials) == tried


@needs_root
def test_disk_larger_than_scratch_is_refused(ram: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a tmpfs of the test, which nobody else fills."""
    monkeypatch.setenv("SEEKMETER_SCRATCH", str(ram / "not made yet"))
    (ram / "taken").write_bytes(bytes(1 << 20))
    status = os.statvfs(ram)
    disks.check_space("file", status.f_bavail * status.f_frsize)
    with pytest.raises(MachineError, match="give a smaller SIZE"):
        disks.check_space("file", status.f_bavail * status.f_frsize + 1)


def test_ram_disk_larger_than_memory_is_refused() -> None:
    lines = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    available = int(lines["MemAvailable"].split()[0]) * 1024
    disks.check_space("ram", available // 2)
    with pytest.raises(MachineError, match="does not fit"):
        disks.check_space("ram", available)


def test_emulated_disks_larger_than_memory_are_refused() -> None:
    lines = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    available = int(lines["MemAvailable"].split()[0]) * 1024
    drive = disks.Emulated(FastDrive(write_cache_bytes=available // 2))
    planned = [disks.PlannedDisk(f"disk{number}", "hdd", 1 << 30, drive, 0) for number in range(2)]
    disks.check_room([])
    with pytest.raises(MachineError, match="give fewer disks"):
        disks.check_room(planned)


@needs_root
def test_scratch_writable_by_others_is_refused(
    tmp_path: Path, janitor: Janitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(private, "HOME", tmp_path)
    place = tmp_path / "scratch"
    place.mkdir()
    place.chmod(0o777)
    monkeypatch.delenv("SEEKMETER_SCRATCH")
    monkeypatch.setattr(disks.loop, "DEFAULT_SCRATCH", place)
    decided = plan(False, words=WORKLOAD, FS="ext4")
    refusal = pytest.raises(MachineError, match="can be written by others")
    with refusal, open_disk(decided, janitor):
        pytest.fail("made a file where others can write")


def test_disk_being_removed_offers_no_scheduler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan reads the schedulers of all disks; a disk being removed has a file that cannot be read."""
    monkeypatch.setattr(queue, "directory", lambda name: tmp_path)
    assert queue.offered("gone") == set()
    (tmp_path / "scheduler").mkdir()
    assert queue.offered("going") == set()
