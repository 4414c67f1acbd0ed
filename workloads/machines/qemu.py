# SPDX-License-Identifier: BSD-2-Clause
"""A virtual machine: QEMU on a kernel and the host's own root, read-only, running one command.

virtme-ng (virtme-run --dry-run) says how QEMU is called on this architecture, finds the kernel's modules and
makes the initramfs; QEMU is then started by us, so that its pid is ours, it dies with us, and its disks are
nameless files that no crash leaves behind. Inside, init.c takes over; how it and we talk is told there.
"""

import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from workloads.errors import MachineError
from workloads.filesystems.programs import end_with_session
from workloads.machines import kvm
from workloads.machines.kernels import Kernel

VIRTME = Path(sys.executable).parent / "virtme-run"
INIT = Path(__file__).resolve().parent.parent.parent / "build/guest-init"


@dataclass(frozen=True)
class VirtualDisk:
    """A disk of the machine: an open, nameless file on the host."""

    serial: str  # by which the guest finds it
    file: int
    direct: bool  # O_DIRECT on the host, so that its page cache plays no part


@dataclass(frozen=True)
class Accelerator:
    """What runs the guest's CPUs."""

    name: str  # kvm or tcg (emulation)
    why: str  # why not kvm


@dataclass(frozen=True)
class Hardware:
    """What a machine is made of."""

    kernel: Kernel
    accel: Accelerator
    cpus: int
    memory_bytes: int
    disks: Sequence[VirtualDisk] = ()


def find_qemu() -> str:
    """Return QEMU's path for this architecture. Raises MachineError."""
    name = f"qemu-system-{os.uname().machine}"
    found = shutil.which(name)
    if found is None:
        raise MachineError(f"{name} is missing, which virtual machines need: install it, or run make setup")
    return found


def accelerator(kernel: Kernel) -> Accelerator:
    """Return KVM where it works, else emulation and why."""
    assert kernel.image is not None
    image = kernel.image / "arch/x86/boot/bzImage" if kernel.is_tree else kernel.image
    works, why = kvm.works(find_qemu(), image)
    return Accelerator("kvm", "") if works else Accelerator("tcg", why)


def open_disk(serial: str, size_bytes: int, directory: Path) -> VirtualDisk:
    """Make a sparse, nameless file of this size for a disk. Raises MachineError."""
    try:
        file = os.open(directory, os.O_RDWR | os.O_TMPFILE | os.O_CLOEXEC, 0o600)
        os.ftruncate(file, size_bytes)
    except OSError as error:
        raise MachineError(
            f"{directory} cannot hold the disk {serial}: {(error.strerror or '').lower()}; "
            f"name another directory in SEEKMETER_SCRATCH"
        ) from None
    try:
        os.close(os.open(f"/proc/self/fd/{file}", os.O_RDWR | os.O_DIRECT | os.O_CLOEXEC))
        direct = True
    except OSError:
        direct = False  # a tmpfs of an older kernel
    return VirtualDisk(serial, file, direct)


class Machine:
    """A running machine. What it says goes to heard, line by line; its console to raw/console.log."""

    def __init__(
        self,
        hardware: Hardware,
        run: Path,
        command: Sequence[str],
        environment: Mapping[str, str],
        heard: Callable[[str], None],
    ) -> None:
        """Start it. run: a directory with raw/ in it, which the guest can write. Raises MachineError."""
        self._talk = run / "raw/.vm"
        self._talk.mkdir(exist_ok=True)
        tree = INIT.parent.parent
        strings = [str(tree), str(run), str(hardware.kernel.config or "")]
        strings += [f"{name}={text}" for name, text in environment.items()]
        (self._talk / "boot").write_bytes(b"\0".join(map(os.fsencode, [*strings, "", *command, ""])))
        self.argv = _arguments(hardware, run, self._talk / "initramfs")
        self._console = (run / "raw/console.log").open("wb", buffering=0)
        self._heard = heard
        self.process = subprocess.Popen(
            self.argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=[disk.file for disk in hardware.disks],
            start_new_session=True,  # ^C is for us, who tell the guest
            preexec_fn=end_with_session,  # noqa: PLW1509 (no threads of ours yet)
        )
        assert self.process.stdout is not None and self.process.stderr is not None
        self._pumps = [
            threading.Thread(target=self._listen, args=(self.process.stdout,), daemon=True),
            threading.Thread(target=self._keep_console, args=(self.process.stderr,), daemon=True),
        ]
        for pump in self._pumps:
            pump.start()

    def beat(self) -> int:
        """Return a number that changes as long as the guest lives (0: it did not come up yet)."""
        try:
            return (self._talk / "alive").stat().st_mtime_ns
        except OSError:
            return 0

    def ask_to_stop(self) -> None:
        """Have the guest end its command in order, as ^C does."""
        (self._talk / "stop").touch()

    def exit_status(self) -> int | None:
        """Return the command's exit status; None if the machine ended without saying one."""
        try:
            return int((self._talk / "exit").read_text())
        except (OSError, ValueError):
            return None

    def end(self) -> None:
        """End it, if it still runs, and tidy up."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        for pump in self._pumps:
            pump.join()
        self._console.close()
        shutil.rmtree(self._talk, ignore_errors=True)

    def _listen(self, pipe: BinaryIO) -> None:
        for line in pipe:
            self._heard(line.decode(errors="replace").rstrip("\r\n"))

    def _keep_console(self, pipe: BinaryIO) -> None:
        full = False
        while data := os.read(pipe.fileno(), 65536):
            try:
                if not full:
                    self._console.write(data.replace(b"\r\n", b"\n"))
            except OSError:  # the disk is full: the guest must not stop for that
                full = True


def _arguments(hardware: Hardware, run: Path, initramfs: Path) -> list[str]:
    """Return QEMU's command line."""
    kernel, emulated = hardware.kernel, hardware.accel.name != "kvm"
    words = ["--kdir" if kernel.is_tree else "--kimg", str(kernel.image), "--mods", "auto"]
    words += ["--cpus", str(hardware.cpus), "--memory", f"{hardware.memory_bytes >> 20}M"]
    # virtme-run numbers their tags, which init.c names: first what may be written, then what may not.
    words += ["--rwdir", f"{run}={run}", "--rodir", "/=/"]
    words += ["--force-9p", "--force-initramfs", "--disable-microvm", "--no-virtme-ng-init"]
    words += ["--overlay-rwdir", "/run"]  # for the module overlay in the initramfs; init.c makes its own
    words += ["--script-sh", "true", "--show-boot-console"]  # output and console on our pipes; -no-reboot
    words += ["--save-initramfs", str(initramfs), "--dry-run", "--show-command"]
    if emulated:
        words.append("--disable-kvm")
    if not VIRTME.exists():
        raise MachineError(f"{VIRTME} is missing: run make setup")
    path = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin:{VIRTME.parent}"
    result = subprocess.run(
        # Not as a program: its first line names the Python of where .venv was made, not of where it lies now.
        [sys.executable, "-B", str(VIRTME), *words],
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        stdin=subprocess.DEVNULL,
        # It makes files for what we don't use; they go with the rest.
        env={**os.environ, "TMPDIR": str(initramfs.parent), "PATH": path},
    )
    lines = result.stdout.strip().splitlines()
    if result.returncode != 0 or not lines:
        said = [line for line in result.stderr.splitlines() if line.strip()]
        why = said[-1] if said else "it says nothing"
        raise MachineError(f"virtme-run cannot start {kernel.name}: {why}")
    argv = shlex.split(lines[-1])
    kernel_line = argv.index("-append") + 1
    # Of several, the last counts. Warnings are enough on the console, which is slow where it is emulated.
    argv[kernel_line] += f" loglevel=5 init={INIT}"
    if emulated:
        # Guards against faults that emulated CPUs do not have, and a fifth level of page tables, cost a third
        # of the boot; run.json has the command line.
        argv[kernel_line] += " mitigations=off"
        model = argv.index("-cpu") + 1
        argv[model] = "Nehalem"
        # One thread for all CPUs: with one each, a CPU may run a stale translation of what another patched,
        # as the kernel does where a tracepoint is switched on (QEMU 7.2: the guest panics, "Oops: int3").
        argv += ["-accel", "tcg,thread=single"]
    for disk in hardware.disks:
        cache = "none" if disk.direct else "writeback"
        drive = f"if=none,id={disk.serial},file=/proc/self/fd/{disk.file},format=raw,cache={cache}"
        # A host without room is an I/O error for the guest; QEMU's default would be to stop it.
        argv += ["-drive", f"{drive},discard=unmap,werror=report,rerror=report"]
        argv += ["-device", f"virtio-blk-pci,drive={disk.serial},serial={disk.serial}"]
    return argv
