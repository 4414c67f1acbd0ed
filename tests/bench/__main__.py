# SPDX-License-Identifier: BSD-2-Clause
"""make bench: what tracing and reporting cost on this machine, against other tools. Needs root.

.venv/bin/python -m tests.bench [block|locks|switches|job|hdd|reader|report|page|browsing|filemark] [ROUNDS]
"""

import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tests.bench import (
    block,
    browsing,
    filemark,
    hdd,
    locks,
    main_job,
    page,
    paired,
    reader,
    report,
    switches,
)
from workloads.system.errors import UserError

IDLE_S = 2
QUIET_PCT = 5


@dataclass(frozen=True)
class Part:
    """One part: its function from rounds to text, its rounds, and the estimated minutes per round."""

    report: Callable[[int], str]
    rounds: int
    minutes_per_round: float


PARTS: Mapping[str, Part] = {
    "block": Part(block.report, block.ROUNDS, paired.minutes(block.MODES, 1)),
    "locks": Part(locks.report, locks.ROUNDS, paired.minutes(len(locks.MODES), 1)),
    "switches": Part(switches.report, switches.ROUNDS, paired.minutes(switches.MODES, 1)),
    "reader": Part(reader.report, 5, 0.7),
    "report": Part(report.report, 5, 1),
    "page": Part(page.report, 3, 1),
    "browsing": Part(browsing.report, 5, 0.5),
    "filemark": Part(filemark.report, 7, 0.3),
    "hdd": Part(hdd.report, hdd.ROUNDS, 0.8),
    "job": Part(lambda _: main_job.report("ext3", "default"), 1, 2),
}


def main(arguments: list[str]) -> int:
    """Run the parts and print their results. arguments: part and rounds, both optional."""
    if os.geteuid() != 0:
        print("seekmeter: bench: tracing the kernel needs root: run it as root", file=sys.stderr)
        return 3
    names = arguments[:1] or list(PARTS)
    unknown = [name for name in names if name not in PARTS]
    if unknown:
        print(f"seekmeter: bench has no part {unknown[0]}: name one of {', '.join(PARTS)}", file=sys.stderr)
        return 2
    rounds = {name: int(arguments[1]) if len(arguments) > 1 else PARTS[name].rounds for name in names}
    takes = {name: rounds[name] * PARTS[name].minutes_per_round for name in names}
    estimates = ", ".join(f"{name} {minutes:.1f}" for name, minutes in takes.items())
    print(f"bench: about {sum(takes.values()):.0f} minutes: {estimates}", file=sys.stderr, flush=True)
    start = paired.Edge.now(lambda: 0)
    time.sleep(IDLE_S)
    busy_pct = paired.busy_pct(start, paired.Edge.now(lambda: 0))
    print(f"{os.uname().release}, {os.cpu_count()} CPUs, {busy_pct:.0f} % busy before", flush=True)
    if busy_pct > QUIET_PCT:
        print(
            f"bench: other programs use {busy_pct:.0f} % of the CPUs: run bench on an idle machine",
            file=sys.stderr,
        )
    for name in names:
        start_s = time.monotonic()
        try:
            print(PARTS[name].report(rounds[name]), flush=True)
        except UserError as error:
            print(f"seekmeter: {error.message}", file=sys.stderr)
            return error.exit_code
        took = (time.monotonic() - start_s) / 60
        print(f"bench: {name} took {took:.1f} minutes", file=sys.stderr, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
