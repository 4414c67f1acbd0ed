# SPDX-License-Identifier: BSD-2-Clause
"""Emulated spinning disks: build/drive-server serves a file by FUSE, and a loop device lies on that file.

The server is a child of the session, outside of the workload's cgroup: a server that shares the workload's
memory limit waits for its own write-back, and then not even SIGKILL ends it. It lives in the session's mount
namespace, so it sees what the session unmounts and keeps nothing busy.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from workloads.cleanup.janitor import Janitor
from workloads.disks import queue
from workloads.disks.drive_server import DriveServer
from workloads.disks.loop import new_loop, private_scratch
from workloads.system import loopdev, mounts
from workloads.system.errors import MachineError

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
    _listed: Sequence[int] = field(default=())  # in the janitor's list: mount, process, loop device

    def close(self) -> None:
        """Detach the loop device, unmount, and end the server. Raises MachineError."""
        fuse, process, loop = self._listed
        try:
            self.server.ask("stats", _CHECK_SECONDS)
        except MachineError:
            self._abort(fuse)
            self.server.kill()
        self._janitor.undo_one(loop)
        self._janitor.undo_one(fuse)
        self.server.stop()
        self._janitor.undo_one(process)

    def _abort(self, fuse: int) -> None:
        try:
            self._janitor.abort_fuse(fuse)
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
) -> EmulatedDisk:
    """Make an emulated disk. name: its role in the run (disk0). scheduler: None for that of a SATA disk.

    record: descriptor of the file to which its server appends the rows of disk_service. Raises MachineError,
    OptionError. After an error, janitor.undo() removes what was made.
    """
    parameters = emulated.model.flat(size_bytes, emulated.offset_bytes)
    mark = f"{janitor.name}-{name}"
    target = janitor.session_dir / name
    arguments = [f"--bytes={size_bytes}", f"--time={emulated.time:g}"]
    inherited: list[int] = []
    try:
        for option, file in (
            ("params", _text_file(parameters)),
            ("media", _media_file(name, size_bytes, janitor)),
            ("fuse", _fuse_connection()),
        ):
            inherited.append(file)
            arguments.append(f"--{option}={file}")
        target.touch(mode=0o600)
        fuse = janitor.add_fuse(target, mark)
        _mount(target, mark, inherited[-1])
        if record is not None:
            arguments.append(f"--record={record}")
        server = DriveServer(name, arguments, [*inherited, *([] if record is None else [record])])
        process = janitor.add_process(server.pid)
    finally:
        # The server alone has them from now on: with its end the connection ends, and the disk with it.
        for file in inherited:
            os.close(file)
    server.wait_ready()
    number, loop = _attach(target, mark, janitor)
    refused = queue.make_spinning(f"loop{number}", _queue_depth(parameters), scheduler)
    facts = {
        "name": f"loop{number}",
        "kind": "hdd",
        "size_bytes": size_bytes,
        "direct_io": True,
        "emulated": {
            "model": emulated.model.name,
            "title": emulated.model.title,
            "parameters": parameters.splitlines(),
            "time": emulated.time,
            "offset_bytes": emulated.offset_bytes,
            "transport": server.ready.get("transport", "fuse"),
            "why": server.ready.get("why", ""),
            "server": dict(server.ready),
            "queue_refused": refused,
        },
    }
    disk = EmulatedDisk(f"/dev/loop{number}", server, facts, janitor, (fuse, process, loop))
    device = os.stat(disk.path).st_rdev
    server.set_device((os.major(device), os.minor(device)))
    return disk


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


def _queue_depth(parameters: str) -> int:
    """Return the number of requests among which the drive chooses."""
    values = (line.split() for line in parameters.splitlines())
    return next((int(words[1]) for words in values if words[:1] == ["queue_depth"]), 1)


def _text_file(text: str) -> int:
    """Return a descriptor of a file in memory with this text, to be read from its beginning."""
    file = os.memfd_create("drive-parameters", os.MFD_CLOEXEC)
    os.write(file, text.encode())
    os.lseek(file, 0, os.SEEK_SET)
    return file


def _media_file(name: str, size_bytes: int, janitor: Janitor) -> int:
    """Return a descriptor of a new, sparse file in the scratch directory, which has no name any more."""
    path = private_scratch(janitor) / f"{janitor.name}-{name}.img"
    listed = janitor.add_file(path)
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        janitor.forget(listed)
        raise MachineError(
            f"{path} cannot be made: {(error.strerror or '').lower()}; set SEEKMETER_SCRATCH"
        ) from None
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


def _fuse_connection() -> int:
    try:
        return os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        raise MachineError(
            f"/dev/fuse cannot be opened ({(error.strerror or '').lower()}), which DISK=hdd needs: "
            f"modprobe fuse"
        ) from None


def _mount(target: Path, source: str, connection: int) -> None:
    try:
        mounts.mount_fuse_file(target, source, connection)
    except OSError as error:
        raise MachineError(
            f"FUSE cannot be mounted on {target} ({(error.strerror or '').lower()}), which DISK=hdd needs: "
            f"modprobe fuse; in a container give its root CAP_SYS_ADMIN"
        ) from None


def _attach(target: Path, mark: str, janitor: Janitor) -> tuple[int, int]:
    """Put a loop device with direct I/O on the served file. Returns its number, and its entry's.

    Without direct I/O the loop device has one request in flight, and the drive no queue to choose from.
    """
    try:
        file = os.open(target, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise MachineError(
            f"the emulated disk {target.name} cannot be opened ({(error.strerror or '').lower()}): "
            f"run make build"
        ) from None
    try:
        number, loop = new_loop(target, janitor, mark)
        is_direct = loopdev.attach(number, file, True, mark)
    except OSError as error:
        raise MachineError(
            f"/dev/loop{number} cannot be set up on {target}: {(error.strerror or '').lower()}"
        ) from None
    finally:
        os.close(file)
    if not is_direct:
        raise MachineError(
            f"/dev/loop{number} has no direct I/O on a FUSE file, which DISK=hdd needs: give DISK=file"
        )
    return number, loop
