# SPDX-License-Identifier: BSD-2-Clause
"""Print the Debian packages that a run needs: python3 -m workloads.packages [--missing] [FS=NAME] [WL=NAME].

One package per line. With neither FS nor WL: the packages of all workloads and of all file systems that
Debian has (in_debian in filesystems/README.md). --missing: only packages whose programs are not installed.
Standard library only, because setup runs this with the system's python3.
"""

import sys

from workloads import catalog, filesystems
from workloads.system import command
from workloads.system.errors import OptionError, UserError, nearest
from workloads.system.visible import visible


def needed(fs: str | None, wl: str | None, missing_only: bool = False) -> list[str]:
    """Return the packages of a file system and a workload (NAME or NAME:OPTIONS); of all if both are None."""
    everything = fs is None and wl is None
    programs: dict[str, tuple[str, ...]] = {}
    for name in filesystems.names() if everything else [fs.partition(":")[0]] if fs else []:
        if name not in filesystems.names():
            raise OptionError(f"FS={fs}: no file system {name!r}: {nearest(name, filesystems.names())}")
        filesystem = filesystems.load(name)
        if everything and not filesystem.in_debian:
            continue
        for program in filesystem.programs:
            programs[program] = filesystem.packages
    for name in catalog.names() if everything else [wl.partition(":")[0]] if wl else []:
        if name not in catalog.names():
            raise OptionError(f"WL={wl}: no workload {name!r}: {nearest(name, catalog.names())}")
        workload = catalog.load(name)
        own = (workload.program,) if workload.program is not None else ()
        for program in (*own, *workload.needs):
            programs[program] = workload.packages
    if missing_only:
        programs = {
            program: packages for program, packages in programs.items() if not command.find_program(program)
        }
    return sorted({package for packages in programs.values() for package in packages})


def main(arguments: list[str]) -> int:
    """Print the packages. Returns the exit code."""
    missing_only = "--missing" in arguments
    given = dict(argument.partition("=")[::2] for argument in arguments if argument != "--missing")
    try:
        for variable in given:
            if variable not in ("FS", "WL"):
                raise OptionError(f"{variable} is not understood here: give FS=NAME and WL=NAME")
        for package in needed(given.get("FS"), given.get("WL"), missing_only):
            print(package)
    except UserError as error:
        print(f"seekmeter: {visible(error.message)}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
