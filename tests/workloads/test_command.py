# SPDX-License-Identifier: BSD-2-Clause
"""Commands of the system that run long."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.collectors.sessions import wait_for

TREE = Path(__file__).parents[2]
# A command that takes a second from fork to exec, as on a busy machine.
SLOW_START = """
import os, sys, time
from pathlib import Path
from workloads.system import command

def slowly() -> None:
    Path(sys.argv[1]).write_text(f"{os.getpid()}\\n")
    time.sleep(1)

command.end_with_session = slowly
command.run_long(["sleep", "60"], lambda output: None, lambda seconds: None)
"""


def test_interrupt_ends_a_command_that_starts(tmp_path: Path) -> None:
    said = tmp_path / "pid"
    job = subprocess.Popen(
        [sys.executable, "-c", SLOW_START, str(said)], cwd=TREE, stderr=subprocess.PIPE, text=True
    )
    wait_for(lambda: said.exists() and said.read_text().endswith("\n"))
    os.kill(job.pid, signal.SIGINT)
    _, errors = job.communicate(timeout=30)
    assert job.returncode == -signal.SIGINT and errors.endswith("KeyboardInterrupt\n")
    assert not Path(f"/proc/{int(said.read_text())}").exists()
