# SPDX-License-Identifier: BSD-2-Clause
"""UNIT=, CGROUP= and PID= of make watch: whose work is the workload; all else on the disk is others'.

UNIT=nginx, UNIT=nginx.service   the cgroup of a unit, container or machine of systemd, by its name
CGROUP=/system.slice/x.service   a cgroup by its path below the root of cgroup2
PID=1234                         a process, its threads and its children
"""

from collections.abc import Mapping
from dataclasses import dataclass

from workloads.system.errors import OptionError

WORDS = ("UNIT", "CGROUP", "PID")
_PID_MOST = 1 << 22  # PID_MAX_LIMIT of include/linux/threads.h


@dataclass(frozen=True)
class Follow:
    """One of the words, and its value."""

    word: str
    value: str


def parse_follow(word: str, text: str) -> dict[str, object]:
    """Return the options of a word. Raises OptionError."""
    if word == "UNIT" and ("/" in text or text.startswith(".")):
        raise OptionError(f"UNIT={text} is not a unit's name: write UNIT=nginx, or CGROUP= with a path")
    if word == "CGROUP" and (not text.startswith("/") or ".." in text.split("/")):
        raise OptionError(f"CGROUP={text} is not a path: write it like CGROUP=/system.slice/nginx.service")
    if word == "PID" and not (text.isascii() and text.isdecimal() and 0 < int(text[:12]) <= _PID_MOST):
        raise OptionError(f"PID={text} is not a process: give a number, as of ps")
    return {"follow": Follow(word, text)}


def check_follow(given: Mapping[str, str], secs: float) -> None:
    """Refuse words that make no sense together. Raises OptionError."""
    words = [word for word in WORDS if word in given]
    if len(words) > 1:
        raise OptionError(f"{words[1]} contradicts {words[0]}: a watch follows one; drop one")
    if words and not secs:
        raise OptionError(
            f"{words[0]} contradicts SECS=0, whose windows begin anew: give SECS=, or leave it out"
        )
    if words and "UNTIL" in given:
        raise OptionError(f"{words[0]} contradicts UNTIL, which watches the whole disk: drop one")
