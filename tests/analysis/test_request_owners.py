# SPDX-License-Identifier: BSD-2-Clause
"""Whose requests are these: each witness alone and against the others, the sums, and what the reports say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from analysis.compare import make_compare
from analysis.figures.run.iograph import make_subtitle
from analysis.measures.block.request_owners import OWNERS
from analysis.measures.results import measure
from analysis.report import make_report
from analysis.rundir.run import open_run
from analysis.tables.load import load_tables
from tests.analysis.measured import block_results, measured_of
from tests.analysis.synthetic import START_NS, Spec, request, run_json

DISK, MINE, OTHER = 7 << 20 | 3, 259 << 20 | 1, 259 << 20 | 2
FIRST_SECTOR, SECTORS = 2048, 100_000
AT = START_NS + 1_000_000_000
BELOW, OUTSIDE, GONE, RECORDING = 11, 12, 13, 14


def shared(kind: str = "directory", **device: Any) -> dict[str, Any]:
    """run.json of DIR= on the first partition of a disk, or of watch."""
    facts = run_json(10)
    part = {"name": "loop3p1", "dev": "259:1", "first_sector": FIRST_SECTOR, "sectors": SECTORS}
    facts["device"] |= {"kind": kind, "parts": [part], **device}
    facts["filesystem"] = {"name": "ext4", "geometry": {"journal": []}, "numbers": ["259:1"]}
    facts["own_files"] = {"dev": "259:1", "inodes": [RECORDING]}
    return facts


PATHS = [
    {"dev": "259:1", "ino": BELOW, "path": "a/mine"},
    {"dev": "259:1", "ino": OUTSIDE, "path": "/mnt/elsewhere/theirs"},
]


def row(submitter: str, **more: Any) -> dict[str, Any]:
    """A write of data to the tested file system, unless told."""
    fields: dict[str, Any] = {"submitter": submitter, "sb_dev": MINE, "in_workload": submitter == "workload"}
    fields["ino"] = 0
    return fields | more


def owners_of(rows: list[dict[str, Any]], path: Path, facts: dict[str, Any]) -> list[str]:
    """The owner of each of these requests, which are spread over the partition."""
    block = [{**request(AT + i * 1_000_000, FIRST_SECTOR + 1000 * i), **one} for i, one in enumerate(rows)]
    measured = measured_of(Spec(block=block, paths=PATHS, run=facts), path)
    assert measured.owners is not None and measured.owners.codes is not None
    return [OWNERS[code] for code in measured.owners.codes.tolist()]


METADATA = {"class": "metadata"}
OF_DIRECTORY = [
    (row("workload"), "workload"),
    (row("workload", sb_dev=OTHER), "workload"),  # wherever it writes
    (row("workload", ino=OUTSIDE), "workload"),
    (row("other"), "others"),  # direct I/O of somebody else
    (row("other", ino=BELOW), "workload"),  # a server that works for it
    (row("other", ino=OUTSIDE), "others"),
    (row("other", **METADATA), "others"),
    (row("upper_device"), "others"),  # a loop device whose file lies here
    (row("kernel_thread", ino=BELOW), "workload"),
    (row("kernel_thread", ino=OUTSIDE), "others"),
    (row("kernel_thread", ino=GONE), "filesystem"),
    (row("kernel_thread", ino=GONE, charged="workload"), "workload"),
    (row("kernel_thread", ino=OUTSIDE, charged="workload"), "workload"),
    (row("kernel_thread", ino=GONE, charged="other"), "others"),
    (row("kernel_thread", ino=BELOW, charged="other"), "workload"),
    (row("kernel_thread", ino=BELOW, queue_ns=AT - 900_000_000), "workload"),
    (row("kernel_thread", **METADATA), "filesystem"),
    (row("kernel_thread", sb_dev=OTHER, **METADATA), "others"),
    (row("kernel_thread", sb_dev=OTHER, ino=BELOW), "others"),  # another file system's inode of that number
    (row("kernel_thread", sb_dev=0, **METADATA), "filesystem"),  # told by its sector
    (row("kernel_thread", sb_dev=0, sector=FIRST_SECTOR + SECTORS, **METADATA), "others"),
    (row("kernel_thread", sb_dev=0, sector=FIRST_SECTOR - 8, **METADATA), "others"),
    (row("kernel_thread", ino=RECORDING), "recorder"),
    (row("recorder"), "recorder"),
    (row("recorder", **METADATA), "filesystem"),  # our sync at the end
    (row("recorder", sb_dev=OTHER, **METADATA), "recorder"),
    (row("recorder", ino=BELOW), "workload"),
]


def test_shared_file_system_uses_every_kind_of_evidence(tmp_path: Path) -> None:
    found = owners_of([one for one, _ in OF_DIRECTORY], tmp_path / "r", shared())
    assert found == [owner for _, owner in OF_DIRECTORY]


def test_reused_device_number_tells_nothing_of_earlier_requests(tmp_path: Path) -> None:
    facts = shared()
    rows = [row("kernel_thread", ino=BELOW), row("kernel_thread", ino=BELOW)]
    block = [request(AT, FIRST_SECTOR, **rows[0]), request(AT + 2_000_000_000, FIRST_SECTOR + 8, **rows[1])]
    paths = [{"dev": "259:1", "ino": BELOW, "path": "b", "born_ns": AT + 1_000_000_000}]
    owners = measured_of(Spec(block=block, paths=paths, run=facts), tmp_path / "r").owners
    assert owners is not None and owners.codes is not None
    assert [OWNERS[code] for code in owners.codes.tolist()] == ["filesystem", "workload"]


def test_recording_on_another_partition_is_told_apart(tmp_path: Path) -> None:
    facts = shared()
    facts["own_files"] = {"dev": "259:2", "inodes": [RECORDING]}
    rows = [
        row("kernel_thread", ino=RECORDING, sb_dev=OTHER),
        row("kernel_thread", ino=RECORDING),
        row("kernel_thread", ino=BELOW, sb_dev=OTHER),
    ]
    assert owners_of(rows, tmp_path / "r", facts) == ["recorder", "filesystem", "others"]


def test_watched_partition_is_told_from_the_rest_of_its_disk(tmp_path: Path) -> None:
    cases = [
        (row("other"), "workload"),
        (row("other", sb_dev=OTHER), "others"),
        (row("kernel_thread", ino=OUTSIDE), "workload"),
        (row("kernel_thread", **METADATA), "filesystem"),
        (row("kernel_thread", sb_dev=OTHER, **METADATA), "others"),
        (row("kernel_thread", ino=RECORDING), "recorder"),
        (row("recorder"), "recorder"),
    ]
    found = owners_of([one for one, _ in cases], tmp_path / "r", shared("watch"))
    assert found == [owner for _, owner in cases]


def test_whole_watched_disk_has_no_others(tmp_path: Path) -> None:
    whole = {"name": "loop3", "dev": "7:3", "first_sector": 0, "sectors": 1 << 20}
    facts = shared("watch", parts=[whole])
    rows = [row("other", sb_dev=n) for n in (MINE, OTHER, DISK, 0)]
    block = [request(AT + i, 8 * i, **one) for i, one in enumerate(rows)]
    owners = measured_of(Spec(block=block, run=facts), tmp_path / "r").owners
    assert owners is not None
    assert owners.of("workload").requests == 4
    assert not owners.is_shared


def test_private_disk_has_only_other_processes_as_others(tmp_path: Path) -> None:
    cases = [
        (row("workload"), "workload"),
        (row("kernel_thread", ino=GONE), "workload"),
        (row("kernel_thread", **METADATA), "filesystem"),
        (row("recorder"), "filesystem"),
        (row("other", op="read", **METADATA), "others"),  # a udev probe
        (row("other", op="write", **METADATA), "filesystem"),  # somebody's sync
        (row("other"), "others"),
    ]
    found = owners_of([one for one, _ in cases], tmp_path / "r", run_json(10))
    assert found == [owner for _, owner in cases]


def test_older_run_has_unknown_submitters(tmp_path: Path) -> None:
    spec = Spec(block=[request(AT, 0), request(AT + 5_000_000, 80_000)], run=shared())
    assert measured_of(spec, tmp_path / "r").owners is None
    make_report(tmp_path / "r")
    text = (tmp_path / "r" / "report.txt").read_text()
    assert "REQUESTS BY OWNER" not in text
    assert "!! other programs" not in text


def mixed() -> Spec:
    """10 sequential writes of the workload's, between each two a far one of somebody else's."""
    block = []
    for i in range(10):
        mine = request(AT + 2 * i * 1_000_000, FIRST_SECTOR + 128 * i, 65536, **row("workload"))
        theirs = request(
            AT + (2 * i + 1) * 1_000_000,
            FIRST_SECTOR + 50_000 + 1000 * i,
            4096,
            complete_ns=AT + (2 * i + 1) * 1_000_000 + 900_000,
            **row("other", comm=b"fio", op="read"),
        )
        block += [mine, theirs]
    block.append(request(AT + 30_000_000, FIRST_SECTOR + 9000, 8192, **row("kernel_thread", **METADATA)))
    phases = [{"name": "all", "start_ns": AT, "end_ns": AT + 1_000_000_000, "ops": 10, "bytes": 655_360}]
    return Spec(block=block, phases=phases, paths=PATHS, run=shared())


def test_owner_sums_equal_the_requests(tmp_path: Path) -> None:
    measured = measured_of(mixed(), tmp_path / "r")
    owners = measured.owners
    assert owners is not None
    mine, theirs, own = (owners.of(name) for name in ("workload", "others", "filesystem"))
    assert (mine.requests, mine.read_bytes, mine.write_bytes) == (10, 0, 655_360)
    assert (theirs.requests, theirs.read_bytes, theirs.write_bytes) == (10, 40_960, 0)
    assert (own.requests, own.bytes, own.by_class["metadata"]) == (1, 8192, (1, 8192))
    assert theirs.names == (("fio", 10),)
    # each of both goes away from the other's place; the first has none before it
    assert (mine.seeks, theirs.seeks, own.seeks) == (9, 10, 1)
    assert block_results(measured).seeks.summaries["all"].seeks == 20
    assert owners.own() == (10, 655_360, 9)
    assert owners.own("write", "data") == (10, 655_360, 9)
    assert owners.own("read") == (0, 0, 0)
    assert owners.share("others", "requests") == pytest.approx(10 / 21)
    lengths = measured.timeline.lengths_s
    assert (owners.own_mb_s["write"] * lengths).sum() == pytest.approx(0.65536)
    assert (owners.own_seeks_per_s * lengths).sum() == pytest.approx(9)
    (q2d, d2c, q2c) = owners.latency["write"]
    assert (q2d.stage, d2c.stage, q2c.stage) == ("Q2D", "D2C", "Q2C")
    assert (d2c.count, d2c.at_ns[0]) == (10, 100_000)
    assert owners.latency["read"] == []
    assert measured.phases is not None
    phase = measured.phases[0]
    assert (phase.own_device_bytes, phase.own_seeks) == (655_360, 9)
    assert (phase.device_bytes, phase.seeks) == (704_512, 20)
    assert {r.label: r.seeks for r in block_results(measured).seeks_by_process} == {
        "worker": 10,
        "fio (other programs)": 10,
    }


def test_report_begins_with_the_share_of_others(tmp_path: Path) -> None:
    mixed().write(tmp_path / "r")
    said = make_report(tmp_path / "r")
    text = (tmp_path / "r" / "report.txt").read_text()
    words = " ".join(line.removeprefix("!! ") for line in text.splitlines())
    first = "other programs use this disk: 47.6 % of its requests, 5.8 % of its bytes, 50.0 % of its seeks"
    assert text.splitlines()[1].startswith("!! other programs use this disk: 47.6 %")
    assert first in words
    assert "!! other programs use this disk" in said
    section = text[text.index("REQUESTS BY OWNER") :]
    assert "other programs, by submitter: fio 10" in section
    assert "file system: metadata 1 requests, 8.19 kB" in section
    throughput = text[text.index("\nTHROUGHPUT") :]
    line = next(line for line in throughput.splitlines() if line.split()[:2] == ["write", "data"])
    assert line.split()[2:8] == ["10", "10", "655", "kB", "655", "kB"]
    seeks = text[text.index("\nSEEKS") :]
    line = next(line for line in seeks.splitlines() if line.split()[:1] == ["all"])
    assert line.split()[1:4] == ["21", "9", "20"]
    assert "write, own" in text
    run = open_run(tmp_path / "r")
    second_line = make_subtitle(run, measure(run, load_tables(run)))
    assert "21 requests (47.6 % own), 705 kB (93.0 % own)" in second_line
    assert "counts all requests on the disk" in text[text.index("\nQUEUE DEPTH") :]


def test_files_name_their_owner(tmp_path: Path) -> None:
    rows = [row("kernel_thread", ino=inode) for inode in (BELOW, OUTSIDE, GONE)]
    rows.append(row("kernel_thread", ino=BELOW, sb_dev=OTHER))
    block = [request(AT + i * 1_000_000, FIRST_SECTOR + 5000 * i, **one) for i, one in enumerate(rows)]
    measured = measured_of(Spec(block=block, paths=PATHS, run=shared()), tmp_path / "r")
    found = {(r.ino, r.path): r.owner for r in block_results(measured).files.rows}
    assert found == {
        (BELOW, "a/mine"): "workload",
        (OUTSIDE, "/mnt/elsewhere/theirs"): "others",
        (GONE, None): "filesystem",
        (BELOW, None): "others",  # of the other file system
    }


def test_unassignable_data_are_reported(tmp_path: Path) -> None:
    block = [request(AT, FIRST_SECTOR, 1 << 20, **row("kernel_thread", ino=GONE))]
    Spec(block=block, paths=PATHS, run=shared()).write(tmp_path / "r")
    make_report(tmp_path / "r")
    text = " ".join((tmp_path / "r" / "report.txt").read_text().split())
    assert "owner not known: 1.05 MB of written-back data" in text
    assert "other programs use this disk" not in text


def test_probe_of_a_private_disk_is_reported(tmp_path: Path) -> None:
    block = [request(AT + i * 1_000_000, 8 * i, **row("workload", sb_dev=DISK)) for i in range(200)]
    probe = row("other", sb_dev=DISK, op="read", comm=b"(udev-worker)", **METADATA)
    block.append(request(AT + 500_000_000, 0, 4096, **probe))
    Spec(block=block, run=run_json(10)).write(tmp_path / "r")
    make_report(tmp_path / "r")
    text = (tmp_path / "r" / "report.txt").read_text()
    assert "of these by other programs: 1 requests, 4.10 kB ((udev-worker) 1)" in " ".join(text.split())
    assert "REQUESTS BY OWNER" not in text and "!! other programs" not in text
    assert "own %" in text


def test_comparison_has_the_share_of_others_per_run(tmp_path: Path) -> None:
    mixed().write(tmp_path / "a")
    quiet = mixed()
    quiet.block = [one for one in quiet.block if one["submitter"] != "other"]
    quiet.write(tmp_path / "b")
    make_compare([tmp_path / "a", tmp_path / "b"], tmp_path / "out")
    text = (tmp_path / "out" / "compare.txt").read_text()
    assert "!! A: other programs use this disk: 47.6 % of its requests" in text
    assert "B: others" not in text
