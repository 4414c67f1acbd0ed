# SPDX-License-Identifier: BSD-2-Clause
"""WITH=bpftrace:SCRIPT: the command line of a bpftrace script, its tracepoints, and when it is ready."""

import re
import subprocess
from pathlib import Path

from collectors.host import kernel
from workloads.cleanup.janitor import Janitor
from workloads.cli.with_options import With
from workloads.system.command import find_program
from workloads.system.errors import MachineError

# With this variable set, bpftrace prints its name as a line when all probes are attached.
_NOTIFY = "__BPFTRACE_NOTIFY_PROBES_ATTACHED"
_NEEDS = re.compile(r"^// needs: (.+)$", re.MULTILINE)
_HOME = Path("/sys/kernel/tracing")  # where bpftrace looks for tracepoints


def missing_packages() -> list[str]:
    """Return the Debian package of bpftrace, if it is not installed."""
    return [] if find_program("bpftrace") else ["bpftrace"]


def needs(script: Path) -> list[str]:
    """Return the tracepoints in a script's lines "// needs: xfs:xfs_log_force ..."."""
    return [name for line in _NEEDS.findall(script.read_text(errors="replace")) for name in line.split()]


def lacking(script: Path) -> list[str]:
    """Return the tracepoints that a script needs and this kernel lacks (a module brings its own along)."""
    tracefs = kernel.tracefs()
    return [
        name
        for name in needs(script)
        if tracefs is None or not (tracefs / "events" / name.replace(":", "/")).exists()
    ]


def why_lacking(missing: list[str]) -> tuple[str, str]:
    """Return why a script cannot run without these tracepoints, and the remedy."""
    subsystem = missing[0].partition(":")[0]
    module = {"jbd2": "ext4", "xfs": "xfs", "btrfs": "btrfs"}.get(subsystem)
    why = f"this kernel has no tracepoint {', '.join(missing[:3])}"
    if module is not None:
        return why, f"it comes with {module}: FS={module}, or a kernel that has it"
    return why, "another kernel (VM=1, KERNEL=)"


def command(chosen: With, janitor: Janitor) -> tuple[list[str], dict[str, str]]:
    """Return the command and its environment. Raises MachineError ("why: remedy") if it cannot run here."""
    program = find_program("bpftrace")
    if program is None:
        raise MachineError("bpftrace is not installed: apt-get install bpftrace")
    assert chosen.file is not None
    if kernel.tracefs() is None and _HOME.is_dir():
        number = janitor.add_mount(_HOME, "tracefs")
        if subprocess.run(["mount", "-t", "tracefs", "tracefs", _HOME], check=False).returncode != 0:
            janitor.forget(number)
            raise MachineError("tracefs, which has the tracepoints, cannot be mounted: mount it, or be root")
    missing = lacking(chosen.file)
    if missing:
        why, remedy = why_lacking(missing)
        raise MachineError(f"{why}: {remedy}")
    argv = [str(program), "-B", "line", str(chosen.file), *chosen.arguments]
    return argv, {_NOTIFY: "1"}


def is_ready(out: Path, err: Path) -> bool:
    """Return whether bpftrace has attached all probes."""
    return any(_NOTIFY in _beginning(file) for file in (err, out))


def _beginning(file: Path) -> str:
    with file.open("rb") as opened:
        return opened.read(65536).decode(errors="replace")


def is_noise(line: str) -> bool:
    """Return whether a line is not about the run: the notification, or a harmless warning."""
    return line.startswith(_NOTIFY) or "couldn't set RLIMIT_MEMLOCK" in line


def lost(text: str) -> int:
    """Return the number of lines that bpftrace reports as lost."""
    return sum(int(number) for number in re.findall(r"^Lost (\d+) events", text, re.MULTILINE))


def remedy() -> str:
    """Return a remedy for a script that did not start."""
    if kernel.lockdown() in ("integrity", "confidentiality"):
        return "lockdown closes kprobes and kfuncs: use tracepoints, or VM=1"
    return "run it by hand with bpftrace to see why"
