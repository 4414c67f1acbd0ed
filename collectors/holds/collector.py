# SPDX-License-Identifier: BSD-2-Clause
"""COLLECT=holds: acquisitions of mutexes, rwsems and semaphores, and hold times, by lock and time bin."""

from collectors.collector import UNKNOWN, Check
from collectors.recorder.shared import recorder_collector
from workloads.system import front


def _for_root() -> Check:
    why = "only root can try whether the kernel lets its functions be traced (fentry)"
    return Check("holds", UNKNOWN, why, f"{front.command('doctor')} as root, with the recorder built")


COLLECTOR = recorder_collector(
    "holds",
    default=False,
    order=14,
    cost="about 230 ns per acquisition and release of every mutex, rwsem and semaphore",
    tables=("hold",),
    untried=_for_root,
)
