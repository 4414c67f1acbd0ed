# SPDX-License-Identifier: BSD-2-Clause
"""The triggers of the recorder, each on a cause whose time and size are known; below the limit none fires."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.collectors.loop_disk import mounted
from tests.collectors.recording import (
    RECORDER,
    Recording,
    cgroup,
    compile_program,
    enum_value,
    needs_btf,
    read_table,
    recording,
    run_inside,
    until_stopped,
)
from tests.marks import needs_root, real_time
from tests.workloads.emulated import fast_disk, load
from workloads.cleanup.janitor import Janitor
from workloads.disks import Disk

pytestmark = [needs_root, needs_btf, real_time]
MS = 1_000_000
NEVER_NS = 600_000 * MS
SOON_NS = 1_000 * MS  # within which a firing is noticed, on a machine with other work


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    """An emulated disk, whose requests end when its server answers."""
    monkeypatch.setenv("SEEKMETER_SCRATCH", str(tmp_path / "scratch"))
    with Janitor(tmp_path / "state") as janitor, fast_disk(janitor) as disk:
        yield disk


@contextmanager
def standing_still(disk: Disk) -> Iterator[None]:
    """The disk answers nothing during the block."""
    assert disk.server is not None
    os.kill(disk.server.pid, signal.SIGSTOP)
    try:
        until_stopped(disk.server.pid)
        yield
    finally:
        os.kill(disk.server.pid, signal.SIGCONT)


def triggers(*specs: str) -> list[str]:
    return [word for spec in specs for word in ("--trigger", spec)]


def name_of(disk: Disk) -> str:
    return Path(disk.path).name


def firings(run: Recording) -> dict[str, list[dict[str, Any]]]:
    """What the recorder printed, by the trigger's name."""
    found: dict[str, list[dict[str, Any]]] = {}
    for line in run.printed.splitlines():
        if '"fired"' in line:
            firing = json.loads(line)
            found.setdefault(firing["trigger"], []).append(firing)
    return found


def write_sector(path: str, sector: int) -> None:
    subprocess.run(
        ["dd", "if=/dev/zero", f"of={path}", "bs=4096", "count=1", f"seek={sector // 8}", "oflag=direct"],
        check=True,
        capture_output=True,
    )


def test_request_and_stall_fire_before_the_request_ends(disk: Disk, tmp_path: Path) -> None:
    """A write while the disk stands still for 2 s. Limits above that do not fire."""
    limits = ("request:500000000=slow", "stall:1000000000=stall", "request:4000000000", "stall:4000000000")
    options = ["--collect", "block", "--disk", name_of(disk), *triggers(*limits)]
    with recording(tmp_path / "out", *options) as run:
        with standing_still(disk):
            writer = threading.Thread(target=write_sector, args=(disk.path, 4096))
            writer.start()
            time.sleep(2)
        writer.join()
    fired = firings(run)
    assert set(fired) == {"slow", "stall"}, fired
    rows = run.table("block")
    (row,) = rows[(rows["sector"] == 4096) & (rows["bytes"] == 4096)]
    assert row["complete_ns"] - row["queue_ns"] > 1_500 * MS
    (slow,), (stall,) = fired["slow"], fired["stall"]
    for firing, limit_ns, since in ((slow, 500 * MS, "queue_ns"), (stall, 1000 * MS, "issue_ns")):
        assert int(row[since]) + limit_ns <= firing["ns"] < int(row["complete_ns"]), firing
        assert firing["ns"] <= int(row[since]) + limit_ns + SOON_NS
        assert firing["value"] == firing["ns"] - int(row[since])
    who = f"write of 4096 bytes at sector 4096 of {name_of(disk)} by dd (pid {row['pid']})"
    assert slow["detail"].startswith(f"{who}, not ended yet after ")
    assert (slow["kind"], stall["kind"]) == ("request", "stall")
    assert who in stall["detail"] and ", 1 in flight" in stall["detail"]


def test_request_fires_for_rows_that_have_ended(disk: Disk, tmp_path: Path) -> None:
    """Requests far shorter than a scan's distance; the value is a row's time from queue to completion."""
    options = ["--collect", "block", "--disk", name_of(disk), *triggers("request:1", "stall:600000000")]
    with recording(tmp_path / "out", *options) as run:
        for number in range(3):
            write_sector(disk.path, 8 * number)
            time.sleep(0.5)  # the condition is over by then
        # Many requests, one after the other: no stall, however long it lasts.
        with load(disk.path) as fio:
            time.sleep(1.5)
            fio.terminate()
    fired = firings(run)
    assert set(fired) == {"request:1"}
    rows = run.table("block")
    took_ns = set((rows["complete_ns"] - rows["queue_ns"]).tolist())
    assert len(fired["request:1"]) >= 4
    ended = [firing for firing in fired["request:1"] if ", took " in firing["detail"]]
    assert ended, "each was seen by a scan"  # of some ms in 100 ms
    assert all(firing["value"] in took_ns for firing in ended)


def test_depth_fires_at_the_queue_depth_of_fio_not_above(disk: Disk, tmp_path: Path) -> None:
    """fio keeps 16 requests in flight while the disk stands still."""
    options = ["--collect", "block", "--disk", name_of(disk), *triggers("depth:16", "depth:17")]
    with recording(tmp_path / "out", *options) as run, load(disk.path) as fio:
        time.sleep(0.5)
        with standing_still(disk):
            time.sleep(1)
        fio.terminate()
    fired = firings(run)
    assert set(fired) == {"depth:16"}
    assert {firing["value"] for firing in fired["depth:16"]} == {16}
    assert fired["depth:16"][0]["detail"] == f"16 requests in flight on {name_of(disk)}"


def bpftool(*words: str) -> Any:
    printed = subprocess.run(["bpftool", "-j", *words], check=True, capture_output=True, text=True).stdout
    return json.loads(printed) if printed.strip() else None


def slots_in_use(number: str) -> list[tuple[list[str], list[str]]]:
    """Key and value of each slot of the recorder's table that holds a request."""
    entries = bpftool("map", "dump", "id", number)
    raw = [(entry["key"], entry["value"]) for entry in entries]
    return [(key, value) for key, value in raw if any(byte != "0x00" for byte in value[-8:])]


def test_request_whose_end_was_not_seen_fires_nothing(disk: Disk, tmp_path: Path) -> None:
    """The kernel may skip a program at a completion. Here the slot is put back after the request ended."""
    limits = triggers("request:3000000000", "stall:3000000000", "depth:1")
    with recording(tmp_path / "out", "--collect", "block", "--disk", name_of(disk), *limits) as run:
        (table,) = [found for found in bpftool("map", "show") if found.get("name") == "inflight"]
        with standing_still(disk):
            writer = threading.Thread(target=write_sector, args=(disk.path, 4096))
            writer.start()
            time.sleep(0.3)
            ((key, value),) = slots_in_use(str(table["id"]))
        writer.join()
        time.sleep(0.6)  # depth:1 holds no longer
        bpftool("map", "update", "id", str(table["id"]), "key", *key, "value", *value)
        time.sleep(4)
        assert slots_in_use(str(table["id"])) == [(key, value)]
    fired = firings(run)
    assert set(fired) == {"depth:1"}
    assert len(fired["depth:1"]) == 1  # while it was in flight


def test_lock_fires_for_a_wait_of_known_length(tmp_path: Path) -> None:
    program = compile_program("pipe_holder", tmp_path)
    limits = triggers("lock:250000000", f"lock:{NEVER_NS}")
    # In a cgroup: waits of the session and its children do not count, and here the test is the session.
    with cgroup() as group:
        options = ["--collect", "locks", "--cgroup", str(group), *limits]
        with recording(tmp_path / "out", *options) as run:
            child = run_inside(group, [program, "1", "300"], stderr=subprocess.DEVNULL)
            facts = json.loads(child.communicate(timeout=60)[0])
            time.sleep(0.5)
    (waiter,) = facts["waiters"]
    fired = firings(run)
    assert set(fired) == {"lock:250000000"}
    rows = run.table("lock_wait")
    mutex = enum_value(run.out / "lock_wait.rec", "lock_kind", "mutex")
    longest = {int(row["max_ns"]): row for row in rows if row["max_ns"] >= 250 * MS}
    assert all(firing["value"] in longest for firing in fired["lock:250000000"])
    (firing,) = [firing for firing in fired["lock:250000000"] if longest[firing["value"]]["kind"] == mutex]
    assert 300 * MS <= firing["value"] <= waiter["end_ns"] - waiter["begin_ns"]
    assert waiter["end_ns"] - 100 * MS < firing["ns"] < waiter["end_ns"] + SOON_NS
    assert f"for a mutex (lock {longest[firing['value']]['lock_id']} in table lock)" in firing["detail"]


def test_call_fires_for_an_fsync_on_a_slow_disk(disk: Disk, tmp_path: Path) -> None:
    """The disk stands still for half a second of the fsync."""
    subprocess.run(["mkfs.ext4", "-q", disk.path], check=True)
    limits = triggers(
        "call:fsync:400000000", "call:fdatasync:1", "call:any:400000000=any", f"call:any:{NEVER_NS}"
    )
    with mounted(disk.path, tmp_path / "mount") as folder, (folder / "file").open("wb", buffering=0) as file:
        file.write(bytes(65536))
        with recording(tmp_path / "out", "--collect", "calls", *limits) as run:
            began_ns = time.monotonic_ns()
            with standing_still(disk):
                thread = threading.Thread(target=os.fsync, args=(file.fileno(),))
                thread.start()
                time.sleep(0.5)
            thread.join()
            ended_ns = time.monotonic_ns()
            time.sleep(0.5)
    fired = firings(run)
    assert "call:fsync:400000000" in fired and "any" in fired
    assert not fired.keys() - {"call:fsync:400000000", "any", "call:fdatasync:1"}
    table = run.table("call")
    kinds = read_table(run.out / "call.rec")[0]["enums"]["call_name"]
    if "call:fdatasync:1" in fired:  # another process made one
        assert "fdatasync" in {kinds[str(row["call"])] for row in table}
    (firing,) = fired["call:fsync:400000000"]
    assert firing["value"] in {int(row["max_ns"]) for row in table if kinds[str(row["call"])] == "fsync"}
    assert 400 * MS <= firing["value"] < ended_ns - began_ns
    assert ended_ns - 100 * MS < firing["ns"] < ended_ns + SOON_NS
    assert firing["detail"].startswith("fsync on ")


def test_call_takes_the_kinds_of_its_table(tmp_path: Path) -> None:
    """The names are those of table call's header; each is taken."""
    with recording(tmp_path / "out", "--collect", "calls"):
        pass
    kinds = list(read_table(tmp_path / "out/call.rec")[0]["enums"]["call_name"].values())
    known = [kind for kind in kinds if kind != "none"]
    assert len(known) > 30
    for kind in known:
        refused = subprocess.run(
            [RECORDER, "--trigger", f"call:{kind}:1"], capture_output=True, text=True, check=False
        )
        assert refused.stderr.startswith("recorder: --out: missing"), kind


def test_log_fires_for_new_lines_with_the_text(tmp_path: Path) -> None:
    """Whatever the case; not for lines from before, nor for others."""
    mark = f"seekmeter trigger {os.getpid()}"
    Path("/dev/kmsg").write_text(f"{mark} 50% a=b before\n")
    limits = triggers(f"log:{mark.upper()} 50%25 A%3DB=log", f"log:{mark} other")
    with recording(tmp_path / "out", "--collect", "calls", *limits) as run:
        time.sleep(0.5)
        written_ns = time.monotonic_ns()
        Path("/dev/kmsg").write_text(f"{mark} 50% a=b\n")
        time.sleep(0.5)
    fired = firings(run)
    assert set(fired) == {"log"}
    (firing,) = fired["log"]
    assert firing["detail"] == f"the kernel logged: {mark} 50% a=b"
    assert written_ns - 100 * MS < firing["ns"] < written_ns + SOON_NS


def test_signal_fires_once_a_signal(tmp_path: Path) -> None:
    with recording(tmp_path / "out", "--collect", "calls", *triggers("signal=exit of CMD")) as run:
        for _ in range(2):
            time.sleep(0.5)
            run.process.send_signal(signal.SIGUSR2)
        time.sleep(0.3)
    fired = firings(run)
    assert [firing["kind"] for firing in fired["exit of CMD"]] == ["signal", "signal"]


def stalled_us(share: str) -> int:
    for line in Path("/proc/pressure/io").read_text().splitlines():
        if line.startswith(share):
            return int(line.rpartition("=")[2])
    raise ValueError(share)


@pytest.mark.skipif(
    not Path("/proc/pressure/io").exists(), reason="the kernel has no PSI: boot it with psi=1"
)
def test_psi_fires_when_tasks_are_stalled(disk: Disk, tmp_path: Path) -> None:
    """A task waits for the disk that stands still; nobody is short of memory all the time."""
    limits = triggers("psi:io:some:400000:2000000=io", "psi:memory:full:2000000:2000000")
    before_us = stalled_us("some")
    with recording(tmp_path / "out", "--collect", "calls", *limits) as run:
        with standing_still(disk):
            writer = threading.Thread(target=write_sector, args=(disk.path, 4096))
            writer.start()
            time.sleep(2)
        writer.join()
        time.sleep(2.5)  # without CAP_SYS_RESOURCE, the kernel looks each 2 s
    assert stalled_us("some") - before_us > 400_000
    fired = firings(run)
    assert set(fired) == {"io"}
    assert fired["io"][0]["detail"] == "io pressure (some): 400000 us of stall or more within 2000000 us"
