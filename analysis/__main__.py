# SPDX-License-Identifier: BSD-2-Clause
"""python -m analysis report RUN: tables, report.txt, iograph.png and .svg, report.html, in the run directory.

Exit codes: 0 done, 1 the report failed, 2 wrong words.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from analysis.errors import ReportError, WordError

USAGE = "usage: python -m analysis report RUN"


def _complain(message: str) -> None:
    print(f"seekmeter: {message}", file=sys.stderr)


def main(words: list[str]) -> int:
    """Run one command; all errors end as one line on stderr and an exit code."""
    if words in (["-h"], ["--help"], ["help"]):
        print(USAGE)
        return 0
    try:
        if len(words) != 2 or words[0] != "report":
            raise WordError(f"the words {' '.join(words)!r} are not understood; {USAGE}")
        from analysis.report import make_report  # heavy imports only once the words are right

        sys.stdout.write(make_report(Path(words[1])))
        sys.stdout.flush()
    except ReportError as error:
        _complain(str(error))
        return error.exit_code
    except KeyboardInterrupt:
        _complain("the report was interrupted; what was there before is unchanged")
        return 1
    except BrokenPipeError:
        # the reader of our output went away; the files are written
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except MemoryError:
        _complain(
            "memory ran out while reading the run; report it on a machine with more, or close other programs"
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
