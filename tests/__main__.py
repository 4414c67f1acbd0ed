# SPDX-License-Identifier: BSD-2-Clause
"""Run one tier of the tests: make check, make test or make test-all (python -m tests TIER).

A tier leaves out tests by their markers (tests/README.md has the table). Two processes run the tests, as
conftest.py distributes them. ARGS= goes to pytest: a path narrows the tier, another -m replaces its markers.
"""

from __future__ import annotations

import compileall
import os
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from workloads.system import mounts


@dataclass(frozen=True)
class Tier:
    """One tier: the markers that it leaves out, its length, and whether it needs root."""

    leaves_out: str  # pytest marker expression, "" for none
    minutes: int  # measured on 2 CPUs
    needs_root: bool


TIERS = {
    "check": Tier("root or vm or long", 3, False),
    "test": Tier("long", 22, True),
    "test-all": Tier("", 80, True),
}
PROCESSES = 2
TREE = Path(__file__).parent.parent
ROOMS = ("analysis", "collectors", "workloads")


def arguments(tier: Tier, own: list[str]) -> list[str]:
    """Return pytest's arguments for a tier. own: the user's, from ARGS=."""
    chosen = ["-m", f"not ({tier.leaves_out})"] if tier.leaves_out else []
    spread = ["-n", str(PROCESSES), "--dist", "loadscope", "--no-loadscope-reorder"]
    return [*chosen, *spread, *own]


def main(name: str) -> int:
    """Print how long the tier takes, and run it. Returns pytest's exit status."""
    tier = TIERS[name]
    own = shlex.split(os.environ.get("SEEKMETER_ARGS", ""))
    if tier.needs_root and os.geteuid() != 0:
        print(
            f"seekmeter: make {name}: tests that format, mount or trace are skipped: run it as root",
            file=sys.stderr,
        )
    if tier.needs_root and not any(mount.target == "/" for mount in mounts.here()):
        print(
            f"seekmeter: make {name}: / is no mount point, which tests that mount need: before chroot, mount "
            "the folder on itself with mount --bind, or use tests/bare_root.sh",
            file=sys.stderr,
        )
        return 3
    if os.geteuid() == 0:
        # Shared mounts, as under systemd: what a test unmounts also goes from a session's copy of all mounts.
        mounts.go_apart(shared=True)
    # Tests start a thousand programs of the tree; each would compile it if PYTHONDONTWRITEBYTECODE is set.
    for room in ROOMS:
        compileall.compile_dir(TREE / room, quiet=2, workers=0)
    if not own:
        print(f"make {name}: about {tier.minutes} minutes on 2 quiet CPUs", flush=True)
    return int(pytest.main(arguments(tier, own)))


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in TIERS:
        print(f"seekmeter: tests: no such tier: name one of {', '.join(TIERS)}", file=sys.stderr)
        sys.exit(2)
    sys.exit(main(sys.argv[1]))
