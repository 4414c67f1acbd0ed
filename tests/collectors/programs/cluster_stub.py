# SPDX-License-Identifier: BSD-2-Clause
"""A worker whose runs are trace_stub.py's: cluster_stub.py worker FOLDER; run FOLDER DIRECTORY: one run.

typed FOLDER is make worker, with its variables in the environment; unguarded FOLDER is a worker without
Seekmeter's limits on what Dask unpickles.
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


def worker(folder: str, kind: str) -> int:
    """Serve as the worker that standard input describes, or as the variables of make worker do (typed)."""
    from collectors.cluster import orders, plain_data
    from collectors.cluster.worker import Setup, serve, setup_of_options
    from workloads.system.errors import UserError

    if kind == "unguarded":
        setattr(plain_data, "restrict", lambda: None)  # noqa: B010 (it is another module's)
        setattr(plain_data, "AllBut", lambda answers: [])  # noqa: B010
    try:
        setup = setup_of_options() if kind == "typed" else Setup.from_json(sys.stdin.buffer.readline())
        command = (sys.executable, __file__, "run", folder)
        post = orders.Post(Path(folder) / "for-others", setup.allowed, command)
        return serve(setup, post, by_pipe=kind != "typed")
    except UserError as error:
        print(f"seekmeter: {error.message}", file=sys.stderr)
        return error.exit_code


if __name__ == "__main__":
    sys.exit(run(*sys.argv[2:4]) if sys.argv[1] == "run" else worker(sys.argv[2], sys.argv[1]))
