# SPDX-License-Identifier: BSD-2-Clause
"""A session on an emulated disk whose server, or whose own process, is killed while the workload writes."""

import os
import signal
import time
from pathlib import Path

from tests.collectors.sessions import Job, wait_for
from tests.marks import needs_root
from workloads.cleanup.janitor import Janitor

WRITER = "while dd if=/dev/zero of=f bs=64k count=500 oflag=direct; do :; done; exit 1"


def writing(out: Path) -> tuple[Job, int]:
    """Start a session whose workload writes until it fails. Returns it, and the pid of the disk's server."""
    words = {"FS": "ext4", "DISK": "hdd", "SIZE": "1G", "TIME": "10"}
    job = Job("trace", out, None, **words, CMD=WRITER, COLLECT="none")
    job.until("workload")
    servers = [pid for pid, text in job.commands_by_pid().items() if "build/drive-server" in text]
    wait_for(lambda: bool(job.run.output))  # dd has written one file
    assert len(servers) == 1
    return job, servers[0]


@needs_root
def test_killed_server_ends_the_run_in_order(tmp_path: Path) -> None:
    job, server = writing(tmp_path / "run")
    os.kill(server, signal.SIGKILL)
    assert job.end(120) == 1
    assert "the emulated disk disk0 is gone: its server was killed by signal 9" in job.said
    assert "Input/output error" in job.run.output
    assert job.run.losses["collectors"]["disk_service"]["ended_early"] is True
    assert "kept_time" not in job.run.facts["device"]
    assert job.left_behind() == []


@needs_root
def test_killed_session_ends_its_disk_and_leaves_nothing(tmp_path: Path) -> None:
    """Its server ends by itself, and with it the disk; the next start removes the rest.

    A server that was the last process in the session's mount namespace unmounted its own disk as it ended,
    and waited for it for ever.
    """
    job, server = writing(tmp_path / "run")
    job.process.kill()
    job.process.wait()
    began = time.monotonic()
    wait_for(lambda: not Path(f"/proc/{server}/exe").exists())
    assert time.monotonic() - began < 10
    assert [line for line in Janitor.sweep() if str(job.process.pid) in line and "cleaned" not in line] == []
    assert [line for line in job.left_behind() if str(job.run.path) not in line] == []
