# SPDX-License-Identifier: BSD-2-Clause
"""What is said on stderr: never an error itself, as a closed terminal or pipe must not stop a cleanup."""

import os
import sys


def tell(text: str, end: str = "\n") -> None:
    """Say it, if anybody can still hear it."""
    try:
        print(text, end=end, file=sys.stderr, flush=True)
    except OSError:
        # What could not be written is still in the buffer, and Python would end with 120 for it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
    except RuntimeError:  # said by a signal's handler in the middle of another
        pass
