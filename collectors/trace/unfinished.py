# SPDX-License-Identifier: BSD-2-Clause
"""Runs whose session has not ended: a note of each on the disk, which kill -9 and a power cut leave there.

As long as a session runs its run directory is root's. The next start finds the notes of sessions that are no
more, marks their runs, and hands them over.
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
    """Note a run; session: the session's directory, which is there as long as it runs. Raises OSError.

    The note is whole on the disk before anything is recorded. Returns its path, to be removed at the end.
    """
    path = _place(session.parent) / f"{boot_id()}.{session.name}.json"
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "w") as file:
        json.dump(run.identity(), file)
        file.flush()
        os.fsync(file.fileno())
    return path


def finish(state: Path) -> Iterator[str]:
    """Mark and hand over the runs whose session is no more; yields the path of each that still ran."""
    try:
        notes = sorted(_place(state).glob("*.json"))
    except OSError:
        return
    for path in notes:
        boot, _, session = path.name.removesuffix(".json").partition(".")
        if boot == boot_id() and (state / session).exists():
            continue  # it lives, or could not be undone yet
        try:
            run = json.loads(path.read_bytes()[:_NOTE_BYTES_MOST])
            if run_dir.mark_killed(run):
                yield run["path"]
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            pass
        path.unlink(missing_ok=True)


def _place(state: Path) -> Path:
    """Where the notes of these sessions are: root's, or beside the user's own list of sessions."""
    if state == STATE:
        return private.home("unfinished")
    place = state.with_name("unfinished")
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    return place
