# SPDX-License-Identifier: BSD-2-Clause
"""A worker whose runs are trace_stub.py's: cluster_stub.py worker FOLDER; run FOLDER DIRECTORY: one run.

unguarded FOLDER is a worker without Seekmeter's limits on what Dask unpickles.
"""

import sys
from pathlib import Path
from typing import Any

STUB = Path(__file__).with_name("trace_stub.py")


def run(folder: str, directory: str) -> int:
    """Carry out the run that standard input describes."""
    from collectors.cluster import run_here
    from collectors.sweep.run_task import run_task
    from workloads.sweep.sweep_plan import Task

    trace = (sys.executable, "-S", "-E", str(STUB), folder)

    def once(task: dict[str, Any], there: Path) -> None:
        of_sweep = Task(**{**task["task"], "words": task["words"]})
        run_task(of_sweep, run_here.directory_of(there), task["machine"], trace)

    return run_here.with_turn(Path(directory), once)


def worker(folder: str, guarded: bool) -> int:
    """Serve as the worker that standard input describes; not guarded: as Dask's own does."""
    from collectors.cluster import orders, plain_data
    from collectors.cluster.worker import Setup, serve

    if not guarded:
        setattr(plain_data, "restrict", lambda: None)  # noqa: B010 (it is another module's)
        setattr(plain_data, "AllBut", lambda answers: [])  # noqa: B010

    setup = Setup.from_json(sys.stdin.buffer.readline())
    command = (sys.executable, __file__, "run", folder)
    return serve(setup, orders.Post(Path(folder) / "for-others", setup.allowed, command), by_pipe=True)


if __name__ == "__main__":
    sys.exit(run(*sys.argv[2:4]) if sys.argv[1] == "run" else worker(sys.argv[2], sys.argv[1] == "worker"))
