# SPDX-License-Identifier: BSD-2-Clause
"""raw/paths.jsonl: paths of the inodes recorded by number, resolved while the file system is mounted."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from collectors.host import blockdev
from collectors.privilege.ownership import as_user
from collectors.privilege.sudo import owner
from collectors.trace import inode_paths
from collectors.trace.context import RunContext
from collectors.trace.inode_paths import Walk


def on_own_filesystem(context: RunContext, directory: Path, numbers: Sequence[str], is_shared: bool) -> None:
    """Resolve the inodes of locks and requests below the mount point.

    numbers: "major:minor" of each of its mounts. is_shared: other file systems are on the same disks.
    Otherwise every request is of this one.
    """
    requests = _inodes_of_requests(context, numbers if is_shared else None, inode_paths.MOST)
    wanted = requests | _inodes_of_locks(context, numbers)
    if not wanted:
        return
    with _step(context, wanted):
        below = inode_paths.find(directory, wanted)
        _write(context, numbers, [below])
    _keep_counts(context, wanted, below, None)


def in_user_directory(context: RunContext, directory: Path, numbers: Sequence[str]) -> None:
    """Resolve the inodes below DIR=, and of the others on its file system.

    Every inode is resolved: its path shows whether the workload or another program wrote the file.
    """
    run = context.run
    requests = _inodes_of_requests(context, numbers, inode_paths.INODES)
    run.note_own_files(blockdev.filesystem_number(run.path))
    wanted = requests | _inodes_of_locks(context, numbers)
    if not wanted:
        return
    outside = Walk()
    with _step(context, wanted):
        with as_user(owner()):  # names that the user may not list are not written
            below = inode_paths.find(directory, wanted)
            if missing := wanted - below.paths.keys():
                outside = inode_paths.find_outside(blockdev.mount_point(directory), directory, missing)
        _write(context, numbers, [below, outside])
    _keep_counts(context, wanted, below, outside)


def _inodes_of_requests(context: RunContext, numbers: Sequence[str] | None, most: int) -> set[int]:
    """Return the inodes of requests to the disks, and of bios to the volumes."""
    recordings = [context.run.recordings / name for name in ("block.rec", "volume.rec")]
    return set().union(
        *(inode_paths.inodes_of_requests(recording, numbers, most) for recording in recordings)
    )


def _inodes_of_locks(context: RunContext, numbers: Sequence[str]) -> set[int]:
    return inode_paths.inodes_of_locks(context.run.recordings / "lock.jsonl", numbers)


def _step(context: RunContext, wanted: set[int]) -> AbstractContextManager[None]:
    return context.step("paths", f"looking for {len(wanted)} inodes of locks and of requests", "paths_s")


def _write(context: RunContext, numbers: Sequence[str], walks: Sequence[Walk]) -> None:
    run = context.run
    try:
        inode_paths.write(run.raw / "paths.jsonl", numbers, walks, run.facts["clock"]["realtime_offset_ns"])
    except OSError as error:
        context.warn(f"{run.raw}/paths.jsonl cannot be written: {(error.strerror or '').lower()}")


def _keep_counts(context: RunContext, wanted: set[int], below: Walk, outside: Walk | None) -> None:
    """Write run.json's "paths", and warn of inodes without a path."""
    paths: dict[str, object] = {
        "wanted": len(wanted),
        "found": len(below.paths),
        "looked_at": below.looked_at,
        "whole": below.whole,
    }
    resolved = len(below.paths)
    if outside is not None:
        paths |= {"outside": len(outside.paths), "outside_whole": outside.whole}
        resolved += len(outside.paths)
    context.run.add(paths=paths)
    if not below.whole:
        context.run.warn(
            f"{len(wanted) - resolved} of {len(wanted)} inodes have no path: the search ended after "
            f"{below.looked_at:,} names (at most {inode_paths.SECONDS:g} s)"
        )
