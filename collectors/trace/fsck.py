# SPDX-License-Identifier: BSD-2-Clause
"""Is the file system whole after the run, how long does it take to find that out, and how much room is left?

fsck reads the unmounted disk and changes nothing on it; nothing of the disk is in memory before. All that it
says is in raw/fsck.out. run.json's "filesystem" has "fsck" (command; clean: true, false, or null for no
verdict; why there is none; seconds; said: its last lines) and "space" (after_mkfs, after_run).
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

_RELEASE_SECONDS = 5.0  # for the kernel to let go of the disks
_TELL_SECONDS = 10.0
_LINE_CHARACTERS = 200


def note_space(context: RunContext, directory: Path, when: str) -> None:
    """Write down how much room the mounted file system has. when: after_mkfs, after_run."""
    if mounts.at(directory) is None:  # somebody unmounted it
        return
    try:
        space = filesystems.space(directory)
    except OSError as error:
        context.warn(f"the space used cannot be asked for: {(error.strerror or '').lower()}")
        return
    context.run.facts["filesystem"].setdefault("space", {})[when] = space


def check(
    context: RunContext,
    recording: Recording,
    plan: FilesystemPlan,
    disk: Disk,
    recorded: bool,
    why_not: str | None,
) -> str | None:
    """Check the unmounted disks, unless there is a reason not to. Returns what is wrong, if anything is.

    Interrupts are held before and after. ^C ends it; the run is whole without.
    """
    run = context.run
    command = " ".join(plan.fsck_command(disk.devices))
    found: dict[str, object] = {"command": command or None, "clean": None}
    run.facts["filesystem"]["fsck"] = found
    if not command:
        why_not = f"none exists for {plan.name}"
    if why_not is not None:
        found["why"] = why_not
        context.say("fsck", f"not run: {why_not}")
        return None
    try:
        signals.release()
        clean, said = _run(context, recording, plan, disk, recorded, found)
    except KeyboardInterrupt:
        clean, said = None, "it was interrupted"
    finally:
        signals.hold()
    found["clean"] = clean
    lines = [line[:_LINE_CHARACTERS] for line in said.splitlines()]
    if clean is None:
        found["why"] = said
        context.warn(f"nobody knows whether the file system is whole after the run: fsck: {said}")
    else:
        found["said"] = lines
    run.write()
    if clean is not False:
        return None
    wrong = f"the file system is damaged after the run ({command}: {'; '.join(lines[-3:])})"
    context.warn(wrong)
    return wrong


def _run(
    context: RunContext,
    recording: Recording,
    plan: FilesystemPlan,
    disk: Disk,
    recorded: bool,
    found: dict[str, object],
) -> tuple[bool | None, str]:
    claimed = cold.drop_caches(disk, _RELEASE_SECONDS)
    if claimed is not None:
        return None, f"{claimed} stays in use after the unmount, perhaps by another mount namespace"
    output = context.run.raw / "fsck.out"

    def heard(said: bytes) -> None:
        try:
            with output.open("ab") as file:
                file.write(said)
        except OSError:  # a full disk ends no session
            pass

    tell_s = _TELL_SECONDS

    def look(seconds: float) -> None:
        nonlocal tell_s
        if recorded:
            recording.look()
        if seconds >= tell_s:
            tell_s += _TELL_SECONDS
            context.say("fsck", f"{seconds:.0f} s (^C ends it; the run is whole without)")

    start = time.monotonic()
    with context.step("fsck", str(found["command"]), "fsck_s"), context.phase("fsck", recorded):
        result = filesystems.fsck(plan, disk, heard, look)
    found["seconds"] = round(time.monotonic() - start, 3)
    return result
