# SPDX-License-Identifier: BSD-2-Clause
"""python -m collectors.cluster.run_here DIRECTORY: carry out the run that standard input describes.

A worker starts this process for each run. A lock makes the workers of one machine take turns: two runs at
once would measure each other. Standard input stays open as long as the worker lives; its end ends the run.
"""

import fcntl
import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from collectors.host import signals
from collectors.host.console import tell
from collectors.privilege.sudo import owner
from collectors.sweep.directory import SweepDirectory
from collectors.sweep.run_task import run_task, wait_for_orphan
from workloads.sweep.sweep_plan import SweepPlan, Task
from workloads.system.errors import UserError

_TASK_BYTES_MOST = 1 << 20
_NO_PLAN = SweepPlan("", "", {}, (), (), (), (), 0, None, None, "on")


def main(folder: Path) -> int:
    """Run the task. Returns 0 if its directory is whole, also if the run failed."""
    return with_turn(folder, _run)


def _run(task: dict[str, Any], folder: Path) -> None:
    for other in folder.parent.glob("*/started.json"):
        wait_for_orphan(directory_of(other.parent))
    words = {str(name): str(text) for name, text in task["words"].items()}
    run_task(Task(**{**task["task"], "words": words}), directory_of(folder), str(task["machine"]))


def directory_of(folder: Path) -> SweepDirectory:
    """Return a directory of runs. The plan of the sweep stays where the sweep is."""
    for name in ("runs", "logs"):
        (folder / name).mkdir(mode=0o700, exist_ok=True)
    return SweepDirectory(folder, owner(), _NO_PLAN, {})


def with_turn(folder: Path, run: Callable[[dict[str, Any], Path], None]) -> int:
    """Read the task, wait for this machine, and call run(task, directory of the sweep)."""
    signals.catch()
    try:
        task = json.loads(sys.stdin.buffer.readline(_TASK_BYTES_MOST))
        threading.Thread(target=_end_with_worker, daemon=True).start()
        # The run's own processes do not get the lock: they end before this process does.
        lock = os.open(folder.parent / ".one-run", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        run(task, folder)
    except UserError as error:
        tell(f"seekmeter: {error.message}")
        return error.exit_code
    except KeyboardInterrupt:
        tell("seekmeter: the run was interrupted, as its worker ended")
        return 1
    return 0


def _end_with_worker() -> None:
    while os.read(0, 4096):  # not sys.stdin, whose lock Python's own exit waits for
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
