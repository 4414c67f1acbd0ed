# SPDX-License-Identifier: BSD-2-Clause
"""make doctor: what this machine and its kernel can be asked: yes or no, why, and the remedy.

Standard library only, needs no setup and no root; what only root may look at is said to be so. As root and
with the recorder built, the collectors' answers are tried (recorder --probe) instead of concluded.
Exit code 0 if the main job (make trace) can run here, 3 if not.
"""

import json
import os
import resource
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from collectors.blktrace import tracefs
from collectors.host import kernel
from collectors.host.console import tell
from collectors.with_programs import bcc, bpftrace
from workloads import cgroup, disks, filesystems
from workloads.cli.options import COLLECTORS
from workloads.cli.parse import parse
from workloads.cli.with_options import SCRIPTS, bcc_tools, our_scripts
from workloads.system import guest
from workloads.system.command import find_program
from workloads.system.errors import UserError

_TREE = Path(__file__).parent.parent
_RECORDER = _TREE / "build" / "recorder"
_WIDTH = 80
_NAME_WIDTH = 18
_PROBE_SECONDS = 60  # emulated CPUs take 15

YES, NO, PART, UNKNOWN = "yes", "no", "in part", "?"


@dataclass(frozen=True)
class Answer:
    """One line of the table."""

    name: str
    answer: str  # yes, no, in part, or ? for what this user may not look at
    why: str = ""
    remedy: str = ""
    needed: bool = False  # the main job cannot run without a yes here (? counts as yes)


def _is_root() -> bool:
    return os.geteuid() == 0


def _on_path(program: str) -> bool:
    return find_program(program) is not None


def kernel_answers() -> Iterator[Answer]:
    """What everything else rests on."""
    if kernel.has_btf():
        yield Answer("type info", YES, "/sys/kernel/btf/vmlinux is there", needed=True)
    else:
        why = "no /sys/kernel/btf/vmlinux: BPF programs cannot find the kernel's structures"
        yield Answer(
            "type info", NO, why, "a kernel with CONFIG_DEBUG_INFO_BTF=y (distributions have it)", True
        )
    state = kernel.lockdown()
    if state == "confidentiality":
        why = "confidentiality: the kernel refuses BPF programs that read its memory"
        yield Answer("lockdown", NO, why, "boot without lockdown=confidentiality", True)
    elif state is None:
        why = "securityfs is not mounted, or not readable without root"
        yield Answer("lockdown", UNKNOWN, why, "mount -t securityfs none /sys/kernel/security")
    else:
        why = (
            "integrity: no kprobes, no blktrace program; ours use neither" if state == "integrity" else state
        )
        yield Answer("lockdown", YES, why)
    yield _bpf_permission()
    place = kernel.tracefs()
    if place is None:
        remedy = "mount -t tracefs tracefs /sys/kernel/tracing"
        yield Answer("tracefs", NO, "not mounted; only perf, blktrace and bpftrace need it", remedy)
    else:
        yield Answer("tracefs", YES, str(place))
    soft, hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    if resource.RLIM_INFINITY in (soft, hard) or kernel.capable(24):  # CAP_SYS_RESOURCE
        yield Answer("locked memory", YES, "not limited")
    else:
        why = (
            f"limited to {hard >> 10} KiB; matters before Linux 5.11 only, where BPF maps counted against it"
        )
        yield Answer("locked memory", YES, why)
    if Path("/proc/pressure/io").exists():
        yield Answer("pressure", YES, "/proc/pressure (PSI)")
    else:
        yield Answer(
            "pressure",
            NO,
            "no /proc/pressure: counters go without it",
            "boot with psi=1 (needs CONFIG_PSI=y)",
        )


def _bpf_permission() -> Answer:
    if kernel.may_trace():
        return Answer("bpf()", YES, "this user may load tracing programs", needed=True)
    if _is_root():
        why = "root here lacks CAP_BPF and CAP_PERFMON: a container?"
        return Answer("bpf()", NO, why, "give the container those capabilities, or run on the host", True)
    if shutil.which("sudo"):
        return Answer("bpf()", YES, "through sudo, which make trace asks for", needed=True)
    return Answer("bpf()", NO, "needs root, and sudo is not installed", "run as root, or install sudo", True)


def probe() -> dict[str, dict[str, str]] | None:
    """Return what recorder --probe says of each collector it loaded and attached; None if it cannot run."""
    if not _is_root() or not os.access(_RECORDER, os.X_OK):
        return None
    try:
        done = subprocess.run(
            [_RECORDER, "--probe"],
            capture_output=True,
            text=True,
            check=False,
            timeout=_PROBE_SECONDS,
            stdin=subprocess.DEVNULL,
        )
        answers: dict[str, dict[str, str]] = json.loads(done.stdout.splitlines()[-1])["collectors"]
    except (OSError, subprocess.TimeoutExpired, ValueError, LookupError):
        return None
    return answers


_HOLDS = "; on only if asked for: COLLECT='block locks calls counters holds'"
_SAMPLES = "; on only if asked for: COLLECT='block perf'"
_BLKTRACE = "; on only if asked for: COLLECT='block blktrace'"


def collector_answers() -> Iterator[Answer]:
    """Each collector: tried if we can, else concluded from the tracepoints it hooks."""
    tried = probe()
    if tried is None and _is_root() and _RECORDER.exists():
        why = "build/recorder --probe gave no answer; below is concluded from what the kernel lists"
        yield Answer("recorder", NO, why, "make clean, make build, and run it by hand to see why")
    for name in COLLECTORS:
        if tried is not None and name in tried:
            state = tried[name]
            if state["state"] == "on":
                why = "tried" if name == "counters" else "tried: loads and attaches"
                yield Answer(name, YES, why + (_HOLDS if name == "holds" else ""))
            else:
                yield Answer(name, NO, f"tried: {state['why']}", state["remedy"], name == "block")
        elif name == "blktrace":
            can, why, remedy = tracefs.can_trace()
            yield Answer(name, can, why + _BLKTRACE, remedy)
        elif name == "perf":
            perf = _perf()
            yield Answer(name, perf.answer, perf.why + _SAMPLES, perf.remedy)
        elif name == "holds":
            why = "whether the kernel lets its functions be traced (fentry) only root can try"
            yield Answer(name, UNKNOWN, why + _HOLDS, "make doctor as root, after make build")
        elif name == "counters":
            yield Answer(name, YES, "/proc/stat, /proc/meminfo, /proc/diskstats are there for everyone")
        else:
            yield _listed(name)


def _listed(name: str) -> Answer:
    hooks = kernel.hooks_of(name)
    missing = [hook for hook in hooks if not kernel.has_hook(hook)]
    if not kernel.has_btf():
        return Answer(name, NO, "no type info (above)")
    if len(missing) == len(hooks):
        remedy = "Linux 5.19 or newer has them" if name == "locks" else "a kernel with CONFIG_TRACEPOINTS=y"
        return Answer(name, NO, f"no tracepoint {', '.join(missing)}", remedy, name == "block")
    if missing:
        return Answer(
            name, PART, f"no tracepoint {', '.join(missing)}: an older or newer kernel than expected"
        )
    how = "as root after make build it is tried" if not _is_root() else "after make build it is tried"
    return Answer(name, YES, f"all {len(hooks)} tracepoints are listed ({how})")


def lock_answers() -> Iterator[Answer]:
    """Which waits the kernel's contention tracepoints show (kernel/locking/*.c, Linux 6.1 to 6.12)."""
    if not kernel.has_hook("contention_begin"):
        yield Answer("all kinds", NO, "no tracepoint contention_begin", "Linux 5.19 or newer")
        return
    mode = kernel.spinlock_mode()
    if mode == "virt":
        why = "a guest's test-and-set spinlocks wait before the tracepoint: no wait is seen"
        yield Answer("spinlock", NO, why, "a host with PV spinlocks, or bare metal")
    elif mode == "unknown":
        why = "a guest whose boot messages, which name its kind of spinlock, are gone or for root: maybe none"
        yield Answer("spinlock", UNKNOWN, why, "make doctor as root soon after boot, or bare metal")
    else:
        yield Answer("spinlock", PART, f"{mode}: all but the first waiter (pending bit) are seen")
    yield Answer("rwlock", PART, "all but readers in interrupts")
    yield Answer("mutex", YES, "spinning and sleeping told apart")
    yield Answer("rwsem", PART, "sleeps are; a writer that wins by spinning is not")
    yield Answer("percpu-rwsem", YES, "writers too; some kernels (6.1) report even those that did not wait")
    yield Answer("rtmutex", YES, "sleeps")
    yield Answer("semaphore", YES, "sleeps (XFS buffer locks among them)")
    yield Answer("bit, page, log", NO, "bit spinlocks, page and buffer locks, journal space: no tracepoint")
    settings = kernel.config()
    if settings is not None and settings.get("CONFIG_DEBUG_LOCK_ALLOC") == "y":
        yield Answer(
            "debug kernel", PART, "CONFIG_DEBUG_LOCK_ALLOC: every mutex reports a wait, even without one"
        )


def filesystem_answers() -> Iterator[Answer]:
    """Each file system: known to the kernel, and its programs there (make trace installs those)."""
    for name in filesystems.names():
        filesystem = filesystems.load(name)
        missing = filesystems.missing_programs(filesystem)
        if not filesystems.kernel_has(name):
            yield Answer(name, NO, f"this kernel ({kernel.release()}) has no {name}", _other_kernel(name))
        elif missing:
            package = " ".join(filesystem.packages)
            yield Answer(name, PART, f"{missing[0]} is missing", f"make trace FS={name} installs {package}")
        else:
            yield Answer(name, YES, filesystem.summary)


def _other_kernel(name: str) -> str:
    """Return how to find a kernel that has a file system; make trace then takes it by itself."""
    if guest.inside():
        return "another KERNEL="
    return "a virtual machine: see make doctor VM=1"


def disk_answers() -> Iterator[Answer]:
    """What can be formatted, and which schedulers it can have."""
    if guest.inside():
        yield Answer("virtio", YES, "DISK=file and JOURNAL=file: files of the host, attached for a run")
    if Path("/dev/loop-control").exists():
        yield Answer("loop", YES, "DISK=file and DISK=ram", needed=True)
    elif any(
        "loop" in line for line in (kernel.read(f"/lib/modules/{kernel.release()}/modules.dep") or "").split()
    ):
        yield Answer("loop", YES, "as a module, loaded when used", needed=True)
    else:
        remedy = "modprobe loop, or DISK=/dev/NAME with ERASE=/dev/NAME"
        yield Answer("loop", NO, "no /dev/loop-control: no DISK=file, no DISK=ram", remedy, True)
    if not guest.inside():
        yield _free_space()
    offered = kernel.read("/sys/block/loop0/queue/scheduler")
    if offered is not None:
        yield Answer("schedulers", YES, offered.replace("[", "").replace("]", ""))


def _free_space() -> Answer:
    place = disks.scratch_directory()
    there = next(path for path in (place, *place.parents) if path.exists())
    status = os.statvfs(there)
    free_bytes = status.f_bavail * status.f_frsize
    if free_bytes < 2 << 30:
        remedy = "free some, or set SEEKMETER_SCRATCH to another directory"
        return Answer("free space", PART, f"{free_bytes >> 20} MiB for disk files in {place}", remedy)
    return Answer("free space", YES, f"{free_bytes >> 30} GiB for disk files in {place}")


def cgroup_answers() -> Iterator[Answer]:
    """The workload's cgroup (which calls are the workload's), MEM= and CPUS=."""
    layout = cgroup.find_layout()
    kind = "hybrid" if layout.v2 and layout.v1 else "v2" if layout.v2 else "v1"
    if layout.v2 is not None:
        yield Answer("workload", YES, f"{kind} layout, cgroup2 at {layout.v2}")
    elif any(line.split()[-1] == "cgroup2" for line in (kernel.read("/proc/filesystems") or "").splitlines()):
        yield Answer("workload", YES, f"{kind} layout; cgroup2 is mounted privately for the run")
    else:
        yield Answer("workload", NO, "this kernel has no cgroup2", "a kernel with CONFIG_CGROUPS=y", True)
    in_v2 = ((kernel.read(layout.v2 / "cgroup.controllers") if layout.v2 else "") or "").split()
    for word, controller in (("MEM=", "memory"), ("CPUS=", "cpuset")):
        if controller in layout.v1:
            yield Answer(word, YES, f"v1 controller {controller} at {layout.v1[controller]}")
        elif controller in in_v2:
            yield Answer(word, YES, f"cgroup2 controller {controller}")
        else:
            yield Answer(
                word, NO, f"no cgroup controller {controller}", f"boot with cgroup_enable={controller}"
            )


def tool_answers() -> Iterator[Answer]:
    """What builds and runs Seekmeter, and the tools of others that its tests compare with."""
    setup = [program for program in ("clang", "bpftool", "gcc") if not _on_path(program)]
    if not (_TREE / ".venv" / "seekmeter-setup").exists():
        setup.append(".venv")
    if not setup:
        yield Answer("setup", YES, "done")
    elif shutil.which("apt-get"):
        yield Answer(
            "setup", PART, f"not here yet: {', '.join(setup)}", "make setup (make trace does it by itself)"
        )
    else:
        why = f"not here: {', '.join(setup)}; and no apt-get to install with"
        yield Answer("setup", NO, why, "make setup prints the list to install by hand", True)
    if not _on_path("blktrace"):
        yield Answer(
            "blktrace", NO, "not installed; COLLECT=blktrace goes without, tests use it", "make setup"
        )
    elif kernel.lockdown() in ("integrity", "confidentiality"):
        yield Answer("blktrace", NO, "lockdown closes its files in debugfs; tracefs has the same stream")
    else:
        yield Answer("blktrace", YES, "as root")
    yield _bcc()


def script_answers() -> Iterator[Answer]:
    """bpftrace, and each script of ours: are its tracepoints here?"""
    if not _on_path("bpftrace"):
        remedy = "make trace WITH=bpftrace:NAME installs it"
        yield Answer("bpftrace", NO, "not installed", remedy)
    elif kernel.lockdown() in ("integrity", "confidentiality"):
        why = "tracepoint, profile and uprobe scripts; lockdown closes kprobes; on only if asked for:"
        yield Answer("bpftrace", PART, f"{why} WITH=bpftrace:NAME")
    else:
        yield Answer("bpftrace", YES, "as root; on only if asked for: WITH=bpftrace:NAME")
    for name in our_scripts():
        script = SCRIPTS / f"{name}.bt"
        place = kernel.tracefs()
        if place is None or not os.access(place / "events", os.R_OK | os.X_OK):
            yield Answer(name, UNKNOWN, "only root may look at tracefs, mounted", "make doctor as root")
        elif missing := bpftrace.lacking(script):
            yield Answer(name, NO, *bpftrace.why_lacking(missing))
        else:
            yield Answer(name, YES, "its tracepoints are there")


def _bcc() -> Answer:
    if not bcc_tools():
        return Answer("bcc", NO, "not installed", "make trace WITH=bcc:TOOL installs it (bpfcc-tools)")
    why, remedy = bcc.why_not()
    if why:
        return Answer("bcc", NO, why, remedy)
    if kernel.lockdown() in ("integrity", "confidentiality"):
        why = "tools that need tracepoints only; lockdown closes kprobes, which most need"
        return Answer("bcc", PART, why, "VM=1, or boot without lockdown")
    return Answer("bcc", YES, "as root; on only if asked for: WITH=bcc:TOOL")


def _perf() -> Answer:
    if not _on_path("perf"):
        remedy = "make trace COLLECT=perf installs it (linux-perf)"
        return Answer("perf", NO, "the perf program is not installed", remedy)
    if kernel.lockdown() == "confidentiality":
        return Answer("perf", NO, "lockdown: the kernel refuses samples of itself", "boot without it")
    return Answer("perf", YES, "samples all CPUs by a timer (cpu-clock), which needs no CPU counters")


TABLE = {
    "kernel": kernel_answers,
    "collectors": collector_answers,
    "lock waits that are seen": lock_answers,
    "bpftrace and our scripts for it": script_answers,
    "file systems": filesystem_answers,
    "disks": disk_answers,
    "cgroups": cgroup_answers,
    "tools": tool_answers,
}


def lines_of(answer: Answer) -> list[str]:
    """Return the table's lines for one answer, at most 80 columns."""
    head = f"  {answer.name:<{_NAME_WIDTH}} {answer.answer:<8} "
    lines = textwrap.wrap(answer.why, _WIDTH - len(head), break_on_hyphens=False) or [""]
    if answer.remedy:
        lines += textwrap.wrap(
            "remedy: " + answer.remedy, _WIDTH - len(head), subsequent_indent="  ", break_on_hyphens=False
        )
    return [((head if number == 0 else " " * len(head)) + line).rstrip() for number, line in enumerate(lines)]


def main() -> int:
    """Print the table. Returns the exit code."""
    try:
        options = parse(os.environ, "doctor")
        if options.vm and not guest.inside():
            from collectors.privilege import reach
            from collectors.privilege.sudo import become_user
            from collectors.vm import run_in_vm

            reach.check(options)
            become_user()  # the kernels that are fetched, and the machine, are the user's
            return run_in_vm.doctor(options)
    except UserError as error:
        tell(f"seekmeter: {error.message}")
        return error.exit_code
    who = "root" if _is_root() else "an ordinary user: what only root may see is marked ?"
    print(f"Linux {kernel.release()} {os.uname().machine}, {os.cpu_count()} CPUs\nasked as {who}")
    stopping: list[Answer] = []
    for title, question in TABLE.items():
        print(f"\n{title}")
        try:
            for answer in question():
                print("\n".join(lines_of(answer)))
                if answer.needed and answer.answer == NO:
                    stopping.append(answer)
        except UserError as error:
            print("\n".join(lines_of(Answer("broken", NO, error.message))))
    print()
    if stopping:
        names = ", ".join(answer.name for answer in stopping)
        print(f"make trace cannot run here: {names} (above, with the remedy)")
        return 3
    print("make trace can run here.")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(0)
