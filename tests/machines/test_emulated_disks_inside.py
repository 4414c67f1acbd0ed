# SPDX-License-Identifier: BSD-2-Clause
"""DISK=hdd on other kernels, in virtual machines: by ublk where the kernel has it, else by FUSE.

A traced run on each: its rows are the block layer's requests, and it says that it did not keep time, as these
CPUs are emulated. And the tests of FILE, on the kernels with ublk: data after power cuts, and no device left
behind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tests.collectors.recording import enum_value, read_table
from tests.collectors.sessions import Job, Run
from tests.machines.inside_machine import Case, inside

pytestmark = [pytest.mark.vm, pytest.mark.long]
SECONDS = 1200
WAYS = {"6.1": "fuse", "6.12": "ublk", "7.2": "ublk"}
FILE = "test_ublk_disk"
# Writes that reach the disk at once, and later; reads that the page cache does not have.
COMMAND = (
    "for i in 1 2 3 4 5; do head -c 200000 /dev/urandom >kept$i; sync kept$i; done;"
    " head -c 3000000 /dev/zero >late; sync; dd if=late of=/dev/null bs=64k iflag=direct 2>/dev/null;"
    " sha256sum kept*"
)


@pytest.fixture(scope="module", params=WAYS)
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A traced run on this kernel."""
    words = {"CMD": COMMAND, "FS": "ext4", "DISK": "hdd", "SIZE": "256M", "VM": "1", "KERNEL": request.param}
    folder = tmp_path_factory.mktemp(f"hdd-{request.param}-")
    job = Job("trace", folder / "run", None, **words, COLLECT="block", CPUS="2", MEM="1G")
    assert job.end(SECONDS) == 0, job.said
    assert job.left_behind() == []
    return job.run


@pytest.fixture(scope="module", params=[kernel for kernel, way in WAYS.items() if way == "ublk"])
def cases(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Case]]:
    """What the tests inside found."""
    folder = tmp_path_factory.mktemp(f"ublk-{request.param}-")
    with inside(folder, request.param, [f"tests/workloads/{FILE}.py"]) as machine:
        machine.wait(SECONDS)
        yield machine.cases()


def requests(path: Path, rows: npt.NDArray[np.void], enum: str, lengths: npt.NDArray[Any]) -> Counter[Any]:
    """Count reads and writes by kind, sector and length in sectors."""
    kinds = {enum_value(path, enum, name): name for name in ("read", "write")}
    return Counter(
        (kinds[int(row["op"])], int(row["sector"]), int(length))
        for row, length in zip(rows, lengths, strict=True)
        if int(row["op"]) in kinds
    )


def test_rows_equal_the_block_layers_requests(run: Run) -> None:
    """Of each request that the kernel gave to the disk while both recorded there is one row, and no other."""
    served_path, block_path = (
        run.path / "raw/disk_service/disk_service.rec",
        run.path / "raw/recorder/block.rec",
    )
    served, block = read_table(served_path)[1], read_table(block_path)[1]
    assert len(set(block["dev"])) == 1
    served = served[(served["dev"] == block["dev"][0]) & (served["arrival_ns"] > 0)]
    first_ns, last_ns = block["issue_ns"].min(), block["complete_ns"].max()
    served = served[(served["arrival_ns"] >= first_ns) & (served["arrival_ns"] <= last_ns)]
    asked = requests(block_path, block, "block_op", block["bytes"] // 512)
    assert requests(served_path, served, "disk_op", served["sectors"]) == asked
    assert asked.total() > 20
    losses = run.losses["collectors"]
    assert losses["block"]["lost"] == {} or sum(losses["block"]["lost"].values()) == 0


def test_run_says_which_way_and_that_time_was_not_kept(run: Run) -> None:
    facts = run.facts
    device = facts["device"]
    release = facts["kernel"]["release"]
    way = next(way for kernel, way in WAYS.items() if release.startswith(f"{kernel}."))
    assert device["emulated"]["transport"] == way
    assert ("no ublk_drv" in device["emulated"]["why"]) == (way == "fuse")
    assert device["rotational"] == 1
    assert device["scheduler"] == "mq-deadline"
    assert device["kept_time"]["requests"] > 20
    if facts["machine"]["vm"]["accel"] == "tcg":
        assert device["kept_time"]["is_kept"] is False


def test_data_are_what_was_written(run: Run) -> None:
    sums = [line.split()[0] for line in run.output.splitlines()]
    assert len(sums) == len(set(sums)) == 5


def test_report_of_an_emulated_disk_inside_is_made(run: Run) -> None:
    report = run.report()
    assert "emulated CPUs" in report or run.facts["machine"]["vm"]["accel"] == "kvm"


def test_ublk_disks_keep_data_and_go_away(cases: list[Case]) -> None:
    bad = [case for case in cases if case.outcome != "passed"]
    assert not bad, "\n".join(f"{case.name} {case.outcome}: {case.text}" for case in bad)
    assert len(cases) > 5
