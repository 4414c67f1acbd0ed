# SPDX-License-Identifier: BSD-2-Clause
"""The flight recorder on volumes that hold bios back: no disk has a request of them, yet triggers fire.

Kernels without device-mapper skip these: tests/machines/test_suspended_inside.py runs them in a machine.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.collectors import stacks
from tests.collectors.flights import Flight, flight_of, rings_left
from tests.collectors.named_rows import NamedRows
from tests.collectors.recording import needs_btf, recording
from tests.collectors.sessions import wait_for
from tests.collectors.stacks import DISK_SECTORS, Site
from tests.collectors.test_stacks import words_of
from tests.collectors.test_triggers import firings, triggers
from tests.marks import needs_root
from workloads.system.guest import GUEST

pytestmark = [needs_root, needs_btf, pytest.mark.long]
MS, S = 1_000_000, 1_000_000_000
SECTOR, BYTES = 4096, 4096
LIMIT_NS = 500 * MS
HELD_S = 2.0


@pytest.fixture(autouse=True)
def as_a_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a virtual machine, these watches are not the session that the host has started."""
    monkeypatch.delenv(GUEST, raising=False)


@dataclass(frozen=True)
class Held:
    """A volume that is written to, and the one at or below it that is suspended."""

    site: Site
    top: str
    suspended: str

    @contextmanager
    def back(self, *words: str) -> Iterator[None]:
        """Hold back all bios during the block."""
        with ExitStack() as resume:
            resume.callback(self.site.run, "dmsetup", "resume", "--noudevsync", self.suspended)
            self.site.run("dmsetup", "suspend", "--noudevsync", *words, self.suspended)
            yield

    def writer(self) -> subprocess.Popen[bytes]:
        """Start a write of a page, and wait until it waits."""
        words = [f"of={self.top}", f"bs={BYTES}", "count=1", f"seek={SECTOR * 512 // BYTES}", "oflag=direct"]
        writer = subprocess.Popen(["dd", "if=/dev/zero", *words], stderr=subprocess.DEVNULL)
        wait_for(lambda: in_flight(writer.pid), 60)
        return writer


def in_flight(pid: int) -> bool:
    """Return whether a process waits for a direct write."""
    return "direct" in Path(f"/proc/{pid}/stack").read_text()


def linear(site: Site) -> Held:
    (path,) = stacks.linear(site)
    return Held(site, path, path)


def linear_below(site: Site) -> Held:
    (lower,) = stacks.linear(site)
    return Held(site, site.mapped("upper", f"0 {DISK_SECTORS} linear {lower} 0"), lower)


def multipath(site: Site) -> Held:
    """Made of requests: its bios wait as such."""
    (path,) = stacks.multipath(site)
    return Held(site, path, path)


@contextmanager
def built(build: Callable[[Site], Held], folder: Path) -> Iterator[Held]:
    is_multipath = build is multipath
    stacks.need(["dm-mod", *(["dm-multipath", "dm-round-robin"] if is_multipath else [])], ["dmsetup"])
    with ExitStack() as undo:
        yield build(Site(folder, undo, 1 if is_multipath else 2))


@pytest.mark.parametrize("words", [[], ["--noflush"]], ids=["flush", "noflush"])
@pytest.mark.parametrize("build", [linear, linear_below, multipath])
def test_held_write_fires_before_it_ends(
    build: Callable[[Site], Held], words: list[str], tmp_path: Path
) -> None:
    limits = (f"request:{LIMIT_NS}=slow", f"stall:{LIMIT_NS}=stall", f"request:{60 * S}", f"stall:{60 * S}")
    with built(build, tmp_path) as held:
        top = stacks.name_of(held.top)
        options, devs = words_of(stacks.layers([held.top]))
        with recording(tmp_path / "out", "--collect", "block", *options, *triggers(*limits)) as run:
            with held.back(*words):
                writer = held.writer()
                time.sleep(HELD_S)
                assert writer.poll() is None
            assert writer.wait(60) == 0
    fired = firings(run)
    assert set(fired) == {"slow", "stall"}, run.printed
    rows = NamedRows(run.out / "volume.rec").of(devs[top])
    (row,) = rows[(rows["sector"] == SECTOR) & (rows["bytes"] == BYTES)]
    queue_ns, complete_ns = int(row["queue_ns"]), int(row["complete_ns"])
    assert complete_ns - queue_ns > HELD_S * 0.9 * S
    who = f"write of {BYTES} bytes at sector {SECTOR} of"
    for (firing,) in fired.values():
        assert queue_ns + LIMIT_NS <= firing["ns"] < complete_ns, firing
        assert who in firing["detail"] and f"by dd (pid {row['pid']})" in firing["detail"], firing


@pytest.mark.parametrize("until", ["request > 500ms", "stall > 500ms"])
def test_watch_of_a_suspended_volume_fires_once(until: str, tmp_path: Path) -> None:
    """For two seconds. AFTER is over before: the run has the write without its end."""
    with built(linear, tmp_path) as held:
        name, number = stacks.name_of(held.top), stacks.number_of(stacks.name_of(held.top))
        words = {"DEV": name, "UNTIL": until, "KEEP": "5s", "AFTER": "500ms", "GAP": "0s", "COLLECT": "block"}
        watch = Flight(tmp_path, {**words, "TIMES": "2"})
        watch.armed()
        with held.back():
            writer = held.writer()
            began_s = time.monotonic()
            watch.until("TRIGGER")
            watch.until("keep      1: ")
            assert writer.poll() is None
            time.sleep(max(0.0, HELD_S - (time.monotonic() - began_s)))
        writer.wait()
        time.sleep(2)
        watch.interrupt()
        assert watch.said.count("TRIGGER") == 1, watch.said
    assert rings_left() == []
    (run,) = watch.kept
    flight = flight_of(run)
    assert flight["trigger"] == until
    assert f"of {name} by dd" in flight["detail"]
    rows = NamedRows(run.path / "raw/recorder/volume.rec").of(number)
    (row,) = rows[(rows["sector"] == SECTOR) & (rows["bytes"] == BYTES)]
    assert row["queue_ns"] + LIMIT_NS <= flight["fired_ns"] < run.facts["clock"]["record_end_ns"]
    assert (row["complete_ns"], row["end_by_ns"]) == (0, 0)
    assert "not ended" in run.report()
