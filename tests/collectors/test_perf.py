# SPDX-License-Identifier: BSD-2-Clause
"""COLLECT=perf against perf report, a program whose CPU time is known, and the kernel's own counters."""

from __future__ import annotations

import io
import json
import os
import pwd
import re
import shutil
import signal
import struct
import subprocess
import sys
import time
from math import sqrt
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from collectors.perf import collector, samples, user_names
from collectors.perf import data as perf_data
from collectors.perf import names as perf_names
from tests.collectors.other_user import passable, play_sudo
from tests.collectors.recording import EMULATED, TICK_NS, compile_program, read_table, stolen_ns
from tests.collectors.sessions import TREE, Job, Run, wait_for
from tests.marks import needs_root
from workloads.system.errors import RunError
from workloads.system.guest import GUEST

SECONDS = 60 * (15 if EMULATED else 1)
PHASE_MS = 1000
SIGMAS = 5  # of a count of samples: by chance more once in a million
HERTZ = collector.hertz(os.cpu_count() or 1)
PERIOD_NS = 10**9 // HERTZ


@pytest.fixture(autouse=True)
def as_a_machine_as_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inside a virtual machine too: sessions with disks of their own."""
    monkeypatch.delenv(GUEST, raising=False)


def run_job(out: Path, **words: str) -> Run:
    """A run that is good, and leaves nothing."""
    job = Job("trace", out, None, **words)
    assert job.end(SECONDS) == 0, job.said
    assert job.left_behind() == []
    return job.run


def samples_of(run: Run) -> tuple[npt.NDArray[np.void], dict[int, list[str]]]:
    """The samples, and the functions of each call path, innermost first."""
    table = read_table(run.path / "raw/perf/cpu_sample.rec")[1]
    lines = (run.path / "raw/perf/cpu_stack.jsonl").read_text().splitlines()
    return table, {line["stack_id"]: line["frames"] for line in map(json.loads, lines)}


def cpu_ns_at_the_end_of(child: subprocess.Popen[bytes]) -> int:
    """Wait for it; the CPU time that it used."""
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    return int((used.ru_utime + used.ru_stime) * 1e9)


def statistics(run: Run) -> int:
    """Samples in perf.data by perf report, which must not mind whose file it is."""
    data = run.path / "raw/perf.data"
    done = subprocess.run(
        ["perf", "report", "--stats", "-i", data], capture_output=True, text=True, check=True
    )
    found = re.search(r"cpu-clock stats:\s+SAMPLE events:\s+(\d+)", done.stdout)
    assert found, done.stdout
    return int(found[1])


@needs_root
def test_known_split_by_phase_and_workload_is_sampled(tmp_path: Path) -> None:
    program = compile_program("seventy_thirty", tmp_path)
    command = f"(nice {program} 1 >other; true); exec {program} {PHASE_MS}"
    # Another one beside it, started by nobody of the workload's.
    phases = tmp_path / "phases"
    noise = subprocess.Popen(
        [program, str(10**9)],
        env={**os.environ, "SEEKMETER_PHASES": str(phases)},
        stdout=subprocess.DEVNULL,
    )
    try:
        stolen_s = -stolen_ns() / 1e9
        run = run_job(tmp_path / "run", DIR=str(tmp_path), COLLECT="counters perf", CMD=command)
        stolen_s += (stolen_ns() + TICK_NS * (os.cpu_count() or 1)) / 1e9
    finally:
        noise.kill()
        noise_ns = cpu_ns_at_the_end_of(noise)
    table, stacks = samples_of(run)
    source = run.losses["collectors"]["perf"]
    assert source["state"] == "on"
    assert source["lost"] == {"ring full": 0, "time limit": 0}
    assert source["seen"] == source["recorded"] == len(table) == statistics(run)
    assert 0 < source["cpu_ns"] < 60e9
    assert (np.diff(table["t_ns"].astype(np.int64)) >= 0).all()
    assert (table["period_ns"] == PERIOD_NS).all()

    # All CPUs, idle or not, so often a second as it should be: never oftener from first to last sample,
    # and nearly as often from when it had begun until it was told to end, but when the CPUs were stolen.
    facts, cpus = run.facts["perf"], os.cpu_count() or 1
    assert len(table) <= (int(table["t_ns"][-1] - table["t_ns"][0]) / PERIOD_NS + 1) * cpus
    wanted = (facts["stop_ns"] - facts["start_ns"]) / PERIOD_NS * cpus
    assert len(table) > 0.9 * wanted - cpus - stolen_s * HERTZ

    # The workload's CPU time is what its own clock says; the other one's is none of it.
    inside = table[table["in_workload"] == 1]
    own_ns = int(run.output.split()[-1])
    mine = inside[np.char.startswith(inside["comm"], b"seventy_thirty")]
    expected = own_ns / PERIOD_NS
    assert abs(len(mine) - expected) < SIGMAS * sqrt(expected) + 0.03 * expected + stolen_s * HERTZ
    others = table[(table["in_workload"] == 0) & np.char.startswith(table["comm"], b"seventy_thirty")]
    assert set(np.unique(others["pid"])) == {noise.pid}
    expected = noise_ns / PERIOD_NS  # also before and after the recording
    assert 0 < len(others) < 1.03 * expected + SIGMAS * sqrt(expected) + stolen_s * HERTZ
    assert noise.pid not in inside["pid"]

    # 7 to 3 in one phase, one function alone in the other.
    known = run.phases[:4]  # of the short one, then of this; the session's own come last
    assert [phase["name"] for phase in known] == ["mixed", "alone"] * 2
    for phase in known[2:]:
        then = mine[(mine["t_ns"] >= phase["start_ns"]) & (mine["t_ns"] < phase["end_ns"])]
        user = [stacks[row["stack_id"]][0] for row in then if row["mode"] == 0 and row["stack_id"] >= 0]
        seventy, thirty = user.count("spend_seventy"), user.count("spend_thirty")
        both = seventy + thirty
        if phase["name"] == "mixed":
            assert abs(seventy / both - 0.7) < SIGMAS * sqrt(0.7 * 0.3 / both)
        else:
            assert seventy > 0
            assert thirty == 0

    report = run.report()
    told = report[report.index("CPU PROFILE") :]
    found = re.search(r"by /proc/stat\s+(\S+) (m?s); by samples of the same time\s+(\S+) (m?s)", told)
    assert found, told
    counted, sampled = float(found[1]), float(found[3])
    assert found[2] == found[4] == "s"
    assert abs(sampled - counted) <= 0.1 * counted + stolen_s
    assert re.search(r"^  mixed .*\n", told, re.MULTILINE)
    # The folded stacks are all busy time, to rounding; perf samples on for a moment after the recorded time.
    folded = (run.path / "on_cpu.folded").read_text().splitlines()
    us = sum(int(line.rpartition(" ")[2]) for line in folded)
    clock = run.facts["clock"]
    recorded = (table["t_ns"] >= clock["record_start_ns"]) & (table["t_ns"] <= clock["record_end_ns"])
    busy = int((recorded & (table["mode"] != 2)).sum())
    assert abs(us - busy * PERIOD_NS / 1e3) <= 2
    assert any(line.startswith("seventy_thirty;") and ";spend_seventy" in line for line in folded)
    assert "<svg" in (run.path / "on_cpu.svg").read_text()[:200]


@needs_root
def test_kernel_functions_of_the_file_system_are_named(tmp_path: Path) -> None:
    command = "dd if=/dev/zero of=f bs=64k count=2000 conv=fsync status=none"
    run = run_job(tmp_path / "run", FS="ext4", SIZE="1G", COLLECT="block perf", CMD=command)
    table, stacks = samples_of(run)
    mine = table[(table["in_workload"] == 1) & (table["comm"] == b"dd")]
    frames = {name for row in mine for name in stacks.get(int(row["stack_id"]), [])}
    assert any(name.startswith("ext4_") and name.endswith("_[k]") for name in frames)
    assert any("write" in name and name.endswith("_[k]") for name in frames)
    kernel = (mine["mode"] == 1).sum()
    assert kernel > 0.5 * len(mine)  # all that it does is system calls


@needs_root
def test_perf_that_cannot_sample_is_off_with_a_reason(tmp_path: Path) -> None:
    """The run goes on, and says why there are no samples, and what to do."""
    place = tmp_path / "bin"
    place.mkdir()
    (place / "perf").write_text("#!/bin/sh\necho 'Error: no samples for you' >&2\nexit 255\n")
    (place / "perf").chmod(0o755)
    job = Job("trace", tmp_path / "run", place, DIR=str(tmp_path), COLLECT="counters perf", CMD="true")
    assert job.end(SECONDS) == 0, job.said
    assert job.left_behind() == []
    source = job.run.losses["collectors"]["perf"]
    assert source["state"] == "off"
    assert "no samples for you" in source["why"]
    assert source["remedy"]
    report = " ".join(job.run.report().split())
    assert "not available: perf cannot sample (Error: no samples for you)" in report
    words = "perf is off (no CPU samples): perf cannot sample (Error: no samples for you)"
    assert report.index(f"!! {words}") < report.index("WHAT WAS RUN")
    assert f"- {words}" in report[report.index("WARNINGS AND GAPS") :]
    assert not (job.run.path / "on_cpu.svg").exists()


@needs_root
@pytest.mark.parametrize("who", ["perf", "session"])
def test_killed_perf_or_session_is_reported(who: str, tmp_path: Path) -> None:
    job = Job("trace", tmp_path / "run", None, DIR=str(tmp_path), COLLECT="perf", CMD="sleep 600")
    job.until("workload")

    def sampler() -> list[int]:
        return [pid for pid, text in job.commands_by_pid().items() if "\0record\0" in text]

    if who == "perf":
        os.kill(sampler()[0], signal.SIGKILL)
        job.until("WARNING")
        os.kill(job.process.pid, signal.SIGINT)
        assert job.end(SECONDS) == 1
        assert "perf ended early" in job.said
        assert any("perf" in warning for warning in job.run.facts["warnings"])
        assert job.run.losses["collectors"]["perf"]["ended_early"] is True
        report = " ".join(job.run.report().split())
        assert report.index("!! perf ended early: numbers cover") < report.index("WHAT WAS RUN")
    else:
        time.sleep(0.5)  # a hundred times what lies between two samples
        job.process.kill()
        job.process.wait()
        wait_for(lambda: not sampler(), SECONDS)  # by itself, and in order
        assert statistics(job.run) > 0
        later = Job("trace", tmp_path / "later", None, DIR=str(tmp_path), COLLECT="none", CMD="true")
        assert later.end(SECONDS) == 0, later.said
        job.process.communicate()
    wait_for(lambda: job.left_behind() == [], SECONDS)


@needs_root
def test_samples_that_are_lost_are_counted(tmp_path: Path) -> None:
    """perf record with hardly any room beside a storm of short programs, whose notes are lost as well.

    Samples and notes are counted apart, and together they are what perf's own warning says.
    """
    data = tmp_path / "perf.data"
    argv: list[str | Path] = [
        "perf",
        "record",
        "-a",
        "-g",
        "-e",
        "cpu-clock",
        "-F",
        "20000",
        "-m",
        "1",
        "-N",
        "-o",
        data,
    ]
    one = "(j=0; while [ $j -lt 150 ]; do /bin/true; j=$((j+1)); done)"
    storm = f"{one} & {one} & {one} & {one} & wait"
    done = subprocess.run([*argv, "--", "sh", "-c", storm], capture_output=True, text=True, check=True)
    counts = samples.convert(data, tmp_path / "perf", 50_000, None)
    rows = len(read_table(tmp_path / "perf/cpu_sample.rec")[1])
    assert counts.samples == rows > 100
    assert counts.not_read == 0
    said = re.search(r"Processed (\d+) samples and lost ([\d.]+)%", done.stderr)
    if said:
        # perf counts what it processed as the samples it has and all that was lost, and the share to 0.01 %.
        processed, share = int(said[1]), float(said[2]) / 100
        assert counts.samples + counts.lost + counts.lost_notes == processed
        assert abs(counts.lost + counts.lost_notes - share * processed) <= 0.00005 * processed + 1
        assert counts.lost > 0
    else:  # what perf warns of is more
        lost = counts.lost + counts.lost_notes
        assert lost <= 0.05 * (lost + counts.samples)


@needs_root
def test_file_of_another_user_is_not_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = tmp_path / "perf.data"
    argv = ["perf", "record", "-a", "-g", "-e", "cpu-clock", "-N", "-o", str(data), "--", "true"]
    subprocess.run(argv, capture_output=True, check=True)
    os.chown(data, 61234, 61234)
    with pytest.raises(RunError, match="belongs to uid 61234, not to us"):
        samples.convert(data, tmp_path / "perf", 50_000, None)
    monkeypatch.setenv(GUEST, str(tmp_path))  # where all files are the host's user's
    samples.convert(data, tmp_path / "perf", 50_000, None)


def record(kind: int, content: bytes, time_ns: int, event: int = 1, misc: int = 0) -> bytes:
    """A record with what all end in: thread, time, event, CPU."""
    content += struct.pack("<iiQQII", 0, 0, time_ns, event, 0, 0)
    return struct.pack("<IHH", kind, misc, 8 + len(content)) + content


def sample_record(pid: int, tid: int, time_ns: int, *chain: int, event: int = 1) -> bytes:
    fields = struct.pack("<QiiQQIIQ", chain[-1] if chain else 0, pid, tid, time_ns, event, 1, 0, 5)
    content = fields + struct.pack(f"<{len(chain) + 1}Q", len(chain), *chain)
    return struct.pack("<IHH", perf_data.SAMPLE, 0, 8 + len(content)) + content


def name_record(kind: int, head: bytes, name: str, time_ns: int, misc: int = 0) -> bytes:
    text = name.encode() + b"\0"
    return record(kind, head + text.ljust((len(text) + 7) // 8 * 8, b"\0"), time_ns, misc=misc)


def map_record(pid: int, start: int, length: int, offset: int, path: str, time_ns: int = 1) -> bytes:
    head = struct.pack("<iiQQQIIQQII", pid, pid, start, length, offset, 8, 1, 77, 0, 5, 2)
    return name_record(perf_data.MMAP2, head, path, time_ns)


def perf_data_of(*records: bytes) -> bytes:
    """A perf.data of cpu-clock (event 1) and dummy (event 2)."""
    fields = 0x1 | 0x2 | 0x4 | 0x20 | 0x40 | 0x80 | 0x100

    def attr(config: int, at: int) -> bytes:
        return struct.pack("<IIQQQQQ", 1, 128, config, 199, fields, 0, 1 << 18).ljust(
            128, b"\0"
        ) + struct.pack("<QQ", at, 8)

    content = b"".join(records)
    head = b"PERFILE2" + struct.pack("<8Q", 104, 144, 120, 288, 408, len(content), 0, 0)
    return head.ljust(104, b"\0") + struct.pack("<QQ", 1, 2) + attr(0, 104) + attr(9, 112) + content


class KnownNames:
    """Names that the test gives, for what lies in one program."""

    def name(self, path: str, inode: int, offset: int) -> str | None:
        assert inode == 77 or path == "[vdso]"
        return {("/opt/my prog", 0x123): "std::map<int, (x)>::f(int)"}.get((path, offset))


KERNEL = perf_names.KernelNames(
    "ffffffff81000100 T ext4_map\t[ext4]\nffffffff81000200 t handle_softirqs\n"
    "ffffffff81000300 W weak\nffffffff81000300 T pv_native_safe_halt\n"
)
IN_KERNEL, IN_USER = 2**64 - 128, 2**64 - 512


def taken_in(
    content: bytes, workload: int | None = 12, until: float = float("inf")
) -> tuple[samples.Counts, list[tuple[object, ...]], list[list[str]]]:
    """What it counts, the rows, the call paths."""
    rows, stacks = io.BytesIO(), io.StringIO()
    data = perf_data.PerfData(io.BytesIO(content))
    reader = samples._Reader(data, rows, stacks, PERIOD_NS, workload, KERNEL, KnownNames())
    counts = reader.read(until)
    found = [json.loads(line)["frames"] for line in stacks.getvalue().splitlines()]
    return counts, list(samples._ROW.iter_unpack(rows.getvalue())), found


def test_odd_names_and_frames_are_harmless() -> None:
    fork = struct.pack("<iiiiQ", 12, 7, 12, 7, 0)
    thread = struct.pack("<iiiiQ", 12, 12, 13, 12, 0)
    counts, rows, found = taken_in(
        perf_data_of(
            map_record(7, 0x1000, 0x3000, 0, "/opt/my prog"),
            map_record(7, 0x2000, 0x1000, 0, "/tmp/my (odd) [1] name (deleted)"),  # in the middle of it
            map_record(7, 0x9000, 0x1000, 0, "//anon"),
            record(perf_data.FORK, fork, 2),
            record(perf_data.FORK, thread, 3),
            name_record(perf_data.COMM, struct.pack("<ii", 12, 13), "my (odd) [1] na", 4),
            sample_record(7, 7, 6),  # written before what came before it
            sample_record(
                12, 13, 5, IN_KERNEL, 0xFFFFFFFF81000150, IN_USER, 0x1123, 0x2001, 0x3001, 0x9001, 0x70, 0x71
            ),
            sample_record(0, 0, 7, IN_KERNEL, 0xFFFFFFFF81000310),
            sample_record(0, 0, 8, IN_KERNEL, 0xFFFFFFFF81000210, 0xFFFFFFFF81000310),
            sample_record(7, 7, 9, IN_USER, 0x1123, event=2),  # none of the timer's
            record(perf_data.LOST, struct.pack("<QQ", 1, 5), 10),
        )
    )
    assert (counts.samples, counts.idle, counts.workload, counts.no_stack, counts.lost) == (4, 1, 1, 1, 5)
    assert found[0] == [
        "ext4_map_[k]",
        "std::map<int, (x)>::f(int)",
        "[my (odd) [1] name (deleted)]",
        "[my prog]",
        "[anon]",
    ]
    assert found[1:] == [["pv_native_safe_halt_[k]"], ["handle_softirqs_[k]", "pv_native_safe_halt_[k]"]]
    assert rows[0][:7] == (5, 12, 13, 0, 1, 1, 1)
    assert rows[0][7] == b"my (odd) [1] na\0"
    assert [row[0] for row in rows] == [5, 6, 7, 8]


def test_exec_forgets_the_old_programs_files() -> None:
    exec_ = struct.pack("<ii", 12, 12)
    _, _, found = taken_in(
        perf_data_of(
            map_record(12, 0x1000, 0x1000, 0, "/opt/my prog"),
            sample_record(12, 12, 5, IN_USER, 0x1123),
            name_record(perf_data.COMM, exec_, "new", 6, misc=1 << 13),
            map_record(12, 0x5000, 0x1000, 0, "/opt/other", 7),
            sample_record(12, 12, 8, IN_USER, 0x5123, 0x1123, 0x5001),
        )
    )
    assert found == [["std::map<int, (x)>::f(int)"], ["[other]", "[unknown]", "[other]"]]


def test_lost_samples_and_other_lost_records_are_apart() -> None:
    lost = struct.pack("<Q", 3), struct.pack("<Q", 4)
    counts, *_ = taken_in(
        perf_data_of(
            record(perf_data.LOST, struct.pack("<QQ", 1, 7), 1),
            record(perf_data.LOST_SAMPLES, lost[0], 0, event=1),
            record(perf_data.LOST_SAMPLES, lost[1], 0, event=2),
        )
    )
    assert (counts.lost, counts.lost_notes) == (3, 4)


def test_kernel_functions_are_named_by_kallsyms() -> None:
    names = perf_names.KernelNames("1000 t __alias\n1000 T real\n2000 D data\n3000 t last [ext4]\n")
    assert [names.name(at) for at in (0xFFF, 0x1000, 0x2FFF, 0x3001)] == [None, "real", "real", "last"]
    assert names.name(0x3000 + (2 << 20)) is None
    names.add(0x2800, 0x10, "bpf_prog_1_gone")
    assert [names.name(at) for at in (0x27FF, 0x280F, 0x2810)] == ["real", "bpf_prog_1_gone", "real"]
    hidden = perf_names.KernelNames("0000000000000000 T secret\n")
    assert hidden.name(0x1000) is None


def test_samples_after_the_time_limit_are_counted() -> None:
    many = [sample_record(12, 12, at, IN_USER, 0x1123) for at in range(1, 6)]
    counts, rows, _ = taken_in(perf_data_of(*many), until=0)
    assert (counts.samples, counts.not_read, rows) == (0, 5, [])


@pytest.mark.parametrize("cut", [3, 60, 110, 200, 300])
def test_damaged_data_is_refused(cut: int) -> None:
    content = perf_data_of(sample_record(12, 12, 5, IN_USER, 0x1123))
    with pytest.raises((perf_data.Damaged, struct.error)):
        taken_in(content[:cut])


def test_last_record_of_a_killed_perf_is_left_out() -> None:
    content = perf_data_of(*(sample_record(12, 12, at, IN_USER, 0x1123) for at in (5, 6)))
    counts, *_ = taken_in(content[:-5])
    assert counts.samples == 1


def test_program_functions_equal_nm(tmp_path: Path) -> None:
    """With its symbols, stripped to the dynamic ones, and one that is not the one that ran."""
    source = tmp_path / "p.c"
    source.write_text("int outer(int n) { return n + 1; }\nint main(void) { return outer(1); }\n")
    program = tmp_path / "p"
    subprocess.run(["gcc", "-rdynamic", "-o", program, source], check=True)
    said = subprocess.run(["nm", "-D", program], check=True, capture_output=True, text=True).stdout
    address = int(next(line for line in said.splitlines() if line.endswith(" T outer")).split()[0], 16)
    files = user_names.Files(os.geteuid(), os.getegid())
    assert files.name(str(program), program.stat().st_ino, address + 1) == "outer"
    assert files.name(str(program), program.stat().st_ino + 1, address + 1) is None
    subprocess.run(["strip", program], check=True)
    files = user_names.Files(os.geteuid(), os.getegid())
    assert files.name(str(program), program.stat().st_ino, address + 1) == "outer"
    assert files.name("[vdso]", 0, 10**9) is None


def test_only_files_of_root_and_user_are_named(tmp_path: Path) -> None:
    mine = os.geteuid(), os.getegid()
    program = tmp_path / "p"
    program.touch()
    assert user_names.is_settled(str(program), *mine)
    assert user_names.is_settled("/usr/bin/env", 61234, 61234)
    link = tmp_path / "link"
    link.symlink_to(program)
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    for path in (link, fifo, tmp_path, f"{tmp_path}/../{tmp_path.name}/p", "p", "/dev/null"):
        assert not user_names.is_settled(str(path), *mine), path
    open_to_all = tmp_path / "open"
    open_to_all.mkdir()
    (open_to_all / "p").touch()
    open_to_all.chmod(0o777)
    assert not user_names.is_settled(str(open_to_all / "p"), *mine)


@needs_root
@pytest.mark.parametrize("kind", ["fifo", "link"])
def test_file_swapped_for_a_sampled_program_is_not_opened(kind: str) -> None:
    """Their program is busy, and its path becomes a FIFO, or a link to one of root's, before the run ends."""
    other, watched = pwd.getpwnam("bin"), "open,openat,openat2"
    with passable(0o711) as place:
        home, run, trace = place / "home", place / "run", place / "trace"
        home.mkdir()
        theirs = compile_program("code_in_memory", home).rename(home / "spin")
        target = place / "roots"
        os.mkfifo(target)
        for path in (home, theirs):
            os.chown(path, other.pw_uid, other.pw_gid)
        as_other = ["setpriv", f"--reuid={other.pw_uid}", f"--regid={other.pw_gid}", "--clear-groups"]
        busy = subprocess.Popen([*as_other, theirs])
        # Where perf looks for the names of code that no file has.
        names = Path(f"/tmp/perf-{busy.pid}.map")
        become = f"mkfifo {theirs}" if kind == "fifo" else f"ln -s {target} {theirs}"
        swap = (
            f"sleep 1; setpriv {' '.join(as_other[1:])} sh -c 'mv {theirs} {home}/moved; {become}'; sleep 0.3"
        )
        strace = ["strace", "--follow-forks", "--seccomp-bpf", f"--trace={watched}", "--quiet=all"]
        given = {"DIR": str(place), "COLLECT": "perf", "CMD": swap, "OUT": str(run)}
        try:
            subprocess.run([*as_other, "mkfifo", names], check=True)
            done = subprocess.run(
                [*strace, f"--output={trace}", sys.executable, "-m", "collectors", "trace"],
                cwd=TREE,
                env={
                    **os.environ,
                    **{f"SEEKMETER_{name}": text for name, text in given.items()},
                    "SEEKMETER_WORDS": " ".join(given),
                },
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
                timeout=100,
            )
        finally:
            busy.kill()
            busy.wait()
            names.unlink(missing_ok=True)
        assert done.returncode == 0, done.stderr
        table, stacks = samples_of(Run(run))
        mine = table[table["pid"] == busy.pid]
        assert len(mine) > HERTZ / 4
        source = Run(run).losses["collectors"]["perf"]
        assert source["recorded"] == len(table)
        assert {"[spin]", "[anon]"} <= {name for row in mine for name in stacks.get(int(row["stack_id"]), [])}
        opened = trace.read_text()
        assert 'raw/perf.data"' in opened
        for path in (theirs, target, home / "moved", names):
            assert f'{path.name}"' not in opened
        assert '"/tmp/perf-' not in opened  # nor is a copy of the vdso made there, which a killed perf leaves


@needs_root
def test_functions_of_a_users_program_are_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What the user may not read, root does not read for them."""
    user = pwd.getpwnam("daemon")
    with passable(0o711) as place:
        home, closed = place / "home", place / "closed"
        for path in (home, closed):
            path.mkdir()
            compile_program("seventy_thirty", path)
        closed.chmod(0o700)
        hidden = subprocess.Popen(
            [closed / "seventy_thirty", str(10**9)],
            env={**os.environ, "SEEKMETER_PHASES": str(closed / "phases")},
            stdout=subprocess.DEVNULL,
        )
        os.chown(home, user.pw_uid, user.pw_gid)
        os.chown(home / "seventy_thirty", user.pw_uid, user.pw_gid)
        play_sudo(user, monkeypatch)
        try:
            run = run_job(home / "run", DIR=str(home), COLLECT="perf", CMD="./seventy_thirty 300")
        finally:
            hidden.kill()
            hidden.wait()
        table, stacks = samples_of(run)

        def frames_of(rows: npt.NDArray[np.void]) -> set[str]:
            return {name for row in rows for name in stacks.get(int(row["stack_id"]), [])}

        assert "spend_seventy" in frames_of(table[table["in_workload"] == 1])
        theirs = frames_of(table[table["pid"] == hidden.pid])
        assert "[seventy_thirty]" in theirs and "spend_seventy" not in theirs


def test_perf_is_installed() -> None:
    assert shutil.which("perf"), "make test installs linux-perf"
