# SPDX-License-Identifier: BSD-2-Clause
"""CPUs that are never idle, and processes that are on one only."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager


@contextmanager
def one_cpu() -> Iterator[None]:
    """In the block, this thread, and processes that it starts, run on one CPU only."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


@contextmanager
def busy_cpus() -> Iterator[None]:
    """In the block, a thread of the lowest weight is on each CPU that this one may use."""
    burn = "import os,sys\nos.sched_setaffinity(0,{int(sys.argv[1])})\nos.nice(19)\nprint(flush=True)\n"
    burn += "while True: pass"
    with ExitStack() as burners:
        for cpu in sorted(os.sched_getaffinity(0)):
            words = ["python3", "-c", burn, str(cpu)]
            burner = burners.enter_context(subprocess.Popen(words, stdout=subprocess.PIPE))
            burners.callback(burner.kill)
            assert burner.stdout is not None
            burner.stdout.readline()
        yield
