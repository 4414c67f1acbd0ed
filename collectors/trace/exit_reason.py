# SPDX-License-Identifier: BSD-2-Clause
"""Why a workload failed: its exit status or signal, and the line of its output that names the error.

That line is seldom the last one: dd prints its error first, and then what it has copied.
"""

from __future__ import annotations

import errno
import os
import re

_SHOWN_CHARACTERS = 200
_ERROR = re.compile(
    r"\b(error|fail(ed|ure|s)?|fatal|panic|abort(ed|ing)?|cannot|can't|could not|couldn't|unable|killed)\b"
    r"|not found|out of memory"
    f"|{'|'.join(sorted(re.escape(os.strerror(number)) for number in errno.errorcode))}",
    re.IGNORECASE,
)


def reason(lines: list[str]) -> str:
    """Return the last line that names an error; else the last line; "" if there are no lines."""
    named = [line for line in lines if _ERROR.search(line)]
    return next(iter(reversed(named or lines)), "").strip()[:_SHOWN_CHARACTERS]


def why(status: int, output: list[str]) -> str:
    """Return, for example, "exit status 1: dd: error writing 'x': No space left on device".

    output: the last lines of the output.
    """
    ending = f"signal {-status}" if status < 0 else f"exit status {status}"
    line = reason(output)
    return f"{ending}: {line}" if line else ending
