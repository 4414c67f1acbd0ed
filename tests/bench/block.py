# SPDX-License-Identifier: BSD-2-Clause
"""What block tracing costs: fio's 4 KiB random reads on a RAM-backed loop device, tracers interleaved.

none, `block` alone, all collectors, COLLECT=blktrace (files of blktrace, by its program or by the blk tracer)
and the kernel's blk tracer with its events thrown away (the least that it costs), each in every repetition.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from collectors.blktrace import Blktrace
from tests.bench import spread
from tests.collectors.loop_disk import loop_disk, tmpfs
from tests.collectors.recording import Recording, recording
from workloads.janitor import Janitor

SECONDS = 3
TRACEFS = Path("/sys/kernel/tracing")
ALL = "block,locks,calls,counters"


@dataclass
class Cost:
    """IOPS of each repetition by tracer, and what `block` lost."""

    iops: dict[str, list[float]] = field(default_factory=dict)
    recorded: int = 0
    device: int = 0  # requests by the device's own counter, over the same time
    lost: dict[str, int] = field(default_factory=dict)
    unended: int = 0
    ns_a_run: list[float] = field(default_factory=list)


def _run(*argv: str) -> str:
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()


@contextmanager
def ram_loop() -> Iterator[Path]:
    """A loop device with direct I/O on a tmpfs of its own, all of it in memory."""
    with (
        tempfile.TemporaryDirectory(prefix="seekmeter-bench-") as name,
        tmpfs(Path(name), "1200M") as place,
        loop_disk(place / "image", 1 << 30, "--direct-io=on") as disk,
    ):
        _run("fallocate", "-l", "1G", str(disk.backing))
        yield disk.path


@contextmanager
def blk_tracer(device: Path) -> Iterator[None]:
    """The kernel's own block tracer with its binary stream thrown away: the least blktrace can cost."""
    enable = Path("/sys/block") / device.name / "trace/enable"
    options = {TRACEFS / "options/bin": "1", TRACEFS / "options/context-info": "0"}
    with ExitStack() as stack:
        if not (TRACEFS / "trace_pipe").exists():
            _run("mount", "-t", "tracefs", "none", str(TRACEFS))
            stack.callback(_run, "umount", str(TRACEFS))
        for path, value in {**options, TRACEFS / "current_tracer": "blk", enable: "1"}.items():
            stack.callback(path.write_text, path.read_text().strip())
            path.write_text(value)
        with (TRACEFS / "trace_pipe").open("rb", buffering=0) as pipe:
            reader = subprocess.Popen(["cat"], stdin=pipe, stdout=subprocess.DEVNULL)
            try:
                yield
            finally:
                reader.kill()
                reader.wait()


@contextmanager
def blktrace_files(device: Path, raw: Path) -> Iterator[None]:
    """COLLECT=blktrace as a session runs it."""
    raw.mkdir()
    with Janitor() as janitor:
        collector = Blktrace(raw, [device.name], janitor)
        if collector.source["state"] != "on":
            raise RuntimeError(f"COLLECT=blktrace does not run: {collector.source['why']}")
        try:
            yield
            collector.stop()
        finally:
            collector.kill()


def fio(device: Path) -> float:
    """IOPS of the load."""
    argv = ["fio", "--name=bench", f"--filename={device}", "--rw=randread", "--bs=4k", "--direct=1"]
    argv += ["--ioengine=io_uring", "--iodepth=16", "--size=1G", f"--runtime={SECONDS}", "--time_based"]
    argv += ["--norandommap", "--randrepeat=0", "--output-format=json"]
    done = subprocess.run(argv, check=True, capture_output=True, text=True)
    return float(json.loads(done.stdout)["jobs"][0]["read"]["iops"])


def reads(device: Path) -> int:
    """Reads completed, by the device's own counter."""
    return int((Path("/sys/block") / device.name / "stat").read_text().split()[0])


def measure(reps: int) -> Cost:
    """Each repetition runs all five."""
    modes = ("none", "block", "all collectors", "COLLECT=blktrace", "blk tracer")
    cost = Cost(iops={mode: [] for mode in modes})
    with ram_loop() as device, tempfile.TemporaryDirectory(prefix="seekmeter-bench-") as name:
        fio(device)  # warm
        for rep in range(reps):
            cost.iops["none"].append(fio(device))
            for mode, collect in (("block", "block"), ("all collectors", ALL)):
                out = Path(name) / f"{collect}{rep}"
                with recording(out, "--disk", device.name, "--collect", collect) as run:
                    before = reads(device)
                    cost.iops[mode].append(fio(device))
                    cost.device += reads(device) - before
                _add(cost, run, alone=mode == "block")
            raw = Path(name) / f"blktrace{rep}"
            with blktrace_files(device, raw):
                cost.iops["COLLECT=blktrace"].append(fio(device))
            shutil.rmtree(raw)
            with blk_tracer(device):
                cost.iops["blk tracer"].append(fio(device))
    return cost


def _add(cost: Cost, run: Recording, alone: bool) -> None:
    block = run.source("block")
    cost.recorded += block["recorded"]
    for reason, count in block["lost"].items():
        if count:
            cost.lost[reason] = cost.lost.get(reason, 0) + count
    cost.unended += block["notes"].get("end not seen (no latency)", 0)
    if alone and block["bpf"]["sampled_runs"]:
        cost.ns_a_run.append(block["bpf"]["sampled_ns"] / block["bpf"]["sampled_runs"])


def report(reps: int) -> str:
    """The medians, their spread and the loss."""
    cost = measure(reps)
    lines = [
        f"fio 4 KiB random reads, depth 16, loop in RAM, {SECONDS} s, IOPS, {reps} interleaved repetitions"
    ]
    lines += spread.table(cost.iops, "none")
    lost = ", ".join(f"{count} {reason}" for reason, count in cost.lost.items()) or "none"
    lines.append(
        f"  block: {cost.recorded:,} requests recorded, {cost.device:,} by the device's counter; "
        f"lost: {lost}; {cost.unended:,} without an end"
    )
    if cost.ns_a_run:
        mean = sum(cost.ns_a_run) / len(cost.ns_a_run)
        lines.append(f"  block: {mean:.0f} ns a program run by the kernel's count, three runs a request")
    return "\n".join(lines)
