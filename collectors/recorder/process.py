# SPDX-License-Identifier: BSD-2-Clause
"""The recorder process (build/recorder): start, commands and stop."""

import json
import os
import select
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from collectors.host import signals
from collectors.host.layers import Layers
from collectors.host.ring import Ring
from collectors.privilege.sudo import TREE
from workloads.cli.options import ROOM_BYTES
from workloads.system import front
from workloads.system.errors import MachineError, RunError

BINARY = TREE / "build/recorder"
_EMULATED_BIN_MS = "500"
_READY_SECONDS = 60.0
_STOP_SECONDS = 60.0


class Recorder:
    """One recorder process. It ends when this process does, as its standard input is a pipe from here."""

    def __init__(
        self,
        out: Path,
        collect: Sequence[str],
        disks: Sequence[str] = (),
        cgroup: Path | None = None,
        target_devs: Sequence[str] = (),
        target_path: Path | None = None,
        borders: tuple[Path, int] | None = None,
        memory_cgroup: Path | None = None,
        *,
        room_bytes: int = ROOM_BYTES,
        addresses: bool = False,
        layers: Layers | None = None,
        ring: Ring | None = None,
        follow_cgroup: Path | None = None,
        follow_pid: int | None = None,
    ) -> None:
        """Start the recorder and wait until every collector is attached, or off with a reason.

        out: directory for the tables. disks: names as in /sys/block. cgroup: the workload's cgroup2 directory
        (None: every process is the workload). target_devs: "major:minor" of the file systems under test.
        target_path: where it will be mounted later; retarget() then sets its number. borders: the socket for
        cuts of the time bins, and the user who may use it besides root. memory_cgroup: the directory that the
        workload's memory is charged to, if writeback is assigned by it. room_bytes: the largest
        size of its files (recorder/room.h has the floor of free space, too). addresses: whether kernel
        addresses may be written. layers: the volumes above the disks. ring: write into a ring
        of this length and size. Raises MachineError or RunError.
        """
        if not BINARY.exists():
            raise MachineError(f"{BINARY} is not built: {front.REBUILD}")
        argv = [str(BINARY), "--out", str(out), "--collect", ",".join(collect)]
        argv += ["--room-bytes", str(room_bytes)]
        if addresses:
            argv.append("--addresses")
        for disk in disks:
            argv += ["--disk", disk]
        argv += _layer_options(layers) if layers is not None else []
        argv += ring.argv() if ring is not None else []
        if cgroup is not None:
            argv += ["--cgroup", str(cgroup)]
        if follow_cgroup is not None:
            argv += ["--follow-cgroup", str(follow_cgroup)]
        if follow_pid is not None:
            argv += ["--follow-pid", str(follow_pid)]
        if memory_cgroup is not None:
            argv += ["--memory-cgroup", str(memory_cgroup)]
        for dev in target_devs:
            argv += ["--target-dev", dev]
        if target_path is not None:
            argv += ["--target-path", str(target_path)]
        if borders is not None:
            argv += ["--borders", str(borders[0]), "--owner", str(borders[1])]
        if os.environ.get("SEEKMETER_EMULATED_CPUS"):
            argv += [
                "--bin-ms",
                _EMULATED_BIN_MS,
            ]  # a bin drained late is lost: longer bins for slow CPUs
        self._lines = b""
        self.end_ns: int | None = None
        started = False
        try:
            # Held: an interrupt before Popen returns would leave a recorder running.
            with signals.held():
                # A session of its own: ^C on the terminal must not end it, stop() does.
                self._process = subprocess.Popen(
                    argv,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    start_new_session=True,
                )
                started = True
            ready = self._read_line("ready", _READY_SECONDS)
            self.states: dict[str, dict[str, str]] = ready["collectors"]
            self.ready_ns = int(ready["monotonic_ns"])  # everything is recorded from this time on
        except BaseException:
            if started:
                self.kill()
            raise

    @property
    def records(self) -> bool:
        """Return whether any collector is on. A recorder without one ends at once, which is no failure."""
        return any(state["state"] == "on" for state in self.states.values())

    @property
    def pid(self) -> int:
        """The recorder's process id."""
        return self._process.pid

    def alive(self) -> bool:
        """Return whether the process still runs."""
        return self._process.poll() is None

    @property
    def has_stopped(self) -> bool:
        """Return whether the process has ended by itself, in order, as a ring does after its last trigger."""
        return self._process.poll() == 0

    def retarget(self, dev: str) -> None:
        """Set another number of the file system under test, "major:minor".

        Returns when the recorder counts by it. Raises RunError if that takes too long.
        """
        if not self.records:
            return
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(f"target {dev}\n".encode())
            self._process.stdin.flush()
            self._read_line("retargeted", _READY_SECONDS)
        except (OSError, MachineError):  # the recorder has ended; alive() returns that
            pass

    def stop(self) -> None:
        """Let the recorder take in what is buffered, and end. Raises RunError if it does not end well.

        Sets .end_ns: everything until then is recorded.
        """
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            code = self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise RunError(
                f"recorder: did not stop in {_STOP_SECONDS:.0f} s and was ended; its tables end early"
            ) from None
        if code not in (0, 1):  # 1: no collector could be attached; losses.json has the reasons
            raise RunError(self.how_it_ended())
        self.end_ns = self._read_end()

    def how_it_ended(self) -> str:
        """Return how a recorder ended that was not stopped."""
        return f"recorder: ended early ({_reason(self._process.wait())}); its tables end there"

    def kill(self) -> None:
        """End the process at once."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()

    def _read_line(self, key: str, seconds: float) -> dict[str, Any]:
        assert self._process.stdout is not None
        end = time.monotonic() + seconds
        while b"\n" not in self._lines:
            wait = end - time.monotonic()
            if wait <= 0 or not select.select([self._process.stdout], [], [], wait)[0]:
                raise RunError(f"recorder: not {key} after {seconds:.0f} s: run {front.command('doctor')}")
            data = os.read(self._process.stdout.fileno(), 65536)
            if not data:
                raise MachineError(f"recorder: {self._error()}")
            self._lines += data
        line, _, self._lines = self._lines.partition(b"\n")
        try:
            answer = json.loads(line)
        except ValueError:
            text = f"recorder: printed {line[:80]!r}, which is no JSON: {front.REBUILD}"
            raise RunError(text) from None
        assert isinstance(answer, dict)
        return answer

    def _read_end(self) -> int | None:
        """Return the time in the recorder's last line, after its end."""
        assert self._process.stdout is not None
        try:
            answer = json.loads(self._lines + self._process.stdout.read())
            return int(answer["monotonic_ns"]) if answer.get("stopped") else None
        except (ValueError, KeyError, TypeError, AttributeError):
            return None

    def _error(self) -> str:
        assert self._process.stderr is not None
        text = self._process.stderr.read().decode(errors="replace").strip().splitlines()
        code = self._process.wait()
        why = text[-1].removeprefix("recorder: ") if text else f"ended ({_reason(code)})"
        return f"{why}; see {front.command('doctor')}"


def _layer_options(layers: Layers) -> list[str]:
    """Return the recorder's options for volumes, hidden disks, and devices that are only counted."""
    options = [("--hidden", f"{layers.numbers[name]}={name}") for name in layers.hidden]
    options += [("--volume", name) for name in layers.volumes]
    options += [("--component", dev) for dev in layers.components]
    options += [("--counted", name) for name in layers.counted]
    return [word for option in options for word in option]


def _reason(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit status {code}"
