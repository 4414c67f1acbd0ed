# SPDX-License-Identifier: BSD-2-Clause
"""Stands for make sweep with ON=: cluster_driver.py FOLDER ON [TLS], a sweep of stubs in FOLDER/sweep."""

import sys
from pathlib import Path

from collectors.cluster import certificates
from collectors.cluster.machines import carry_out
from collectors.cluster.session import Session
from collectors.host import signals
from collectors.sweep.drive import state_kept
from tests.collectors.cluster_sweeps import STUB, sweep_directory
from workloads.cli.on_option import parse_on
from workloads.system.errors import UserError


def main(folder: str, on: str, tls: str = "") -> int:
    """Carry out the sweep. Returns the exit code."""
    signals.catch()
    directory = sweep_directory(Path(folder))
    line = (sys.executable, STUB, "worker", folder)
    member = certificates.read(tls) if tls else None
    session = Session(parse_on(on), member, {"CMD": ("true",)}, directory.path / "logs", line)
    try:
        with state_kept(directory), session:
            carry_out(directory, session, lambda sweep: True, 5.0)
    except UserError as error:
        print(f"seekmeter: {error.message}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
