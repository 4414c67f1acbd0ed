# SPDX-License-Identifier: BSD-2-Clause
"""Run the recorder without a session, and read its .rec and .jsonl files independently of analysis/."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

TREE = Path(__file__).resolve().parents[2]
RECORDER = TREE / "build" / "recorder"
_FIRST_PID_NAMESPACE = 0xEFFFFFFC  # PROC_PID_INIT_INO of linux/proc_ns.h
# In a virtual machine (test_inside_machine.py), mostly of emulated CPUs: slower, and less evenly so.
INSIDE = "SEEKMETER_GUEST" in os.environ
EMULATED = "SEEKMETER_EMULATED_CPUS" in os.environ
SLOWER = 20 if INSIDE else 1
TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
PROGRAMS = Path(__file__).resolve().parent / "programs"
# Of what the recorder says: Linux before 5.12. Tests of such a collector are skipped there.
NO_TASK_STORAGE = "the kernel keeps no data with a task for tracing programs"

needs_btf = pytest.mark.skipif(
    not Path("/sys/kernel/btf/vmlinux").exists(),
    reason="the kernel has no BTF: use one with CONFIG_DEBUG_INFO_BTF",
)


def compile_program(name: str, folder: Path, *more: str) -> Path:
    """Compile programs/NAME.c into the folder."""
    program = folder / name
    flags = ["-std=gnu11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-Werror"]
    subprocess.run(["gcc", *flags, PROGRAMS / f"{name}.c", "-o", program, *more, "-lpthread"], check=True)
    return program


class Recording:
    """One run of the recorder. Its tables can be read after stop()."""

    def __init__(self, out: Path, process: subprocess.Popen[str], ready: dict[str, Any]) -> None:
        self.out = out
        self.process = process
        self.ready = ready
        self.stopped_ns = 0
        self.printed = ""  # after "ready"

    def source(self, name: str) -> dict[str, Any]:
        """Return a collector's entry in losses.json."""
        losses: dict[str, Any] = json.loads((self.out / "losses.json").read_text())
        collector: dict[str, Any] = losses["collectors"][name]
        return collector

    def table(self, name: str) -> npt.NDArray[np.void]:
        """Return the records of NAME.rec."""
        return read_table(self.out / f"{name}.rec")[1]

    def addressed(self, name: str) -> npt.NDArray[np.void]:
        """Return the records of NAME.rec, lock ids replaced by addresses if recorded (--addresses)."""
        table = self.table(name).copy()
        known = [lock for lock in self.lines("lock") if lock["address"]]
        of = {lock["lock_id"]: int(lock["address"], 16) for lock in known}
        for column in ("lock_id", "holder_lock", "root_lock"):
            if column in (table.dtype.names or ()):
                table[column] = [of.get(number, number) for number in table[column].tolist()]
        return table

    def lines(self, name: str) -> list[dict[str, Any]]:
        """Return the objects of NAME.jsonl."""
        return [json.loads(line) for line in (self.out / f"{name}.jsonl").read_text().splitlines()]

    def stop(self) -> None:
        """End the recorder as the session does, and wait for it."""
        if self.stopped_ns:
            return
        self.stopped_ns = time.monotonic_ns()
        self.process.send_signal(signal.SIGTERM)
        self.printed, errors = self.process.communicate(timeout=60)
        assert self.process.returncode == 0, errors
        assert '"stopped":true' in self.printed


def read_table(path: Path) -> tuple[dict[str, Any], npt.NDArray[np.void]]:
    """Return header and records of a .rec file. Fails on a partial last record, which is a defect."""
    data = path.read_bytes()
    if data[:8] == b"SKMREC02":
        data = subprocess.run([RECORDER, "--unpack", path], check=True, capture_output=True).stdout
    assert data[:8] == b"SKMREC01"
    length = int.from_bytes(data[8:12], "little")
    header: dict[str, Any] = json.loads(data[16 : 16 + length])
    start = (16 + length + 7) // 8 * 8
    names, formats, offsets = [], [], []
    for field in header["fields"]:
        kind = "S" if field["type"] == "char" else f"<{field['type'][0]}{int(field['type'][1:]) // 8}"
        names.append(field["name"])
        offsets.append(field["offset"])
        if field["type"] == "char":
            formats.append(f"S{field['bytes']}")
        else:
            formats.append(f"({field['count']},){kind}" if field.get("count", 1) > 1 else kind)
    shape = {"names": names, "formats": formats, "offsets": offsets, "itemsize": header["record_bytes"]}
    dtype = np.dtype(shape)  # type: ignore[call-overload]
    assert (len(data) - start) % dtype.itemsize == 0
    return header, np.frombuffer(data, dtype=dtype, offset=start)


def enum_value(path: Path, enum: str, name: str) -> int:
    """Return the number of an enum's name in this file."""
    names = read_table(path)[0]["enums"][enum]
    return next(int(number) for number, text in names.items() if text == name)


@contextmanager
def recording(out: Path, *options: str, env: dict[str, str] | None = None) -> Iterator[Recording]:
    """Record during the block, with these options of the recorder; its programs are attached before."""
    out.mkdir(exist_ok=True)
    process = subprocess.Popen(
        [RECORDER, "--out", out, *options],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | (env or {}),
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            pytest.fail(process.communicate()[1])
        run = Recording(out, process, json.loads(line))
        for name, state in run.ready["collectors"].items():
            if NO_TASK_STORAGE in state["why"]:
                pytest.skip(f"{name}: {state['why']}: {state['remedy']}")
        yield run
        run.stop()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def skip_without_contexts(run: Recording, source: str) -> None:
    """Skip a test of calls, events and waits of tasks where the recorder says that the kernel can't."""
    if run.source(source)["notes"]["calls and waits of tasks: not shown by this kernel"]:
        pytest.skip(f"{source}: {NO_TASK_STORAGE}: use Linux 5.12 or newer")


def same_pids(recorded: Sequence[int], known: Sequence[int]) -> bool:
    """Return whether the recorded pids are the known ones.

    Records have pids of the first pid namespace. A container cannot look those up: there, recorded and known
    pids must map one to one.
    """
    if os.stat("/proc/self/ns/pid").st_ino == _FIRST_PID_NAMESPACE:
        return list(recorded) == list(known)
    pairs = set(zip(recorded, known, strict=True))
    return len(pairs) == len(dict(pairs)) == len({known_pid for _, known_pid in pairs})


@contextmanager
def cgroup() -> Iterator[Path]:
    """Make a cgroup2 directory, removed after the block."""
    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    roots = [mount[1] for mount in mounts if mount[2] == "cgroup2"]
    if not roots:
        pytest.skip("no cgroup2 is mounted: mount -t cgroup2 none /mnt")
    folder = Path(roots[0]) / f"seekmeter-test-{os.getpid()}-{time.monotonic_ns()}"
    try:
        folder.mkdir()
        yield folder
    finally:
        deadline = time.monotonic() + 60
        while folder.is_dir():
            try:
                folder.rmdir()
            except OSError:  # ended processes are still in it
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)


@contextmanager
def holding(child: subprocess.Popen[str]) -> Iterator[subprocess.Popen[str]]:
    """Wait until a program of programs/hold.h holds its lock; end the program after the block."""
    assert child.stderr is not None
    try:
        if child.stderr.readline() != "held\n":
            assert child.wait() == 77, child.stderr.read()
            pytest.skip("the kernel has no userfaultfd: use one with CONFIG_USERFAULTFD")
        yield child
    finally:
        if child.poll() is None:
            let_go(child)


def let_go(child: subprocess.Popen[str]) -> None:
    """Let a program of programs/hold.h release its lock and end; wait for its end."""
    child.send_signal(signal.SIGUSR1)
    child.communicate(timeout=120)


def stolen_ns() -> int:
    """Return the steal time of all CPUs since boot, in ns; up to a tick per CPU may be missing."""
    return int(Path("/proc/stat").read_text().split()[8]) * TICK_NS


def until_stopped(pid: int) -> None:
    """Wait until SIGSTOP has stopped all threads of a process."""
    deadline = time.monotonic() + 60
    while any(") T " not in stat.read_text() for stat in Path(f"/proc/{pid}/task").glob("*/stat")):
        assert time.monotonic() < deadline, f"process {pid} does not stop"
        time.sleep(0.001)


def run_inside(folder: Path, command: Sequence[str | Path], **options: Any) -> subprocess.Popen[str]:
    """Start a command in a cgroup, which it enters before exec."""
    script = 'echo $$ > "$0/cgroup.procs" && exec "$@"'
    return subprocess.Popen(
        ["/bin/sh", "-c", script, folder, *command], stdout=subprocess.PIPE, text=True, **options
    )
