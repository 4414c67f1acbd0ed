# SPDX-License-Identifier: BSD-2-Clause
"""The kernel's tracer, which is one for the whole machine: is it free, and set it so that it is put back.

Every setting is listed with the janitor before it is changed, so it is put back also after kill -9.
"""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from collectors.host import kernel
from workloads.cleanup.janitor import Janitor
from workloads.system.errors import MachineError

# Room in the ring buffer of each CPU: a second of 500,000 events/s. All together: a 64th of the memory.
_ROOM_KIB = 32 << 10
_LEAST_KIB = 1 << 10
# Switched on by the kernel itself, for good, as soon as anybody loads a BPF program that prints.
_HARMLESS_EVENTS = ("bpf_trace:bpf_trace_printk",)


class Settings:
    """Settings changed by this session."""

    def __init__(self, janitor: Janitor) -> None:
        self._janitor = janitor
        self._numbers: list[int] = []

    def set(self, path: Path, value: str) -> int:
        """Set one; returns its number in the janitor's list. Raises MachineError."""
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
        """Put back one, or all, newest first. Raises MachineError; the janitor then tries again."""
        for one in [number] if number is not None else self._numbers[::-1]:
            self._janitor.undo_one(one)
            self._numbers.remove(one)


def mounted(janitor: Janitor, kind: str, place: Path | None) -> Path | None:
    """Return where a file system of the kernel's own (tracefs, debugfs) is; mounted for us if need be.

    None: this kernel has none, or does not let us.
    """
    if place is not None and os.path.ismount(place):
        return place
    mountpoint = janitor.session_dir / kind
    mountpoint.mkdir(exist_ok=True)
    number = janitor.add_mount(mountpoint, kind)
    done = subprocess.run(["mount", "-t", kind, kind, mountpoint], capture_output=True, check=False)
    if done.returncode == 0:
        return mountpoint
    janitor.forget(number)
    return None


def why_no_blk_tracer(tracefs: Path | None) -> str:
    """Return why the kernel has no blk tracer for us, "" if it has."""
    if tracefs is None:
        return "tracefs cannot be mounted"
    tracers = kernel.read(tracefs / "available_tracers")
    if tracers is None:
        return f"{tracefs} cannot be read"
    return "" if "blk" in tracers.split() else "the kernel has no blk tracer"


def check_free(tracefs: Path) -> None:
    """Raise MachineError if somebody else uses the tracer, who would lose what it has or records."""
    tracer = (tracefs / "current_tracer").read_text().strip()
    if tracer != "nop":
        raise _in_use(f"its tracer {tracer} is on", f"echo nop >{tracefs}/current_tracer")
    events = [event for event in (tracefs / "set_event").read_text().split() if event not in _HARMLESS_EVENTS]
    if events:
        more = f" and {len(events) - 1} more" if len(events) > 1 else ""
        raise _in_use(f"the event {events[0]}{more} is on", f"echo >{tracefs}/set_event")
    held = sum(_entries(stats) for stats in tracefs.glob("per_cpu/cpu*/stats"))
    if held:
        raise _in_use(f"its buffers hold {held:,} events of somebody's", f"echo >{tracefs}/trace")
    cpus = int((tracefs / "tracing_cpumask").read_text().strip().replace(",", ""), 16)
    if cpus.bit_count() < (os.cpu_count() or 1):
        raise _in_use("it is held to some CPUs", f"put all of them into {tracefs}/tracing_cpumask")


def enable_file(disk: str) -> Path:
    """Return the file that switches the tracing of one disk; reads "1" however that was switched on."""
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
    """Switch the blk tracer on, with room and with the run's clock. No disk is traced yet."""
    # First, as this gives the buffers the size that is theirs when in use, which is then the one to put back.
    settings.set(tracefs / "current_tracer", "blk")
    settings.set(tracefs / "trace_clock", "mono")
    room = _room_kib(tracefs)
    places = [tracefs / "buffer_size_kb"]
    if not places[0].read_text().strip().isdigit():  # "X": each CPU has its own
        places = sorted(tracefs.glob("per_cpu/cpu*/buffer_size_kb"))
    for place in places:
        if int(place.read_text()) < room:
            settings.set(place, str(room))
    settings.set(tracefs / "tracing_on", "1")


def can_trace() -> tuple[str, str, str]:
    """Return for make doctor whether there can be files of blktrace: yes, no or ?, why, and the remedy."""
    if not any(Path("/sys/class/block").glob("*/trace/enable")):
        return "no", "the kernel cannot trace disks", "a kernel with CONFIG_BLK_DEV_IO_TRACE=y (most have)"
    place = kernel.tracefs()
    if os.geteuid() != 0:
        return "?", "only root may look at the kernel's tracer", "make doctor as root"
    if place is not None:
        why = why_no_blk_tracer(place)
        if why:
            return "no", why, "a kernel with CONFIG_BLK_DEV_IO_TRACE=y that lets tracefs be read"
        try:
            check_free(place)
            check_disks_free()
        except MachineError as error:
            what, _, remedy = error.message.partition(": ")
            return "no", what, remedy
    if kernel.lockdown() == "none":
        return "yes", "by the blktrace program, or by the kernel's blk tracer if that fails", ""
    return "yes", "by the kernel's blk tracer, if lockdown closes the blktrace program's files", ""


def _room_kib(tracefs: Path) -> int:
    """Return the room for one CPU, as the kernel will say it: it rounds to its pages' room for data."""
    memory_kib = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 10
    wanted_kib = max(_LEAST_KIB, min(_ROOM_KIB, memory_kib // 64 // (os.cpu_count() or 1)))
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
