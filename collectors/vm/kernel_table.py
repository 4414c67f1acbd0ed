# SPDX-License-Identifier: BSD-2-Clause
"""make kernels: write the table of collectors by kernel into docs/KERNELS.md, by doctor in virtual machines.

python -m collectors.vm.kernel_table           boots each of KERNELS, prints the table, writes docs/KERNELS.md
python -m collectors.vm.kernel_table checks    inside a machine: print doctor's collector checks as JSON
"""

import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from collectors import doctor
from collectors.collector import NO, PART, YES, Check
from collectors.host import kernel, signals
from collectors.host.console import tell
from workloads.system.errors import RunError, UserError

# Of Debian: its last four releases' kernels; 7.2 has its packages split and its BPF type information changed.
KERNELS = ("5.10", "6.1", "6.12", "7.2")
PAGE = Path(__file__).resolve().parents[2] / "docs/KERNELS.md"
BEGIN = "<!-- the table of kernels: made by make kernels -->"
END = "<!-- the end of the table of kernels -->"
_CPUS = 2


def checks() -> dict[str, object]:
    """Return doctor's check of each collector on the running kernel."""
    return {"release": kernel.release(), "checks": [asdict(check) for check in doctor.collector_checks()]}


def checks_of(version: str) -> tuple[str, list[Check]]:
    """Boot KERNEL=version in a machine. Returns its release and doctor's checks there. Raises UserError."""
    from collectors.vm import run_in_vm
    from workloads.cli.options import Options
    from workloads.machines import DEFAULT_MEMORY_BYTES
    from workloads.machines.qemu import Hardware

    guest_kernel, accel = run_in_vm.choose(Options("doctor", vm=True, kernel=version))
    tell(f"seekmeter: checking Linux {guest_kernel.name}")
    lines: list[str] = []
    with tempfile.TemporaryDirectory(prefix="seekmeter-") as directory:
        command = [sys.executable, "-B", "-m", "collectors.vm.kernel_table", "checks"]
        hardware = Hardware(guest_kernel, accel, _CPUS, DEFAULT_MEMORY_BYTES)
        ended = run_in_vm.run_apart(hardware, Path(directory), command, lines.append)
    if ended.status != 0:
        raise RunError(f"doctor inside Linux {guest_kernel.name} failed: {ended.why}")
    return read(lines[-1])


def read(line: str) -> tuple[str, list[Check]]:
    """Return the release and the checks of one line of JSON."""
    printed = json.loads(line)
    return printed["release"], [Check(**check) for check in printed["checks"]]


def table_of(checked: Mapping[str, Sequence[Check]]) -> list[str]:
    """Return the lines of the Markdown table: a row per collector, a column per kernel.

    checked: the checks by kernel release.
    """
    by_name: dict[str, list[str]] = {}
    for kernel_checks in checked.values():
        for check in kernel_checks:
            by_name.setdefault(check.name, []).append(cell(check))
    rows = [["collector", *(f"Linux {release}" for release in checked)], ["---"] * (len(checked) + 1)]
    rows += [[f"`{name}`", *cells] for name, cells in by_name.items()]
    return [f"| {' | '.join(row)} |" for row in rows]


def cell(check: Check) -> str:
    """Return the table's cell for one collector on one kernel: on, or why not."""
    why = check.why.removeprefix("tried: ")
    if check.answer == YES:
        return "on" if check.why.startswith("tried") else "on (not tried)"
    if check.answer in (NO, PART):
        return f"{'off' if check.answer == NO else 'in part'}: {why}".replace("|", "\\|")
    return "not known"


def rewrite(text: str, table: Sequence[str]) -> str:
    """Return the page's text with this table between its two marker lines."""
    before, begin, rest = text.partition(BEGIN + "\n")
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise RunError(f"{PAGE} lacks the lines around the table: {BEGIN} and {END}")
    return before + begin + "\n".join(table) + "\n" + end + after


def main() -> int:
    """Check every kernel, print the table, and write it into the page. Returns the exit code."""
    signals.catch()
    try:
        table = table_of(dict(checks_of(version) for version in KERNELS))
        print("\n".join(table))
        PAGE.write_text(rewrite(PAGE.read_text(), table))
    except UserError as error:
        tell(f"seekmeter: {error.message}")
        return error.exit_code
    except KeyboardInterrupt:
        tell("seekmeter: interrupted; the table is as it was")
        return 1
    tell(f"seekmeter: the table is in {os.path.relpath(PAGE)}")
    return 0


if __name__ == "__main__":
    if sys.argv[1:] == ["checks"]:
        print(json.dumps(checks()))
    else:
        sys.exit(main())
