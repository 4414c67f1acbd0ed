# SPDX-License-Identifier: BSD-2-Clause
"""Notes of unfinished runs on the disk, which outlive kill -9 and a power cut.

A run directory is root's as long as its session runs. The next start reads the notes of dead sessions, marks
their runs as interrupted, and hands them to their users.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path

from collectors.trace import run_dir
from collectors.trace.run_dir import RunDirectory
from workloads.cleanup.janitor import STATE, boot_id
from workloads.system import private

_NOTE_BYTES_MOST = 64 << 10


def note(run: RunDirectory, session: Path) -> Path:
    """Write the note of a run, synced to the disk. Returns its path, to be removed at the end.

    session: the session's directory, which exists as long as the session. Raises OSError.
    """
    path = _directory(session.parent) / f"{boot_id()}.{session.name}.json"
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "w") as file:
        json.dump(run.identity(), file)
        file.flush()
        os.fsync(file.fileno())
    return path


def finish(state: Path) -> Iterator[str]:
    """Mark and hand over the runs of dead sessions. Yields the path of each run that was still running."""
    try:
        notes = sorted(_directory(state).glob("*.json"))
    except OSError:
        return
    for path in notes:
        boot, _, session = path.name.removesuffix(".json").partition(".")
        if boot == boot_id() and (state / session).exists():
            continue  # the session lives, or could not be undone yet
        try:
            run = json.loads(path.read_bytes()[:_NOTE_BYTES_MOST])
            if run_dir.mark_killed(run):
                yield run["path"]
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            pass
        path.unlink(missing_ok=True)


def _directory(state: Path) -> Path:
    """Return the directory of the notes: root's, or next to the user's own list of sessions."""
    if state == STATE:
        return private.home("unfinished")
    directory = state.with_name("unfinished")
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    return directory
