# SPDX-License-Identifier: BSD-2-Clause
"""Print a drive's parameters as the programs in C read them (native/model/params.h).

    python -m workloads.drives NAME|./FILE.toml [--size BYTES] [--offset BYTES]

Without --size the disk is the whole drive. Exit status 2: no such drive, or a file that describes none.
"""

import argparse
import sys

from workloads.drives import model
from workloads.system.errors import UserError
from workloads.system.visible import visible


def main() -> int:
    """Print the flat text. Returns the exit code."""
    words = argparse.ArgumentParser(prog="drives", allow_abbrev=False)
    words.add_argument("drive")
    words.add_argument("--size", type=int)
    words.add_argument("--offset", type=int, default=0)
    given = words.parse_args()
    try:
        drive = model.load(given.drive)
        size_bytes = drive.capacity_bytes - given.offset if given.size is None else given.size
        sys.stdout.write(f"# {drive.title}\n{drive.flat(size_bytes, given.offset)}")
    except UserError as error:
        print(f"seekmeter: {visible(error.message)}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
