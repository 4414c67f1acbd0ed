# SPDX-License-Identifier: BSD-2-Clause
"""The disk of a run: DISK=file, ram, or a real device that passed every rule of safety.py.

file: a loop device with direct I/O on a sparse file in $SEEKMETER_SCRATCH (default /var/tmp/seekmeter). The
file is unlinked as soon as it is attached, so that no crash can leave it behind.
ram: the same on a tmpfs of its own, mounted for this run.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from workloads import loopdev
from workloads.disks import queue, safety
from workloads.disks.safety import Target
from workloads.errors import MachineError, RunError
from workloads.units import show_size

if TYPE_CHECKING:
    from workloads.janitor import Janitor
    from workloads.plan import Plan

DEFAULT_SCRATCH = "/var/tmp/seekmeter"
# A RAM disk may not take more of the free memory than this.
_RAM_SHARE = 0.75


@dataclass(frozen=True)
class Disk:
    """An open disk, nothing mounted yet."""

    path: str  # /dev/loop8
    dev: tuple[int, int]  # major, minor
    facts: Mapping[str, object]  # for run.json's "device"
    target: Target | None  # a real device's identity


def scratch_directory() -> Path:
    """Return where disk files go."""
    return Path(os.environ.get("SEEKMETER_SCRATCH") or DEFAULT_SCRATCH)


def check_space(kind: str, size_bytes: int) -> None:
    """Raise MachineError if a disk of this size has no room: on the scratch file system, or in memory."""
    if kind == "ram":
        free_bytes = int(_memory_available() * _RAM_SHARE)
        if size_bytes > free_bytes:
            raise MachineError(
                f"a RAM disk of {show_size(size_bytes)} does not fit: memory has {show_size(free_bytes)} to "
                f"spare; give a smaller SIZE or SCALE, or DISK=file"
            )
    elif kind == "file":
        place = scratch_directory()
        while not place.exists():
            place = place.parent
        status = os.statvfs(place)
        free_bytes = status.f_bavail * status.f_frsize
        if size_bytes > free_bytes:
            raise MachineError(
                f"a disk of {show_size(size_bytes)} does not fit: {place} has {show_size(free_bytes)} free; "
                f"give a smaller SIZE or SCALE, or another directory in SEEKMETER_SCRATCH"
            )


@contextmanager
def open_disk(plan: "Plan", janitor: "Janitor") -> Iterator[Disk]:
    """Open the plan's disk with its scheduler set; put the scheduler back and take the disk apart at the end.

    Whatever the end does not reach (kill -9) is in the janitor's list. Raises MachineError, WordError.
    """
    undo: list[int] = []
    try:
        if plan.disk in ("file", "ram"):
            check_space(plan.disk, plan.size_bytes)
            disk = _open_loop(plan, janitor, undo)
        else:
            target = safety.check_device(plan.disk, plan.words.erase)
            name = target.name
            disk = Disk(
                target.path,
                target.dev,
                {"name": name, "kind": "device", "size_bytes": target.size_bytes},
                target,
            )
        name = os.path.basename(disk.path)
        if plan.sched is not None:
            setting = queue.set_scheduler(name, plan.sched, janitor)
            if setting is not None:
                undo.append(setting)
        yield Disk(disk.path, disk.dev, {**disk.facts, **queue.facts(name)}, disk.target)
    finally:
        for number in reversed(undo):
            janitor.undo_one(number)


def _open_loop(plan: "Plan", janitor: "Janitor", undo: list[int]) -> Disk:
    place = _ram_directory(plan.size_bytes, janitor, undo) if plan.disk == "ram" else _private_scratch()
    path = Path(os.path.realpath(place)) / f"{janitor.name}.img"
    file_number = janitor.add_file(path)
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.ftruncate(file, plan.size_bytes)
        number = loopdev.free_number()
        while True:
            loop_number = janitor.add_loop(number, path)
            if loopdev.add(number):
                break
            janitor.forget(loop_number)
            number += 1
        undo.append(loop_number)
        try:
            direct = loopdev.attach(number, file, direct=True)
        except OSError as error:
            raise MachineError(
                f"/dev/loop{number} cannot be set up on {path}: {(error.strerror or '').lower()}"
            ) from None
    finally:
        os.close(file)
        janitor.undo_one(file_number)  # unlinked; the loop device keeps the file itself as long as it lives
    if not direct and plan.disk == "file":
        raise MachineError(
            f"{place} does not allow direct I/O, which the disk needs: name a directory on ext4 or xfs "
            f"in SEEKMETER_SCRATCH, or DISK=ram"
        )
    device = f"/dev/loop{number}"
    status = os.stat(device)
    facts = {"name": f"loop{number}", "kind": plan.disk, "size_bytes": plan.size_bytes, "direct_io": direct}
    return Disk(device, (os.major(status.st_rdev), os.minor(status.st_rdev)), facts, None)


def _private_scratch() -> Path:
    """Return the scratch directory, made if need be, and safe for root to make files in."""
    place = scratch_directory()
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = place.lstat()
    except OSError as error:
        raise MachineError(
            f"{place} cannot be made: {(error.strerror or '').lower()}; set SEEKMETER_SCRATCH"
        ) from None
    if str(place) == DEFAULT_SCRATCH and (
        place.is_symlink() or status.st_uid != os.geteuid() or status.st_mode & 0o022
    ):
        raise MachineError(f"{place} can be written by others: remove it, it is made anew")
    return place


def _ram_directory(size_bytes: int, janitor: "Janitor", undo: list[int]) -> Path:
    from workloads.filesystems import last_words, run_command

    place = janitor.session_dir / "ram"
    place.mkdir()
    source = f"{janitor.name}-ram"
    undo.append(janitor.add_mount(place, source))
    # The few pages more are tmpfs's own.
    options = f"size={size_bytes + (1 << 20)},mode=700"
    result = run_command(["mount", "-t", "tmpfs", "-o", options, source, str(place)])
    if result.returncode != 0:
        raise RunError(f"a tmpfs cannot be mounted on {place}: {last_words(result)}")
    return place


def _memory_available() -> int:
    """Return the kernel's estimate of memory free for new uses, in bytes."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    raise MachineError("/proc/meminfo has no MemAvailable: mount /proc")
