# SPDX-License-Identifier: BSD-2-Clause
"""The kernel's tracer (tracefs), one per machine: whether it is free, its settings, and their undoing.

Every setting is listed with the janitor before it is changed, so that it is put back also after kill -9.
"""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from collectors.collector import NO, UNKNOWN, YES, Check
from collectors.host import kernel
from workloads.cleanup.janitor import Janitor
from workloads.system import front
from workloads.system.errors import MachineError

# Size of each CPU's ring buffer: a second of 500,000 events/s. All buffers: at most a 64th of the memory.
_BUFFER_KIB = 32 << 10
_LEAST_BUFFER_KIB = 1 << 10
# For tests: a size to be used instead of _BUFFER_KIB.
_BUFFER = "SEEKMETER_BLKTRACE_KIB"
# Switched on by the kernel itself, for good, as soon as anybody loads a BPF program that prints.
_HARMLESS_EVENTS = ("bpf_trace:bpf_trace_printk",)


class Settings:
    """Settings changed by this session."""

    def __init__(self, janitor: Janitor) -> None:
        self._janitor = janitor
        self._numbers: list[int] = []

    def set(self, path: Path, value: str) -> int:
        """Write a setting's file. Returns its number in the janitor's list. Raises MachineError."""
        number = self._janitor.add_sysfs(path, value)
        self._numbers.append(number)
        try:
            path.write_text(value)
        except OSError as error:
            raise MachineError(
                f"{path} cannot be set to {value} ({(error.strerror or '').lower()}): "
                "end what else uses the kernel's tracer, or leave blktrace out of COLLECT"
            ) from None
        return number

    def put_back(self, number: int | None = None) -> None:
        """Put back one setting, or all, newest first. Raises MachineError; the janitor then tries again."""
        for entry in [number] if number is not None else self._numbers[::-1]:
            self._janitor.undo_one(entry)
            self._numbers.remove(entry)


def mounted(janitor: Janitor, kind: str, known: Path | None) -> Path | None:
    """Return the mount point of tracefs or debugfs (kind), which is mounted for the session if need be.

    known: where it usually is. None: this kernel has none, or refuses the mount.
    """
    if known is not None and os.path.ismount(known):
        return known
    mountpoint = janitor.session_dir / kind
    mountpoint.mkdir(exist_ok=True)
    number = janitor.add_mount(mountpoint, kind)
    done = subprocess.run(["mount", "-t", kind, kind, mountpoint], capture_output=True, check=False)
    if done.returncode == 0:
        return mountpoint
    janitor.forget(number)
    return None


def why_no_blk_tracer(tracefs: Path | None) -> str:
    """Return why the kernel's blk tracer cannot be used, "" if it can."""
    if tracefs is None:
        return "tracefs cannot be mounted"
    tracers = kernel.read(tracefs / "available_tracers")
    if tracers is None:
        return f"{tracefs} cannot be read"
    return "" if "blk" in tracers.split() else "the kernel has no blk tracer"


def check_free(tracefs: Path) -> None:
    """Raise MachineError if another program uses the tracer: its settings and events would be lost."""
    tracer = (tracefs / "current_tracer").read_text().strip()
    if tracer != "nop":
        raise _in_use(f"its tracer {tracer} is on", f"echo nop >{tracefs}/current_tracer")
    events = [event for event in (tracefs / "set_event").read_text().split() if event not in _HARMLESS_EVENTS]
    if events:
        more = f" and {len(events) - 1} more" if len(events) > 1 else ""
        raise _in_use(f"the event {events[0]}{more} is on", f"echo >{tracefs}/set_event")
    held = sum(_entries(stats) for stats in tracefs.glob("per_cpu/cpu*/stats"))
    if held:
        raise _in_use(f"its buffers hold {held:,} events of another user", f"echo >{tracefs}/trace")
    cpus = int((tracefs / "tracing_cpumask").read_text().strip().replace(",", ""), 16)
    if cpus.bit_count() < (os.cpu_count() or 1):
        raise _in_use("it is limited to some CPUs", f"write all CPUs into {tracefs}/tracing_cpumask")


def enable_file(disk: str) -> Path:
    """Return the file that enables tracing of a disk. It reads "1" if any program traces the disk."""
    return Path("/sys/class/block", disk, "trace/enable")


def check_disks_free(name: str = "*") -> None:
    """Raise MachineError if the requests of this disk (of any: the tracer is one for all) are traced."""
    for file in sorted(Path("/sys/class/block").glob(f"{name}/trace/enable")):
        if kernel.read(file) == "1":
            disk = file.parts[-3]
            raise _in_use(
                f"{disk} is being traced by another blktrace", f"end that, or blktrace -k /dev/{disk}"
            )


def set_up(tracefs: Path, settings: Settings) -> None:
    """Switch the blk tracer on, with large buffers and the run's clock. No disk is traced yet."""
    # First, as this gives the buffers their size in use, which is the size to put back at the end.
    settings.set(tracefs / "current_tracer", "blk")
    settings.set(tracefs / "trace_clock", "mono")
    buffer_kib = _buffer_kib(tracefs)
    files = [tracefs / "buffer_size_kb"]
    if not files[0].read_text().strip().isdigit():  # "X": the CPUs' sizes differ
        files = sorted(tracefs.glob("per_cpu/cpu*/buffer_size_kb"))
    for file in files:
        if int(file.read_text()) < buffer_kib:
            settings.set(file, str(buffer_kib))
    settings.set(tracefs / "tracing_on", "1")


def check() -> Check:
    """Return the line of make doctor: whether files of blktrace can be written here."""
    lacks = "a kernel with CONFIG_BLK_DEV_IO_TRACE=y (most have)"
    if not any(Path("/sys/class/block").glob("*/trace/enable")):
        return Check("blktrace", NO, "the kernel cannot trace disks", lacks)
    tracefs = kernel.tracefs()
    if os.geteuid() != 0:
        return Check(
            "blktrace",
            UNKNOWN,
            "only root may read the kernel's tracer",
            f"{front.command('doctor')} as root",
        )
    if tracefs is not None:
        why = why_no_blk_tracer(tracefs)
        if why:
            remedy = "a kernel with CONFIG_BLK_DEV_IO_TRACE=y that lets tracefs be read"
            return Check("blktrace", NO, why, remedy)
        try:
            check_free(tracefs)
            check_disks_free()
        except MachineError as error:
            why, _, remedy = error.message.partition(": ")
            return Check("blktrace", NO, why, remedy)
    if kernel.lockdown() == "none":
        why = "by the blktrace program, or by the kernel's blk tracer if that fails"
    else:
        why = "by the kernel's blk tracer, if lockdown closes the blktrace program's files"
    return Check("blktrace", YES, why)


def _buffer_kib(tracefs: Path) -> int:
    """Return one CPU's buffer size as the kernel will report it: rounded up to its pages' data bytes."""
    memory_kib = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 10
    most_kib = int(os.environ.get(_BUFFER, _BUFFER_KIB))
    wanted_kib = max(_LEAST_BUFFER_KIB, min(most_kib, memory_kib // 64 // (os.cpu_count() or 1)))
    page_bytes = 4080
    for line in (tracefs / "events/header_page").read_text().splitlines():
        if "data;" in line:
            page_bytes = int(line.partition("size:")[2].partition(";")[0])
    return -(-wanted_kib * 1024 // page_bytes) * page_bytes >> 10


def _entries(stats: Path) -> int:
    return int(stats.read_text().partition("entries:")[2].split()[0])


def _in_use(what: str, remedy: str) -> MachineError:
    return MachineError(
        f"the kernel's tracer is in use ({what}): end its user ({remedy}), or leave blktrace out of COLLECT"
    )


def devices(disks: Sequence[str]) -> list[str]:
    """Return NAME:MAJOR:MINOR of each disk."""
    return [f"{disk}:{Path('/sys/class/block', disk, 'dev').read_text().strip()}" for disk in disks]
