# SPDX-License-Identifier: BSD-2-Clause
"""Jobs that root runs as another user: the process shares no terminal and no open file with root's."""

from __future__ import annotations

import json
import os
import pty
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from analysis.rundir import apart
from tests.analysis.synthetic import decaying_ext3
from tests.collectors.sessions import let_others_in, listen_to_interrupts, wait_for
from tests.open_tree import python_of

pytestmark = pytest.mark.root
TREE = Path(__file__).parents[2]
USER = 65534  # known to the machine, for SUDO_UID
# Runs CODE in place of the report.
WORK = """
import json, os, signal, subprocess, sys, time
import analysis.report
from analysis.__main__ import main
from analysis.rundir import apart
apart.PATIENCE_S = SECONDS
def work(path, **options):
    said = ""
CODE
    return said
analysis.report.make_report = work
sys.exit(main(sys.argv[1:]))
"""
LOOK = """
about = open("/proc/self/stat").read().rpartition(")")[2].split()
try:
    terminal = os.open("/dev/tty", os.O_RDWR)
except OSError as error:
    terminal = error.strerror
said = json.dumps({
    "uid": os.getuid(), "leader": os.getsid(0) == os.getpid() == os.getpgrp(), "terminal": about[4],
    "tty": terminal, "environment": sorted(os.environ),
    "open": {fd: os.readlink("/proc/self/fd/" + fd) for fd in os.listdir("/proc/self/fd")
             if os.path.exists("/proc/self/fd/" + fd)},
}) + "\\n"
"""


@pytest.fixture(autouse=True)
def tree_that_they_enter(open_tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy of the tree that the other user can run."""
    monkeypatch.setattr(sys.modules[__name__], "TREE", open_tree)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Another user's run directory."""
    let_others_in(tmp_path)
    tmp_path.chmod(0o755)
    path = decaying_ext3(2, 50).write(tmp_path / "r")
    for one in [path, *path.rglob("*")]:
        os.chown(one, USER, USER)
    return path


def words(code: str, run: Path, patience_s: float = apart.PATIENCE_S) -> list[str]:
    """The command that runs the code as the report of a run."""
    indented = "\n".join(f"    {line}" for line in code.strip().splitlines())
    program = WORK.replace("CODE", indented).replace("SECONDS", str(patience_s))
    return [str(python_of(TREE)), "-c", program, "report", str(run)]


def report(code: str, run: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words(code, run), cwd=TREE, capture_output=True, text=True, check=False, timeout=120
    )


def in_terminal(command: list[str], **env: str) -> tuple[int, str]:
    """Run a command on a terminal of its own; returns its exit code and the terminal's text."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(TREE)
        os.set_inheritable(os.open("/etc/shadow", os.O_RDONLY), True)
        os.execve(command[0], command, {**os.environ, **env})
    said = b""
    with suppress(OSError):  # EIO: no process has the terminal open any more
        while data := os.read(terminal, 65536):
            said += data
    os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), said.decode()


@contextmanager
def started(
    code: str, run: Path, patience_s: float = apart.PATIENCE_S
) -> Iterator[tuple[subprocess.Popen[str], list[int]]]:
    """Start a command; yields it and the pids in its first line on stderr."""
    process = subprocess.Popen(
        words(code, run, patience_s),
        cwd=TREE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=listen_to_interrupts,  # noqa: PLW1509 (no threads here)
    )
    pids: list[int] = []
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        pids += map(int, line.split())
        yield process, pids
    finally:
        process.kill()
        process.communicate()
        for pid in pids:
            if is_there(pid):
                os.kill(pid, signal.SIGKILL)


def is_there(pid: int) -> bool:
    """Whether a process still runs."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_worker_has_no_terminal_file_or_secret_of_roots(run: Path) -> None:
    """No terminal to type into (TIOCSTI), no file, no secret of the environment."""
    code, said = in_terminal(words(LOOK, run), SECRET="x")
    assert code == 0, said
    found = json.loads(said)
    assert found["uid"] == USER and found["leader"]
    assert (found["terminal"], found["tty"]) == ("0", "No such device or address")
    assert set(found["open"]) == {"0", "1", "2"} and found["open"]["0"] == "/dev/null"
    assert all(found["open"][fd].startswith("pipe:") for fd in "12")
    assert not {"SECRET", "SUDO_UID"} & set(found["environment"])


def test_report_runs_no_other_program(run: Path, tmp_path: Path) -> None:
    """The user could trace it. Matplotlib runs fc-list if it has no font list."""
    (programs := tmp_path / "programs").mkdir()
    (seen := tmp_path / "seen").touch()
    seen.chmod(0o666)
    (programs / "fc-list").write_text(f"#!/bin/sh\nid -u >>{seen}\nexit 1\n")
    (programs / "fc-list").chmod(0o755)
    command = [str(python_of(TREE)), "-m", "analysis", "report", str(run)]
    code, said = in_terminal(command, PATH=f"{programs}:{os.environ['PATH']}")
    assert code == 0, said
    assert "\nSeekmeter: " in said.replace("\r", "") and str(run / "report.txt") in said
    assert seen.read_text() == ""


def test_printing_program_has_no_terminal(tmp_path: Path) -> None:
    let_others_in(tmp_path)
    tmp_path.chmod(0o777)
    (programs := tmp_path / "programs").mkdir(mode=0o755)
    (seen := tmp_path / "seen").touch()
    seen.chmod(0o666)
    (programs / "perf").write_text(
        f'#!/bin/sh\nset -- $(sed "s/.*) //" /proc/$$/stat)\necho "$(id -u) $5" >>{seen}\nexit 1\n'
    )
    (programs / "perf").chmod(0o755)
    (file := tmp_path / "perf.data").write_bytes(b"PERFILE2" + bytes(1000))
    command = [str(python_of(TREE)), "-m", "analysis", "import", f"--out={tmp_path / 'out'}", str(file)]
    code, said = in_terminal(command, PATH=f"{programs}:{os.environ['PATH']}", SUDO_UID=str(USER))
    assert code == 2 and "can't be read by perf" in said
    assert set(seen.read_text().splitlines()) == {f"{USER} 0"}


def test_output_is_escaped_and_complete(run: Path) -> None:
    text = "µ–" * 100_000
    code = (
        'said = "\\x1b]0;x\\a \\u202e\\r\\tb\\n" + "µ–" * 100_000\n'
        'sys.stderr.buffer.write(b"\\x1b[2J \\xff\\n")'
    )
    done = report(code, run)
    assert done.returncode == 0
    assert done.stdout == "\\x1b]0;x\\x07 \\u202e\\r\tb\n" + text
    assert done.stderr == "\\x1b[2J \\xff\n"


def test_output_to_a_file_is_the_same(run: Path, tmp_path: Path) -> None:
    for mode in ("w", "a"):
        with (tmp_path / "said").open(mode) as file:
            done = subprocess.run(
                words('said = "x\\n"', run), cwd=TREE, stdout=file, stderr=subprocess.STDOUT, check=False
            )
        assert done.returncode == 0
    assert (tmp_path / "said").read_text() == "x\nx\n"


def test_worker_ends_with_roots_process(run: Path) -> None:
    with started("print(os.getpid(), file=sys.stderr, flush=True); time.sleep(300)", run) as (process, pids):
        assert is_there(pids[0])
        process.kill()
        wait_for(lambda: not is_there(pids[0]))


WITH_ANOTHER = """
other = subprocess.Popen(["sleep", "300"])
open(PLACE, "w").write(os.environ["MPLCONFIGDIR"])
print(os.getpid(), other.pid, file=sys.stderr, flush=True)
time.sleep(300)
"""


@pytest.mark.parametrize(
    ("number", "code", "says"),
    [
        (signal.SIGINT, 1, "seekmeter: the report was interrupted; what was there before is unchanged\n"),
        (signal.SIGTERM, -signal.SIGTERM, ""),
        (signal.SIGHUP, -signal.SIGHUP, ""),
    ],
)
@pytest.mark.parametrize("deaf", [False, True])
def test_signals_are_passed_on_and_no_process_is_left(
    run: Path, tmp_path: Path, number: signal.Signals, code: int, says: str, deaf: bool
) -> None:
    (place := tmp_path / "place").touch()
    place.chmod(0o666)
    ignore = "\nfor one in (1, 2, 15): signal.signal(one, signal.SIG_IGN)\n" if deaf else ""
    # A process that ignores the signal is killed after PATIENCE_S.
    patience_s = 1.0 if deaf else 30.0
    code_with = ignore + WITH_ANOTHER.replace("PLACE", repr(str(place)))
    with started(code_with, run, patience_s) as (process, pids):
        began = time.monotonic()
        process.send_signal(number)
        _, said = process.communicate(timeout=60)
        assert (process.returncode, said) == (code, says)
        assert not any(map(is_there, pids))
        assert (time.monotonic() - began >= patience_s) == deaf
    assert Path(place.read_text()).exists() == deaf  # its temporary files
    shutil.rmtree(place.read_text(), ignore_errors=True)


def test_processes_left_behind_are_killed_at_once(run: Path) -> None:
    """Also a process in a session of its own that holds the pipes."""
    code = """
other = subprocess.Popen(["sleep", "300"])
away = subprocess.Popen(["sleep", "300"], start_new_session=True)
print(os.getpid(), other.pid, away.pid, file=sys.stderr, flush=True)
said = "done\\n"
"""
    with started(code, run) as (process, pids):
        out, _ = process.communicate(timeout=60)
        assert (process.returncode, out) == (0, "done\n")
        assert list(map(is_there, pids)) == [False, False, True]


def test_signal_that_ended_the_worker_is_named(run: Path) -> None:
    done = report("os.kill(os.getpid(), signal.SIGSEGV)", run)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("seekmeter: the report's process was ended by SIGSEGV; run it")


def test_closed_output_does_not_stop_the_report(run: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        words('said = "x" * 1_000_000', run), cwd=TREE, stdout=writer, stderr=subprocess.PIPE, check=False
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            words('said = "x"', run), cwd=TREE, stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert done.returncode == 1
    assert done.stderr == (
        b"seekmeter: the output can't be written (No space left on device); free some space\n"
    )


def test_worker_removes_its_own_temporary_files_only(run: Path) -> None:
    code = """
import atexit, tempfile
said = os.environ["MPLCONFIGDIR"]
"""
    program = words(code, run)
    program[2] = "import atexit, os\natexit.register(lambda: print('end of', os.getuid()))\n" + program[2]
    done = subprocess.run(program, cwd=TREE, capture_output=True, text=True, check=False)
    place, _, end = done.stdout.partition("end of")
    assert place.startswith("/") and not Path(place.strip()).exists()
    assert end == " 0\n"


def test_worker_needs_access_to_the_working_directory(run: Path, tmp_path: Path) -> None:
    (hidden := tmp_path / "hidden").mkdir(mode=0o700)
    (hidden / "here").mkdir()
    done = subprocess.run(
        words("pass", run), cwd=hidden / "here", env={**os.environ, "PYTHONPATH": str(TREE)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (3, "")
    assert "who can't enter the working directory; start this in another" in done.stderr
