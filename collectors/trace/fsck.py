# SPDX-License-Identifier: BSD-2-Clause
"""fsck after the run: the file system's damage, the duration of the check; and the space used.

fsck reads the unmounted disk, with cold caches, and changes nothing. Its output is raw/fsck.out. run.json's
"filesystem" has "fsck" (command; clean: true, false, or null for no verdict; why; seconds; said: its last
lines) and "space" (after_mkfs, after_run).
"""

import time
from pathlib import Path

from collectors.host import signals
from collectors.trace.context import RunContext
from collectors.trace.recording import Recording
from workloads import filesystems
from workloads.disks import Disk, cold
from workloads.filesystems.plan import FilesystemPlan
from workloads.system import mounts

_RELEASE_SECONDS = 5.0  # for the kernel to release the disks
_REPORT_SECONDS = 10.0
_LINE_CHARACTERS = 200


def note_space(context: RunContext, directory: Path, when: str) -> None:
    """Write the used and free space of the mounted file system into run.json. when: after_mkfs, after_run."""
    if mounts.at(directory) is None:  # unmounted by another program
        return
    try:
        space = filesystems.space(directory)
    except OSError as error:
        context.warn(f"the used space of {directory} cannot be read: {(error.strerror or '').lower()}")
        return
    context.run.facts["filesystem"].setdefault("space", {})[when] = space


def check(
    context: RunContext,
    recording: Recording,
    plan: FilesystemPlan,
    disk: Disk,
    recorded: bool,
    unchecked: str | None,
) -> str | None:
    """Run fsck on the unmounted disks. Returns the damage; None: undamaged, or not checked.

    unchecked: why fsck is not run; None: it is. recorded: as a phase of the run (WITH=fsck). Signals are held
    before and after; ^C ends fsck alone.
    """
    run = context.run
    command = " ".join(plan.fsck_command(disk.devices))
    facts: dict[str, object] = {"command": command or None, "clean": None}
    run.facts["filesystem"]["fsck"] = facts
    if not command:
        unchecked = f"none exists for {plan.name}"
    if unchecked is not None:
        facts["why"] = unchecked
        context.say("fsck", f"not run: {unchecked}")
        return None
    try:
        signals.release()
        clean, output = _run(context, recording, plan, disk, recorded, facts)
    except KeyboardInterrupt:
        clean, output = None, "it was interrupted"
    finally:
        signals.hold()
    facts["clean"] = clean
    lines = [line[:_LINE_CHARACTERS] for line in output.splitlines()]
    if clean is None:
        facts["why"] = output
        context.warn(f"the file system is not checked after the run: fsck: {output}")
    else:
        facts["said"] = lines
    run.write()
    if clean is not False:
        return None
    damage = f"the file system is damaged after the run ({command}: {'; '.join(lines[-3:])})"
    context.warn(damage)
    return damage


def _run(
    context: RunContext,
    recording: Recording,
    plan: FilesystemPlan,
    disk: Disk,
    recorded: bool,
    facts: dict[str, object],
) -> tuple[bool | None, str]:
    claimed = cold.drop_caches(disk, _RELEASE_SECONDS)
    if claimed is not None:
        return None, f"{claimed} stays in use after the unmount, perhaps by another mount namespace"
    path = context.run.raw / "fsck.out"

    def keep(output: bytes) -> None:
        try:
            with path.open("ab") as file:
                file.write(output)
        except OSError:  # a full disk ends no session
            pass

    report_s = _REPORT_SECONDS

    def watch(seconds: float) -> None:
        nonlocal report_s
        if recorded:
            recording.poll()
        if seconds >= report_s:
            report_s += _REPORT_SECONDS
            context.say("fsck", f"{seconds:.0f} s (^C ends fsck, and the run stays complete)")

    start = time.monotonic()
    with context.step("fsck", str(facts["command"]), "fsck_s"), context.phase("fsck", recorded):
        result = filesystems.fsck(plan, disk, keep, watch)
    facts["seconds"] = round(time.monotonic() - start, 3)
    return result
