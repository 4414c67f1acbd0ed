# SPDX-License-Identifier: BSD-2-Clause
"""Does KVM really work here? Found by booting a kernel with it, as a /dev/kvm that opens proves nothing.

There are machines (virtual ones, without nested virtualisation) whose /dev/kvm opens and whose guests then
hang without a word. A guest with nothing but a kernel prints its first line within a second where KVM works,
and soon panics for want of a root. What was found is kept for this boot.
"""

import os
import select
import signal
import subprocess
from pathlib import Path

from workloads.janitor import boot_id
from workloads.machines.kernels import cache_directory

_DEVICE = Path("/dev/kvm")
_FIRST_WORD_SECONDS = 5.0


def works(qemu: str, image: Path) -> tuple[bool, str]:
    """Return whether a guest runs under KVM here, and if not, why. image: a kernel image that boots."""
    if not _DEVICE.exists():
        return False, "there is no /dev/kvm"
    if not os.access(_DEVICE, os.R_OK | os.W_OK):
        return False, "/dev/kvm may not be opened by this user (the group kvm may, mostly)"
    kept = cache_directory() / f"kvm-{boot_id()}-{os.geteuid()}"
    try:
        answer = kept.read_text()
    except OSError:
        answer = _try(qemu, image)
        _keep(kept, answer)
    return answer == "", answer


def _try(qemu: str, image: Path) -> str:
    """Return "" if a guest says something under KVM, else why not."""
    arguments = ["-accel", "kvm", "-cpu", "host", "-m", "256", "-display", "none", "-nodefaults"]
    arguments += ["-no-reboot", "-serial", "stdio", "-kernel", str(image)]
    arguments += ["-append", "console=ttyS0 earlyprintk=serial,ttyS0,115200 panic=-1"]
    process = subprocess.Popen(
        [qemu, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    first: bytes = b""
    try:
        assert process.stdout is not None
        ready, _, _ = select.select([process.stdout], [], [], _FIRST_WORD_SECONDS)
        if ready:
            first = os.read(process.stdout.fileno(), 1)
    finally:
        # The group, as a child that lives on would hold the pipes open. Not waited for yet, so still ours.
        os.killpg(process.pid, signal.SIGKILL)
        _, errors = process.communicate()
    if first:
        return ""
    if not ready:
        return f"/dev/kvm opens, but a guest says nothing within {_FIRST_WORD_SECONDS:.0f} s"
    lines = errors.decode(errors="replace").strip().splitlines()
    return f"QEMU says: {lines[-1]}" if lines else "QEMU ends without a word"


def _keep(kept: Path, answer: str) -> None:
    """Keep the answer; those of earlier boots go. Where nothing can be kept it is found out again."""
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        for old in kept.parent.glob("kvm-*"):
            if boot_id() not in old.name:
                old.unlink(missing_ok=True)
        kept.write_text(answer)
    except OSError:
        pass
