# SPDX-License-Identifier: BSD-2-Clause
"""make kernels: which collector is on in which kernel, asked of doctor inside, into docs/KERNELS.md.

python -m collectors.vm.kernel_table            boots each of KERNELS, prints the table and writes it down
python -m collectors.vm.kernel_table answers    inside a machine: doctor's answers for the collectors, as JSON
"""

import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from collectors import doctor
from collectors.doctor import NO, PART, YES, Answer
from collectors.host import kernel, signals
from collectors.host.console import tell
from workloads.system.errors import RunError, UserError

# Of Debian: its last four releases' kernels; 7.2 has its packages split and its BPF type information changed.
KERNELS = ("5.10", "6.1", "6.12", "7.2")
PAGE = Path(__file__).resolve().parents[2] / "docs/KERNELS.md"
BEGIN = "<!-- the table of kernels: made by make kernels -->"
END = "<!-- the end of the table of kernels -->"
_CPUS = 2


def answers() -> dict[str, object]:
    """Return what doctor says of each collector on the kernel that runs."""
    return {"release": kernel.release(), "answers": [asdict(answer) for answer in doctor.collector_answers()]}


def ask(word: str) -> tuple[str, list[Answer]]:
    """Return the release that KERNEL=word names, and its answers, asked in a machine. Raises UserError."""
    from collectors.vm import run_in_vm
    from workloads.cli.options import Options
    from workloads.machines import DEFAULT_MEMORY_BYTES
    from workloads.machines.qemu import Hardware

    guest_kernel, accel = run_in_vm.choose(Options("doctor", vm=True, kernel=word))
    tell(f"seekmeter: asking Linux {guest_kernel.name}")
    said: list[str] = []
    with tempfile.TemporaryDirectory(prefix="seekmeter-") as place:
        command = [sys.executable, "-B", "-m", "collectors.vm.kernel_table", "answers"]
        hardware = Hardware(guest_kernel, accel, _CPUS, DEFAULT_MEMORY_BYTES)
        ended = run_in_vm.run_apart(hardware, Path(place), command, said.append)
    if ended.status != 0:
        raise RunError(f"doctor inside Linux {guest_kernel.name} failed: {ended.why}")
    return read(said[-1])


def read(line: str) -> tuple[str, list[Answer]]:
    """Return the release and the answers of one line of JSON."""
    told = json.loads(line)
    return told["release"], [Answer(**answer) for answer in told["answers"]]


def table_of(asked: Mapping[str, Sequence[Answer]]) -> list[str]:
    """Return the table's lines, in Markdown: a row a collector, a column a kernel.

    asked: answers by release.
    """
    by_name: dict[str, list[str]] = {}
    for found in asked.values():
        for answer in found:
            by_name.setdefault(answer.name, []).append(cell(answer))
    rows = [["collector", *(f"Linux {release}" for release in asked)], ["---"] * (len(asked) + 1)]
    rows += [[f"`{name}`", *cells] for name, cells in by_name.items()]
    return [f"| {' | '.join(row)} |" for row in rows]


def cell(answer: Answer) -> str:
    """Return what the table says of one collector in one kernel: on, or why not."""
    why = answer.why.removeprefix("tried: ")
    if answer.answer == YES:
        return "on" if answer.why.startswith("tried") else "on (not tried)"
    if answer.answer in (NO, PART):
        return f"{'off' if answer.answer == NO else 'in part'}: {why}".replace("|", "\\|")
    return "not known"


def rewrite(text: str, table: Sequence[str]) -> str:
    """Return the page's text with this table between its two marker lines."""
    before, begin, rest = text.partition(BEGIN + "\n")
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise RunError(f"{PAGE} lacks the lines between which the table stands: {BEGIN} and {END}")
    return before + begin + "\n".join(table) + "\n" + end + after


def main() -> int:
    """Ask every kernel, print the table, write it down. Returns the exit code."""
    signals.catch()
    try:
        asked = dict(ask(word) for word in KERNELS)
        table = table_of(asked)
        print("\n".join(table))
        PAGE.write_text(rewrite(PAGE.read_text(), table))
    except UserError as error:
        tell(f"seekmeter: {error.message}")
        return error.exit_code
    except KeyboardInterrupt:
        tell("seekmeter: interrupted; the table is as it was")
        return 1
    tell(f"seekmeter: written into {os.path.relpath(PAGE)}")
    return 0


if __name__ == "__main__":
    if sys.argv[1:] == ["answers"]:
        print(json.dumps(answers()))
    else:
        sys.exit(main())
