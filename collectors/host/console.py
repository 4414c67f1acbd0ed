# SPDX-License-Identifier: BSD-2-Clause
"""Lines on stderr. A closed terminal or pipe raises nothing, as it must not stop a cleanup.

Lines may contain text of others (the workload, a guest, file and process names): control characters are made
visible, so that none commands the terminal.
"""

import os
import sys

from workloads.system.visible import visible

_NEW_LINE = "\r\x1b[K"  # go to the beginning of the line and clear it


def tell(text: str) -> None:
    """Print a line on stderr."""
    _write(visible(text) + "\n")


def show(line: str) -> None:
    """On a terminal: replace the line that was shown before."""
    _write(_NEW_LINE + visible(line))


def _write(text: str) -> None:
    try:
        print(text, end="", file=sys.stderr, flush=True)
    except OSError:
        # The text stays in the buffer, and Python would exit with 120 if it cannot write it at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
    except RuntimeError:  # a signal handler prints while a line is being printed
        pass
