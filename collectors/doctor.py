# SPDX-License-Identifier: BSD-2-Clause
"""make doctor: a table of what can be recorded on this machine and kernel, each line with reason and remedy.

Standard library only, needs no setup and no root; a fact that only root may read is marked "?". As root, with
the recorder built, its BPF programs are loaded and attached as a test (recorder --probe). Exit code 0 if make
trace can run, 3 if not.
"""

import os
import resource
import shutil
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from collectors.collector import NO, PART, UNKNOWN, YES, Check, choices, collectors
from collectors.host import kernel, planned_stack, rights
from collectors.host.console import tell
from collectors.recorder.shared import check_recorder
from collectors.with_programs import bcc, bpftrace
from workloads import cgroup, disks, filesystems
from workloads.cli.options import Options
from workloads.cli.parse import parse
from workloads.cli.with_options import SCRIPTS, bcc_tools, our_scripts
from workloads.system import front, guest, ublkdev
from workloads.system.command import find_program
from workloads.system.errors import OptionError, UserError
from workloads.system.tree import BUNDLED, TREE
from workloads.system.units import show_cpus
from workloads.system.visible import visible

_WIDTH = 80
_NAME_WIDTH = 18
_MOUNT_TRACEFS = "mount -t tracefs tracefs /sys/kernel/tracing"


def _is_root() -> bool:
    return os.geteuid() == 0


def _on_path(program: str) -> bool:
    return find_program(program) is not None


def kernel_checks() -> Iterator[Check]:
    """Check BTF, lockdown, BPF permission, tracefs, locked memory and PSI, which collectors depend on."""
    if kernel.has_btf():
        yield Check("type info", YES, "/sys/kernel/btf/vmlinux exists", needed=True)
    else:
        why = "no /sys/kernel/btf/vmlinux: BPF programs cannot find the kernel's structures"
        yield Check(
            "type info", NO, why, "a kernel with CONFIG_DEBUG_INFO_BTF=y (distributions have it)", True
        )
    state = kernel.lockdown()
    if state == "confidentiality":
        why = "confidentiality: the kernel refuses BPF programs that read its memory"
        yield Check("lockdown", NO, why, "boot without lockdown=confidentiality", True)
    elif state is None:
        why = "securityfs is not mounted" + ("" if _is_root() else ", or not readable without root")
        yield Check("lockdown", UNKNOWN, why, "mount -t securityfs none /sys/kernel/security")
    else:
        why = (
            "integrity: no kprobes, no blktrace program; ours use neither" if state == "integrity" else state
        )
        yield Check("lockdown", YES, why)
    yield _bpf_permission()
    yield from right_checks()
    tracefs = kernel.tracefs()
    if tracefs is None:
        why = "not mounted; only perf, blktrace and bpftrace need it"
        yield Check("tracefs", NO, why, _MOUNT_TRACEFS)
    else:
        yield Check("tracefs", YES, str(tracefs))
    soft, hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    if resource.RLIM_INFINITY in (soft, hard) or kernel.capable(24):  # CAP_SYS_RESOURCE
        yield Check("locked memory", YES, "not limited")
    else:
        why = (
            f"limited to {hard >> 10} KiB; matters before Linux 5.11 only, where BPF maps counted against it"
        )
        yield Check("locked memory", YES, why)
    if Path("/proc/pressure/io").exists():
        yield Check("pressure", YES, "/proc/pressure (PSI)")
    else:
        yield Check(
            "pressure",
            NO,
            "no /proc/pressure: counters go without it",
            "boot with psi=1 (needs CONFIG_PSI=y)",
        )


def _bpf_permission() -> Check:
    if kernel.may_trace():
        return Check("bpf()", YES, "this user may load tracing programs", needed=True)
    if _is_root():
        why = "root lacks CAP_BPF and CAP_PERFMON, as in a container"
        return Check("bpf()", NO, why, "give the container those capabilities, or run on the host", True)
    if shutil.which("sudo"):
        return Check("bpf()", YES, f"by sudo, which {front.NAME} trace runs", needed=True)
    return Check("bpf()", NO, "needs root, and sudo is not installed", "run as root, or install sudo", True)


def right_checks() -> Iterator[Check]:
    """Check the rights of root that a container may lack."""
    if not _is_root():
        return
    lacking = list(rights.missing())
    for one in lacking:
        yield Check(
            "rights", NO if one.needed else PART, f"lacks {one.right}: {one.without}", one.remedy, one.needed
        )
    if not lacking:
        yield Check("rights", YES, "root of the host, or of a container with the host's rights")


def collector_checks() -> Iterator[Check]:
    """Check each collector that COLLECT= can name, by the probe() of its module."""
    broken = check_recorder()
    if broken is not None:
        yield broken
    defaults = " ".join(name for name, is_default in choices().items() if is_default)
    for name, collector in collectors().items():
        check = collector.probe()
        if not collector.default and check.answer != NO:
            why = f"{check.why}; off by default (costs {collector.cost}): COLLECT='{defaults} {name}'"
            check = replace(check, why=why)
        yield check


def lock_checks() -> Iterator[Check]:
    """Check which lock waits the contention tracepoints report (kernel/locking/*.c, Linux 6.1 to 6.12)."""
    if not kernel.has_tracepoint("contention_begin"):
        yield Check("all kinds", NO, "no tracepoint contention_begin", "Linux 5.19 or newer")
        return
    mode = kernel.spinlock_mode()
    if mode == "virt":
        why = "a guest's test-and-set spinlocks wait before the tracepoint: no wait is recorded"
        yield Check("spinlock", NO, why, "a host with PV spinlocks, or bare metal")
    elif mode == "unknown":
        hidden = "overwritten" if _is_root() else "overwritten or only for root"
        why = f"a guest's kind of spinlock is in its boot messages, which are {hidden}"
        when = "soon after boot" if _is_root() else "as root soon after boot"
        yield Check("spinlock", UNKNOWN, why, f"{front.command('doctor')} {when}, or bare metal")
    else:
        yield Check("spinlock", PART, f"{mode}: all but the first waiter (pending bit) are recorded")
    yield Check("rwlock", PART, "all but readers in interrupts")
    yield Check("mutex", YES, "spinning and sleeping are distinguished")
    yield Check("rwsem", PART, "sleeps are; a writer that wins by spinning is not")
    yield Check("percpu-rwsem", YES, "writers too; some kernels (6.1) report even those that did not wait")
    yield Check("rtmutex", YES, "sleeps")
    yield Check("semaphore", YES, "sleeps (XFS buffer locks among them)")
    yield Check("bit, page, log", NO, "bit spinlocks, page and buffer locks, journal space: no tracepoint")
    settings = kernel.config()
    if settings is not None and settings.get("CONFIG_DEBUG_LOCK_ALLOC") == "y":
        yield Check(
            "debug kernel", PART, "CONFIG_DEBUG_LOCK_ALLOC: every mutex reports a wait, even without one"
        )


def filesystem_checks() -> Iterator[Check]:
    """Check each file system: its kernel module, and its programs, which setup installs."""
    for name in filesystems.names():
        filesystem = filesystems.load(name)
        missing = filesystems.missing_programs(filesystem)
        if not filesystems.kernel_has(name):
            yield Check(name, NO, f"this kernel ({kernel.release()}) has no {name}", _other_kernel(name))
        elif missing:
            package = " ".join(filesystem.packages)
            yield Check(name, PART, f"{missing[0]} is missing", front.installs(f"trace FS={name}", package))
        else:
            yield Check(name, YES, filesystem.summary)


def _other_kernel(name: str) -> str:
    """Return the remedy for a kernel without the file system."""
    if guest.inside():
        return "another KERNEL="
    return f"a virtual machine: see {front.command('doctor VM=1')}"


def disk_checks() -> Iterator[Check]:
    """Check which kinds of disks can be made and formatted, and list the I/O schedulers."""
    if guest.inside():
        yield Check("virtio", YES, "DISK=file and JOURNAL=file: files of the host, attached for a run")
    if Path("/dev/loop-control").exists():
        yield Check("loop", YES, "DISK=file and DISK=ram", needed=True)
    elif _is_module("loop"):
        yield Check("loop", YES, "as a module, loaded when used", needed=True)
    else:
        remedy = "modprobe loop, or DISK=/dev/NAME with ERASE=/dev/NAME"
        yield Check("loop", NO, "no /dev/loop-control: no DISK=file, no DISK=ram", remedy, True)
    yield _emulated()
    if not guest.inside():
        yield _free_space()
    offered = kernel.read("/sys/block/loop0/queue/scheduler")
    if offered is not None:
        yield Check("schedulers", YES, offered.replace("[", "").replace("]", ""))


def _is_module(name: str) -> bool:
    modules = kernel.read(f"/lib/modules/{kernel.release()}/modules.dep") or ""
    return any(f"/{name}.ko" in line.partition(":")[0] for line in modules.splitlines())


def _emulated() -> Check:
    """Check by which way the kernel's requests reach an emulated disk."""
    if ublkdev.CONTROL.exists():
        no_ublk = ublkdev.why_not() if _is_root() else ""
        if not no_ublk:
            return Check("hdd", YES, "DISK=hdd, an emulated disk, by ublk")
    elif _is_module("ublk_drv"):
        return Check("hdd", YES, "DISK=hdd, an emulated disk, by ublk (a module, loaded when used)")
    else:
        no_ublk = ublkdev.why_not()
    if Path("/dev/fuse").exists() or _is_module("fuse"):
        return Check("hdd", YES, f"DISK=hdd, an emulated disk, by FUSE and a loop device ({no_ublk})")
    return Check("hdd", NO, f"{no_ublk}, and no FUSE", "modprobe fuse, or VM=1 KERNEL=6.12")


def _free_space() -> Check:
    scratch = disks.scratch_directory()
    existing = next(path for path in (scratch, *scratch.parents) if path.exists())
    status = os.statvfs(existing)
    free_bytes = status.f_bavail * status.f_frsize
    if free_bytes < 2 << 30:
        remedy = "free some, or set SEEKMETER_SCRATCH to another directory"
        return Check("free space", PART, f"{free_bytes >> 20} MiB for disk files in {scratch}", remedy)
    return Check("free space", YES, f"{free_bytes >> 30} GiB for disk files in {scratch}")


def cgroup_checks() -> Iterator[Check]:
    """Check cgroup2, by which the workload's calls are counted, and the controllers of MEM= and CPUS=."""
    layout = cgroup.find_layout()
    kind = "hybrid" if layout.v2 and layout.v1 else "v2" if layout.v2 else "v1"
    if layout.v2 is not None:
        yield Check("workload", YES, f"{kind} layout, cgroup2 at {layout.v2}")
    elif any(line.split()[-1] == "cgroup2" for line in (kernel.read("/proc/filesystems") or "").splitlines()):
        yield Check("workload", YES, f"{kind} layout; cgroup2 is mounted privately for the run")
    else:
        yield Check("workload", NO, "this kernel has no cgroup2", "a kernel with CONFIG_CGROUPS=y", True)
    in_v2 = ((kernel.read(layout.v2 / "cgroup.controllers") if layout.v2 else "") or "").split()
    for variable, controller in (("MEM=", "memory"), ("CPUS=", "cpuset")):
        if controller in layout.v1:
            yield Check(variable, YES, f"v1 controller {controller} at {layout.v1[controller]}")
        elif controller in in_v2:
            yield Check(variable, YES, f"cgroup2 controller {controller}")
        else:
            yield Check(
                variable, NO, f"no cgroup controller {controller}", f"boot with cgroup_enable={controller}"
            )


def tool_checks() -> Iterator[Check]:
    """Check the programs that build and run Seekmeter, and the tracers that WITH= and the tests use."""
    # An installation, like a bundle, has nothing to compile.
    compilers = ("clang", "bpftool", "gcc") if front.IS_SOURCE else ()
    missing = [program for program in compilers if not _on_path(program)]
    if not BUNDLED and not any((TREE / ".venv").glob("seekmeter-*")):  # setup.sh's marks
        missing.append(".venv")
    if not missing:
        yield Check("setup", YES, "a bundle needs none" if BUNDLED else "done")
    elif shutil.which("apt-get"):
        yield Check(
            "setup",
            PART,
            f"not installed: {', '.join(missing)}",
            f"{front.INSTALL} ({front.NAME} trace does)",
        )
    else:
        why = f"not installed: {', '.join(missing)}; and no apt-get to install with"
        yield Check("setup", NO, why, f"{front.command('setup')} prints the list to install by hand", True)
    if not _on_path("blktrace"):
        yield Check(
            "blktrace", NO, "not installed; COLLECT=blktrace does without it, tests need it", front.INSTALL
        )
    elif kernel.lockdown() in ("integrity", "confidentiality"):
        yield Check("blktrace", NO, "lockdown closes its files in debugfs; tracefs has the same stream")
    else:
        yield Check("blktrace", YES, "as root")
    yield _bcc()


def script_checks() -> Iterator[Check]:
    """Check bpftrace, and the kernel's tracepoints that each script of Seekmeter needs."""
    if not _on_path("bpftrace"):
        remedy = front.installs("trace WITH=bpftrace:NAME", "it")
        yield Check("bpftrace", NO, "not installed", remedy)
    elif kernel.lockdown() in ("integrity", "confidentiality"):
        why = "tracepoint, profile and uprobe scripts; lockdown closes kprobes; off by default:"
        yield Check("bpftrace", PART, f"{why} WITH=bpftrace:NAME")
    else:
        yield Check("bpftrace", YES, "as root; off by default: WITH=bpftrace:NAME")
    tracefs = kernel.tracefs()
    for name in our_scripts():
        script = SCRIPTS / f"{name}.bt"
        if tracefs is None:
            why = f"tracefs, which lists the tracepoints, is not mounted: {front.command('trace')} mounts it"
            yield Check(name, UNKNOWN, why, _MOUNT_TRACEFS)
        elif not os.access(tracefs / "events", os.R_OK | os.X_OK):
            remedy = "run on the host" if _is_root() else f"{front.command('doctor')} as root"
            yield Check(name, UNKNOWN, f"{tracefs}/events cannot be read", remedy)
        elif missing := bpftrace.lacking(script):
            yield Check(name, NO, *bpftrace.why_lacking(missing))
        else:
            yield Check(name, YES, "its tracepoints exist")


def _bcc() -> Check:
    if not bcc_tools():
        return Check("bcc", NO, "not installed", front.installs("trace WITH=bcc:TOOL", "bpfcc-tools"))
    why, remedy = bcc.why_not()
    if why:
        return Check("bcc", NO, why, remedy)
    if kernel.lockdown() in ("integrity", "confidentiality"):
        why = "tools that need tracepoints only; lockdown closes kprobes, which most need"
        return Check("bcc", PART, why, "VM=1, or boot without lockdown")
    return Check("bcc", YES, "as root; off by default: WITH=bcc:TOOL")


TABLE = {
    "kernel": kernel_checks,
    "collectors": collector_checks,
    "lock waits that are recorded": lock_checks,
    "bpftrace and its scripts": script_checks,
    "file systems": filesystem_checks,
    "disks": disk_checks,
    "cgroups": cgroup_checks,
    "tools": tool_checks,
}


def stack_lines(options: Options) -> tuple[str, list[str]]:
    """Return a title, and the devices below DIR=, of DEV= or below /, with what is recorded of each."""
    directory = Path(options.dir or "/")
    title = f"devices of {options.dev}" if options.dev else f"devices below {directory}"
    try:
        text = planned_stack.below(directory, options.dev, _WIDTH - 2)
    except UserError as error:
        text = textwrap.wrap(error.message, _WIDTH - 2)
    return title, text


def lines_of(check: Check) -> list[str]:
    """Return the table's lines for one check, at most 80 columns."""
    head = f"  {check.name:<{_NAME_WIDTH}} {check.answer:<8} "
    lines = textwrap.wrap(check.why, _WIDTH - len(head), break_on_hyphens=False) or [""]
    if check.remedy:
        lines += textwrap.wrap(
            "remedy: " + check.remedy, _WIDTH - len(head), subsequent_indent="  ", break_on_hyphens=False
        )
    return [((head if number == 0 else " " * len(head)) + line).rstrip() for number, line in enumerate(lines)]


def _check_words(options: Options) -> None:
    """Raise OptionError for words that contradict each other."""
    given = [name for name in ("DIR", "DEV") if name in options.given]
    if given and options.vm:
        raise OptionError(f"{given[0]} contradicts VM: a virtual machine has its own disks; drop one")
    if len(given) > 1:
        raise OptionError("DIR contradicts DEV: either names the devices to draw; drop one")
    if options.dir is not None and not os.path.isdir(options.dir):
        raise OptionError(f"DIR={options.dir} is not a directory: give the path of an existing one")


def main() -> int:
    """Print the table. Returns the exit code."""
    try:
        options = parse(os.environ, "doctor", choices())
        _check_words(options)
        if options.vm and not guest.inside():
            from collectors.privilege import reach
            from collectors.privilege.sudo import become_user
            from collectors.vm import run_in_vm

            reach.check(options)
            become_user()  # downloaded kernels and QEMU belong to the user
            return run_in_vm.doctor(options)
    except UserError as error:
        tell(f"seekmeter: {error.message}")
        return error.exit_code
    user = "root" if _is_root() else "an ordinary user: facts that only root may read are marked ?"
    print(
        f"Linux {kernel.release()} {os.uname().machine}, {show_cpus(os.cpu_count() or 1)}\nchecked as {user}"
    )
    stopping: list[Check] = []
    for title, section in TABLE.items():
        print(f"\n{title}")
        try:
            for check in section():
                print("\n".join(lines_of(check)))
                if check.needed and check.answer == NO:
                    stopping.append(check)
        except UserError as error:
            print("\n".join(lines_of(Check("broken", NO, error.message))))
    title, drawn = stack_lines(options)
    print(visible("\n".join((f"\n{title}", *(f"  {line}" for line in drawn)))))
    print()
    if stopping:
        names = ", ".join(check.name for check in stopping)
        print(f"{front.command('trace')} cannot run here: {names} (see the remedies above)")
        return 3
    print(f"{front.command('trace')} can run here.")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(0)
