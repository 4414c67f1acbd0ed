# SPDX-License-Identifier: BSD-2-Clause
"""UNIT=, CGROUP= and PID= of a watch: the bytes of what is followed are the workload's, and no others."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from collectors.host import followed
from collectors.host.followed import Followed, find
from tests.collectors.loop_disk import MIB, LoopDisk, loop_disk
from tests.collectors.recording import Recording, cgroup, needs_btf, read_table, recording, run_inside
from tests.collectors.sessions import Job
from tests.marks import needs_root
from workloads.cgroup import Layout
from workloads.cli.follow_options import Follow
from workloads.cli.parse import parse
from workloads.system.errors import MachineError, OptionError

BLOCK = 4096


def bytes_of_workload(run: Recording) -> dict[bool, int]:
    """Sum the bytes of all requests: the workload's, and those of others."""
    rows = run.table("block")
    is_workloads = rows["in_workload"] == 1
    return {whose: int(rows["bytes"][is_workloads == whose].sum()) for whose in (True, False)}


def dd(disk: LoopDisk, blocks: int) -> list[str]:
    return [
        "dd",
        "status=none",
        "if=/dev/zero",
        f"of={disk.path}",
        f"bs={BLOCK}",
        f"count={blocks}",
        "oflag=direct",
    ]


@needs_root
@needs_btf
def test_bytes_of_the_followed_cgroup_and_those_below_are_the_workloads(tmp_path: Path) -> None:
    with loop_disk(tmp_path / "disk", 64 * MIB) as disk, cgroup() as service, cgroup() as other:
        below = service / "below"
        below.mkdir()
        words = ("--disk", disk.name, "--collect", "block", "--follow-cgroup", str(service))
        with recording(tmp_path / "out", *words) as run:
            for folder, blocks in ((service, 301), (other, 77), (below, 13)):
                assert run_inside(folder, dd(disk, blocks)).wait(timeout=60) == 0
        remove(below)
    assert bytes_of_workload(run) == {True: 314 * BLOCK, False: 77 * BLOCK}
    assert losses(run)["restarts"] == 0


@needs_root
@needs_btf
def test_cgroup_that_is_made_anew_is_followed_on(tmp_path: Path) -> None:
    with loop_disk(tmp_path / "disk", 64 * MIB) as disk, cgroup() as above:
        service = above / "x.service"
        service.mkdir()
        words = ("--disk", disk.name, "--collect", "block", "--follow-cgroup", str(service))
        with recording(tmp_path / "out", *words) as run:
            assert run_inside(service, dd(disk, 100)).wait(timeout=60) == 0
            remove(service)
            assert run_inside(above, dd(disk, 50)).wait(timeout=60) == 0  # not the service's
            time.sleep(0.1)
            service.mkdir()
            time.sleep(0.1)  # found within 20 ms
            assert run_inside(service, dd(disk, 30)).wait(timeout=60) == 0
        remove(service)
    assert bytes_of_workload(run) == {True: 130 * BLOCK, False: 50 * BLOCK}
    assert losses(run)["restarts"] == 1


@needs_root
@needs_btf
def test_a_followed_process_takes_its_children_along(tmp_path: Path) -> None:
    with loop_disk(tmp_path / "disk", 64 * MIB) as disk:
        write, go = " ".join(dd(disk, 20)), tmp_path / "go"
        wait = f"while [ ! -e {go} ]; do sleep 0.05; done"
        script = f"({wait}; {write}; {write}) & {wait}; {write}; sh -c '{write}; true'; wait"
        shell = subprocess.Popen(["/bin/sh", "-c", script])
        try:
            words = ("--disk", disk.name, "--collect", "block", "--follow-pid", str(shell.pid))
            with recording(tmp_path / "out", *words) as run:
                subprocess.run(dd(disk, 77), check=True)  # of this process, whose child the shell is
                go.touch()
                assert shell.wait(timeout=60) == 0
                time.sleep(1.5)  # processes are looked at once a second
        finally:
            shell.kill()
    # A child that had begun before the recording, two writes of it, and two of the shell.
    assert bytes_of_workload(run) == {True: 80 * BLOCK, False: 77 * BLOCK}
    found = losses(run)
    assert found["lost"] == {"no room for a process": 0}
    assert found["gone_ns"] > 0


@needs_root
@needs_btf
def test_watch_follows_a_process_and_says_when_it_ended(tmp_path: Path) -> None:
    with loop_disk(tmp_path / "disk", 64 * MIB) as disk:
        script = f"sleep 6; {' '.join(dd(disk, 40))}"
        shell = subprocess.Popen(["/bin/sh", "-c", script])
        try:
            job = Job(
                "watch", tmp_path / "run", DEV=disk.name, SECS="10", PID=str(shell.pid), COLLECT="block"
            )
            code = job.end()
        finally:
            shell.kill()
            shell.wait()
        assert code == 0, job.said
    facts = json.loads((tmp_path / "run/run.json").read_text())
    follow = facts["workload"]["follow"]
    assert (follow["word"], follow["pid"]) == ("PID", shell.pid)
    assert follow["gone_ns"] > facts["clock"]["workload_start_ns"]
    assert any("ended after" in warning for warning in facts["warnings"])


@needs_root
@needs_btf
@pytest.mark.parametrize("word", ["UNIT", "CGROUP"])
def test_watch_of_a_unit_has_its_bytes_and_its_sleeping_thread(tmp_path: Path, word: str) -> None:
    """A process that sleeps all the time is the unit's, too: it never ran while recorded."""
    with loop_disk(tmp_path / "disk", 64 * MIB) as disk, cgroup() as above:
        service = above / f"seekmeter-test-{os.getpid()}.service"
        service.mkdir()
        sleeper = run_inside(service, ["sleep", "300"])
        try:
            value = service.name.removesuffix(".service") if word == "UNIT" else str(service)
            words = {"DEV": disk.name, "SECS": "4", "COLLECT": "block threads", word: value}
            job = Job("watch", tmp_path / "run", None, **words)
            job.until("watch")
            assert run_inside(service, dd(disk, 60)).wait(timeout=60) == 0
            assert run_inside(above, dd(disk, 25)).wait(timeout=60) == 0
            assert job.end() == 0, job.said
        finally:
            sleeper.kill()
            sleeper.wait()
            remove(service)
    raw = tmp_path / "run/raw/recorder"
    rows = read_table(raw / "block.rec")[1]
    assert int(rows["bytes"][rows["in_workload"] == 1].sum()) == 60 * BLOCK
    assert int(rows["bytes"][rows["in_workload"] == 0].sum()) == 25 * BLOCK
    threads = [json.loads(line) for line in (raw / "thread.jsonl").read_text().splitlines()]
    roles = {line["role"] for line in threads if line["tid"] == sleeper.pid}
    assert roles == {"workload"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"UNIT": "a/b"}, "not a unit's name"),
        ({"CGROUP": "x.service"}, "is not a path"),
        ({"CGROUP": "/a/../b"}, "is not a path"),
        ({"PID": "-1"}, "is not a process"),
        ({"PID": "99999999999"}, "is not a process"),
        ({"PID": "1", "UNIT": "x"}, "contradicts"),
        ({"PID": "1", "SECS": "0"}, "PID contradicts SECS=0"),
        ({"PID": "1", "UNTIL": "signal"}, "PID contradicts UNTIL"),
    ],
)
def test_words_that_make_no_sense_are_refused(words: dict[str, str], said: str) -> None:
    given = {"DEV": "vda", **words}
    env = {f"SEEKMETER_{name}": text for name, text in given.items()} | {"SEEKMETER_WORDS": " ".join(given)}
    with pytest.raises(OptionError, match=said):
        parse(env, "watch", {"block": True})


def test_a_machine_without_cgroup2_names_the_other_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(followed, "find_layout", lambda: Layout(None, {}))
    with pytest.raises(MachineError, match="follow a process, PID="):
        find(Follow("UNIT", "nginx"))


@needs_root
def test_process_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match="no process of this machine"):
        find(Follow("PID", "4194000"))


def remove(folder: Path) -> None:
    """Remove a cgroup whose processes have just ended."""
    deadline = time.monotonic() + 20
    while True:
        try:
            folder.rmdir()
            return
        except OSError:
            assert time.monotonic() < deadline
            time.sleep(0.05)


def losses(run: Recording) -> dict[str, Any]:
    """Return what losses.json says of what was followed."""
    recorder: dict[str, dict[str, Any]] = json.loads((run.out / "losses.json").read_text())["recorder"]
    return recorder["workload"]


def tree(root: Path, *paths: str) -> Path:
    for path in paths:
        (root / path).mkdir(parents=True)
    return root


def test_units_are_found_by_name(tmp_path: Path) -> None:
    root = tree(
        tmp_path,
        "system.slice/nginx.service",
        "machine.slice/machine-qemu\\x2d1\\x2dweb.scope",
        "a/x.service",
    )
    nginx = root / "system.slice/nginx.service"
    for name in ("nginx", "nginx.service"):
        assert find(Follow("UNIT", name), root) == Followed("UNIT", "nginx.service", nginx)
    assert find(Follow("UNIT", "machine-qemu-1-web"), root).directory == next(
        (root / "machine.slice").iterdir()
    )
    assert find(Follow("CGROUP", "/a/x.service"), root).directory == root / "a/x.service"


@pytest.mark.parametrize(
    ("word", "value", "said"),
    [
        ("UNIT", "ngnix", "did you mean nginx"),
        ("UNIT", "zzzzzzzz", "systemd-cgls"),
        ("UNIT", "two", "is 2 cgroups: name one of CGROUP=/a/two.service CGROUP=/b/two.service"),
        ("CGROUP", "/system.slice/none", "is not in"),
    ],
)
def test_what_is_not_there_is_named(tmp_path: Path, word: str, value: str, said: str) -> None:
    root = tree(tmp_path, "system.slice/nginx.service", "a/two.service", "b/two.service")
    with pytest.raises(MachineError, match=said):
        find(Follow(word, value), root)
