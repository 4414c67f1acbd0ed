# SPDX-License-Identifier: BSD-2-Clause
"""WITH=bcc:TOOL: the command line of a bcc tool, its kernel headers, and when it is ready."""

import os
import re
import shutil
import subprocess
from pathlib import Path

from collectors.host import kernel
from workloads.cleanup.janitor import Janitor
from workloads.cli.with_options import With, bcc_tools, find_bcc_tool
from workloads.system.errors import MachineError

_SETTLED_SECONDS = 2.0


def _headers_of_distribution() -> Path:
    return Path(f"/usr/src/linux-headers-{kernel.release()}")


def _has_own_headers() -> bool:
    """Return whether bcc finds the running kernel's headers by itself."""
    return os.path.isdir(f"/lib/modules/{kernel.release()}/build") or os.path.exists(
        "/sys/kernel/kheaders.tar.xz"
    )


def missing_packages() -> list[str]:
    """Return the Debian package of bcc's tools, if none is installed."""
    return [] if bcc_tools() else ["bpfcc-tools"]


def missing_headers() -> list[str]:
    """Return the package with the running kernel's headers, if they are missing and the distribution has it.

    A kernel that somebody built has no such package.
    """
    if _has_own_headers() or _headers_of_distribution().is_dir() or shutil.which("apt-cache") is None:
        return []
    package = f"linux-headers-{kernel.release()}"
    listed = subprocess.run(["apt-cache", "show", package], capture_output=True, check=False)
    return [package] if listed.returncode == 0 else []


def why_not() -> tuple[str, str]:
    """Return why no bcc tool runs here, and the remedy; "" if no reason is known."""
    if not _has_own_headers() and not _headers_of_distribution().is_dir():
        release = kernel.release()
        return (
            f"no headers of the running kernel ({release}) are installed",
            f"apt-get install linux-headers-{release}",
        )
    return "", ""


def _merged_headers(target: Path) -> Path:
    """Link Debian's two packages of headers, the generated and the common ones, into one tree.

    bcc does the same where /lib/modules leads to both, which it does not in a virtual machine.
    """
    generated = _headers_of_distribution()
    common = re.search(r"/usr/src/linux-headers-\S+-common", (generated / "Makefile").read_text())
    if not target.exists():
        _merge(target, [generated, *([Path(common[0])] if common else [])])
    return target


def _merge(target: Path, trees: list[Path]) -> None:
    target.mkdir()
    for name in sorted({name for tree in trees for name in os.listdir(tree)}):
        paths = [tree / name for tree in trees if (tree / name).exists()]
        if len(paths) > 1 and all(path.is_dir() for path in paths):
            _merge(target / name, paths)
        elif paths:
            (target / name).symlink_to(paths[0])


def command(chosen: With, janitor: Janitor) -> tuple[list[str], dict[str, str]]:
    """Return the command and its environment. Raises MachineError ("why: remedy") if it cannot run here."""
    program = find_bcc_tool(chosen.name)
    if program is None:
        raise MachineError(f"bcc tool {chosen.name} is not installed: apt-get install bpfcc-tools")
    environment = {"PYTHONUNBUFFERED": "1"}
    if (
        not _has_own_headers() and _headers_of_distribution().is_dir()
    ):  # in a virtual machine: the host's package
        environment["BCC_KERNEL_SOURCE"] = str(_merged_headers(janitor.session_dir / "headers"))
    return [str(program), *chosen.arguments], environment


def is_ready(pid: int, out: Path, seen: dict[str, float], now: float) -> bool:
    """Return whether the tool has loaded and attached its programs.

    A tool prints its first line then. One that prints only at its end is ready when it has BPF programs and
    has slept for two seconds. seen: CPU time and its last change, from the call before.
    """
    try:
        links = [os.readlink(f"/proc/{pid}/fd/{name}") for name in os.listdir(f"/proc/{pid}/fd")]
        state, *fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return False
    if not any("bpf-prog" in link for link in links):
        return False
    if out.stat().st_size > 0:
        return True
    used_ticks = int(fields[10]) + int(fields[11])
    if state != "S" or seen.get("ticks") != used_ticks:
        seen |= {"ticks": used_ticks, "since": now}
    return now - seen["since"] > _SETTLED_SECONDS


def remedy() -> str:
    """Return a remedy for a tool that did not start."""
    why, installs = why_not()
    if why:
        return f"{why}: {installs}"
    if kernel.lockdown() in ("integrity", "confidentiality"):
        return "lockdown closes kprobes, which most tools of bcc need: VM=1"
    return "run it by hand to see why"
