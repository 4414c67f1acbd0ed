# SPDX-License-Identifier: BSD-2-Clause
"""A virtual machine: QEMU with a kernel and the host's root, read-only, that runs one command.

virtme-ng (virtme-run --dry-run) gives QEMU's command line for this architecture, finds the kernel's modules
and makes the initramfs. This module starts QEMU itself, so that QEMU dies with the session and its disks are
nameless files that no crash leaves behind. init.c is the guest's first process and describes the protocol
between guest and host.
"""

import os
import re
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from workloads.machines import kvm, unprivileged
from workloads.machines.kernels import Kernel
from workloads.system import front
from workloads.system.command import end_with_session
from workloads.system.errors import MachineError
from workloads.system.tree import TREE

# Limits of a guest's output: one line, the console, the file with its exit status.
_LINE_BYTES, _CONSOLE_BYTES, _EXIT_BYTES = 64 << 10, 16 << 20, 16
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
VIRTME = Path(sys.executable).parent / "virtme-run"
INIT = TREE / "build/guest-init"


@dataclass(frozen=True)
class VirtualDisk:
    """A disk of the machine: an open, nameless file on the host."""

    serial: str  # the guest finds the disk by it
    file: int
    direct: bool  # O_DIRECT on the host, past its page cache


@dataclass(frozen=True)
class Accelerator:
    """KVM or emulation of the guest's CPUs."""

    name: str  # kvm or tcg (emulation)
    why: str  # the reason for emulation


@dataclass(frozen=True)
class Hardware:
    """Kernel, CPUs, memory and disks of a machine."""

    kernel: Kernel
    accel: Accelerator
    cpus: int
    memory_bytes: int
    disks: Sequence[VirtualDisk] = ()


def find_qemu() -> str:
    """Return QEMU's path for this architecture. Raises MachineError."""
    name = f"qemu-system-{os.uname().machine}"
    program = shutil.which(name)
    if program is None:
        raise MachineError(f"{name} is missing, which virtual machines need: install it, or {front.INSTALL}")
    return program


def accelerator(kernel: Kernel) -> Accelerator:
    """Return KVM if it works here, else emulation with the reason."""
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
        direct = False  # tmpfs before Linux 6.6
    return VirtualDisk(serial, file, direct)


@dataclass(frozen=True)
class Shared:
    """Directories that host and guest share, and those of the host alone."""

    directory: Path  # on the host, writable by the guest; it has raw/.vm/ in it
    talk: int  # descriptor of raw/.vm/
    own: Path  # a directory of the host's alone
    give: Callable[[], None]  # gives directory to QEMU's user


class Machine:
    """A running machine. Output lines of its command go to on_line, its console to a file of the host's."""

    def __init__(
        self,
        hardware: Hardware,
        shared: Shared,
        run: Path,
        console: Path,
        command: Sequence[str],
        environment: Mapping[str, str],
        on_line: Callable[[str], None],
    ) -> None:
        """Start QEMU. run: path of the shared directory inside the guest. Raises MachineError."""
        self._talk = shared.talk
        tree = INIT.parent.parent
        strings = [str(tree), str(run), str(hardware.kernel.config or "")]
        strings += [f"{name}={text}" for name, text in environment.items()]
        boot = b"\0".join(map(os.fsencode, [*strings, "", *command, ""]))
        with os.fdopen(os.open("boot", _NEW, 0o600, dir_fd=self._talk), "wb") as file:
            file.write(boot)
        made = Path(tempfile.mkdtemp(dir=shared.own))
        self.argv = _arguments(hardware, shared.directory, made / "initramfs")
        directory = os.open(made, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            unprivileged.give(directory)  # QEMU writes virtme-run's files there; nobody reads them
        finally:
            os.close(directory)
        self._console = os.fdopen(os.open(console, _NEW, 0o600), "wb", buffering=0)
        self._on_line = on_line
        (output, output_end), (log, log_end) = os.pipe(), os.pipe()
        try:
            for opened in (*(disk.file for disk in hardware.disks), output_end, log_end):
                unprivileged.give(opened)  # QEMU opens them again by /proc/self/fd
            shared.give()
            self.process = subprocess.Popen(
                [*unprivileged.before(), *self.argv],
                stdin=subprocess.DEVNULL,
                stdout=output_end,
                stderr=log_end,
                pass_fds=[disk.file for disk in hardware.disks],
                start_new_session=True,  # ^C goes to the session, which stops the guest
                preexec_fn=end_with_session,  # noqa: PLW1509 (no threads of ours yet)
            )
        finally:
            os.close(output_end)
            os.close(log_end)
        self._pumps = [
            threading.Thread(target=self._listen, args=(os.fdopen(output, "rb"),), daemon=True),
            threading.Thread(target=self._keep_console, args=(os.fdopen(log, "rb"),), daemon=True),
        ]
        for pump in self._pumps:
            pump.start()

    def beat(self) -> int:
        """Return a number that changes while the guest lives; 0 until it has come up."""
        try:
            return os.stat("alive", dir_fd=self._talk, follow_symlinks=False).st_mtime_ns
        except OSError:
            return 0

    def ask_to_stop(self) -> None:
        """Ask the guest to end its command in order, as ^C does."""
        try:
            os.close(os.open("stop", _NEW, 0o600, dir_fd=self._talk))
        except OSError:  # the guest put another file there: it will be killed
            pass

    def exit_status(self) -> int | None:
        """Return the command's exit status; None if the machine ended without writing one."""
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            with os.fdopen(os.open("exit", flags, dir_fd=self._talk), "rb") as file:
                text = file.read(_EXIT_BYTES) if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else b""
        except OSError:
            return None
        status = text.removesuffix(b"\n")
        return int(status) if re.fullmatch(rb"\d{1,3}", status) else None

    def end(self) -> None:
        """Kill QEMU if it still runs, and close its pipes."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        for pump in self._pumps:
            pump.join()
        self._console.close()

    def _listen(self, pipe: BinaryIO) -> None:
        with pipe:
            while line := pipe.readline(_LINE_BYTES):
                self._on_line(line.decode(errors="replace").rstrip("\r\n"))

    def _keep_console(self, pipe: BinaryIO) -> None:
        with pipe:
            self._keep(pipe)

    def _keep(self, pipe: BinaryIO) -> None:
        left = _CONSOLE_BYTES
        while data := os.read(pipe.fileno(), 65536):
            text = data.replace(b"\r\n", b"\n")
            if left > 0 and len(text) >= left:
                text = text[:left] + f"\n(cut off here, at {_CONSOLE_BYTES >> 20} MiB)\n".encode()
            try:
                if left > 0:
                    self._console.write(text)
            except OSError:  # the disk is full: the guest must not stop for lack of a reader
                left = 0
            left = max(left - len(text), 0)


def _arguments(hardware: Hardware, shared: Path, initramfs: Path) -> list[str]:
    """Return QEMU's command line. shared: the directory that the guest may write."""
    kernel, emulated = hardware.kernel, hardware.accel.name != "kvm"
    options = ["--kdir" if kernel.is_tree else "--kimg", str(kernel.image), "--mods", "auto"]
    options += ["--cpus", str(hardware.cpus), "--memory", f"{hardware.memory_bytes >> 20}M"]
    # virtme-run numbers their tags in this order, and init.c uses the numbers: writable, then read-only.
    options += ["--rwdir", str(shared), "--rodir", "/=/"]
    options += ["--force-9p", "--force-initramfs", "--disable-microvm", "--no-virtme-ng-init"]
    options += ["--overlay-rwdir", "/run"]  # for the module overlay in the initramfs; init.c mounts its own
    options += ["--script-sh", "true", "--show-boot-console"]  # output and console on our pipes, -no-reboot
    options += ["--save-initramfs", str(initramfs), "--dry-run", "--show-command"]
    if emulated:
        options.append("--disable-kvm")
    if not VIRTME.exists():
        raise MachineError(f"{VIRTME} is missing: {front.INSTALL}")
    path = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin:{VIRTME.parent}"
    result = subprocess.run(
        # Not as a program: its first line has the path of Python at the time .venv was made.
        [sys.executable, "-B", str(VIRTME), *options],
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        stdin=subprocess.DEVNULL,
        # virtme-run makes files that we do not use; they are removed with the directory.
        env={**os.environ, "TMPDIR": str(initramfs.parent), "PATH": path},
    )
    lines = result.stdout.strip().splitlines()
    if result.returncode != 0 or not lines:
        errors = [line for line in result.stderr.splitlines() if line.strip()]
        reason = errors[-1] if errors else "it prints no reason"
        raise MachineError(f"virtme-run cannot start {kernel.name}: {reason}")
    # The file for the status of virtme-ng's own init becomes /dev/null: a guest could fill the disk with it.
    argv = [re.sub(r"(,id=ret,path=)[^,]*$", r"\1/dev/null", argument) for argument in shlex.split(lines[-1])]
    kernel_line = argv.index("-append") + 1
    # The last of several loglevel= counts. Warnings are enough: an emulated console is slow.
    argv[kernel_line] += f" loglevel=5 init={INIT}"
    if emulated:
        # Mitigations for faults that emulated CPUs do not have, and a fifth level of page tables, cost a
        # third of the boot. run.json has the command line.
        argv[kernel_line] += " mitigations=off"
        model = argv.index("-cpu") + 1
        argv[model] = "Nehalem"
        # One thread for all CPUs. With a thread per CPU, a CPU may run a stale translation of code that
        # another CPU patched, as enabling a tracepoint does (QEMU 7.2: the guest panics, "Oops: int3").
        argv += ["-accel", "tcg,thread=single"]
    for disk in hardware.disks:
        cache = "none" if disk.direct else "writeback"
        drive = f"if=none,id={disk.serial},file=/proc/self/fd/{disk.file},format=raw,cache={cache}"
        # A full host disk is an I/O error in the guest; QEMU's default is to stop the guest.
        argv += ["-drive", f"{drive},discard=unmap,werror=report,rerror=report"]
        argv += ["-device", f"virtio-blk-pci,drive={disk.serial},serial={disk.serial}"]
    return argv
