# SPDX-License-Identifier: BSD-2-Clause
"""Stands for make sweep with ON=: cluster_driver.py FOLDER ON, a sweep of stubs in FOLDER/sweep."""

import sys
from pathlib import Path

from collectors.cluster.session import Session
from collectors.host import signals
from tests.collectors.cluster_sweeps import STUB, sweep_directory
from workloads.cli.on_option import parse_on


def main(folder: str, on: str) -> int:
    """Carry out the sweep. Returns the exit code."""
    from collectors.cluster.machines import carry_out
    from collectors.sweep.drive import state_kept

    signals.catch()
    directory = sweep_directory(Path(folder))
    line = (sys.executable, STUB, "worker", folder)
    granted = {"CMD": ("true",)}
    with (
        state_kept(directory),
        Session(parse_on(on), None, granted, directory.path / "logs", line) as session,
    ):
        carry_out(directory, session, lambda sweep: True, 5.0)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
