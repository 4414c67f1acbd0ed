# SPDX-License-Identifier: BSD-2-Clause
"""Run some of the tests on another kernel, in a virtual machine: a program of its own.

    python -m tests.machines.inside_machine RUN KERNEL PYTEST-WORDS…

It leaves RUN/raw/truth.xml (pytest's own) and RUN/raw/checks.json (doctor's, of
collectors/vm/kernel_table.py), and says on its last line how the machine ended, as JSON.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from collectors.host import signals
from collectors.vm.run_in_vm import choose, run_apart
from workloads.cli.options import Options
from workloads.machines import qemu

TREE = Path(__file__).resolve().parents[2]
MEMORY_BYTES = 4 << 30
DISK_BYTES = 8 << 30
# Files of the tests lie on a disk, as most of them want direct I/O, which the guest's root does not have.
PREPARE = (
    "mkfs.ext4 -q /dev/vda; mkdir -p /mnt/tests; mount /dev/vda /mnt/tests;"
    " export TMPDIR=/mnt/tests SEEKMETER_SCRATCH=/mnt/tests"
)
# What the guest has to end in when it is asked to.
_END_SECONDS = 120


@dataclass(frozen=True)
class Case:
    """One test inside."""

    file: str  # test_block
    name: str
    outcome: str  # passed, failed, skipped
    seconds: float
    text: str


@dataclass
class Inside:
    """A machine in which tests run."""

    process: subprocess.Popen[str]
    run: Path

    def wait(self, seconds: float) -> dict[str, Any]:
        """Wait for its end, with pytest's 0 or 1; return how it ended. After so many seconds it hangs."""
        printed, _ = self.process.communicate(timeout=seconds)
        assert self.process.returncode == 0, (self.run / "stderr").read_text()
        ended: dict[str, Any] = json.loads(printed.splitlines()[-1])
        assert ended["status"] in (0, 1), "\n".join([ended["why"], *ended["said"]])
        return ended

    def cases(self) -> list[Case]:
        """What pytest inside found."""
        found = []
        for case in ElementTree.parse(self.run / "raw/truth.xml").iter("testcase"):
            bad = [child for child in case if child.tag in ("failure", "error", "skipped")]
            outcome = {"skipped": "skipped"}.get(bad[0].tag, "failed") if bad else "passed"
            text = (bad[0].get("message") or "") + (bad[0].text or "") if bad else ""
            file = case.get("classname", "").rpartition(".")[2]
            name, seconds = case.get("name", ""), float(case.get("time", 0))
            found.append(Case(file, name, outcome, seconds, text))
        return found


@contextmanager
def inside(run: Path, kernel: str, words: Sequence[str]) -> Iterator[Inside]:
    """Run the tests of these words in a machine; ended with the block, however that ends."""
    with (run / "stderr").open("w") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.machines.inside_machine", run, kernel, *words],
            cwd=TREE,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,
        )
    try:
        yield Inside(process, run)
    finally:
        process.terminate()
        try:
            process.communicate(timeout=_END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()  # and QEMU with it
            process.communicate()


def main(run: Path, word: str, tests: list[str]) -> None:
    """Boot it, run the tests, say how it ended."""
    signals.catch()
    kernel, accel = choose(Options("trace", kernel=word))
    checks = [sys.executable, "-B", "-m", "collectors.vm.kernel_table", "checks"]
    pytest = [sys.executable, "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    pytest += [f"--junitxml={run / 'raw/truth.xml'}", *tests]
    script = f"{shlex.join(checks)} >{shlex.quote(str(run / 'raw/checks.json'))}; exec {shlex.join(pytest)}"
    said: list[str] = []
    disk = qemu.open_disk("disk0", DISK_BYTES, Path("/var/tmp"))
    try:
        hardware = qemu.Hardware(kernel, accel, 2, MEMORY_BYTES, [disk])
        ended = run_apart(hardware, run, ["/bin/sh", "-ec", f"{PREPARE}; {script}"], said.append)
    finally:
        os.close(disk.file)
    print(json.dumps({"kernel": kernel.name, "status": ended.status, "why": ended.why, "said": said}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])
