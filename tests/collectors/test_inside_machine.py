# SPDX-License-Identifier: BSD-2-Clause
"""The truth tests once more, on another kernel: the distribution's, in a virtual machine.

test_fio.py is not among them where CPUs are emulated: it asks for latencies that agree to microseconds.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import pytest

from collectors.virtual import choose, run_inside
from tests.collectors.sessions import TREE
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


@dataclass(frozen=True)
class Case:
    """One test inside."""

    name: str
    outcome: str  # passed, failed, skipped
    text: str


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Case]]:
    """All of them run in one machine; their outcomes by file."""
    run = tmp_path_factory.mktemp("inside")
    (run / "raw").mkdir()
    kernel, accel = choose(Words("trace"))
    files = FILES if accel.name == "tcg" else (*FILES, "test_fio")
    paths = []
    for file in files:
        path = f"tests/collectors/{file}.py"
        paths += [f"{path}::{test}" for test in ONLY[file]] if file in ONLY else [path]
    result = run / "raw/truth.xml"
    words = [sys.executable, "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    words += [f"--junitxml={result}", *paths]
    command = ["/bin/sh", "-ec", f"{PREPARE}; exec {shlex.join(words)}"]
    said: list[str] = []
    # QEMU's emulated CPUs may hang (recorder/recorder.h tells of one way). QEMU is not what is tested here.
    for _ in range(2 if accel.name == "tcg" else 1):
        disk = qemu.open_disk("disk0", DISK_BYTES, Path("/var/tmp"))
        try:
            ended = run_inside(
                qemu.Hardware(kernel, accel, 2, MEMORY_BYTES, [disk]), run, command, said.append
            )
        finally:
            os.close(disk.file)
        if "hangs" not in ended.why:
            break
    assert ended.status in (0, 1), "\n".join([ended.why, *said])
    found = defaultdict(list)
    for case in ElementTree.parse(result).iter("testcase"):
        bad = [child for child in case if child.tag in ("failure", "error", "skipped")]
        outcome = {"skipped": "skipped"}.get(bad[0].tag, "failed") if bad else "passed"
        text = (bad[0].get("message") or "") + (bad[0].text or "") if bad else ""
        found[case.get("classname", "").rpartition(".")[2]].append(Case(case.get("name", ""), outcome, text))
    return found


@pytest.mark.parametrize("file", FILES)
def test_the_truth_on_another_kernel(cases: dict[str, list[Case]], file: str) -> None:
    assert (TREE / f"tests/collectors/{file}.py").exists()
    bad = [case for case in cases[file] if case.outcome != "passed"]
    assert not bad, "\n".join(f"{case.name} {case.outcome}: {case.text}" for case in bad)
    assert cases[file], "nothing ran"
