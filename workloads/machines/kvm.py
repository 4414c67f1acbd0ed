# SPDX-License-Identifier: BSD-2-Clause
"""Try whether KVM works: boot a kernel with it, because a /dev/kvm that opens proves nothing.

On some machines (virtual machines without nested virtualisation) /dev/kvm opens and guests then hang,
silently or after a line of the 16-bit setup code. The trial boots a kernel alone: with KVM it prints its
first line within a second, and soon panics for lack of a root. A whole guest that does not come up later
(collectors/vm/run_in_vm.py) refutes the trial. The result is cached for this boot.
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
    """Return whether a guest runs under KVM here, and the reason if not. image: a bootable kernel image."""
    if not _DEVICE.exists():
        return False, "there is no /dev/kvm"
    if not os.access(_DEVICE, os.R_OK | os.W_OK):
        return False, "/dev/kvm may not be opened by this user (the group kvm may, mostly)"
    try:
        reason = _cache_file().read_text()
    except OSError:
        reason = _try(qemu, image)
        _store(reason)
    return reason == "", reason


def refute(reason: str) -> None:
    """Record for this boot that KVM does not work, though the trial passed."""
    _store(reason)


def _cache_file() -> Path:
    return cache_directory() / f"kvm-{boot_id()}-{os.geteuid()}"


def _try(qemu: str, image: Path) -> str:
    """Return "" if a kernel prints its first line under KVM, else the reason."""
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
    output, ended = b"", False
    deadline = time.monotonic() + _FIRST_LINE_SECONDS
    try:
        while _FIRST_LINE not in output and not ended and (left := deadline - time.monotonic()) > 0:
            if select.select([process.stdout], [], [], left)[0]:
                chunk = os.read(process.stdout.fileno(), 4096)
                output, ended = output + chunk, not chunk
    finally:
        # The whole group: a child left alive would hold the pipes open. Not waited for yet, so the id is
        # ours.
        os.killpg(process.pid, signal.SIGKILL)
        _, errors = process.communicate()
    if _FIRST_LINE in output:
        return ""
    if not ended:
        last = output.decode(errors="replace").strip().splitlines()
        after = f" after {last[-1].strip()!r}" if last else ""
        return (
            f"/dev/kvm opens, but a guest's kernel prints no line within {_FIRST_LINE_SECONDS:.0f} s{after}"
        )
    lines = errors.decode(errors="replace").strip().splitlines()
    return f"QEMU says: {lines[-1]}" if lines else "QEMU exits without a message"


def _store(reason: str) -> None:
    """Cache the result, and remove those of earlier boots. Without a cache the trial is repeated."""
    cache = _cache_file()
    try:
        cache.parent.mkdir(parents=True, exist_ok=True)
        for old in cache.parent.glob("kvm-*"):
            if boot_id() not in old.name:
                old.unlink(missing_ok=True)
        cache.write_text(reason)
    except OSError:
        pass
