# SPDX-License-Identifier: BSD-2-Clause
"""Unmount and mount the file system under test between two phases, when the workload asks: cold caches.

The workload connects to the Unix socket that SEEKMETER_REMOUNT names, sends "remount" and a newline and waits
for one line: "ok", "no WHY" (it is not ours to unmount: nothing was done but a sync) or "error WHY". Only
processes of the workload are heard. Whoever asks has left the directory and closed all files in it.
"""

import os
import socket
import struct
import time
from collections.abc import Callable
from pathlib import Path

from collectors.host import blockdev, signals
from collectors.trace.context import RunContext
from workloads import filesystems
from workloads.cgroup import WorkloadCgroup
from workloads.cleanup.janitor import Janitor
from workloads.disks import Disk, cold
from workloads.filesystems.plan import FilesystemPlan
from workloads.system import mounts
from workloads.system.errors import MachineError, RunError, UserError

_BUSY_SECONDS = 5.0
_TALK_SECONDS = 1.0
_REQUEST = b"remount\n"


class Target:
    """The mounted file system of a run, ours to unmount and mount again."""

    def __init__(
        self, plan: FilesystemPlan, disk: Disk, directory: Path, line: str, janitor: Janitor
    ) -> None:
        """line: what /proc/mounts says of it, and must say again."""
        self.directory = directory
        self.pool = plan.filesystem.pool is not None
        self.line = line
        self._plan = plan
        self._disk = disk
        self._janitor = janitor

    def unmount(self) -> None:
        """Unmount it for good measure: its super block is gone, and nothing of it is cached.

        Raises MachineError, and it is mounted as before; RunError, and it is not.
        """
        deadline = time.monotonic() + _BUSY_SECONDS
        users = ""
        while (error := _unmount(self.directory)) is not None:
            users = mounts.users(self.directory)
            if time.monotonic() > deadline:
                who = f"used by {users}" if users else error
                raise MachineError(
                    f"{self.directory} is still {who}: leave it (chdir) and close its files before asking"
                )
            time.sleep(0.05)
        self._janitor.undo_mount(self.directory)  # nothing is mounted there any more: off the list
        claimed = cold.drop_caches(self._disk, deadline - time.monotonic())
        if claimed is not None:
            self.mount()
            raise MachineError(
                f"{claimed} stays in use after the unmount, perhaps by another mount namespace: end what "
                f"started meanwhile and keeps a copy of all mounts"
            )

    def mount(self) -> None:
        """Mount it as before. Raises RunError."""
        left = os.listdir(self.directory)
        if left:
            raise RunError(
                f"{self.directory}/{left[0]} was made while the file system was unmounted: a workload that "
                f"asks for it has nothing else running"
            )
        self.line = filesystems.mount(self._plan, self._disk, self.directory, self._janitor)


class Server:
    """Hears the workload's wish for cold caches; serve() is called a few times a second."""

    def __init__(
        self,
        context: RunContext,
        path: Path,
        directory: Path,
        target: Target | None,
        cgroup: WorkloadCgroup,
        moved: Callable[[str], None],
    ) -> None:
        """Listen at path. target: None if directory is the user's. moved: told a new number of it."""
        self.path = path
        self.served = 0
        self._context = context
        self._directory = directory
        self._target = target
        self._cgroup = cgroup
        self._moved = moved
        self._dev = blockdev.filesystem_number(directory)
        self._warned = False
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        self._socket.bind(os.fspath(path))
        os.chmod(path, 0o666)  # who may ask is found out by asking the kernel who asks
        self._socket.listen(4)

    def close(self) -> None:
        """Listen no more."""
        self._socket.close()

    def serve(self) -> None:
        """Answer one who has asked; others wait for the next call, as between two the run is looked after.

        Raises RunError if the file system could not be mounted again.
        """
        try:
            asker, _ = self._socket.accept()
        except OSError:  # nobody, or it hung up before it was heard
            return
        with asker:
            try:
                answer = self._answer(asker)
            except RunError:
                self._cgroup.kill()  # or what goes on writing would write below the mount point
                raise
            try:
                asker.settimeout(_TALK_SECONDS)
                asker.sendall(answer.replace("\n", " ").encode(errors="replace") + b"\n")
            except OSError:  # gone meanwhile: its own affair
                pass

    def _answer(self, asker: socket.socket) -> str:
        peer = asker.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        if struct.unpack("3i", peer)[0] not in self._cgroup.pids():
            return "error only the workload itself may ask for it"
        request = _request(asker)
        if request != _REQUEST:
            return f"error {request[:40]!r} is not understood: send 'remount' and a newline"
        return self._remount()

    def _remount(self) -> str:
        from_ns = self._context.cut_bins()
        start_ns = time.monotonic_ns()
        try:
            blockdev.sync(self._directory)
        except UserError as error:
            return f"error {error.message}"
        if self._target is None or self._target.pool:
            why = (
                f"{self._directory} is not a disk of the run's own"
                if self._target is None
                else "a pool keeps what it cached through an unmount"
            )
            if not self._warned:
                self._warned = True
                self._context.warn(
                    f"the workload asked for cold caches between its phases (remount), and there were none: "
                    f"{why}; what it read may have come from memory"
                )
            return f"no {why}"
        line = self._target.line
        with signals.held():
            try:
                self._target.unmount()
            except MachineError as error:
                return f"error {error.message}"
            self._target.mount()
            end_ns, until_ns = time.monotonic_ns(), self._context.cut_bins()
            self._context.run.phase("remount", start_ns, end_ns, from_ns, until_ns)
            self.served += 1
            self._look_again(line)
        return "ok"

    def _look_again(self, line: str) -> None:
        """A new mount may differ: its options, if a mount changed the disk; btrfs's own number."""
        assert self._target is not None
        if self._target.line != line:
            self._context.warn(f"mounted again, it says {self._target.line}, and said {line}")
        dev = blockdev.filesystem_number(self._directory)
        if dev != self._dev:
            self._dev = dev
            self._moved(dev)


def _request(asker: socket.socket) -> bytes:
    """Hear a request to its newline, for so long as is bearable in all, however slowly it comes."""
    request, deadline = b"", time.monotonic() + _TALK_SECONDS
    try:
        while not request.endswith(b"\n") and len(request) <= len(_REQUEST):
            asker.settimeout(max(deadline - time.monotonic(), 0.001))
            part = asker.recv(64)
            if not part:
                break
            request += part
    except OSError:
        pass
    return request


def _unmount(directory: Path) -> str | None:
    """Try it once. Returns what the kernel said against it."""
    try:
        mounts.unmount(directory)
    except OSError as error:
        return f"busy ({(error.strerror or '').lower()})"
    return None
