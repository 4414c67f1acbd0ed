# SPDX-License-Identifier: BSD-2-Clause
"""A virtual machine: QEMU on a kernel and the host's own root, read-only, running one command.

virtme-ng (virtme-run --dry-run) says how QEMU is called on this architecture, finds the kernel's modules and
makes the initramfs; QEMU is then started by us, so that its pid is ours, it dies with us, and its disks are
nameless files that no crash leaves behind. Inside, init.c takes over; how it and we talk is told there.
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
from workloads.system.command import end_with_session
from workloads.system.errors import MachineError

# Of what a guest says: a line, its console, the file with its exit status.
_LINE_BYTES, _CONSOLE_BYTES, _EXIT_BYTES = 64 << 10, 16 << 20, 16
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
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


@dataclass(frozen=True)
class Shared:
    """What host and guest share."""

    place: Path  # the directory that the guest may write, on the host: with raw/.vm/ in it
    talk: int  # that raw/.vm/, open
    own: Path  # a directory of the host's alone
    give: Callable[[], None]  # lets QEMU's user have the place


class Machine:
    """A running machine. What it says goes to heard, line by line; its console to a file of the host's."""

    def __init__(
        self,
        hardware: Hardware,
        shared: Shared,
        run: Path,
        console: Path,
        command: Sequence[str],
        environment: Mapping[str, str],
        heard: Callable[[str], None],
    ) -> None:
        """Start it. run: the name of the shared directory inside. Raises MachineError."""
        self._talk = shared.talk
        tree = INIT.parent.parent
        strings = [str(tree), str(run), str(hardware.kernel.config or "")]
        strings += [f"{name}={text}" for name, text in environment.items()]
        boot = b"\0".join(map(os.fsencode, [*strings, "", *command, ""]))
        with os.fdopen(os.open("boot", _NEW, 0o600, dir_fd=self._talk), "wb") as file:
            file.write(boot)
        made = Path(tempfile.mkdtemp(dir=shared.own))
        self.argv = _arguments(hardware, shared.place, made / "initramfs")
        directory = os.open(made, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            unprivileged.give(directory)  # virtme-run has QEMU write a file there, which we do not read
        finally:
            os.close(directory)
        self._console = os.fdopen(os.open(console, _NEW, 0o600), "wb", buffering=0)
        self._heard = heard
        (said, says), (log, logs) = os.pipe(), os.pipe()
        try:
            for opened in (*(disk.file for disk in hardware.disks), says, logs):
                unprivileged.give(opened)  # it opens them again, by /proc/self/fd
            shared.give()
            self.process = subprocess.Popen(
                [*unprivileged.before(), *self.argv],
                stdin=subprocess.DEVNULL,
                stdout=says,
                stderr=logs,
                pass_fds=[disk.file for disk in hardware.disks],
                start_new_session=True,  # ^C is for us, who tell the guest
                preexec_fn=end_with_session,  # noqa: PLW1509 (no threads of ours yet)
            )
        finally:
            os.close(says)
            os.close(logs)
        self._pumps = [
            threading.Thread(target=self._listen, args=(os.fdopen(said, "rb"),), daemon=True),
            threading.Thread(target=self._keep_console, args=(os.fdopen(log, "rb"),), daemon=True),
        ]
        for pump in self._pumps:
            pump.start()

    def beat(self) -> int:
        """Return a number that changes as long as the guest lives (0: it did not come up yet)."""
        try:
            return os.stat("alive", dir_fd=self._talk, follow_symlinks=False).st_mtime_ns
        except OSError:
            return 0

    def ask_to_stop(self) -> None:
        """Have the guest end its command in order, as ^C does."""
        try:
            os.close(os.open("stop", _NEW, 0o600, dir_fd=self._talk))
        except OSError:  # the guest put something in its place: it will be ended by force
            pass

    def exit_status(self) -> int | None:
        """Return the command's exit status; None if the machine ended without saying one."""
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            with os.fdopen(os.open("exit", flags, dir_fd=self._talk), "rb") as file:
                text = file.read(_EXIT_BYTES) if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else b""
        except OSError:
            return None
        status = text.removesuffix(b"\n")
        return int(status) if re.fullmatch(rb"\d{1,3}", status) else None

    def end(self) -> None:
        """End it, if it still runs, and tidy up."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        for pump in self._pumps:
            pump.join()
        self._console.close()

    def _listen(self, pipe: BinaryIO) -> None:
        with pipe:
            while line := pipe.readline(_LINE_BYTES):
                self._heard(line.decode(errors="replace").rstrip("\r\n"))

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
            except OSError:  # the disk is full: the guest must not stop for that
                left = 0
            left = max(left - len(text), 0)


def _arguments(hardware: Hardware, shared: Path, initramfs: Path) -> list[str]:
    """Return QEMU's command line. shared: what the guest may write."""
    kernel, emulated = hardware.kernel, hardware.accel.name != "kvm"
    words = ["--kdir" if kernel.is_tree else "--kimg", str(kernel.image), "--mods", "auto"]
    words += ["--cpus", str(hardware.cpus), "--memory", f"{hardware.memory_bytes >> 20}M"]
    # virtme-run numbers their tags, which init.c names: first what may be written, then what may not.
    words += ["--rwdir", str(shared), "--rodir", "/=/"]
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
    # Where virtme-ng's own init says its status: no guest of ours does, nor fills the disk with it.
    argv = [re.sub(r"(,id=ret,path=)[^,]*$", r"\1/dev/null", word) for word in shlex.split(lines[-1])]
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
