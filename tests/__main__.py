# SPDX-License-Identifier: BSD-2-Clause
"""Run one tier of the tests: make check, make test or make test-all (python -m tests TIER).

A tier leaves out the tests whose markers it lacks the means or the time for (README.md here has the table).
Two processes run tests side by side (conftest.py says which). ARGS= is for pytest: a path narrows the tier,
another -m replaces its choice.
"""

from __future__ import annotations

import os
import shlex
import sys
from dataclasses import dataclass

import pytest

from workloads.system import mounts


@dataclass(frozen=True)
class Tier:
    """What a tier leaves out, and how long the rest takes."""

    leaves_out: str  # pytest's expression of markers, "" for nothing
    minutes: int  # on 2 CPUs, measured
    asks_root: bool


TIERS = {
    "check": Tier("root or vm or long", 2, False),
    "test": Tier("long", 10, True),
    "test-all": Tier("", 45, True),
}
PROCESSES = 2


def arguments(tier: Tier, words: list[str]) -> list[str]:
    """Return pytest's arguments for a tier. words: the user's own for pytest."""
    chosen = ["-m", f"not ({tier.leaves_out})"] if tier.leaves_out else []
    spread = ["-n", str(PROCESSES), "--dist", "loadscope", "--no-loadscope-reorder"]
    return [*chosen, *spread, *words]


def main(name: str) -> int:
    """Say how long the tier takes, and run it. Returns pytest's exit status."""
    tier = TIERS[name]
    words = shlex.split(os.environ.get("SEEKMETER_ARGS", ""))
    if tier.asks_root and os.geteuid() != 0:
        print(
            f"seekmeter: make {name} skips what formats, mounts or traces: that needs root", file=sys.stderr
        )
    if tier.asks_root and not any(mount.target == "/" for mount in mounts.here()):
        print(
            f"seekmeter: make {name}: / is no mount point, as in a plain chroot, and many tests mount: "
            "mount --bind the folder on itself before chroot, or use tests/bare_root.sh",
            file=sys.stderr,
        )
        return 3
    if os.geteuid() == 0:
        # As where systemd runs: a session's copy of all mounts lets go of what a test unmounts meanwhile.
        mounts.go_apart(shared=True)
    if not words:
        print(f"make {name}: about {tier.minutes} minutes on 2 quiet CPUs", flush=True)
    return int(pytest.main(arguments(tier, words)))


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in TIERS:
        print(f"seekmeter: tests: name a tier: {', '.join(TIERS)}", file=sys.stderr)
        sys.exit(2)
    sys.exit(main(sys.argv[1]))
