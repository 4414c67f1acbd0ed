# SPDX-License-Identifier: BSD-2-Clause
"""What is said on stderr: never an error itself, as a closed terminal or pipe must not stop a cleanup.

Much of it is others' words (of the workload, a guest, the names of files and of other users' processes): no
character of theirs commands the terminal.
"""

import os
import sys

from workloads.system.visible import visible

_NEW_LINE = "\r\x1b[K"  # to the line's begin, and empty it


def tell(text: str) -> None:
    """Say it, if anybody can still hear it."""
    _write(visible(text) + "\n")


def show(line: str) -> None:
    """On a terminal: put it in place of the line that was shown before."""
    _write(_NEW_LINE + visible(line))


def _write(text: str) -> None:
    try:
        print(text, end="", file=sys.stderr, flush=True)
    except OSError:
        # What could not be written is still in the buffer, and Python would end with 120 for it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
    except RuntimeError:  # said by a signal's handler in the middle of another
        pass
