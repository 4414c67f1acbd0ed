# SPDX-License-Identifier: BSD-2-Clause
"""record.sh reports the run directory of a recording job, also after a failure and after ^C."""

import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from tests.collectors.sessions import listen_to_interrupts, wait_for

TREE = Path(__file__).parents[2]

# Stands in for Python: collectors records, ends early at ^C, prints a run directory; analysis reports.
_STAND_IN = """#!/bin/bash
if [ "$3" = collectors ]; then
    trap 'kill $! 2>/dev/null; echo "$RUN"; exit $CODE' INT
    echo recording >&2
    # wait, because bash loses a ^C that arrives just as a command ends
    [ "$WAIT" = yes ] && { sleep 300 >/dev/null 2>&1 & wait $!; }
    echo "$RUN"; exit $CODE
fi
echo "$4 of <$5>"; exit $REPORT_CODE
"""


def start(
    folder: Path, run: str, code: int, report_code: int, wait: str = "no", job: str = "trace"
) -> subprocess.Popen[str]:
    """Start the Makefile's $(RECORD) with a stand-in for Python."""
    python = folder / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(_STAND_IN)
    python.chmod(0o755)
    (folder / "collectors").symlink_to(TREE / "collectors")
    (folder / "recipe").write_text(f"include {TREE}/Makefile\nrecord:\n\t@$(RECORD) {job}\n")
    settings = {"RUN": run, "CODE": str(code), "REPORT_CODE": str(report_code), "WAIT": wait}
    return subprocess.Popen(
        ["make", "-f", "recipe", "record"],
        cwd=folder,
        env={**os.environ, **settings},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=listen_to_interrupts,  # noqa: PLW1509 (no threads here)
    )


@pytest.mark.parametrize(
    ("code", "report_code", "error"), [(0, 0, None), (1, 0, 1), (3, 1, 3), (0, 1, 1)], ids=str
)
def test_report_follows_the_job_and_keeps_the_first_failure(
    tmp_path: Path, code: int, report_code: int, error: int | None
) -> None:
    process = start(tmp_path, "runs/with a space", code, report_code)
    out, err = process.communicate(timeout=120)
    assert out == "report of <runs/with a space>\n"
    assert process.returncode == (0 if error is None else 2)
    assert (f"Error {error}" in err) == (error is not None)


def test_pairs_of_verify_are_judged_instead_of_reported(tmp_path: Path) -> None:
    process = start(tmp_path, "runs/x", 0, 0, job="verify")
    out, err = process.communicate(timeout=120)
    assert (out, process.returncode) == ("verify of <runs/x>\n", 0), err


def test_job_without_run_directory_is_not_reported(tmp_path: Path) -> None:
    process = start(tmp_path, "", 3, 0)
    out, err = process.communicate(timeout=120)
    assert out == ""
    assert "Error 3" in err


@pytest.mark.parametrize("seconds", ["0", "00", "0.0", ".0"])
def test_watch_without_end_shows_its_screens_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: str
) -> None:
    monkeypatch.setenv("SEEKMETER_SECS", seconds)
    process = start(tmp_path, "a screen", 0, 0, job="watch")
    out, err = process.communicate(timeout=120)
    assert (out, process.returncode) == ("a screen\n", 0), err


def test_watch_of_some_seconds_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEEKMETER_SECS", "0.5")
    process = start(tmp_path, "runs/x", 0, 0, job="watch")
    out, _ = process.communicate(timeout=120)
    assert out == "report of <runs/x>\n"


def waits_in_read(group: int) -> bool:
    """Whether record.sh, in a process group, waits in read for the run directory. Earlier, ^C may end it."""
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # the process ended
            in_read = (process / "syscall").read_text().startswith("0 0x0 ")
            if in_read and os.getpgid(int(process.name)) == group:
                return True
    return False


def test_interrupted_job_is_reported(tmp_path: Path) -> None:
    process = start(tmp_path, "runs/x", 1, 0, wait="yes")
    assert process.stderr is not None
    assert process.stderr.readline() == "recording\n"
    wait_for(lambda: waits_in_read(process.pid))
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: make, the shell and the job get ^C
    out, err = process.communicate(timeout=120)
    assert out == "report of <runs/x>\n", err


def test_watch_until_reports_its_runs_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEEKMETER_UNTIL", "request > 500ms")
    process = start(tmp_path, "a screen", 0, 0, job="watch")
    out, err = process.communicate(timeout=120)
    assert (out, process.returncode) == ("a screen\n", 0), err
