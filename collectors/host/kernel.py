# SPDX-License-Identifier: BSD-2-Clause
"""Facts of the running kernel: release, configuration, tracepoints, lockdown, spinlock mode.

Standard library only and no root needed, so that `make doctor` works before any setup. A fact that this user
may not read is None, never a guess.
"""

import functools
import gzip
import os
import re
import struct
from pathlib import Path

_BTF = Path("/sys/kernel/btf/vmlinux")
_TRACEFS = (Path("/sys/kernel/tracing"), Path("/sys/kernel/debug/tracing"))

# linux/capability.h
_CAP_SYS_ADMIN = 21
_CAP_PERFMON = 38
_CAP_BPF = 39


def read(path: str | Path) -> str | None:
    """Return the stripped text of a small file; None if it does not exist or may not be read."""
    try:
        return Path(path).read_text(errors="replace").strip()
    except OSError:
        return None


def release() -> str:
    """Return the kernel's release, as uname -r."""
    return os.uname().release


def build_id() -> str | None:
    """Return the build id of the kernel image in hex, as `file vmlinux` shows it; None if it has none.

    From the ELF notes (elf(5)): three 32-bit words (name's bytes, content's bytes, type), name, content, each
    padded to four bytes. The build id is GNU's note of type 3.
    """
    try:
        notes = Path("/sys/kernel/notes").read_bytes()
    except OSError:
        return None
    at = 0
    while at + 12 <= len(notes):
        name_bytes, bytes_, kind = struct.unpack_from("=III", notes, at)
        content = at + 12 + (name_bytes + 3) // 4 * 4
        if kind == 3 and notes[at + 12 : at + 12 + name_bytes] == b"GNU\0":
            return notes[content : content + bytes_].hex()
        at = content + (bytes_ + 3) // 4 * 4
    return None


@functools.cache
def config() -> dict[str, str] | None:
    """Return the kernel's configuration, {"CONFIG_SMP": "y", …}, or None where it is not published."""
    try:
        text = gzip.decompress(Path("/proc/config.gz").read_bytes()).decode()
    except OSError:
        published = read(f"/boot/config-{release()}") or read(f"/lib/modules/{release()}/config")
        if published is None:
            return None
        text = published
    return dict(
        line.split("=", 1) for line in text.splitlines() if line.startswith("CONFIG_") and "=" in line
    )


def lockdown() -> str | None:
    """Return the lockdown state: none, integrity or confidentiality; None if it cannot be read."""
    text = read("/sys/kernel/security/lockdown")
    if text is None:
        settings = config()
        return "none" if settings is not None and "CONFIG_SECURITY_LOCKDOWN_LSM" not in settings else None
    chosen = re.search(r"\[(\w+)\]", text)
    return chosen[1] if chosen else None


@functools.cache
def _btf() -> bytes | None:
    try:
        return _BTF.read_bytes()
    except OSError:
        return None


def has_btf() -> bool:
    """Return whether the kernel publishes its type information, which every BPF program here needs."""
    return _btf() is not None


def has_tracepoint(name: str) -> bool:
    """Return whether BTF lists the tracepoint, as type btf_trace_NAME (include/trace/bpf_probe.h)."""
    types = _btf()
    return types is not None and f"\0btf_trace_{name}\0".encode() in types


def tracefs() -> Path | None:
    """Return the mount point of tracefs, whose content only root may read; None: not mounted."""
    mounts = read("/proc/mounts") or ""
    return next((path for path in _TRACEFS if f" {path} tracefs " in mounts), None)


def capable(number: int) -> bool:
    """Return whether this process has the capability (linux/capability.h) in its effective set."""
    mask = re.search(r"^CapEff:\s*([0-9a-f]+)", read("/proc/self/status") or "", re.MULTILINE)
    return mask is not None and bool(int(mask[1], 16) >> number & 1)


def may_trace() -> bool:
    """Return whether this process may load tracing BPF programs."""
    return capable(_CAP_SYS_ADMIN) or (capable(_CAP_BPF) and capable(_CAP_PERFMON))


def is_guest() -> bool:
    """Return whether the CPUs have the flag of a hypervisor."""
    return bool(re.search(r"^flags\s*:.*\bhypervisor\b", read("/proc/cpuinfo") or "", re.MULTILINE))


def spinlock_mode() -> str:
    """Return how spinlocks wait: native (queued), pv (queued, in a guest), virt (test-and-set), unknown.

    In virt mode no spinlock wait is traced: virt_spin_lock() spins before the traced slow path. Only the
    boot messages tell which mode a guest uses (arch/x86/kernel/kvm.c, kvm_spinlock_init), as long as they
    are kept.
    """
    settings = config()
    if settings is not None and settings.get("CONFIG_QUEUED_SPINLOCKS") != "y":
        return "unknown"
    if not is_guest():
        return "native"
    if settings is not None and "CONFIG_PARAVIRT" not in settings:
        return "native"
    messages = _boot_messages()
    if "PV spinlocks enabled" in messages:
        return "pv"
    if "PV spinlocks disabled, no host support" in messages:
        return "virt"
    if "PV spinlocks disabled" in messages:
        return "native"  # dedicated CPUs, one CPU or nopvspin: no test-and-set lock either
    # A hypervisor with PV spinlocks prints one of these messages; other guests use the test-and-set lock.
    return "virt" if "Linux version" in messages else "unknown"


def _boot_messages() -> str:
    """Return the kernel's messages, as far as they are kept; "" if they may not be read."""
    try:
        kmsg = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return ""
    parts = []
    try:
        while True:
            try:
                parts.append(os.read(kmsg, 8192))
            except BrokenPipeError:
                continue  # overwritten meanwhile: go on with the rest
            except OSError:
                break  # the end (EAGAIN)
    finally:
        os.close(kmsg)
    return b"".join(parts).decode(errors="replace")
