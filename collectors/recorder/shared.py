# SPDX-License-Identifier: BSD-2-Clause
"""The collectors inside the recorder: how each is probed, and their start as one process.

Each has a C file with its operations (recorder/collector.h) and, for most, a BPF program of the same name in
bpf/. Those that COLLECT= names share one recorder process and its files in raw/recorder/.
"""

import functools
import json
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from collectors.collector import NO, PART, YES, Check, Collector, Running, Scope, Setting, Step
from collectors.host import kernel
from collectors.recorder import losses
from collectors.recorder.process import BINARY, Recorder
from workloads.system import front
from workloads.system.errors import RunError

_PROBE_SECONDS = 60  # emulated CPUs take 15


def recorder_collector(
    name: str,
    *,
    default: bool,
    order: int,
    cost: str,
    tables: tuple[str, ...],
    tracepoints: tuple[str, ...] = (),
    settings: tuple[Setting, ...] = (),
    needed: bool = False,
    remedy: str = "a kernel with CONFIG_TRACEPOINTS=y",
    tried: str = "tried: loads and attaches",
    untried: Callable[[], Check] | None = None,
) -> Collector:
    """Return a collector that runs inside the recorder.

    remedy: for a kernel without its tracepoints. tried: doctor's text if recorder --probe started it.
    untried: the check where --probe cannot be run; None: by the tracepoints that the kernel lists.
    """

    def probe() -> Check:
        state = (probed() or {}).get(name)
        if state is None:
            return untried() if untried is not None else _by_tracepoints(name, tracepoints, remedy, needed)
        if state["state"] == "on":
            return Check(name, YES, tried)
        return Check(name, NO, f"tried: {state['why']}", state["remedy"], needed)

    return Collector(
        name, default, order, cost, tables, probe, start, tracepoints=tracepoints, settings=settings
    )


def _by_tracepoints(name: str, tracepoints: Sequence[str], remedy: str, needed: bool) -> Check:
    missing = [tracepoint for tracepoint in tracepoints if not kernel.has_tracepoint(tracepoint)]
    if not kernel.has_btf():
        return Check(name, NO, "no type info (above)")
    if len(missing) == len(tracepoints):
        return Check(name, NO, f"no tracepoint {', '.join(missing)}", remedy, needed)
    if missing:
        why = f"no tracepoint {', '.join(missing)}: an older or newer kernel than expected"
        return Check(name, PART, why)
    how = "it is tried as root, " if os.geteuid() != 0 else "it is tried "
    how += "with the recorder built"
    return Check(name, YES, f"all {len(tracepoints)} tracepoints are listed ({how})")


@functools.cache
def probed() -> dict[str, dict[str, str]] | None:
    """Return the state of each collector that recorder --probe loaded and attached; None if it cannot run."""
    if os.geteuid() != 0 or not os.access(BINARY, os.X_OK):
        return None
    try:
        done = subprocess.run(
            [BINARY, "--probe"],
            capture_output=True,
            text=True,
            check=False,
            timeout=_PROBE_SECONDS,
            stdin=subprocess.DEVNULL,
        )
        states: dict[str, dict[str, str]] = json.loads(done.stdout.splitlines()[-1])["collectors"]
    except (OSError, subprocess.TimeoutExpired, ValueError, LookupError):
        return None
    return states


def check_recorder() -> Check | None:
    """Return a line of doctor if the recorder is built and root runs it, and its --probe gives no answer."""
    if probed() is not None or os.geteuid() != 0 or not BINARY.exists():
        return None
    why = "build/recorder --probe gave no answer; the lines below are concluded from the kernel's lists"
    return Check("recorder", NO, why, f"run {BINARY} --probe, which says why; or {front.REBUILD}")


class RunningRecorder(Running):
    """The recorder process of a session, with all collectors inside."""

    is_main = True

    def __init__(self, scope: Scope, names: Sequence[str]) -> None:
        """Start the recorder. Raises MachineError or RunError."""
        devs, path = ((), scope.target) if isinstance(scope.target, Path) else (scope.target, None)
        socket = scope.janitor.session_dir / "borders"
        self._raw = scope.raw
        self._recorder = Recorder(
            scope.raw / "recorder",
            names,
            scope.layers.disks,
            scope.cgroup,
            devs,
            path,
            (socket, scope.owner_uid),
            scope.memory_cgroup,
            room_bytes=scope.room_bytes,
            addresses=scope.addresses,
            layers=scope.layers,
            ring=scope.ring,
            follow_cgroup=scope.follow_cgroup,
            follow_pid=scope.follow_pid,
        )
        self._is_ring = scope.ring is not None
        scope.janitor.add_process(self._recorder.pid)
        self.states: Mapping[str, Mapping[str, str]] = self._recorder.states
        self.ready_ns = self._recorder.ready_ns
        self.pid = self._recorder.pid
        self.cut_socket = socket if self._recorder.records else None

    def poll(self) -> str | None:
        """Check that the recorder runs. With all its collectors off it ends at once, which is no failure."""
        if self.failed or not self._recorder.records or self._recorder.alive():
            return None
        if self._is_ring and self._recorder.has_stopped:
            return None
        self.failed = True
        return f"{self._recorder.how_it_ended()}; nothing is recorded from here on"

    def retarget(self, dev: str) -> None:
        """Set the file system under test. Raises RunError if the recorder does not confirm it in time."""
        self._recorder.retarget(dev)

    def end_for_room(self) -> None:
        """Leave the recorder alone: it checks the room itself, and goes on counting (recorder/room.h)."""

    @property
    def stop_step(self) -> Step | None:
        """None for a recorder that has died: nothing is left to take in."""
        return None if self.failed else Step("stop", "taking in the rest of the recording", "stop_s")

    def stop(self) -> None:
        """Take in what is buffered. Raises RunError if the recorder does not end well."""
        if self.failed:
            return
        try:
            self._recorder.stop()
        except RunError:
            self.failed = True
            raise
        finally:
            # The time of taking in the rest is no part of the recorded time.
            self.end_ns = self._recorder.end_ns if self._recorder.records else None

    def losses(self) -> dict[str, Any]:
        """Return the recorder's losses.json."""
        return losses.read(self._raw, self.states, not self.failed)

    def kill(self) -> None:
        """End the recorder at once. Its BPF programs end with it."""
        self._recorder.kill()


def start(scope: Scope, names: Sequence[str]) -> Running:
    """Start one recorder with these collectors. Raises MachineError or RunError."""
    return RunningRecorder(scope, names)
