# SPDX-License-Identifier: BSD-2-Clause
"""Emulated spinning disks: build/drive-server stands for the drive, by the best way that this kernel has.

That is ublk (by_ublk.py), else FUSE and a loop device (by_fuse.py); the model of the drive is the same.

The server is a child of the session, outside of the workload's cgroup: a server that shares the workload's
memory limit waits for its own write-back, and then not even SIGKILL ends it. It is outside of the session's
mount namespace, too: it keeps nothing busy there, and never unmounts its own disk.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from workloads.cleanup.janitor import Janitor
from workloads.disks import by_ublk, queue, virtio
from workloads.disks.by_fuse import ByFuse
from workloads.disks.by_ublk import ByUblk
from workloads.disks.drive_server import DriveServer
from workloads.disks.loop import new_file, private_scratch
from workloads.system import guest
from workloads.system.errors import MachineError

# Of native/server/main.c: a share of each extent of the cache; and requests in flight, tables, rows, stacks.
_EXTENTS_MOST, _SERVER_BYTES = 8192, 96 << 20
_CHECK_SECONDS = 20.0  # a server that gives no stats for so long hangs


class Model(Protocol):
    """A drive's description, as workloads.drives.model.load() returns it."""

    @property
    def name(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def capacity_bytes(self) -> int: ...
    def flat(self, size_bytes: int, offset_bytes: int) -> str: ...


@dataclass(frozen=True)
class Emulated:
    """What an emulated disk is to be: a drive, and where on the drive the disk begins."""

    model: Model
    offset_bytes: int = 0
    time: float = 1.0  # how many times as fast as the clock the model runs


@dataclass
class EmulatedDisk:
    """An emulated disk that is open, and its server."""

    path: str  # /dev/loop8
    server: DriveServer
    facts: Mapping[str, object]
    _janitor: Janitor
    _way: ByFuse | ByUblk
    _process: int  # in the janitor's list

    def close(self) -> None:
        """Remove the device and what it lies on, and end the server. Raises MachineError."""
        try:
            self.server.ask("stats", _CHECK_SECONDS)
        except MachineError:
            self._abort()
            self.server.kill()
        self._way.detach()
        self.server.stop()
        self._janitor.undo_one(self._process)
        self._way.forget()

    def _abort(self) -> None:
        try:
            self._way.abort(self._process)
        except OSError as error:
            raise MachineError(
                f"the emulated disk {self.server.name} hangs and cannot be aborted "
                f"({(error.strerror or '').lower()}): end process {self.server.pid}"
            ) from None


def open_hdd(
    name: str,
    size_bytes: int,
    emulated: Emulated,
    scheduler: str | None,
    janitor: Janitor,
    record: int | None = None,
    power: int | None = None,
) -> EmulatedDisk:
    """Make an emulated disk. name: its role in the run (disk0). scheduler: None for that of a SATA disk.

    record: descriptor of the file to which its server appends the rows of disk_service. power: of the file by
    which several disks lose their power together (power_supply()). Raises MachineError, OptionError. After an
    error, janitor.undo() removes what was made.
    """
    parameters = emulated.model.flat(size_bytes, emulated.offset_bytes)
    no_ublk = by_ublk.why_not()
    way = ByFuse(name, janitor) if no_ublk else ByUblk(janitor)
    arguments = [f"--bytes={size_bytes}", f"--time={emulated.time:g}", way.option]
    inherited: list[int] = []
    try:
        for option, file in (
            ("params", _text_file(parameters)),
            ("media", _media_file(name, size_bytes, janitor)),
        ):
            inherited.append(file)
            arguments.append(f"--{option}={file}")
        for option, kept in (("record", record), ("power", power)):
            if kept is not None:
                arguments.append(f"--{option}={kept}")
        handed = [*inherited, *way.inherited, *(kept for kept in (record, power) if kept is not None)]
        server = DriveServer(name, arguments, handed)
        process = janitor.add_process(server.pid, way.connection)
    finally:
        way.hand_over()
        for file in inherited:
            os.close(file)
    server.wait_ready()
    device = way.attach(server)
    refused = queue.make_spinning(device, _queue_depth(parameters), scheduler)
    facts = {
        "name": device,
        "kind": "hdd",
        "size_bytes": size_bytes,
        "direct_io": True,
        "emulated": {
            "model": emulated.model.name,
            "title": emulated.model.title,
            "parameters": parameters.splitlines(),
            "time": emulated.time,
            "offset_bytes": emulated.offset_bytes,
            "transport": way.name,
            "why": no_ublk or "the kernel has ublk",
            "server": dict(server.ready),
            "queue_refused": refused,
        },
    }
    disk = EmulatedDisk(f"/dev/{device}", server, facts, janitor, way, process)
    number = os.stat(disk.path).st_rdev
    server.set_device((os.major(number), os.minor(number)))
    return disk


def power_supply() -> int:
    """Return a descriptor of a new file in memory by which disks lose their power together."""
    file = os.memfd_create("power-supply", os.MFD_CLOEXEC)
    os.truncate(file, 8)
    return file


def crowding(count: int) -> str | None:
    """Return a warning if so many emulated disks want more CPUs than this machine has; else None.

    Each has a thread that must run the moment a reply is due, whatever the workload does.
    """
    cpus = len(os.sched_getaffinity(0))
    if count <= cpus:
        return None
    return (
        f"{count} emulated disks want a CPU each to be on time, and this machine has {cpus}: replies may be "
        f"late, which the run measures; give fewer disks, or TIME=0.5"
    )


def locked_bytes(size_bytes: int, emulated: Emulated) -> int:
    """Return the memory that an emulated disk's server keeps, and never pages out."""
    parameters = emulated.model.flat(size_bytes, emulated.offset_bytes)
    extents = min(_value(parameters, "write_cache_extents", 0), _EXTENTS_MOST)
    return _value(parameters, "write_cache_bytes", 0) + 2 * 4096 * extents + _SERVER_BYTES


def _queue_depth(parameters: str) -> int:
    """Return the number of requests among which the drive chooses."""
    return _value(parameters, "queue_depth", 1)


def _value(parameters: str, key: str, default: int) -> int:
    values = (line.split() for line in parameters.splitlines())
    return next((int(words[1]) for words in values if words[:1] == [key]), default)


def _text_file(text: str) -> int:
    """Return a descriptor of a file in memory with this text, to be read from its beginning."""
    file = os.memfd_create("drive-parameters", os.MFD_CLOEXEC)
    os.write(file, text.encode())
    os.lseek(file, 0, os.SEEK_SET)
    return file


def _media_file(name: str, size_bytes: int, janitor: Janitor) -> int:
    """Return a descriptor of a new, sparse file in the scratch directory, which has no name any more.

    In a virtual machine, of the disk that the host attached for it.
    """
    if guest.inside():
        return virtio.open_media(name)
    path, file, listed = new_file(private_scratch(janitor), name, janitor)
    janitor.undo_one(listed)
    try:
        os.ftruncate(file, size_bytes)
    except OSError as error:
        os.close(file)
        raise MachineError(
            f"{path.parent} takes no file of {size_bytes} bytes ({(error.strerror or '').lower()}): "
            f"give a smaller SIZE, or another directory in SEEKMETER_SCRATCH"
        ) from None
    return file
