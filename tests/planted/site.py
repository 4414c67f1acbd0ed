# SPDX-License-Identifier: BSD-2-Clause
"""The place of one planted run: a disk of known speed, a file system, other programs, settings, cgroups.

All are context managers that put back what they changed. Programs are those of programs/, compiled once.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

PROGRAMS = Path(__file__).parent / "programs"
VM = Path("/proc/sys/vm")
CGROUPS = Path("/sys/fs/cgroup")
FLAGS = ("-std=gnu11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-Werror")
DISK_MIB = 4096  # XFS and btrfs want some; only what is written takes memory
WAIT_S = 20
MKFS = {
    "ext4": ["mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"],
    "xfs": ["mkfs.xfs", "-q", "-f"],
    "btrfs": ["mkfs.btrfs", "-q", "-f"],
}


@dataclass(frozen=True)
class Speed:
    """How fast a disk is (programs/slow_disk.c). Latencies overlap; requests and bytes are served in turn."""

    latency_us: float = 100
    request_us: float = 20
    mb_per_s: float = 400
    flush_us: float = 500
    discard_us: float = 0  # 0: it can't discard


@dataclass(frozen=True)
class Disk:
    """A loop device on a file of known speed."""

    path: str  # /dev/loop8

    @property
    def queue(self) -> Path:
        """Its queue's settings in sysfs."""
        return Path("/sys/block", Path(self.path).name, "queue")

    @property
    def number(self) -> str:
        """MAJOR:MINOR."""
        return (self.queue.parent / "dev").read_text().strip()

    def set_usual_queue(self) -> None:
        """No scheduler and 128 places. A loop device keeps the places of its last user, and may show others.

        Linux 6.18: with 4 places, a change of the scheduler leaves 4 where sysfs shows the default.
        """
        (self.queue / "scheduler").write_text("none")
        for number in ("64", "128"):  # twice: the kernel does nothing for a number that it shows already
            (self.queue / "nr_requests").write_text(number)

    def wait_for_writes(self, mib: int = 4) -> None:
        """Wait until somebody has written so much."""
        stat = self.queue.parent / "stat"
        before = int(stat.read_text().split()[6])
        _until(lambda: int(stat.read_text().split()[6]) - before > mib << 11, f"nobody writes to {self.path}")


@dataclass(frozen=True)
class Site:
    """Where a plant is run. folder: empty, and nobody else's."""

    folder: Path
    filesystem: str

    def program(self, name: str, *arguments: object) -> str:
        """A shell command that runs programs/NAME.c."""
        return shlex.join([str(compiled(self.folder, name)), *map(str, arguments)])

    @contextmanager
    def disk(self, speed: Speed = Speed(), mib: int = DISK_MIB) -> Iterator[Disk]:
        """A disk of this speed and size."""
        file = self.folder / "disk"
        file.touch()
        times = (speed.latency_us, speed.request_us, speed.mb_per_s, speed.flush_us, speed.discard_us)
        command = self.program("slow_disk", file, mib, *times)
        with subprocess.Popen(shlex.split(command)) as server, ExitStack() as stack:
            stack.callback(_end, server)
            _until(lambda: os.path.ismount(file), f"{file} is not mounted")
            stack.callback(_patiently, "umount", str(file))
            attach = ["losetup", "--find", "--show", "--direct-io=on", str(file)]
            path = subprocess.run(attach, check=True, capture_output=True, text=True).stdout.strip()
            stack.callback(_patiently, "losetup", "--detach", path)
            disk = Disk(path)
            disk.set_usual_queue()
            yield disk

    @contextmanager
    def mounted(self, disk: Disk, mount: str = "", mkfs: Sequence[str] | None = None) -> Iterator[Path]:
        """The file system on the disk; mkfs: more arguments; None: it is there already."""
        if mkfs is not None:
            subprocess.run([*MKFS[self.filesystem], *mkfs, disk.path], check=True, stdout=subprocess.DEVNULL)
        target = self.folder / "mnt"
        target.mkdir(exist_ok=True)
        options = ["-o", mount] if mount else []
        subprocess.run(["mount", "-t", self.filesystem, *options, disk.path, str(target)], check=True)
        try:
            yield target
        finally:
            _patiently("umount", str(target))

    @contextmanager
    def fresh(self, speed: Speed = Speed(), mount: str = "") -> Iterator[tuple[Disk, Path]]:
        """A disk of this speed and a new file system on it."""
        with self.disk(speed) as disk, self.mounted(disk, mount, mkfs=()) as target:
            yield disk, target

    @contextmanager
    def filled(
        self, files: Sequence[tuple[str, int]], speed: Speed = Speed(), mount: str = ""
    ) -> Iterator[tuple[Disk, Path]]:
        """A file system with files (name, MiB) whose data is on the disk and not in memory."""
        with self.disk(speed) as disk:
            with self.mounted(disk, mount, mkfs=()) as target:
                for name, mib in files:
                    self.fill(target / name, mib)
            with self.mounted(disk, mount) as target:
                yield disk, target

    def fill(self, file: Path, mib: int) -> None:
        """Write a file, past the page cache."""
        run(self.program("write", file, 1, mib, 1 << 20, "direct", "one"))

    @contextmanager
    def beside(self, *commands: str, warm_s: float = 0.3) -> Iterator[None]:
        """Other programs that run meanwhile, until they are killed.

        Each in a session of its own: the kernel shares the CPUs among sessions first (autogroups).
        """
        with ExitStack() as stack:
            for command in commands:
                process = stack.enter_context(subprocess.Popen(shlex.split(command), start_new_session=True))
                stack.callback(_end, process)
            time.sleep(warm_s)
            yield

    @contextmanager
    def frozen(self, target: Path, after_s: float, for_s: float) -> Iterator[str]:
        """Freeze a file system once, after the workload has begun. Yields the command to begin it with."""
        mark, ended = self.folder / "begun", threading.Event()
        mark.unlink(missing_ok=True)

        def freeze() -> None:
            while not mark.exists():
                if ended.wait(0.02):
                    return
            time.sleep(after_s)
            subprocess.run(["fsfreeze", "--freeze", str(target)], check=True)
            try:
                time.sleep(for_s)
            finally:
                subprocess.run(["fsfreeze", "--unfreeze", str(target)], check=True)

        thread = threading.Thread(target=freeze)
        thread.start()
        try:
            yield shlex.join(["touch", str(mark)])
        finally:
            ended.set()
            thread.join()

    @contextmanager
    def cgroup(self, controller: str, settings: dict[str, str]) -> Iterator[str]:
        """A cgroup of version 1. Yields a command by which a shell enters it."""
        group = CGROUPS / controller / f"planted-{os.getpid()}"
        group.mkdir()
        try:
            for name, value in settings.items():
                (group / name).write_text(value)
            yield f"echo $$ > {group}/cgroup.procs"
        finally:
            group.rmdir()


@contextmanager
def setting(values: dict[Path, str]) -> Iterator[None]:
    """Set files of /sys or /proc, and put back what they had."""
    with ExitStack() as stack:
        for path, value in values.items():
            stack.callback(path.write_text, path.read_text().strip())
            path.write_text(value)
        yield


@contextmanager
def dirty_limit(limit: int) -> Iterator[None]:
    """Limit the machine's dirty bytes; the kernel begins to write them back at half of that."""
    values = {VM / "dirty_bytes": str(limit), VM / "dirty_background_bytes": str(limit // 2)}
    # A byte limit and its ratio replace each other: writing the ratio back takes the limit away.
    ratios = {path: path.read_text() for path in (VM / "dirty_ratio", VM / "dirty_background_ratio")}
    if "0" in {text.strip() for text in ratios.values()}:
        with setting(values):
            yield
        return
    try:
        for path, value in values.items():
            path.write_text(value)
        yield
    finally:
        for path, value in ratios.items():
            path.write_text(value)


def compiled(folder: Path, name: str) -> Path:
    """Compile programs/NAME.c into the folder, once."""
    program = folder / name
    if not program.exists():
        source = PROGRAMS / f"{name}.c"
        subprocess.run(["gcc", *FLAGS, str(source), "-o", str(program), "-lpthread"], check=True)
    return program


def run(command: str) -> None:
    """Run a command of Site.program to its end."""
    subprocess.run(shlex.split(command), check=True)


def _until(is_so: Callable[[], bool], otherwise: str) -> None:
    end = time.monotonic() + WAIT_S
    while not is_so():
        if time.monotonic() > end:
            raise TimeoutError(f"{otherwise} after {WAIT_S} s")
        time.sleep(0.02)


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.kill()
    process.wait()


def _patiently(*command: str) -> None:
    """Run a command that fails while a mount namespace that is just ending still uses the device."""
    end = time.monotonic() + WAIT_S
    while True:
        result = subprocess.run(command, check=False, capture_output=True, text=True)
        if result.returncode == 0:
            return
        if time.monotonic() > end:
            raise RuntimeError(f"{shlex.join(command)}: {result.stderr.strip()}")
        time.sleep(0.1)
