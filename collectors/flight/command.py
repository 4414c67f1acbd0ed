# SPDX-License-Identifier: BSD-2-Clause
"""make watch with UNTIL=: record into a ring in memory, and keep what was around each trigger as a run.

The recorder watches for the triggers itself, cuts the ring, and says what may be kept. This process prints,
runs CMD= and ON=, and has each window kept and reported by children of idle priority. Nothing is written to a
disk before the first trigger.
"""

import grp
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from collectors.collector import collectors
from collectors.flight.kept_run import Place
from collectors.flight.ring_mount import RingMount
from collectors.flight.watcher import Watcher
from collectors.host import blockdev, layers, mounted_from, signals
from collectors.host.ring import Ring
from collectors.live.windows import Windows
from collectors.privilege import reach
from collectors.privilege.sudo import owner, runs_home
from collectors.recorder import shared
from collectors.trace import watch
from collectors.trace.context import RunContext, first_facts, sweep
from collectors.trace.recording import Recording
from collectors.trace.run_dir import RunDirectory
from collectors.trace.stack import Stack
from workloads.cleanup.janitor import Janitor
from workloads.cleanup.undo import start_time
from workloads.cli.options import Options
from workloads.system import device_graph
from workloads.system.device_graph import Graph
from workloads.system.errors import MachineError, OptionError, RunError, UserError

_OF_SESSION = 8  # part of the memory that is not for the recorder: the log, run.json, and room to spare


def run_flight(options: Options) -> None:
    """Watch until TIMES triggers, or ^C, which is no failure. Raises UserError."""
    _check_collectors(options)
    sweep()
    assert options.dev is not None
    graph = device_graph.read()
    if options.dev not in graph.nodes:
        raise MachineError(f"DEV={options.dev} is gone: see lsblk")
    signals.hold()
    with Janitor() as janitor:
        ring = RingMount(janitor, options.ram_bytes)
        with ExitStack() as stack:
            stack.callback(ring.close)
            context = RunContext(RunDirectory("watch", str(ring.run), owner()))
            stack.callback(context.close)
            try:
                with _ended_in_order():
                    _watch(context, options, graph, janitor, ring)
            finally:
                signals.hold()  # what follows puts everything back


@contextmanager
def _ended_in_order() -> Iterator[None]:
    """Release signals in the block; ^C before the watch has begun leaves nothing."""
    try:
        signals.release()
        yield
    except KeyboardInterrupt:
        raise RunError("interrupted before the watch began: everything is put back") from None


def _check_collectors(options: Options) -> None:
    """Refuse collectors that write beside the ring. Raises OptionError."""
    if not options.collect:
        raise OptionError("COLLECT=none contradicts UNTIL: nothing would be recorded; drop one")
    for name in options.collect:
        if collectors()[name].start is not shared.start:
            raise OptionError(
                f"COLLECT={name} contradicts UNTIL: {name} cannot write into a ring; leave it out"
            )


def _watch(context: RunContext, options: Options, graph: Graph, janitor: Janitor, ring: RingMount) -> None:
    assert options.dev is not None
    run, node = context.run, graph.nodes[options.dev]
    first_facts(run, options)
    for text in reach.warnings(options):
        context.warn(text)
    watch.describe(run, node.name, node.disk)
    with ExitStack() as stack:
        devices = Stack(context, graph, layers.above_watched(graph, node.name))
        filesystems = watch.find_filesystems(context, node.name)
        watch.settle(context, options, filesystems)
        # Now, as a device that hangs later could not be read.
        watch.read_layout(context, devices)
        place = _place(options, node.disk)
        is_late = _lies_on(place, graph, {node.name, node.disk})
        if is_late:
            context.warn(
                f"the kept runs lie on {node.disk}, which is watched: they stay in memory until the watch "
                f"ends (another disk by OUT= spares that)"
            )
        _note(run, options, place)
        recording = Recording(context)
        stack.callback(recording.kill)
        scope = watch.scope(run, options, devices, filesystems, janitor)
        recording.start(options.collect, replace(scope, ring=_ring(options)), devices)
        ring.has_unsaved()
        recorder_pid = recording.pids()[-1]
        run.add(recorder_process=[recorder_pid, start_time(recorder_pid)])
        watcher = Watcher(context, options, recording, place, janitor.session_dir, is_late)
        stack.callback(watcher.close)
        watcher.carry_on()
        signals.hold()
        watcher.end()
    if watcher.is_all_saved:
        ring.saved()
    watcher.check()


def _ring(options: Options) -> Ring:
    triggers: dict[str, str] = {}
    for condition in options.until:  # `signal` and `exit` are one to the recorder
        before = triggers.get(condition.spec)
        triggers[condition.spec] = condition.shown if before is None else f"{before} or {condition.shown}"
    return Ring(
        round(options.keep_s * 1e9),
        round(options.after_s * 1e9),
        options.times,
        round(options.gap_s * 1e9),
        options.ram_bytes - options.ram_bytes // _OF_SESSION,
        tuple(triggers.items()),
    )


def _place(options: Options, disk: str) -> Place:
    """Return where kept runs go; make OUT= now. Raises UserError."""
    group = None if options.group is None else grp.getgrnam(options.group).gr_gid
    out = None
    if options.out is not None:
        out = str(Windows(disk, options.out, owner(), options.group).path)
    name = options.name or f"watch-{disk}"
    return Place(f"{name}-flight", out, owner(), group)


def _lies_on(place: Place, graph: Graph, watched: set[str]) -> bool:
    """Return whether the kept runs lie on the watched disk."""
    directory = Path(place.out) if place.out is not None else runs_home()
    try:
        found = blockdev.under(directory, graph).found.devices
    except (OSError, UserError):
        return False
    below = mounted_from.devices_below([device.name for device in found], graph)
    return bool(watched & (below | {graph.nodes[name].disk for name in below}))


def _note(run: RunDirectory, options: Options, place: Place) -> None:
    """Write into the ring's run.json what a later start needs to keep what is in the ring."""
    run.add(
        place=place.facts(),
        flight={
            "until": options.given["UNTIL"],
            "keep_ns": round(options.keep_s * 1e9),
            "after_ns": round(options.after_s * 1e9),
            "begun_ns": time.monotonic_ns(),
        },
    )
