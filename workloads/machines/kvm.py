# SPDX-License-Identifier: BSD-2-Clause
"""Does KVM really work here? Found by booting a kernel with it, as a /dev/kvm that opens proves nothing.

There are machines (virtual ones, without nested virtualisation) whose /dev/kvm opens and whose guests then
hang: without a word, or after a line of the 16-bit set-up code. The trial boots nothing but a kernel. Where
KVM works, that prints its first line within a second, and soon panics for want of a root. The proof is
a whole guest that comes up; the first one that does not (collectors/vm/run_in_vm.py) refutes the trial. What
was found is kept for this boot.
"""

import os
import select
import signal
import subprocess
import time
from pathlib import Path

from workloads.cleanup.janitor import boot_id
from workloads.machines import unprivileged
from workloads.machines.kernels import cache_directory

_DEVICE = Path("/dev/kvm")
_FIRST_LINE = b"Linux version "
_FIRST_LINE_SECONDS = 5.0


def works(qemu: str, image: Path) -> tuple[bool, str]:
    """Return whether a guest runs under KVM here, and if not, why. image: a kernel image that boots."""
    if not _DEVICE.exists():
        return False, "there is no /dev/kvm"
    if not os.access(_DEVICE, os.R_OK | os.W_OK):
        return False, "/dev/kvm may not be opened by this user (the group kvm may, mostly)"
    try:
        answer = _kept().read_text()
    except OSError:
        answer = _try(qemu, image)
        _keep(answer)
    return answer == "", answer


def refute(why: str) -> None:
    """Keep for this boot that KVM does not work, as the trial could not see."""
    _keep(why)


def _kept() -> Path:
    return cache_directory() / f"kvm-{boot_id()}-{os.geteuid()}"


def _try(qemu: str, image: Path) -> str:
    """Return "" if a kernel prints its first line under KVM, else why not."""
    arguments = ["-accel", "kvm", "-cpu", "host", "-m", "256", "-display", "none", "-nodefaults"]
    arguments += ["-no-reboot", "-serial", "stdio", "-kernel", str(image)]
    arguments += ["-append", "console=ttyS0 earlyprintk=serial,ttyS0,115200 panic=-1"]
    process = subprocess.Popen(
        [*unprivileged.before(), qemu, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdout is not None
    said, ended = b"", False
    deadline = time.monotonic() + _FIRST_LINE_SECONDS
    try:
        while _FIRST_LINE not in said and not ended and (left := deadline - time.monotonic()) > 0:
            if select.select([process.stdout], [], [], left)[0]:
                piece = os.read(process.stdout.fileno(), 4096)
                said, ended = said + piece, not piece
    finally:
        # The group, as a child that lives on would hold the pipes open. Not waited for yet, so still ours.
        os.killpg(process.pid, signal.SIGKILL)
        _, errors = process.communicate()
    if _FIRST_LINE in said:
        return ""
    if not ended:
        last = said.decode(errors="replace").strip().splitlines()
        after = f" after {last[-1].strip()!r}" if last else ""
        return (
            f"/dev/kvm opens, but a guest's kernel prints no line within {_FIRST_LINE_SECONDS:.0f} s{after}"
        )
    lines = errors.decode(errors="replace").strip().splitlines()
    return f"QEMU says: {lines[-1]}" if lines else "QEMU ends without a word"


def _keep(answer: str) -> None:
    """Keep the answer; those of earlier boots go. Where nothing can be kept it is found out again."""
    kept = _kept()
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        for old in kept.parent.glob("kvm-*"):
            if boot_id() not in old.name:
                old.unlink(missing_ok=True)
        kept.write_text(answer)
    except OSError:
        pass
