# SPDX-License-Identifier: BSD-2-Clause
"""^C while we wait for a program: it is heard, and the end of the program is noticed all the same."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from unittest.mock import patch

from collectors.host import signals
from collectors.recorder import process as recorder
from tests.collectors.sessions import TREE

TIMES = 100


def interrupt_often() -> int:
    """Interrupt a wait at any of its instructions. Returns how often the end could then not be noticed."""
    signals.catch()
    signal.signal(signal.SIGALRM, signal.getsignal(signal.SIGINT))
    missed = 0
    for _ in range(TIMES):
        process = subprocess.Popen(["sleep", "100"])
        try:
            signal.setitimer(signal.ITIMER_REAL, random.uniform(50e-6, 300e-6))
            while True:
                signals.wait_for(process, 0)
        except KeyboardInterrupt:
            signals._State.raised = signals._State.waiting = False
        process.kill()
        end = time.monotonic() + 30
        while process.poll() is None and time.monotonic() < end:
            time.sleep(0.001)
        missed += process.returncode is None
    return missed


def test_interrupted_wait_still_notices_the_end() -> None:
    code = "from tests.collectors.test_interrupts import interrupt_often as often; print(often())"
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=TREE, capture_output=True, text=True, timeout=600, check=False
    )
    assert result.stdout.split() == ["0"], result.stderr


def test_wait_ends_with_the_program() -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert not signals.wait_for(process, 0.01)
        process.stdin.close()
        began = time.monotonic()
        assert signals.wait_for(process, 3600)
        assert time.monotonic() - began < 1800  # at its end, not at ours
    assert process.returncode == 0


def interrupt_a_start(program: Path) -> str:
    """Interrupt a recorder while the call that starts it has not come back. Returns what became of both."""
    signals.catch()
    start, started = subprocess.Popen, []

    def interrupted(*words: Any, **options: Any) -> subprocess.Popen[bytes]:
        started.append(start(*words, **options))
        os.kill(os.getpid(), signal.SIGINT)
        return started[0]

    recorder.BINARY = program
    with patch.object(subprocess, "Popen", interrupted):
        try:
            recorder.Recorder(program.parent, ["counters"])
        except KeyboardInterrupt:
            return "ended" if started[0].returncode is not None else "left"
    return "never interrupted"


def test_recorder_interrupted_at_start_is_ended(tmp_path: Path) -> None:
    program = tmp_path / "recorder"
    program.write_text("#!/bin/sh\nread -r line\n")
    program.chmod(0o755)
    code = (
        "import pathlib, sys; from tests.collectors.test_interrupts import interrupt_a_start as start;"
        "print(start(pathlib.Path(sys.argv[1])))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code, program],
        cwd=TREE,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.stdout == "ended\n", result.stderr
