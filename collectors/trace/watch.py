# SPDX-License-Identifier: BSD-2-Clause
"""make watch: record a device of a live system for SECS seconds. Runs and writes nothing on it."""

import os
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from collectors.collector import Scope
from collectors.host import blockdev, layers, mounted_from, signals
from collectors.host.followed import Followed, find
from collectors.host.mounted_from import Mounted
from collectors.privilege import reach
from collectors.privilege.sudo import owner
from collectors.recorder import losses
from collectors.trace import mounted_layout, sysinfo
from collectors.trace.context import RunContext, ended_in_order, first_facts, new_run, sweep
from collectors.trace.progress import LONG_SECONDS, ProgressLine, duration, with_growth
from collectors.trace.recording import Recording
from collectors.trace.run_dir import RunDirectory
from collectors.trace.stack import Stack
from workloads import filesystems
from workloads.cleanup.janitor import Janitor
from workloads.cli.options import Options
from workloads.disks import queue
from workloads.system import device_graph
from workloads.system.device_graph import Graph
from workloads.system.errors import MachineError, UserError

# In the environment of a live watch's window: the process that starts the windows and makes their screens.
LIVE = "SEEKMETER_LIVE_PID"


def watch(options: Options) -> Path:
    """Record for SECS seconds; ^C ends that early, which is no failure. Returns the run directory.

    Raises UserError; RunFailed, with the run directory, if there is one to report all the same.
    """
    sweep()
    assert options.dev is not None
    graph = device_graph.read()
    if options.dev not in graph.nodes:
        raise MachineError(f"DEV={options.dev} is gone: see lsblk")
    disk = graph.nodes[options.dev].disk
    signals.hold()  # until ended_in_order() takes over
    context = RunContext(new_run(options.name or f"watch-{disk}", options))
    with Janitor() as janitor, ended_in_order(context, janitor), ExitStack() as stack:
        try:
            _watch(context, options, graph, janitor, stack)
        finally:
            signals.hold()  # what follows puts everything back
    return context.run.path


def _watch(context: RunContext, options: Options, graph: Graph, janitor: Janitor, stack: ExitStack) -> None:
    assert options.dev is not None
    _announce(context, options)
    node = graph.nodes[options.dev]
    describe(context.run, node.name, node.disk)
    devices = Stack(context, graph, layers.above_watched(graph, node.name))
    filesystems = find_filesystems(context, node.name)
    followed = followed_by(context, options)
    settle(context, options, filesystems)
    recording = Recording(context)
    stack.callback(recording.kill)
    what = scope(context.run, options, devices, filesystems, janitor)
    if followed is not None:
        what = replace(
            what,
            follow_cgroup=followed.directory,
            follow_pid=followed.pid,
            memory_cgroup=followed.memory_directory,
        )
    recording.start(options.collect, what, devices)
    _wait(context, recording, node.disk, options)
    recording.stop(None)
    if followed is not None:
        _say_how_it_went(context, followed)
    context.run.note_own_files(blockdev.filesystem_number(context.run.path))
    read_layout(context, devices)
    _conclude(context.run, recording)


def _announce(context: RunContext, options: Options) -> None:
    """Print the run's path, write its first facts, and warn now, before anything is done."""
    context.say("run", str(context.run.path))
    first_facts(context.run, options)
    for text in reach.warnings(options):
        context.warn(text)


def describe(run: RunDirectory, dev: str, disk: str) -> None:
    """Write run.json's "device" and "workload"."""
    run.add(
        device={
            **sysinfo.disk_info(disk),
            "kind": "watch",
            "parts": [blockdev.part(dev)],
            **queue.facts(disk),
        },
        workload={"name": "watch", "argv": [], "source": "the live system"},
    )
    if (driver := os.environ.get(LIVE, "")).isdecimal():
        run.add(live={"pid": int(driver)})
    if disk != dev:
        run.warn(f"{dev} is a part of {disk}: the whole of {disk} is shown")


def followed_by(context: RunContext, options: Options) -> Followed | None:
    """Find what UNIT=, CGROUP= or PID= names, and write it into run.json. Raises MachineError."""
    if options.follow is None:
        return None
    followed = find(options.follow)
    context.run.facts["workload"]["follow"] = followed.facts()
    context.say("follow", f"{followed.name}: its work is the workload, all else is others'")
    return followed


def _say_how_it_went(context: RunContext, followed: Followed) -> None:
    """Write into run.json, and warn, whether what was followed has ended or was started again."""
    run = context.run
    try:
        found = losses.read_checked(run.raw).get("recorder", {}).get("workload", {})
    except (OSError, ValueError, RecursionError):
        return  # the recorder was killed: the run says so
    facts: dict[str, Any] = run.facts["workload"]["follow"]
    facts |= {name: found.get(name) for name in ("restarts", "gone_ns")}
    if facts["gone_ns"]:
        after_s = (facts["gone_ns"] - run.facts["clock"]["workload_start_ns"]) / 1e9
        context.warn(f"{followed.name} ended after {max(after_s, 0.0):.1f} s of the watch")
    if facts["restarts"]:
        context.warn(f"{followed.name} was started again ({facts['restarts']} times) and followed on")
        if followed.memory_directory is not None:
            context.warn("writes of cached pages after a restart count as others'")
    for reason, count in found.get("lost", {}).items():
        if count:
            context.warn(f"{count} processes of {followed.name} are not followed ({reason})")


def find_filesystems(context: RunContext, device: str) -> list[Mounted]:
    """Return the file systems mounted from the device: calls on their files are the application's."""
    mounted = mounted_from.find(device)
    if len(mounted) > mounted_from.MOST:
        context.warn(
            f"{len(mounted)} file systems are mounted from {device}: calls on {mounted_from.MOST} are counted"
        )
    mounted = mounted[: mounted_from.MOST]
    for kind in dict.fromkeys(filesystem.name for filesystem in mounted):
        if text := filesystems.unseen(kind):
            context.warn(f"{kind}: {text}")
    context.run.add(
        filesystem={
            "numbers": [filesystem.dev for filesystem in mounted],
            "mounts": [
                {
                    "name": filesystem.name,
                    "mount_point": filesystem.mount_point,
                    "dev": filesystem.dev,
                    "device": filesystem.device,
                }
                for filesystem in mounted
            ],
        }
    )
    return mounted


def settle(context: RunContext, options: Options, filesystems: list[Mounted]) -> None:
    """Write back the device's file systems if SYNC=1 asks for it."""
    context.run.facts["filesystem"]["synced_before"] = options.sync
    if not options.sync:
        sysinfo.say_dirty(context.say)
        return
    with context.step("settle", f"writing back the file systems on {options.dev} (SYNC=1)", "settle_s"):
        for filesystem in filesystems:
            try:
                blockdev.sync(Path(filesystem.mount_point))
            except (OSError, UserError) as error:  # another namespace's mount point
                context.warn(f"{filesystem.mount_point} cannot be synced: {error}")


def scope(
    run: RunDirectory, options: Options, devices: Stack, filesystems: list[Mounted], janitor: Janitor
) -> Scope:
    """Return what is recorded: the device's disks and volumes, and calls on its file systems."""
    return Scope(
        run.raw,
        janitor,
        options.room_bytes,
        programs=options.with_programs,
        target=[filesystem.dev for filesystem in filesystems],
        owner_uid=owner().uid,
        addresses=options.addresses,
        layers=devices.layers,
        ends_at_max=options.ends_at_max,
    )


def _wait(context: RunContext, recording: Recording, disk: str, options: Options) -> None:
    """Wait for SECS seconds, until ^C, MAX=, or until the recording fails: the run's only phase."""
    run, seconds = context.run, options.secs
    line = ProgressLine(context.log)
    from_ns = context.cut_bins()
    start_ns = time.monotonic_ns()
    context.say("watch", f"{disk} for {seconds:g} s (^C ends it early)")
    try:
        while (left_s := seconds - (time.monotonic_ns() - start_ns) / 1e9) > 0 and recording.poll():
            if options.ends_at_max and recording.is_out_of_room:
                run.warn(f"ended at MAX=, after {seconds - left_s:.1f} of {seconds:g} s")
                break
            _show_progress(line, recording, seconds, seconds - left_s)
            time.sleep(min(left_s, 0.5))
    except KeyboardInterrupt:
        run.warn(f"ended early by the user, after {(time.monotonic_ns() - start_ns) / 1e9:.1f} s")
    signals.hold()
    line.end()
    end_ns = time.monotonic_ns()
    run.phase("watch", start_ns, end_ns, from_ns, context.cut_bins())
    run.facts["clock"].update(workload_start_ns=start_ns, workload_end_ns=end_ns)


def _show_progress(line: ProgressLine, recording: Recording, seconds: float, so_far_s: float) -> None:
    """Show how far a long watch is, and how its recording grows."""
    if (growth := recording.growth()) and so_far_s >= LONG_SECONDS:
        text = f"  {'watch':<9} {duration(so_far_s)} of {duration(seconds)}"
        line.show(so_far_s, lambda: with_growth(text, so_far_s, growth))


def read_layout(context: RunContext, devices: Stack) -> None:
    """Read from the devices where the mounted file systems keep their metadata, for run.json."""
    names = [root.name for root in devices.layers.roots]
    with context.step("layout", f"reading the layout of the file systems on {' '.join(names)}", "geometry_s"):
        disk_layout, warnings = mounted_layout.of_disks(names)
    for text in warnings:
        context.warn(text)
    context.run.facts["filesystem"]["geometry"] = disk_layout


def _conclude(run: RunDirectory, recording: Recording) -> None:
    """Write how the run ended. Raises RunError if a collector did not last."""
    run.facts["state"] = "complete"
    run.facts["exit_status"] = 1
    recording.check()
    run.facts["exit_status"] = 0
