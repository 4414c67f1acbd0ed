# SPDX-License-Identifier: BSD-2-Clause
"""The host's side of a run in a virtual machine: boot, hand over the words, watch, keep what came out.

Inside, the same job (trace/flow.py) runs with the same words as root of the guest and writes into a directory
of the host's (staged.py) that it takes for the run directory; so what was recorded is there even if the guest
panics or hangs. Nothing here needs root: the machine's disks are nameless files, QEMU dies with us, and the
list of sessions is the user's own.
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
from workloads.system.units import show_size
from workloads.system.visible import visible

_LOOK_SECONDS = 0.2
_MEASURE_SECONDS = 1.0  # between two looks at how much it has written
# Emulated CPUs, many of them on few of the host's, are slow; a guest that lives still says so each second.
_BOOT_SECONDS = 180.0
# Under KVM a guest comes up in 2 to 4 s.
_KVM_BOOT_SECONDS = 30.0
_HANG_SECONDS = 60.0
_STOP_SECONDS = 60.0
_WORDS_LETTERS = 500  # of a guest's, in a line of ours
# Less than this free where the disks are: they could not grow any more.
_FULL_BYTES = 1 << 20


@dataclass(frozen=True)
class Ended:
    """How a machine ended."""

    status: int | None  # the command's exit status; None: it never said one
    why: str  # why it never said one, or the last that the command said
    boot_s: float | None  # from the start to its first sign of life; None: it gave none
    argv: list[str]  # QEMU's
    stuck: bool = False  # it did not come up, and was ended
    interrupted: bool = False


def trace(options: Options, recorded: Callable[[Path], None]) -> tuple[Path, int]:
    """Run and record the workload of these words in a machine. Returns the run directory and the exit code.

    What went wrong inside was said from there. recorded is called as in session.trace. Raises UserError;
    RunFailed, with the run directory, if the machine itself failed.
    """
    state = kernels.cache_directory() / "sessions"
    sweep(state)
    if options.vm_why:
        tell(f"seekmeter: {options.vm_why}: going on in a virtual machine (VM=0 would refuse)")
    kernel, accel = choose(options)
    plan = make_plan(options, kernel=kernel)
    signals.hold()  # until ended_in_order() sees to the run directory
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
            raise RunError(f"{ended.why}; what was recorded until then is kept")
        if run.facts["state"] == "running":  # it failed before it recorded anything
            run.facts["state"] = "interrupted"
            run.warn(ended.why)
        if ended.status == 0:
            recorded(run.path)
    return run.path, ended.status


def choose(options: Options) -> tuple[Kernel, Accelerator]:
    """Return the machine's kernel, fetched if need be, and what runs its CPUs. Raises UserError."""
    qemu.find_qemu()
    kernel = kernels.find(options.kernel, lambda text: tell(f"seekmeter: {text}"))
    return kernel, qemu.accelerator(kernel)


def _boot(context: RunContext, plan: Plan, kernel: Kernel, accel: Accelerator) -> Ended:
    """Fill the run directory from inside a machine; at the end run.json is what the guest wrote."""
    run, words = context.run, plan.options
    context.say("run", str(run.path))
    cpus = words.machine_cpus or os.cpu_count() or 1
    memory_bytes = words.machine_mem_bytes or plan.machine_memory_bytes
    run.add(
        command=words.command(),
        words=dict(words.given),
        collect=list(words.collect),
        tools=sysinfo.tool_versions(),
    )

    how_it_is_made: dict[str, object] = {}

    def starts(accel: Accelerator) -> None:
        how_it_is_made.update(_facts(kernel, accel))
        run.add(machine={"vm": dict(how_it_is_made)})
        how = "under KVM" if accel.name == "kvm" else "EMULATED"
        context.say("machine", f"Linux {kernel.name}, {cpus} CPUs {how}, {show_size(memory_bytes)}")
        if accel.name != "kvm":
            text = f"{accel.why}: its times and rates mean little, its counts, bytes and order do"
            context.say("WARNING", text)  # every report says it too

    place = Path(os.environ.get("SEEKMETER_SCRATCH") or "/var/tmp")
    disks: list[VirtualDisk] = []
    try:
        for planned in plan.virtual_disks:
            disks.append(qemu.open_disk(planned.serial, planned.size_bytes, place))
        command = [sys.executable, "-B", "-m", "collectors", words.job]
        hardware = Hardware(kernel, accel, cpus, memory_bytes, disks)
        with shared(run.path, words.room_bytes) as staged:

            def starts_with(accel: Accelerator) -> None:
                starts(accel)
                staged.tell(run.facts)

            ended = run_inside(hardware, run.path, run.raw, staged, command, tell, starts_with, context.warn)
            signals.hold()  # what was recorded is nowhere else
            _take_out(context, staged)
        if _is_full(place):
            context.warn(f"the machine's disks could not grow any more: {place} is full; make room there")
    finally:
        for disk in disks:
            os.close(disk.file)
    machine = run.facts.setdefault("machine", {})
    machine["vm"] = {**how_it_is_made, "command": shlex.join(ended.argv)}
    run.facts["timing"]["boot_s"] = ended.boot_s
    return ended


@contextmanager
def shared(run: Path, most_bytes: int = ROOM_BYTES) -> Iterator[Staged]:
    """A directory for a machine to write; run: what it is called inside. Raises OSError, MachineError."""
    staged = Staged(most_bytes)
    try:
        (staged.own / "run").write_text(str(run))
        yield staged
    finally:
        staged.remove()


def _take_out(context: RunContext, staged: Staged) -> None:
    """Take over what the guest left: its facts, its recordings."""
    run = context.run
    facts_inside = read_facts(staged.directory)
    if facts_inside is not None:
        run.facts = merged(run.facts, facts_inside)
    else:
        context.warn("the guest left no run.json that can be understood")
    taken = run.take_out(staged)
    if taken.left:
        some = "; ".join(taken.left[:3])
        context.warn(f"the guest left {len(taken.left)} things that are not kept ({some})")


def doctor(options: Options) -> int:
    """Print what make doctor says inside a machine. Returns its exit code. Raises UserError."""
    kernel, accel = choose(options)

    def starts(accel: Accelerator) -> None:
        how = "under KVM" if accel.name == "kvm" else f"EMULATED ({accel.why}): times there mean little"
        print(f"in a virtual machine, CPUs {how}", flush=True)

    with tempfile.TemporaryDirectory(prefix="seekmeter-") as place:
        command = [sys.executable, "-B", "-m", "collectors.doctor"]
        hardware = Hardware(kernel, accel, os.cpu_count() or 1, DEFAULT_MEMORY_BYTES)
        ended = run_apart(hardware, Path(place), command, lambda line: print(visible(line)), starts)
    if ended.status is None:
        raise RunError(ended.why)
    return ended.status


def run_apart(
    hardware: Hardware,
    place: Path,
    command: Sequence[str],
    heard: Callable[[str], None] = tell,
    starts: Callable[[Accelerator], None] = lambda accel: None,
) -> Ended:
    """Run a command that is no session's in a machine; it can write place, which has what it left then.

    place/raw gets the console's log. See run_inside().
    """
    (place / "raw").mkdir(exist_ok=True)
    with shared(place) as staged:
        ended = run_inside(hardware, place, place / "raw", staged, command, heard, starts)
        directory = open_directory(place)
        try:
            staged.take_out(directory)
        finally:
            os.close(directory)
    return ended


def run_inside(
    hardware: Hardware,
    run: Path,
    logs: Path,
    staged: Staged,
    command: Sequence[str],
    heard: Callable[[str], None] = tell,
    starts: Callable[[Accelerator], None] = lambda accel: None,
    warn: Callable[[str], None] = tell,
) -> Ended:
    """Run one command in a machine to its end. run: what the staged directory is called inside.

    The command has our own variables (SEEKMETER_…); what it says is heard line by line. ^C is ^C inside.
    A guest that does not come up under KVM is started again on emulated CPUs. starts is told of each start,
    warn of what every reader of the results should know. logs: gets console.log.
    """
    console = logs / "console.log"
    starts(hardware.accel)
    ended = _run_once(hardware, run, console, staged, command, heard)
    if hardware.accel.name != "kvm" or not ended.stuck:
        return ended
    console.rename(console.with_name("console-kvm.log"))
    why = f"/dev/kvm opens, but a guest did not come up within {_KVM_BOOT_SECONDS:.0f} s"
    warn(f"{why} (see raw/console-kvm.log): started again on emulated CPUs")
    emulated = Accelerator("tcg", why)
    staged.renew()
    starts(emulated)
    ended = _run_once(replace(hardware, accel=emulated), run, console, staged, command, heard)
    if ended.boot_s is not None:
        kvm.refute(why)
    return ended


def _run_once(
    hardware: Hardware,
    run: Path,
    console: Path,
    staged: Staged,
    command: Sequence[str],
    heard: Callable[[str], None],
) -> Ended:
    lines = [""]

    def hear(line: str) -> None:
        lines[0] = line
        heard(line)

    under_kvm = hardware.accel.name == "kvm"
    environment = {name: text for name, text in os.environ.items() if name.startswith("SEEKMETER_")}
    environment |= {"PATH": f"{os.environ.get('PATH', os.defpath)}:/usr/local/sbin:/usr/sbin:/sbin"}
    environment |= {"HOME": "/root", "LC_ALL": "C.UTF-8", GUEST: str(run)}
    environment[GUEST_OWNER] = f"{os.geteuid()}:{os.getegid()}"
    if not under_kvm:
        environment["SEEKMETER_EMULATED_CPUS"] = "1"  # see recorder/clock.h
    start = time.monotonic()
    between = qemu.Shared(staged.place, staged.talk, staged.own, staged.give_to_guest)
    machine = Machine(hardware, between, run, console, command, environment, hear)
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
        why = _short(lines[0].removeprefix("seekmeter: "))
    elif not why:
        why = _last_words(console, machine.process.returncode)
    return Ended(status, why, boot_s, machine.argv, stuck, interrupted)


def _watch(
    machine: Machine, staged: Staged, start: float, boot_seconds: float
) -> tuple[str, float | None, bool]:
    """Return when the machine has ended, or has to.

    Why (""; it ended by itself), when it came up, and whether it did not in its time.
    """
    beat, beaten, measured = 0, start, start
    boot_s: float | None = None
    while not signals.wait_for(machine.process, _LOOK_SECONDS):
        now = time.monotonic()
        if now - measured > _MEASURE_SECONDS:
            measured = now
            if (over := staged.over()) is not None:
                return f"the guest was ended, as {over}", boot_s, False
        last, beat = beat, machine.beat()
        if beat != last:
            beaten = now
            if boot_s is None:
                boot_s = round(now - start, 3)
        limit = boot_seconds if boot_s is None else _HANG_SECONDS
        if now - beaten > limit:
            what = "did not come up" if boot_s is None else "hangs: it gave no sign of life"
            why = f"the guest {what} for {limit:.0f} s and was ended (see raw/console.log)"
            return why, boot_s, boot_s is None
    return "", boot_s, False


def _last_words(console: Path, code: int) -> str:
    """Say why a machine ended that said no exit status."""
    text = console.read_text(errors="replace") if console.exists() else ""  # the host's own file
    if "Failed to mount real root" in text:  # says virtme-ng's initramfs
        return (
            "the guest could not mount the host's root: its kernel has no 9p, virtio and overlay, or as "
            "modules that were not found; name it as …/boot/vmlinuz-RELEASE beside …/lib/modules/RELEASE"
        )
    panic = re.search(r"Kernel panic - not syncing: (.*)", text)
    if panic is not None:
        return f"the guest's kernel panicked ({_short(panic[1])}; see raw/console.log)"
    said = re.findall(r"^(?:seekmeter: init: |qemu-system-\S+: |setpriv: )(.*)", text, re.MULTILINE)
    last = _short(said[-1]) if said else f"QEMU: exit status {code}"
    return f"the virtual machine ended early ({last}; see raw/console.log)"


def _short(said: str) -> str:
    return visible(said[:_WORDS_LETTERS].strip())


def _is_full(place: Path) -> bool:
    status = os.statvfs(place)
    return status.f_bavail * status.f_frsize < _FULL_BYTES


def _facts(kernel: Kernel, accel: Accelerator) -> dict[str, object]:
    """Return run.json's machine.vm; the command line comes at the end."""
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
