# SPDX-License-Identifier: BSD-2-Clause
"""Many power cuts of one file system on one emulated disk, without the session: a second or two each.

The file system is made once; each cut ages it. promises writes until the power goes; then the file system is
unmounted, replayed, checked by fsck, compared with the log of promises, and emptied.

    python -m tests.collectors.power_cuts FS COUNT [SEED]     prints one line a cut, and the sums (as root)
"""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.workloads.conftest import filesystem_of, plan
from tests.workloads.emulated import FastDrive
from workloads import filesystems
from workloads.cleanup.janitor import Janitor
from workloads.disks import Disk, Emulated, PlannedDisk, cold, open_disk
from workloads.disks.drive_server import DriveServer
from workloads.filesystems.plan import FilesystemPlan
from workloads.system import mounts

PROGRAM = Path(__file__).resolve().parents[2] / "build/generators/promises"
SIZE_BYTES = 512 << 20  # the least that each mkfs takes
TIME = 10.0
CUT_SECONDS = 20.0  # until an armed cut must have happened: a busy machine included
END_SECONDS = 30.0  # for anything that must end after a cut
RELEASE_SECONDS = 10.0


@dataclass(frozen=True)
class Order:
    """One cut, in the words of the drive."""

    when: str
    keep: str
    seed: int
    is_torn: bool

    @classmethod
    def random(cls, seed: int) -> Order:
        """A cut by chance: a moment, a request, a flush, or the middle of one."""
        chance = random.Random(seed)
        kind = chance.choice(("at", "request", "flush", "commit"))
        when = {
            "at": f"{chance.uniform(0.05, 0.8):.6f}",
            "request": str(chance.randint(100, 1500)),
            "flush": str(chance.randint(20, 250)),
            "commit": str(chance.randint(20, 250)),
        }[kind]
        return cls(
            f"{kind}={when}", chance.choice(("lost", "some", "some", "all")), seed, chance.random() < 0.5
        )


@dataclass
class Crashed:
    """What one cut left."""

    order: Order
    cut: dict[str, Any]  # the drive's line
    replay_s: float
    clean: bool | None
    fsck: str
    verdict: dict[str, Any]
    clean_after: bool | None = None  # once the tree was removed

    @property
    def faults(self) -> list[str]:
        """What must not be."""
        faults = list(self.verdict["broken"])
        if self.clean is False or self.clean_after is False:
            faults.append(f"fsck: {self.fsck}")
        return faults

    def line(self) -> str:
        """One line for people."""
        verdict, lost, dirty = self.verdict, self.cut["lost_bytes"], self.cut["dirty_bytes"]
        return (
            f"{self.order.when} {self.order.keep}{',torn' if self.order.is_torn else ''}:"
            f" lost {lost:,} of {dirty:,} B, replay {self.replay_s:.3f} s,"
            f" fsck {'clean' if self.clean else 'DAMAGED'}, told {verdict['told']}, kept {verdict['kept']},"
            f" broken {verdict['broken_count']}"
        )


@dataclass
class Site:
    """One file system on an emulated disk, to be cut again and again."""

    plan: FilesystemPlan
    disk: Disk
    server: DriveServer
    directory: Path  # where it is mounted
    logs: Path
    janitor: Janitor
    cuts: int = 0
    _processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def mount(self) -> None:
        filesystems.mount(self.plan, self.disk, self.directory, self.janitor)

    def unmount(self) -> None:
        """Unmount; processes that were killed may hold it for a moment."""
        deadline = time.monotonic() + END_SECONDS
        while mounts.at(self.directory) is not None:
            try:
                mounts.unmount(self.directory)
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)
        self.janitor.undo_mount(self.directory)
        assert cold.drop_caches(self.disk, RELEASE_SECONDS) is None

    def fsck(self) -> tuple[bool | None, str]:
        return filesystems.fsck(self.plan, self.disk)

    def cut(self, order: Order, threads: int = 4) -> Crashed:
        """Write until the power goes; replay, check, compare, empty. Fails if anything hangs."""
        self.cuts += 1
        log = self.logs / f"log-{self.cuts}"
        self.mount()
        self.server.cut(order.when, order.keep, order.seed, order.is_torn)
        argv = [PROGRAM, "-D", self.directory, "-l", log, "-t", threads, "-n", 2_000_000, "-s", order.seed]
        with (self.logs / "out").open("wb") as out:
            process = subprocess.Popen([str(word) for word in argv], stdout=out, stderr=out)
        try:
            line = self.server.take_cut(CUT_SECONDS)
        finally:
            process.kill()
            process.wait(END_SECONDS)
        assert line is not None, (
            f"no cut within {CUT_SECONDS} s ({order.when}): {(self.logs / 'out').read_text()}"
        )
        self.unmount()
        self.server.power_on()
        start = time.monotonic()
        self.mount()
        replay_s = time.monotonic() - start
        self.unmount()
        clean, said = self.fsck()
        self.mount()
        verdict = self._check(log, line)
        self.unmount()
        crashed = Crashed(order, line, replay_s, clean, said, verdict)
        crashed.clean_after, after = self.fsck()
        crashed.fsck = after if crashed.clean_after is False else said
        return crashed

    def _check(self, log: Path, line: dict[str, Any]) -> dict[str, Any]:
        argv = [str(PROGRAM), "-D", str(self.directory), "--check", "--remove", "-c", str(line["cut_ns"])]
        with log.open("rb") as file:
            done = subprocess.run(argv, stdin=file, capture_output=True, timeout=120, check=False)
        verdict: dict[str, Any] = json.loads(done.stdout)
        assert done.returncode == (1 if verdict["broken_count"] else 0), done.stderr
        return verdict


@contextmanager
def crash_site(
    name: str, folder: Path, mount: str = "", has_flushes: bool = True, speed: float = TIME
) -> Iterator[Site]:
    """An emulated disk with a fresh file system. folder: for mount point, logs, and the janitor's state."""
    words = {"FS": name, "WL": "promises", "SIZE": str(SIZE_BYTES), **({"MOUNT": mount} if mount else {})}
    made = filesystem_of(plan(trial=False, words=words))
    planned = PlannedDisk("disk0", "hdd", SIZE_BYTES, Emulated(FastDrive(), time=speed))
    (folder / "mnt").mkdir()
    with ExitStack() as stack:
        janitor = Janitor(folder / "state")
        stack.callback(janitor.undo)
        disk = stack.enter_context(open_disk([planned], None, (), janitor, has_flushes))
        assert disk.server is not None
        site = Site(made, disk, disk.server, folder / "mnt", folder, janitor)
        stack.callback(_unmount_anyway, site)
        filesystems.format(made, disk, janitor)
        yield site


def _unmount_anyway(site: Site) -> None:
    """After a failure: give power, and unmount."""
    if mounts.at(site.directory) is not None:
        site.server.power_on()
        site.unmount()


def main() -> int:
    """Cut, and print. Returns 1 if anything was broken."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # what was made is undone
    name, count = sys.argv[1], int(sys.argv[2])
    first = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    faults = told = kept = nameless = 0
    slowest_s = 0.0
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, crash_site(name, Path(folder)) as site:
        for seed in range(first, first + count):
            crashed = site.cut(Order.random(seed))
            print(f"{name} {seed} {crashed.line()}", flush=True)
            for fault in crashed.faults:
                print(f"{name} {seed} FAULT {fault}", flush=True)
            faults += len(crashed.faults)
            told, kept = told + crashed.verdict["told"], kept + crashed.verdict["kept"]
            nameless += crashed.verdict["nameless"]
            slowest_s = max(slowest_s, crashed.replay_s)
    took_s = time.monotonic() - began
    print(
        f"{name}: {count} cuts in {took_s:.0f} s, told {told}, standing and kept {kept}, nameless {nameless},"
        f" slowest replay {slowest_s:.3f} s, faults {faults}"
    )
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
