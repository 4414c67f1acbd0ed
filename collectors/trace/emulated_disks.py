# SPDX-License-Identifier: BSD-2-Clause
"""The emulated disks of a session while it records: whether they kept time, and whether their servers live.

Their servers append the table disk_service themselves; a run has it whatever COLLECT= names.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from collectors.collector import Running
from workloads.disks import Disk
from workloads.disks.drive_server import DriveServer
from workloads.system.errors import MachineError

TABLE = "disk_service"
# An emulated disk keeps time if 99 % of its replies are at most so late: little beside a seek.
LATE_P99_NS_MOST = 500_000


class EmulatedDisks(Running):
    """The servers of a session's emulated disks."""

    def __init__(
        self, disks: Sequence[Disk], facts: Sequence[dict[str, Any]], warn: Callable[[str], None]
    ) -> None:
        """Watch the disks that have servers. facts: run.json's entry of each disk, which gets "kept_time"."""
        self.states: Mapping[str, Mapping[str, str]] = {}
        self._warn = warn
        pairs = zip(disks, facts, strict=True)
        self._servers: list[tuple[DriveServer, dict[str, Any]]] = [
            (disk.server, entry) for disk, entry in pairs if disk.server is not None
        ]
        self._gone: set[str] = set()
        self._rows = 0
        self._rows_lost = 0

    @property
    def pids(self) -> list[int]:
        """The processes of the servers."""
        return [server.pid for server, _ in self._servers]

    def poll(self) -> str | None:
        """Return a warning for the first server that has ended."""
        for server, _ in self._servers:
            if server.name not in self._gone and not server.is_alive:
                self._gone.add(server.name)
                self.failed = True
                return (
                    f"the emulated disk {server.name} is gone: its server {server.why_ended()}; "
                    f"every request fails from here on"
                )
        return None

    def end_for_room(self) -> None:
        """Have the servers write no more rows; the disks go on. Raises MachineError."""
        for server, _ in self._servers:
            if server.is_alive:
                server.close_record()

    def stop(self) -> None:
        """Take what the servers counted, and warn if a disk did not keep time."""
        for server, entry in self._servers:
            try:
                stats = server.stats()
            except MachineError as error:
                if server.name not in self._gone:
                    self._gone.add(server.name)
                    self.failed = True
                    self._warn(error.message)
                continue
            self._rows += int(stats.get("rows_written", 0))
            self._rows_lost += int(stats.get("rows_lost", 0))
            late_ns = int(stats.get("late_p99_ns", 0))
            entry["kept_time"] = {**stats, "is_kept": late_ns <= LATE_P99_NS_MOST}
            if late_ns > LATE_P99_NS_MOST:
                title = entry.get("emulated", {}).get("title", "emulated disk")
                self._warn(
                    f"{server.name} ({title}) did not keep time: 1 % of its replies were more than "
                    f"{late_ns / 1000:,.0f} µs late (at most {LATE_P99_NS_MOST // 1000}): free the CPUs, or "
                    f"give fewer emulated disks"
                )

    def losses(self) -> dict[str, Any]:
        """Return the entry of the table in losses.json."""
        entry = {
            "state": "on",
            "why": "",
            "remedy": "",
            "seen": self._rows + self._rows_lost,
            "recorded": self._rows,
            "lost": {"not written": self._rows_lost} if self._rows_lost else {},
            "notes": {},
            "ended_early": self.failed,
        }
        return {"collectors": {TABLE: entry}}

    def kill(self) -> None:
        """Do nothing: the disks end after the file system is unmounted."""
