# SPDX-License-Identifier: BSD-2-Clause
"""Cold caches between two phases: unmount and mount the file system when the workload requests it.

The workload connects to the Unix socket in SEEKMETER_REMOUNT, sends "remount" and a newline, and waits for
one line: "ok", "no WHY" (the file system is not the run's own, and only synced) or "error WHY". Only
processes of the workload are served. They must leave the directory and close all files in it first.
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
_REQUEST_SECONDS = 1.0
_REQUEST = b"remount\n"


class Target:
    """A file system of the run's own, which can be unmounted and mounted again."""

    def __init__(
        self, plan: FilesystemPlan, disk: Disk, directory: Path, line: str, janitor: Janitor
    ) -> None:
        """line: the mount's line in /proc/mounts, which must be the same after a remount."""
        self.directory = directory
        self.pool = plan.filesystem.pool is not None
        self.line = line
        self._plan = plan
        self._disk = disk
        self._janitor = janitor

    def unmount(self) -> None:
        """Unmount until the super block is gone, so that nothing stays cached.

        Raises MachineError: the file system is mounted as before. Raises RunError: it is not mounted.
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
        self._janitor.undo_mount(self.directory)  # already unmounted: this only takes it off the list
        claimed = cold.drop_caches(self._disk, deadline - time.monotonic())
        if claimed is not None:
            self.mount()
            raise MachineError(
                f"{claimed} stays in use after the unmount, perhaps by another mount namespace: end programs "
                f"that started meanwhile and keep a copy of all mounts"
            )

    def forget(self, seconds: float) -> str | None:
        """Drop the caches of a file system that was unmounted elsewhere, and take the mount off the list.

        Returns the path of a disk that is still in use after so many seconds, else None.
        """
        self._janitor.undo_mount(self.directory)
        return cold.drop_caches(self._disk, seconds)

    def mount(self) -> None:
        """Mount the file system as before. Raises RunError."""
        entries = os.listdir(self.directory)
        if entries:
            raise RunError(
                f"{self.directory}/{entries[0]} was made while the file system was unmounted: stop the "
                f"workload's other processes before a remount"
            )
        self.line = filesystems.mount(self._plan, self._disk, self.directory, self._janitor)


class Server:
    """The socket for remount requests; serve() is called a few times a second."""

    def __init__(
        self,
        context: RunContext,
        path: Path,
        directory: Path,
        target: Target | None,
        cgroup: WorkloadCgroup,
        moved: Callable[[str], None],
        take_phases: Callable[[], None],
    ) -> None:
        """Listen at path. target: None if directory is the user's. moved: called with a new "major:minor".

        take_phases: copies the phases that the workload has written, which precede the remount.
        """
        self.path = path
        self.served = 0
        self._context = context
        self._directory = directory
        self._target = target
        self._cgroup = cgroup
        self._moved = moved
        self._take_phases = take_phases
        self._dev = blockdev.filesystem_number(directory)
        self._warned = False
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        self._socket.bind(os.fspath(path))
        os.chmod(path, 0o666)  # the client is identified by SO_PEERCRED
        self._socket.listen(4)

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def serve(self) -> None:
        """Serve one waiting request; others wait for the next call. Raises RunError if the mount failed."""
        try:
            client, _ = self._socket.accept()
        except OSError:  # no request, or its client has gone
            return
        with client:
            try:
                answer = self._answer(client)
            except RunError:
                self._cgroup.kill()  # a process that goes on writing would write below the mount point
                raise
            try:
                client.settimeout(_REQUEST_SECONDS)
                client.sendall(answer.replace("\n", " ").encode(errors="replace") + b"\n")
            except OSError:  # the client has gone
                pass

    def _answer(self, client: socket.socket) -> str:
        peer = client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        if struct.unpack("3i", peer)[0] not in self._cgroup.pids():
            return "error only processes of the workload may request a remount"
        request = _request(client)
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
                else "a pool keeps its cache through an unmount"
            )
            if not self._warned:
                self._warned = True
                self._context.warn(
                    f"the workload requested cold caches between its phases (remount), but caches stay warm: "
                    f"{why}; its reads may have come from memory"
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
            self._take_phases()  # one may be newer than the last copy: phases.jsonl has them in order
            self._context.run.phase("remount", start_ns, end_ns, from_ns, until_ns)
            self.served += 1
            self._compare_mount(line)
        return "ok"

    def _compare_mount(self, line: str) -> None:
        """Warn of changed mount options, and pass on a new device number, which btrfs has per mount."""
        assert self._target is not None
        if self._target.line != line:
            self._context.warn(f"the mount line changed at a remount from {line} to {self._target.line}")
        dev = blockdev.filesystem_number(self._directory)
        if dev != self._dev:
            self._dev = dev
            self._moved(dev)


def _request(client: socket.socket) -> bytes:
    """Return a request up to its newline, as far as it arrives within a second."""
    request, deadline = b"", time.monotonic() + _REQUEST_SECONDS
    try:
        while not request.endswith(b"\n") and len(request) <= len(_REQUEST):
            client.settimeout(max(deadline - time.monotonic(), 0.001))
            part = client.recv(64)
            if not part:
                break
            request += part
    except OSError:
        pass
    return request


def _unmount(directory: Path) -> str | None:
    """Try to unmount once. Returns the kernel's error, if there is one."""
    try:
        mounts.unmount(directory)
    except OSError as error:
        return f"busy ({(error.strerror or '').lower()})"
    return None
