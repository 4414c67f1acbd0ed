# SPDX-License-Identifier: BSD-2-Clause
"""How a workload ended, in words: its exit status or signal, and the line of its output that says why.

That is seldom the last one: dd says its error, then what it copied until then.
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
    """The last line that names an error; without one the last line; an empty string of nothing."""
    named = [line for line in lines if _ERROR.search(line)]
    return next(iter(reversed(named or lines)), "").strip()[:_SHOWN_CHARACTERS]


def why(status: int, output: list[str]) -> str:
    """exit status 1: dd: error writing 'x': No space left on device. output: the lines at its end."""
    ending = f"signal {-status}" if status < 0 else f"exit status {status}"
    said = reason(output)
    return f"{ending}: {said}" if said else ending
