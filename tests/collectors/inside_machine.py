# SPDX-License-Identifier: BSD-2-Clause
"""Run the truth tests on the distribution's kernel, in a virtual machine: a program of its own.

    python -m tests.collectors.inside_machine RUN

It leaves RUN/raw/truth.xml (pytest's own) and says on its last line how the machine ended, as JSON.
test_fio.py is not among the tests where CPUs are emulated: it asks for latencies that agree to microseconds.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from pathlib import Path

from collectors import interrupts
from collectors.virtual import choose, run_inside
from workloads.machines import qemu
from workloads.words import Words

FILES = (
    "test_block",
    "test_block_blkparse",
    "test_block_pattern",
    "test_block_faults",
    "test_blktrace",
    "test_calls",
    "test_counters",
    "test_locks",
    "test_lock_names",
    "test_holds",
    "test_lock_samples",
    "test_lock_truth",
    "test_lock_storms",
    "test_cpu_unplug",
)
# Of these only what lockdown may forbid outside: the way by the blktrace program.
ONLY = {
    "test_blktrace": (
        "test_its_tools_read_it_and_all_agree[program]",
        "test_order_names_and_time[program]",
    ),
}
MEMORY_BYTES = 4 << 30
DISK_BYTES = 8 << 30
# Files of the tests lie on a disk, as most of them want direct I/O, which the guest's root does not have.
PREPARE = (
    "mkfs.ext4 -q /dev/vda; mkdir -p /mnt/tests; mount /dev/vda /mnt/tests;"
    " export TMPDIR=/mnt/tests SEEKMETER_SCRATCH=/mnt/tests"
)
# What these ask is our programs' doing more than the kernel's, and is asked outside.
EXCEPT = (
    "test_block_faults.py::test_every_way_to_stop_leaves_a_whole_table",
    "test_block_faults.py::test_killed_recorder_leaves_whole_records",
    "test_block_faults.py::test_a_full_disk_is_a_counted_loss",
    "test_calls.py::test_a_full_disk_leaves_whole_records_and_lines",
    "test_calls.py::test_a_recorder_that_is_late_counts_what_it_lost",
    "test_locks.py::test_a_recorder_that_is_late_counts_what_it_lost",
)


def words_inside(run: Path, tcg: bool) -> list[str]:
    """Return the command that the guest runs."""
    paths = []
    for file in FILES if tcg else (*FILES, "test_fio"):
        path = f"tests/collectors/{file}.py"
        paths += [f"{path}::{test}" for test in ONLY[file]] if file in ONLY else [path]
    words = [sys.executable, "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    words += [f"--junitxml={run / 'raw/truth.xml'}", *paths]
    words += [f"--deselect=tests/collectors/{test}" for test in EXCEPT]
    return ["/bin/sh", "-ec", f"{PREPARE}; exec {shlex.join(words)}"]


def main(run: Path) -> None:
    """Boot it, and once more if it hangs."""
    interrupts.catch()
    (run / "raw").mkdir()
    kernel, accel = choose(Words("trace"))
    tcg = accel.name == "tcg"
    said: list[str] = []
    # QEMU's emulated CPUs may hang (recorder/recorder.h tells of one way). QEMU is not what is tested here.
    for _ in range(2 if tcg else 1):
        disk = qemu.open_disk("disk0", DISK_BYTES, Path("/var/tmp"))
        try:
            hardware = qemu.Hardware(kernel, accel, 2, MEMORY_BYTES, [disk])
            ended = run_inside(hardware, run, words_inside(run, tcg), said.append)
        finally:
            os.close(disk.file)
        if "hangs" not in ended.why:
            break
    print(json.dumps({"status": ended.status, "why": ended.why, "said": said}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
