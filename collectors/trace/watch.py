# SPDX-License-Identifier: BSD-2-Clause
"""Observe a live system: a device and all that reaches it. Runs nothing, writes nothing to it."""

import time
from pathlib import Path

from collectors.collector import Scope
from collectors.host import blockdev, mounted_from, signals
from collectors.host.mounted_from import Mounted
from collectors.privilege import reach
from collectors.privilege.sudo import owner
from collectors.trace import mounted_layout, sysinfo
from collectors.trace.context import RunContext, ended_in_order, first_facts, new_run, sweep
from collectors.trace.recording import Recording
from workloads.cleanup.janitor import Janitor
from workloads.cli.options import Options
from workloads.disks import queue


def watch(options: Options) -> Path:
    """Watch for SECS seconds; ^C ends it early, and well. Returns the run directory.

    Raises UserError; RunFailed, with the run directory, if there is one to report all the same.
    """
    sweep()
    assert options.dev is not None
    disk = blockdev.whole_disk(options.dev)
    signals.hold()  # until ended_in_order() sees to the run directory
    run = new_run(options.name or f"watch-{disk}", options)
    context = RunContext(run)
    recording = Recording(context)
    with Janitor() as janitor, ended_in_order(context, janitor):
        try:
            _watch(context, recording, options, disk, janitor)
        finally:
            signals.hold()
            recording.kill()
    return run.path


def _watch(context: RunContext, recording: Recording, options: Options, disk: str, janitor: Janitor) -> None:
    run = context.run
    assert options.dev is not None
    context.say("run", str(run.path))
    first_facts(run, options)
    for text in reach.warnings(options):
        context.warn(text)  # told before anything is done
    run.add(
        device={
            **sysinfo.disk_info(disk),
            "kind": "watch",
            "parts": [blockdev.part(options.dev)],
            **queue.facts(disk),
        },
        workload={"name": "watch", "argv": [], "source": "the live system"},
    )
    if disk != options.dev:
        run.warn(f"{options.dev} is a part of {disk}: the whole of {disk} is shown")
    on_it = _look_at_filesystems(context, options.dev)
    scope = Scope(
        run.raw,
        [disk],
        janitor,
        options.room_bytes,
        programs=options.with_programs,
        target=[mounted.dev for mounted in on_it],
        owner_uid=owner().uid,
        addresses=options.addresses,
    )
    recording.start(options.collect, scope)
    from_ns = context.cut_bins()
    start_ns = time.monotonic_ns()
    context.say("watch", f"{disk} for {options.secs:g} s (^C ends it early)")
    try:
        while (left := options.secs - (time.monotonic_ns() - start_ns) / 1e9) > 0 and recording.look():
            time.sleep(min(left, 0.5))
    except KeyboardInterrupt:
        run.warn(f"ended early by the user, after {(time.monotonic_ns() - start_ns) / 1e9:.1f} s")
    signals.hold()
    end_ns = time.monotonic_ns()
    run.phase("watch", start_ns, end_ns, from_ns, context.cut_bins())
    run.facts["clock"].update(workload_start_ns=start_ns, workload_end_ns=end_ns)
    recording.stop(None)
    run.note_own_files(blockdev.filesystem_number(run.path))
    with context.step("geometry", f"reading the layout of the file systems on {disk}", "geometry_s"):
        found, warnings = mounted_layout.of_disk(disk)
    for text in warnings:
        context.warn(text)
    run.facts["filesystem"]["geometry"] = found
    run.facts["state"] = "complete"
    run.facts["exit_status"] = 1
    recording.check()
    run.facts["exit_status"] = 0


def _look_at_filesystems(context: RunContext, device: str) -> list[Mounted]:
    """Find the file systems that are mounted from the device: calls on files there are the application's."""
    found = mounted_from.find(device)
    if len(found) > mounted_from.MOST:
        context.warn(
            f"{len(found)} file systems are mounted from {device}: calls on {mounted_from.MOST} are counted"
        )
    found = found[: mounted_from.MOST]
    context.run.add(
        filesystem={
            "numbers": [one.dev for one in found],
            "mounts": [
                {"name": one.name, "mount_point": one.mount_point, "dev": one.dev, "device": one.device}
                for one in found
            ],
        }
    )
    return found
