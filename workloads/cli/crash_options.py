# SPDX-License-Identifier: BSD-2-Clause
"""CRASH_AT= and CRASH=: when an emulated disk loses its power, and what is kept of its write cache.

CRASH_AT=12.5 (seconds after the workload's start), request:N, flush:N (as they come to the disk) or commit:N
(the middle of the N-th flush). CRASH=lost (default), some, some:SEED or all, with ",torn": the write under
the head is cut at a sector.
"""

import re
from dataclasses import dataclass

from workloads.system.errors import OptionError

EVENTS = ("request", "flush", "commit")
_MOST_SECONDS = 86_400.0
_KEEP = re.compile(r"(?:(lost|all)|some(?::(\d{1,18}))?)(,torn)?", re.ASCII)


@dataclass(frozen=True)
class Crash:
    """What a power cut keeps of the bytes that were acknowledged and not on the platter."""

    keep: str = "lost"  # lost: nothing; some: by chance; all
    seed: int = 1  # of some
    is_torn: bool = False  # the write under the head is cut at a sector


LOST = Crash()


def parse_crash_at(text: str) -> dict[str, object]:
    """Return the field crash_at of Options. Raises OptionError."""
    event, colon, number = text.partition(":")
    if colon:
        is_valid = event in EVENTS and re.fullmatch(r"[1-9]\d{0,11}", number, re.ASCII) is not None
    else:
        is_valid = (
            re.fullmatch(r"\d{1,6}(\.\d{1,9})?", text, re.ASCII) is not None and float(text) <= _MOST_SECONDS
        )
    if not is_valid:
        raise OptionError(
            f"CRASH_AT={text} is no moment: give seconds after the workload's start (12.5), request:N, "
            f"flush:N or commit:N"
        )
    return {"crash_at": text}


def parse_crash(text: str) -> dict[str, object]:
    """Return the field crash of Options. Raises OptionError."""
    found = _KEEP.fullmatch(text)
    if found is None:
        raise OptionError(
            f"CRASH={text} is not understood: give lost, some, some:SEED or all, with ,torn or without"
        )
    return {"crash": Crash(found[1] or "some", int(found[2] or 1), found[3] is not None)}
