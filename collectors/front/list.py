# SPDX-License-Identifier: BSD-2-Clause
"""make list: the file systems, workloads, studies, disks and scripts, as they are typed on the command line.

The entries are read from the TOML files and scripts. Each names what this machine lacks for it. Standard
library only, no root.
"""

import os
import sys
import textwrap

from collectors.front import check
from workloads import catalog, filesystems, studies
from workloads.cli.with_options import our_scripts, script_summary
from workloads.drives import model
from workloads.system import front
from workloads.system.command import find_program
from workloads.system.errors import UserError

_WIDTH = 80


def _show(name: str, text: str, lacking: str = "") -> None:
    """Print one entry: its name as typed, what it is, and what this machine lacks for it."""
    head = f"  {name:<24} "
    if len(head) > 27:
        print(head.rstrip())
        head = " " * 27
    body = textwrap.wrap(text, _WIDTH - 27) or [""]
    if lacking:
        body += textwrap.wrap(lacking, _WIDTH - 27)
    for line in body:
        print((head + line).rstrip())
        head = " " * 27


def _lacking(name: str) -> str:
    """Return what this machine lacks for a file system, "" if nothing is missing after setup."""
    if not filesystems.kernel_has(name):
        release = os.uname().release
        return f"(not in this kernel, {release}; a virtual machine has it: {front.command('trace VM=1')})"
    program = filesystems.load(name).mkfs[0]
    return "" if find_program(program) else f"({program} is missing: {front.installs('trace', 'it')})"


def main() -> int:
    """Print everything that FS=, WL= and DISK= can be. Returns the exit code."""
    exit_code = check.main("list")
    if exit_code:
        return exit_code
    print("file systems: FS=NAME or FS=NAME:OPTIONS")
    for name in filesystems.names():
        try:
            filesystem = filesystems.load(name)
            untried = ", untried" if filesystem.untried else ""
            _show(name, filesystem.summary + untried, _lacking(name))
            for options in filesystem.option_sets.values():
                _show(f"{name}:{options.name}", options.source)
        except UserError as error:
            exit_code = error.exit_code
            _show(name, f"broken: {error.message}")
    print("\nworkloads: WL=NAME or WL=NAME:VARIANT")
    for name in catalog.names():
        try:
            workload = catalog.load(name)
            known = workload.program is None or find_program(workload.program)
            _show(
                name,
                workload.summary,
                "" if known else f"({workload.program} is missing: {front.installs('trace', 'it')})",
            )
            for variant, summary in workload.variants.items():
                _show(f"{name}:{variant}", summary)
        except UserError as error:
            exit_code = error.exit_code
            _show(name, f"broken: {error.message}")
    print(f"\nstudies: {front.command('study NAME=...')}")
    for name in studies.names():
        try:
            study = studies.load(name)
            _show(name, f"{study.title} ({study.year})")
        except UserError as error:
            exit_code = error.exit_code
            _show(name, f"broken: {error.message}")
    print("\ndisks: DISK=...")
    _show("file", "default: a loop device, direct I/O, on a sparse file in $SEEKMETER_SCRATCH")
    _show("ram", "a loop device in memory")
    _show("hdd", f"an emulated spinning disk, {model.DEFAULT}; hdd@50%: SIZE from its middle on")
    _show("/dev/NAME", "a real device; also needs ERASE=/dev/NAME, the same name again")
    print("\nemulated spinning disks: DISK=hdd:DRIVE, or your own: DISK=hdd:./FILE.toml")
    for name in model.names():
        try:
            _show(name, model.load(name).title)
        except UserError as error:
            exit_code = error.exit_code
            _show(name, f"broken: {error.message}")
    print("\nbpftrace scripts of Seekmeter: WITH=bpftrace:NAME")
    for name in our_scripts():
        _show(name, script_summary(name))
    return exit_code


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BrokenPipeError:  # make list | head
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(0)
