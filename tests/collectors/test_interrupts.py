# SPDX-License-Identifier: BSD-2-Clause
"""^C while we wait for a program: it is heard, and the end of the program is noticed all the same."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time

from collectors import interrupts
from tests.collectors.sessions import TREE

TIMES = 100


def interrupt_often() -> int:
    """Interrupt a wait at any of its instructions. Returns how often the end could then not be noticed."""
    interrupts.catch()
    signal.signal(signal.SIGALRM, signal.getsignal(signal.SIGINT))
    missed = 0
    for _ in range(TIMES):
        process = subprocess.Popen(["sleep", "100"])
        try:
            signal.setitimer(signal.ITIMER_REAL, random.uniform(50e-6, 300e-6))
            while True:
                interrupts.wait_for(process, 0)
        except KeyboardInterrupt:
            interrupts._State.raised = interrupts._State.waiting = False
        process.kill()
        end = time.monotonic() + 30
        while process.poll() is None and time.monotonic() < end:
            time.sleep(0.001)
        missed += process.returncode is None
    return missed


def test_an_interrupted_wait_still_notices_the_end() -> None:
    code = "from tests.collectors.test_interrupts import interrupt_often as often; print(often())"
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=TREE, capture_output=True, text=True, timeout=600, check=False
    )
    assert result.stdout.split() == ["0"], result.stderr


def test_a_wait_ends_with_the_program() -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert not interrupts.wait_for(process, 0.01)
        process.stdin.close()
        began = time.monotonic()
        assert interrupts.wait_for(process, 3600)
        assert time.monotonic() - began < 1800  # at its end, not at ours
    assert process.returncode == 0
