# SPDX-License-Identifier: BSD-2-Clause
"""How the tested file system was mounted: its options, as /proc/self/mountinfo has them."""

from __future__ import annotations

from analysis.rundir.run import Run


def mount_options(run: Run) -> tuple[str, ...]:
    """rw, relatime, data=journal, each once; empty: not known."""
    fields = run.text("filesystem", "proc_mounts").split()
    return tuple(dict.fromkeys(option for option in ",".join(fields[3:]).split(",") if option))
