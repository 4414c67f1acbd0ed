# SPDX-License-Identifier: BSD-2-Clause
"""A session to be killed: makes everything that a run makes, prints each stage, and waits in the last one.

Started by test_janitor.py.
Arguments: state directory, the stage to stay in. All things are made as a real session makes them.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from collectors.collector import choices
from workloads import disks, filesystems
from workloads.cgroup import WorkloadCgroup
from workloads.cleanup.janitor import Janitor
from workloads.cli.parse import parse
from workloads.disks import queue
from workloads.plan.planner import make_plan

STAGES = ("empty", "listed", "cgroup", "disk", "scheduler", "format", "mount", "workload")


def main(state: Path, last: str) -> None:
    def stage(name: str) -> None:
        print(name, flush=True)
        if name == last:
            time.sleep(600)

    env = {"SEEKMETER_CMD": "true", **json.loads(os.environ["SESSION_WORDS"])}
    decided = make_plan(parse(env, "trace", choices()), trial=False)
    janitor = Janitor(state)
    stage("empty")
    # Listed and never made, as after a kill between the two.
    janitor.add_cgroup(Path("/sys/fs/cgroup/memory") / f"{janitor.name}-never")
    janitor.add_file(state / "never")
    janitor.add_mount(janitor.session_dir / "never", "/dev/never")
    janitor.add_loop(9999, state / "never.img")
    stage("listed")
    cgroup = WorkloadCgroup(janitor.name, 64 << 20, (0,), janitor)
    stage("cgroup")
    assert decided.filesystem is not None
    with disks.open_disk(decided.disks, None, (), janitor) as disk:
        stage("disk")
        name = disk.path.removeprefix("/dev/")
        queue.set_scheduler(name, sorted(queue.offered(name))[0], janitor)
        stage("scheduler")
        filesystems.format(decided.filesystem, disk, janitor)
        stage("format")
        target = janitor.session_dir / "mnt"
        target.mkdir()
        filesystems.mount(decided.filesystem, disk, target, janitor)
        stage("mount")
        script = (
            "exec 3>file; (trap '' TERM INT HUP; while :; do echo x >&3; sleep 0.05; done) & exec sleep 600"
        )
        workload = subprocess.Popen(
            ["sh", "-c", script],
            cwd=target,
            preexec_fn=cgroup.enter,  # noqa: PLW1509 (no threads here)
            start_new_session=True,
        )
        print(workload.pid, flush=True)
        recorder = subprocess.Popen(["sleep", "601"], start_new_session=True)
        janitor.add_process(recorder.pid)
        print(recorder.pid, flush=True)
        stage("workload")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
