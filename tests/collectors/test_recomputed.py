# SPDX-License-Identifier: BSD-2-Clause
"""The report of a run that was recorded just now, against an independent reader of its tables."""

from __future__ import annotations

from pathlib import Path

from tests.analysis.recomputed import Recomputed
from tests.collectors.sessions import finished
from tests.marks import needs_root

WRITE = "phase write dd if=/dev/zero of=f bs=64k count=400 conv=fsync"
SMALL_FILES = "phase files sh -c 'for i in $(seq 200); do echo $i >f$i; done; sync'"
READ = 'cd / && remount && cd "$SEEKMETER_DIR" && phase read dd if=f of=/dev/null bs=64k'


@needs_root
def test_report_of_a_recorded_run_is_recomputed(tmp_path: Path) -> None:
    run = finished(tmp_path / "run", FS="ext4", SIZE="256M", CMD=f"{WRITE}; {SMALL_FILES}; {READ}").run
    run.report()
    Recomputed(run.path).check()
