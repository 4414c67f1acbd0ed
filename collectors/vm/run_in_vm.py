# SPDX-License-Identifier: BSD-2-Clause
"""A run in a virtual machine, the host's side: boot, hand over the options, watch the guest, keep its files.

Inside, the same job runs with the same options (trace/flow.py), as root of the guest. It writes into a
directory of the host (staged.py) instead of the run directory, so the recording survives a guest that panics
or hangs. Nothing here needs root: the machine's disks are nameless files, QEMU ends with this process, and
the list of sessions is the user's own.
"""

import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path

from collectors.host import signals
from collectors.host.console import tell
from collectors.privilege.ownership import open_directory
from collectors.privilege.sudo import START
from collectors.recorder import losses
from collectors.trace import sysinfo
from collectors.trace.context import RunContext, ended_in_order, new_run, sweep
from collectors.vm.staged import Staged, merged, read_facts
from workloads.cleanup.janitor import Janitor
from workloads.cli.options import ROOM_BYTES, Options
from workloads.machines import DEFAULT_MEMORY_BYTES, kernels, kvm, qemu
from workloads.machines.kernels import Kernel
from workloads.machines.qemu import Accelerator, Hardware, Machine, VirtualDisk
from workloads.plan.plan import Plan
from workloads.plan.planner import make_plan
from workloads.system.errors import RunError
from workloads.system.guest import GUEST, GUEST_OWNER
from workloads.system.units import show_cpus, show_size
from workloads.system.visible import visible

_POLL_SECONDS = 0.2
_MEASURE_SECONDS = 1.0  # between two measurements of the guest's directory
# Many emulated CPUs on few CPUs of the host are slow, but a running guest sends a heartbeat each second.
_BOOT_SECONDS = 180.0
# Under KVM a guest boots in 2 to 4 s.
_KVM_BOOT_SECONDS = 30.0
_HANG_SECONDS = 60.0
_STOP_SECONDS = 60.0
_LINE_CHARACTERS = 500  # of the guest's text in a message
# With less free space than this, the disks' files cannot grow.
_FULL_BYTES = 1 << 20


@dataclass(frozen=True)
class Ended:
    """The end of a machine: the command's exit status, or why there is none, and the boot time."""

    status: int | None  # the command's exit status; None: it reported none
    why: str  # why it reported none, or the command's last line
    boot_s: float | None  # from the start to the first beat; None: there was none
    argv: list[str]  # QEMU's
    stuck: bool = False  # the guest did not boot, and was ended
    interrupted: bool = False


def run_trace(options: Options, report: Callable[[Path], None]) -> tuple[Path, int]:
    """Run and record the workload of these options in a machine. Returns run directory and exit code.

    The guest prints its own errors. report: as in trace.flow.run_trace(). Raises UserError; RunFailed, with
    the run directory, if the machine itself failed.
    """
    state = kernels.cache_directory() / "sessions"
    sweep(state)
    if options.vm_why:
        tell(f"seekmeter: {options.vm_why}: going on in a virtual machine (VM=0 would refuse)")
    kernel, accel = choose(options)
    plan = make_plan(options, kernel=kernel)
    signals.hold()  # until ended_in_order() takes over
    run = new_run(plan.name, options)
    context = RunContext(run)
    with Janitor(state) as janitor, ended_in_order(context, janitor):
        ended = _boot(context, plan, kernel, accel)
        signals.hold()
        if ended.interrupted and not run.is_begun:
            raise KeyboardInterrupt
        run.begin()
        if ended.status is None:
            run.write_losses(losses.read(run.raw, {}, False))
            raise RunError(f"{ended.why}; the recording up to then is kept")
        if run.facts["state"] == "running":  # the guest failed before recording began
            run.facts["state"] = "interrupted"
            run.warn(ended.why)
        if ended.status == 0:
            report(run.path)
    return run.path, ended.status


def choose(options: Options) -> tuple[Kernel, Accelerator]:
    """Return the machine's kernel, downloaded if needed, and its accelerator. Raises UserError."""
    qemu.find_qemu()
    kernel = kernels.find(options.kernel, lambda text: tell(f"seekmeter: {text}"))
    return kernel, qemu.accelerator(kernel)


def _boot(context: RunContext, plan: Plan, kernel: Kernel, accel: Accelerator) -> Ended:
    """Run the job in a machine, and fill the run directory with the guest's facts and files."""
    run, options = context.run, plan.options
    context.say("run", str(run.path))
    cpus = options.machine_cpus or os.cpu_count() or 1
    memory_bytes = options.machine_mem_bytes or plan.machine_memory_bytes
    run.add(
        command=options.command(),
        words=dict(options.given),
        collect=list(options.collect),
        tools=sysinfo.tool_versions(),
    )

    vm_facts: dict[str, object] = {}

    def announce(accel: Accelerator) -> None:
        vm_facts.update(_facts(kernel, accel))
        run.add(machine={"vm": dict(vm_facts)})
        how = "under KVM" if accel.name == "kvm" else "EMULATED"
        context.say("machine", f"Linux {kernel.name}, {show_cpus(cpus)} {how}, {show_size(memory_bytes)}")
        if accel.name != "kvm":
            text = f"{accel.why}: times and rates mean little; counts, bytes and order are valid"
            context.say("WARNING", text)  # every report repeats it

    scratch = Path(os.environ.get("SEEKMETER_SCRATCH") or "/var/tmp")
    disks: list[VirtualDisk] = []
    try:
        for planned in plan.virtual_disks:
            disks.append(qemu.open_disk(planned.serial, planned.size_bytes, scratch))
        command = [sys.executable, "-B", "-P", str(START), "collectors", options.job]
        hardware = Hardware(kernel, accel, cpus, memory_bytes, disks)
        with shared(run.path, options.room_bytes) as staged:

            def before_start(accel: Accelerator) -> None:
                announce(accel)
                staged.write_facts(run.facts)

            ended = run_inside(hardware, run.path, run.raw, staged, command, tell, before_start, context.warn)
            signals.hold()  # the only copy of the recording
            _take_out(context, staged)
        if _is_full(scratch):
            context.warn(f"the machine's disks could not grow: {scratch} is full; make room there")
    finally:
        for disk in disks:
            os.close(disk.file)
    machine = run.facts.setdefault("machine", {})
    machine["vm"] = {**vm_facts, "command": shlex.join(ended.argv)}
    run.facts["timing"]["boot_s"] = ended.boot_s
    return ended


@contextmanager
def shared(run: Path, most_bytes: int = ROOM_BYTES) -> Iterator[Staged]:
    """Make a directory for a machine to write, until the block ends. run: its path inside.

    Raises OSError, MachineError.
    """
    staged = Staged(most_bytes)
    try:
        (staged.own / "run").write_text(str(run))
        yield staged
    finally:
        staged.remove()


def _take_out(context: RunContext, staged: Staged) -> None:
    """Copy the guest's facts and files into the run, and warn of files that are not kept."""
    run = context.run
    guest_facts = read_facts(staged.directory)
    if guest_facts is not None:
        run.facts = merged(run.facts, guest_facts)
    else:
        context.warn("the guest left no valid run.json")
    taken = run.take_out(staged)
    if taken.left:
        examples = "; ".join(taken.left[:3])
        context.warn(f"{len(taken.left)} files of the guest are not kept ({examples})")


def doctor(options: Options) -> int:
    """Run make doctor inside a machine, and print its lines. Returns its exit code. Raises UserError."""
    kernel, accel = choose(options)

    def announce(accel: Accelerator) -> None:
        how = "under KVM" if accel.name == "kvm" else f"EMULATED ({accel.why}): times there mean little"
        print(f"in a virtual machine, CPUs {how}", flush=True)

    with tempfile.TemporaryDirectory(prefix="seekmeter-") as directory:
        command = [sys.executable, "-B", "-P", str(START), "collectors.doctor"]
        hardware = Hardware(kernel, accel, os.cpu_count() or 1, DEFAULT_MEMORY_BYTES)
        ended = run_apart(hardware, Path(directory), command, lambda line: print(visible(line)), announce)
    if ended.status is None:
        raise RunError(ended.why)
    return ended.status


def run_apart(
    hardware: Hardware,
    directory: Path,
    command: Sequence[str],
    on_line: Callable[[str], None] = tell,
    before_start: Callable[[Accelerator], None] = lambda accel: None,
) -> Ended:
    """Run a command in a machine without a session. The files that it writes are copied to the directory.

    directory/raw gets the console's log. See run_inside().
    """
    (directory / "raw").mkdir(exist_ok=True)
    with shared(directory) as staged:
        ended = run_inside(hardware, directory, directory / "raw", staged, command, on_line, before_start)
        target = open_directory(directory)
        try:
            staged.take_out(target)
        finally:
            os.close(target)
    return ended


def run_inside(
    hardware: Hardware,
    run: Path,
    logs: Path,
    staged: Staged,
    command: Sequence[str],
    on_line: Callable[[str], None] = tell,
    before_start: Callable[[Accelerator], None] = lambda accel: None,
    warn: Callable[[str], None] = tell,
) -> Ended:
    """Run one command in a machine to its end. run: the staged directory's path inside.

    The command gets the variables SEEKMETER_…; on_line gets each line of its output. ^C is passed on. A
    guest that does not boot under KVM is started again on emulated CPUs. before_start: called before each
    start. warn: gets warnings for the reports. logs: the directory for console.log.
    """
    console = logs / "console.log"
    before_start(hardware.accel)
    ended = _run_once(hardware, run, console, staged, command, on_line)
    if hardware.accel.name != "kvm" or not ended.stuck:
        return ended
    console.rename(console.with_name("console-kvm.log"))
    why = f"/dev/kvm opens, but a guest did not come up within {_KVM_BOOT_SECONDS:.0f} s"
    warn(f"{why} (see raw/console-kvm.log): started again on emulated CPUs")
    emulated = Accelerator("tcg", why)
    staged.renew()
    before_start(emulated)
    ended = _run_once(replace(hardware, accel=emulated), run, console, staged, command, on_line)
    if ended.boot_s is not None:
        kvm.refute(why)
    return ended


def _run_once(
    hardware: Hardware,
    run: Path,
    console: Path,
    staged: Staged,
    command: Sequence[str],
    on_line: Callable[[str], None],
) -> Ended:
    last_line = ""

    def keep(line: str) -> None:
        nonlocal last_line
        last_line = line
        on_line(line)

    under_kvm = hardware.accel.name == "kvm"
    environment = {name: text for name, text in os.environ.items() if name.startswith("SEEKMETER_")}
    environment |= {"PATH": f"{os.environ.get('PATH', os.defpath)}:/usr/local/sbin:/usr/sbin:/sbin"}
    environment |= {"HOME": "/root", "LC_ALL": "C.UTF-8", GUEST: str(run)}
    environment[GUEST_OWNER] = f"{os.geteuid()}:{os.getegid()}"
    if not under_kvm:
        environment["SEEKMETER_EMULATED_CPUS"] = "1"  # see recorder/clock.h
    start = time.monotonic()
    between = qemu.Shared(staged.for_guest, staged.talk, staged.own, staged.give_to_guest)
    machine = Machine(hardware, between, run, console, command, environment, keep)
    boot_s: float | None = None
    stuck = interrupted = False
    try:
        try:
            limit = _KVM_BOOT_SECONDS if under_kvm else _BOOT_SECONDS
            why, boot_s, stuck = _watch(machine, staged, start, limit)
        except KeyboardInterrupt:
            interrupted = True
            why = "interrupted, and the guest did not end by itself"
            machine.ask_to_stop()
            signals.wait_for(machine.process, _STOP_SECONDS)
        status = machine.exit_status()
    finally:
        with signals.held():
            machine.end()
    if status is not None:
        why = _short(last_line.removeprefix("seekmeter: "))
    elif not why:
        why = _why_ended(console, machine.process.returncode)
    return Ended(status, why, boot_s, machine.argv, stuck, interrupted)


def _watch(
    machine: Machine, staged: Staged, start: float, boot_seconds: float
) -> tuple[str, float | None, bool]:
    """Wait until the machine ends, exceeds a limit, or hangs.

    Returns why it must be ended ("": it ended by itself), the boot time, and whether the boot timed out.
    """
    beat, beat_at, measured_at = 0, start, start
    boot_s: float | None = None
    while not signals.wait_for(machine.process, _POLL_SECONDS):
        now = time.monotonic()
        if now - measured_at > _MEASURE_SECONDS:
            measured_at = now
            if (excess := staged.over()) is not None:
                return f"the guest was ended, as {excess}", boot_s, False
        last, beat = beat, machine.beat()
        if beat != last:
            beat_at = now
            if boot_s is None:
                boot_s = round(now - start, 3)
        limit = boot_seconds if boot_s is None else _HANG_SECONDS
        if now - beat_at > limit:
            symptom = "did not come up" if boot_s is None else "hangs: it sent no heartbeat"
            why = f"the guest {symptom} for {limit:.0f} s and was ended (see raw/console.log)"
            return why, boot_s, boot_s is None
    return "", boot_s, False


def _why_ended(console: Path, code: int) -> str:
    """Return why a machine ended without an exit status, from the messages on its console."""
    text = console.read_text(errors="replace") if console.exists() else ""  # the host's own file
    if "Failed to mount real root" in text:  # a message of virtme-ng's initramfs
        return (
            "the guest could not mount the host's root: its kernel lacks 9p, virtio or overlay, or their "
            "modules; give KERNEL=…/boot/vmlinuz-RELEASE next to …/lib/modules/RELEASE"
        )
    panic = re.search(r"Kernel panic - not syncing: (.*)", text)
    if panic is not None:
        return f"the guest's kernel panicked ({_short(panic[1])}; see raw/console.log)"
    messages = re.findall(r"^(?:seekmeter: init: |qemu-system-\S+: |setpriv: )(.*)", text, re.MULTILINE)
    last = _short(messages[-1]) if messages else f"QEMU: exit status {code}"
    return f"the virtual machine ended early ({last}; see raw/console.log)"


def _short(text: str) -> str:
    return visible(text[:_LINE_CHARACTERS].strip())


def _is_full(directory: Path) -> bool:
    status = os.statvfs(directory)
    return status.f_bavail * status.f_frsize < _FULL_BYTES


def _facts(kernel: Kernel, accel: Accelerator) -> dict[str, object]:
    """Return run.json's machine.vm: virtme-ng, QEMU, accelerator, kernel image and the host."""
    version = subprocess.run([qemu.find_qemu(), "--version"], capture_output=True, text=True, check=False)
    return {
        "by": f"virtme-ng {metadata.version('virtme-ng')}",
        "accel": accel.name,
        "why_not_kvm": accel.why,
        "qemu": version.stdout.partition("\n")[0].strip(),
        "kernel_image": str(kernel.image),
        "host_kernel": os.uname().release,
        "host_cpus": os.cpu_count(),
    }
