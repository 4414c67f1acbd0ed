# SPDX-License-Identifier: BSD-2-Clause
"""Writes to a run directory that others can write to: no other file is changed."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from analysis.errors import ReportError
from analysis.rundir.files import rewritten, write_atomic
from tests.analysis.synthetic import decaying_ext3

# A process, not a thread, which would wait for the report's threads: it sees only that a new name appears.
SWAP = """
import os, sys
run, precious = sys.argv[1:]
known, swapped = set(), 0
print("ready", flush=True)
while os.getppid() == int(os.environ["PARENT"]) and not os.path.exists(run + "/stop"):
    for folder in (run, run + "/tables"):
        try:
            new = [name for name in os.listdir(folder) if name.startswith(".") and name not in known]
        except FileNotFoundError:
            continue
        for name in new:
            known.add(name)
            try:
                os.symlink(precious, folder + "/" + name + ".link")
                os.rename(folder + "/" + name + ".link", folder + "/" + name)
                known.add(name + ".link")
                swapped += 1
            except OSError:
                pass
print(swapped, flush=True)
"""


@contextmanager
def swapper(run: Path, precious: Path) -> Iterator[list[int]]:
    """Replace each new temporary name by a link during the block; yields the number of swaps."""
    env = os.environ | {"PARENT": str(os.getpid())}
    found: list[int] = []
    with subprocess.Popen(
        [sys.executable, "-c", SWAP, run, precious], env=env, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        try:
            yield found
        finally:
            (run / "stop").touch()
            found.append(int(process.stdout.readline()))


@pytest.mark.parametrize("times", [1, pytest.param(4, marks=pytest.mark.long)])
def test_write_does_not_follow_a_swapped_temporary_name(tmp_path: Path, times: int) -> None:
    """Some names are gone before the swapper sees them; a report writes ten."""
    run = decaying_ext3(2, 50).write(tmp_path / "r")
    precious = tmp_path / "precious"
    precious.write_text("precious")
    precious.chmod(0o600)
    with swapper(run, precious) as swapped:
        for _ in range(times):
            done = subprocess.run(
                [sys.executable, "-m", "analysis", "report", str(run)], capture_output=True, check=False
            )
            assert b"Traceback" not in done.stderr
    assert swapped[0] > 0
    assert precious.read_text() == "precious"
    assert precious.stat().st_mode & 0o777 == 0o600


def test_write_replaces_a_link_without_following_it(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("precious")
    (folder := tmp_path / "r").mkdir()
    with rewritten(folder / "report.txt") as file:
        (temporary,) = folder.iterdir()
        temporary.unlink()
        temporary.symlink_to(precious)
        file.write(b"x" * 100_000)
    assert precious.read_text() == "precious"


def test_folder_that_became_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "tables").symlink_to("elsewhere")
    with pytest.raises(ReportError, match=r"tables can't be written"):
        write_atomic(tmp_path / "tables" / "block.parquet", b"")
    assert not list((tmp_path / "elsewhere").iterdir())


def test_failed_write_keeps_the_old_file(tmp_path: Path) -> None:
    write_atomic(tmp_path / "report.txt", b"before")
    with pytest.raises(ValueError, match="full"), rewritten(tmp_path / "report.txt") as file:
        file.write(b"half")
        raise ValueError("full")
    (tmp_path / "directory").mkdir()
    with pytest.raises(ReportError, match="move what has that name"):
        write_atomic(tmp_path / "directory", b"")
    assert (tmp_path / "report.txt").read_bytes() == b"before"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["directory", "report.txt"]


@pytest.mark.parametrize(("folder", "file"), [(0o700, 0o600), (0o711, 0o600), (0o750, 0o640)])
def test_result_mode_follows_the_run_directory(tmp_path: Path, folder: int, file: int) -> None:
    (run := tmp_path / "r").mkdir()
    run.chmod(folder)
    groups = {*os.getgroups(), os.getegid()}
    os.chown(run, -1, max(groups))
    write_atomic(run / "report.txt", b"")
    about = (run / "report.txt").stat()
    assert about.st_mode & 0o777 == file
    assert file == 0o600 or about.st_gid == max(groups)


def test_two_writers_of_a_file_do_not_mix(tmp_path: Path) -> None:
    threads = [
        threading.Thread(target=write_atomic, args=(tmp_path / "f", letter * 1_000_000))
        for letter in (b"a", b"b")
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (tmp_path / "f").read_bytes() in (b"a" * 1_000_000, b"b" * 1_000_000)
    assert [path.name for path in tmp_path.iterdir()] == ["f"]
