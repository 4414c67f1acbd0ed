# SPDX-License-Identifier: BSD-2-Clause
"""A CPU that goes away and comes back while locks are traced: nothing is lost without being counted.

Only in a virtual machine (test_inside_machine.py): elsewhere the CPU is somebody's.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.collectors.lock_waits import assert_balanced, rows_of
from tests.collectors.recording import INSIDE, compile_program, needs_btf, recording
from tests.marks import needs_root

ONLINE = Path("/sys/devices/system/cpu/cpu1/online")
pytestmark = [
    pytest.mark.root,
    needs_root,
    needs_btf,
    pytest.mark.skipif(not INSIDE, reason="takes a CPU away: in a virtual machine, test_inside_machine.py"),
]


@pytest.fixture
def second_cpu() -> Iterator[Path]:
    """Its switch; the CPU is back afterwards."""
    assert ONLINE.exists(), "the machine has one CPU, or a kernel without CONFIG_HOTPLUG_CPU"
    try:
        yield ONLINE
    finally:
        ONLINE.write_text("1")


def test_unplugged_cpu_is_recorded_again_when_it_returns(tmp_path: Path, second_cpu: Path) -> None:
    renames, pipe = (compile_program(name, tmp_path) for name in ("rename_storm", "pipe_storm"))
    (tmp_path / "files").mkdir()
    with recording(tmp_path / "out", "--collect", "locks,counters") as run:
        storms = [
            subprocess.Popen([renames, tmp_path / "files", "6", "1000"], stdout=subprocess.PIPE),
            subprocess.Popen([pipe, "2", "2", "0", "20000"], stdout=subprocess.PIPE),
        ]
        switched = 0
        while any(storm.poll() is None for storm in storms):
            second_cpu.write_text(str(switched % 2))
            switched += 1
            time.sleep(0.5)
        second_cpu.write_text("1")
        outputs = [storm.communicate()[0] for storm in storms]
        assert [storm.returncode for storm in storms] == [0, 0]
        # What is recorded after it came back: a wait of those who run on both.
        time.sleep(0.5)
        again = subprocess.run([pipe, "2", "2", "0", "20000"], capture_output=True, check=True).stdout
    assert switched >= 2, "the storms were over before the CPU had gone"
    assert json.loads(outputs[0])["renames"] == 6_000
    assert json.loads(again)["attempts"] == 80_000
    assert_balanced(run)
    state = run.source("locks")
    assert state["recorded"] > 0
    assert len(rows_of(run, "mutex")) > 0
    # One emulated CPU for all may keep the recorder from its turn; nothing else may lose what is seen.
    others = {why: lost for why, lost in state["lost"].items() if why != "recorder late"}
    assert sum(others.values()) <= 0.01 * state["seen"], others
