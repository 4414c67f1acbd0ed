# SPDX-License-Identifier: BSD-2-Clause
"""The recorder's command line: the collectors it lists, and the devices it takes."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.collectors.recording import RECORDER, TREE
from workloads import filesystems
from workloads.cli.disk_options import MOST_DISKS


def _collectors() -> list[dict[str, Any]]:
    printed = subprocess.run([RECORDER, "--list"], stdout=subprocess.PIPE, text=True, check=True).stdout
    return [json.loads(line) for line in printed.splitlines()]


def test_list_prints_collectors_in_order_of_attaching() -> None:
    """One line per collector; holds attach first, as they are slowest, and counters are read last."""
    collectors = _collectors()
    orders = [collector["order"] for collector in collectors]
    assert orders == sorted(orders)
    assert len(set(orders)) == len(orders)
    assert (collectors[0]["name"], collectors[-1]["name"]) == ("holds", "counters")
    assert {str(collector["name"]) for collector in collectors if not collector["default"]} == {"holds"}


def test_each_collector_has_a_folder_and_no_list_names_it() -> None:
    """The recorder's own files know collectors by the registry alone."""
    for collector in _collectors():
        name = str(collector["name"])
        assert (TREE / "collectors" / name / f"{name}.c").is_file()
        for path in sorted((TREE / "collectors/recorder").glob("*.[ch]")):
            assert f'"{name}"' not in path.read_text(), f"{path.name} names {name}"


def test_unknown_collector_is_refused_with_the_known_ones() -> None:
    """The message lists all collectors."""
    run = subprocess.run(
        [RECORDER, "--collect", "lock", "--probe"], capture_output=True, text=True, check=False
    )
    known = ",".join(str(collector["name"]) for collector in _collectors())
    assert run.returncode == 2
    assert run.stderr == f"recorder: lock: no such collector; choose from {known}\n"


def test_recorder_takes_as_many_disks_as_a_plan_has() -> None:
    """DISK= may name MOST_DISKS disks, of a file system that has no journal on one more."""
    queues = sorted(Path("/sys/block").glob("*/mq"))
    if not queues:
        pytest.skip("no disk here has a request queue: attach one (losetup)")
    disk = ["--disk", queues[0].parent.name]
    run = subprocess.run([RECORDER, *disk * (MOST_DISKS + 1)], capture_output=True, text=True, check=False)
    assert run.stderr == f"recorder: {disk[1]}: too many disks; at most {MOST_DISKS}\n"
    run = subprocess.run([RECORDER, *disk * MOST_DISKS], capture_output=True, text=True, check=False)
    assert run.stderr == "recorder: --out: missing; give the directory the tables go to\n"
    for name in filesystems.names():
        filesystem = filesystems.load(name)
        assert not (filesystem.several and filesystem.journal), name


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--hidden", "8:0=nvme0c0n1"], "8:0=nvme0c0n1: not 4095:N=NAME"),
        (["--hidden", "4095:0"], "4095:0: not 4095:N=NAME"),
        (["--hidden", "4095:0=a/b"], "a/b: not a disk; give a name from /sys/block"),
        (["--volume", "no-such"], "no-such: no such disk; give a name from /sys/block"),
        (["--volume", "../block"], "../block: not a disk; give a name from /sys/block"),
        (["--component", "sda1"], "sda1: not MAJOR:MINOR"),
        (["--counted", "no-such"], "no-such: no such disk; give a name from /sys/block"),
        (["--component", "8:1"] * 257, "8:1: too many components; at most 256"),
    ],
)
def test_wrong_devices_are_refused_with_a_remedy(words: list[str], says: str) -> None:
    run = subprocess.run([RECORDER, *words], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (2, f"recorder: {says}\n")


def test_disk_without_requests_is_refused_as_a_disk() -> None:
    """A volume's requests are those of the disks below."""
    volumes = [path.name for path in sorted(Path("/sys/block").iterdir()) if not (path / "mq").exists()]
    if not volumes:
        pytest.skip("no volume here: add a zram device")
    run = subprocess.run([RECORDER, "--disk", volumes[0]], capture_output=True, text=True, check=False)
    remedy = "has no request queue (blk-mq); name it as --volume, and the disks below it"
    assert (run.returncode, run.stderr) == (2, f"recorder: {volumes[0]}: {remedy}\n")
