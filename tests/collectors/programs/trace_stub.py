# SPDX-License-Identifier: BSD-2-Clause
"""Stands for make trace: trace_stub.py FOLDER makes a run directory in a moment.

FOLDER/journal gets a line at each start and end. Two at once are written down as "overlap". FOLDER/fails may
name tasks, one a line, each of which fails that often. FOLDER/walls may have wall seconds of the workload by
the value of MKFS ("" if it has none), a list for the runs in turn.
"""

import fcntl
import json
import os
import signal
import sys
import time
from pathlib import Path
from types import FrameType

FOLDER = Path(sys.argv[1])
OUT = Path(os.environ["SEEKMETER_OUT"])
SECONDS = float((FOLDER / "seconds").read_text())


def note(line: str) -> None:
    """Append a line to the journal in one write."""
    file = os.open(FOLDER / "journal", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(file, f"{line} {OUT.name}\n".encode())
    os.close(file)


def write_run(state: str, exit_status: int | None, warnings: list[str]) -> None:
    """Write run.json by rename."""
    facts = {"state": state, "exit_status": exit_status, "warnings": warnings}
    (OUT / ".new").write_text(json.dumps({**facts, "words": words(), **clock()}))
    (OUT / ".new").rename(OUT / "run.json")


def clock() -> dict[str, object]:
    """Return the times of the workload, if they are to be written."""
    if not (FOLDER / "walls").exists():
        return {}
    walls = json.loads((FOLDER / "walls").read_text())[words().get("MKFS", "")]
    wall_s = walls[(int(OUT.name.partition("-r")[2] or 1) - 1) % len(walls)]
    times = {"workload_start_ns": 10**9, "workload_end_ns": 10**9 + round(wall_s * 1e9)}
    return {"clock": times, "timing": {"sync_s": 0.5, "unmount_s": 0.1}}


def words() -> dict[str, str]:
    """Return the words that the driver gave."""
    return {name: os.environ[f"SEEKMETER_{name}"] for name in os.environ["SEEKMETER_WORDS"].split()}


def end_in_order(number: int, frame: FrameType | None) -> None:
    """End as a trace does after ^C."""
    write_run("interrupted", None, [])
    note("interrupted")
    os._exit(1)


signal.signal(signal.SIGTERM, end_in_order)
signal.signal(signal.SIGINT, end_in_order)
OUT.mkdir(mode=0o700)
write_run("running", None, [])
note("start")
alone = os.open(FOLDER / "one", os.O_WRONLY | os.O_CREAT)
try:
    fcntl.flock(alone, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    note("overlap")
time.sleep(SECONDS)
fails = (FOLDER / "fails").read_text().split() if (FOLDER / "fails").exists() else []
is_failed = OUT.name in fails
if is_failed:
    fails.remove(OUT.name)
    (FOLDER / "fails").write_text("\n".join(fails))
    print("seekmeter: the disk burns: put it out", file=sys.stderr)
os.close(alone)
note("failed" if is_failed else "end")
write_run("complete", int(is_failed), ["the disk burns: put it out"] if is_failed else [])
sys.exit(int(is_failed))
