# SPDX-License-Identifier: BSD-2-Clause
"""Measures and report of stacks: every figure is computed by hand from rows that are known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analysis.measures.compare.compared_measures import causes
from analysis.measures.compare.compared_run import load_compared
from analysis.measures.stack.layer_times import disk_times
from analysis.report import make_report
from analysis.rundir.run import open_run
from analysis.tables.load import load_tables
from tests.analysis.measured import measured_of
from tests.analysis.recomputed_stack import check_stack
from tests.analysis.stacked import (
    DM0,
    DM1,
    MD0,
    SDA,
    SDA2,
    SDB,
    SDC,
    ZRAM0,
    lvm_on_crypt_nodes,
    node,
    part_of,
    raid5_nodes,
    stacked_run,
    top_bio,
)
from tests.analysis.synthetic import START_NS, Spec, bio, request

KIB = 1024
MS = 1_000_000
RESYNC = {"class": "volume", "submitter": "kernel_thread", "comm": b"md0_resync", "in_workload": 0}
PARITY = {"class": "parity", "submitter": "kernel_thread", "comm": b"md0_raid5", "in_workload": 0}


def raid5(**stack: Any) -> Spec:
    """Two full stripes of 128 KiB are written to md0, 64 KiB are read, and 32 KiB are resynced.

    Each write: 64 KiB to two disks, 64 KiB of parity to the third. Each bio takes 150 us, each request is
    queued 10 us after the bio, issued 20 us after it, and complete 120 us after it.
    """
    writes = [
        top_bio(i, START_NS + i * 100 * MS, 256 * i, 128 * KIB, dev=MD0, ino=12, comm=b"app") for i in (1, 2)
    ]
    read = top_bio(3, START_NS + 300 * MS, 512, 64 * KIB, dev=MD0, ino=12, op="read", comm=b"app")
    block = []
    for i, write in enumerate(writes):
        disks = [SDA, SDB, SDC] if i == 0 else [SDB, SDC, SDA]
        block += [part_of(write, disk, 128 * i, 64 * KIB, comm=b"app") for disk in disks[:2]]
        at = START_NS + (i + 1) * 100 * MS + 20_000
        block.append(request(at, 128 * i, 64 * KIB, dev=disks[2], origin=0, **PARITY))
    block.append(part_of(read, SDA, 5000, 64 * KIB, comm=b"app"))
    block.append(request(START_NS + 400 * MS, 9000, 32 * KIB, dev=SDB, op="read", origin=0, **RESYNC))
    return Spec(block=block, volume=[*writes, read], run=stacked_run(raid5_nodes(), **stack))


def test_raid5_amplification_counts_parity_and_resync_apart(tmp_path: Path) -> None:
    stack = measured_of(raid5(), tmp_path / "r").stack
    assert stack is not None
    read, write = stack.amplification
    assert (read.top_bytes, read.served_bytes, read.parity_bytes, read.own_bytes) == (
        *(64 * KIB, 64 * KIB, 0),
        32 * KIB,
    )
    assert (write.top_bytes, write.served_bytes, write.parity_bytes, write.own_bytes) == (
        *(256 * KIB, 256 * KIB, 128 * KIB),
        0,
    )
    assert (read.served, read.whole, write.served, write.whole) == (1.0, 1.5, 1.0, 1.5)


def test_raid5_views_are_never_summed(tmp_path: Path) -> None:
    """Throughput is that of md0: 320 KiB, not these and the 480 KiB of the disks."""
    results = measured_of(raid5(), tmp_path / "r")
    assert results.block is not None and results.is_stacked
    totals = {(row.op, row.class_): (row.requests, row.bytes) for row in results.device_totals}
    assert totals == {("write", "data"): (2, 256 * KIB), ("read", "data"): (1, 64 * KIB)}
    assert [(row.label, row.requests) for row in results.device.rows] == [("sda", 3), ("sdb", 3), ("sdc", 2)]
    q2c = {row.stage: (row.count, row.at_ns[0]) for row in results.block.latency.rows["write", ""]}
    # six requests of the disks, two bios of the volume
    assert q2c == {"Q2D": (6, 10_000), "D2C": (6, 100_000), "Q2C": (2, 150_000)}
    owners = results.owners
    assert owners is not None and owners.of("workload").bytes == 320 * KIB


def test_raid5_traffic_by_device(tmp_path: Path) -> None:
    stack = measured_of(raid5(), tmp_path / "r").stack
    assert stack is not None
    moved = {name: (t.count, t.read_bytes, t.write_bytes, t.p50_ns) for name, t in stack.traffic.items()}
    assert moved == {
        "md0": (3, 64 * KIB, 256 * KIB, 150_000),
        "sda": (3, 64 * KIB, 128 * KIB, 100_000),
        "sdb": (3, 32 * KIB, 128 * KIB, 100_000),
        "sdc": (2, 0, 128 * KIB, 100_000),
    }
    origins = {
        (row.leaf, row.origin): (row.requests, row.read_bytes, row.write_bytes) for row in stack.origins
    }
    assert origins == {
        ("sda", "md0"): (2, 64 * KIB, 64 * KIB),
        ("sda", "parity"): (1, 0, 64 * KIB),
        ("sdb", "md0"): (2, 0, 128 * KIB),
        ("sdb", "volume"): (1, 32 * KIB, 0),
        ("sdc", "md0"): (1, 0, 64 * KIB),
        ("sdc", "parity"): (1, 0, 64 * KIB),
    }
    # 192 + 160 + 128 KiB: sda has 192 / 160 = 1.2 times the mean, which is not above 1.2
    assert [(row.what, row.busiest) for row in stack.imbalances] == []


def test_time_in_layers_is_the_bios_less_the_disks(tmp_path: Path) -> None:
    """150 us less the 100 us in which a disk worked, of two disks at the same time once."""
    stack = measured_of(raid5(), tmp_path / "r").stack
    assert stack is not None
    found = {t.op: (t.matched, t.q2c_ns, t.disks_ns, t.layers_ns) for t in stack.layer_times}
    assert found == {"read": (1, 150_000, 100_000, 50_000), "write": (2, 150_000, 100_000, 50_000)}


def test_disk_times_equal_a_naive_count(tmp_path: Path) -> None:
    """Any overlaps, gaps and requests that outlast their bio, counted nanosecond by nanosecond."""
    rng = np.random.default_rng(5)
    bios: list[dict[str, Any]] = []
    block: list[dict[str, Any]] = []
    for number in range(1, 40):
        queue = START_NS + number * 10_000
        bios.append(top_bio(number, queue, number, 4096, dev=MD0, complete_ns=queue + 100))
        for _ in range(int(rng.integers(0, 6))):
            issue = queue + int(rng.integers(0, 120))
            row = part_of(bios[-1], SDA, 1, 4096, queue_ns=queue, issue_ns=issue)
            block.append({**row, "complete_ns": issue + int(rng.integers(1, 80))})
    run = open_run(Spec(block=block, volume=bios, run=stacked_run(raid5_nodes())).write(tmp_path / "r"))
    table = load_tables(run).block
    assert table is not None
    ids = np.arange(1, 40)
    begin = START_NS + ids * 10_000
    expected = []
    for number, start in zip(ids.tolist(), begin.tolist(), strict=True):
        own = [row for row in block if row["origin"] == number]
        covered = {t for r in own for t in range(r["issue_ns"], r["complete_ns"]) if start <= t < start + 100}
        expected.append(len(covered) if own else -1)
    assert disk_times(table, ids, begin, begin + 100).tolist() == expected


def test_seeks_are_the_disks_and_areas_the_volumes(tmp_path: Path) -> None:
    """LVM on LUKS on sda2: each bio is one request 4096 sectors further up; another's comes between."""
    facts = stacked_run(lvm_on_crypt_nodes(), parts=[SDA2])
    facts["filesystem"]["geometry"] = {
        "areas": [{"name": "log", "kind": "journal", "dev": "253:0", "extents": [[0, 8]]}],
        "spans": [
            {"dev": "253:0", "start_sector": 0, "end_sector": 8000, "rest": "files", "rest_kind": "mixed"}
        ],
    }
    volume, block = [], []
    for i in range(4):
        queue = START_NS + i * MS
        top = top_bio(2 * i + 1, queue, 8 * i, 4096, dev=DM0, **{"class": "metadata" if i == 0 else "data"})
        volume += [top, bio(queue + 1000, 8 * i, 4096, dev=DM1, bio_id=2 * i + 2, origin=2 * i + 1)]
        block.append(part_of(top, SDA, 4096 + 8 * i, 4096))
    foreign = {"submitter": "other", "in_workload": 0, "comm": b"other", "origin": 0}
    block.append(request(START_NS + 2 * MS - 1000, 900_000, 4096, dev=SDA, **foreign))
    results = measured_of(Spec(block=block, volume=volume, run=facts), tmp_path / "r")
    assert results.block is not None and results.block.areas is not None and results.stack is not None
    by_area = {row.area.name: (row.requests, row.seeks) for row in results.block.areas.rows}
    assert by_area == {"files": (3, 0), "log": (1, 0)}  # in the sectors of dm-0, all one after the other
    assert results.block.seeks.summaries["all"].seeks == 2  # to the other program's request, and back
    # both layers have the four bios; only the top's count as the file system's
    assert sum(row.requests for row in results.device_totals) == 4
    assert results.stack.traffic["dm-1"].count == 4
    classes = {row.class_: row.requests for row in results.device_totals}
    assert classes == {"journal": 1, "data": 3}
    rows = {row.origin: row.requests for row in results.stack.origins}
    assert rows == {"dm-0": 4, "no volume": 1}


def test_neighbours_requests_are_other_programs(tmp_path: Path) -> None:
    """DIR= on dm-0; dm-1 lies on the same disk, and so does a file system on the disk itself."""
    nodes = [
        node("dm-0", "lvm", ["sda"]),
        node("sda", "disk", []),
        node("dm-1", "lvm", ["sda"], neighbour=True),
    ]
    facts = stacked_run(nodes)
    facts["device"]["kind"] = "directory"
    facts["filesystem"]["numbers"] = ["253:0"]
    own = top_bio(1, START_NS + MS, 0, 8192, dev=DM0, sb_dev=DM0)
    others = top_bio(2, START_NS + 2 * MS, 0, 4096, dev=DM1, sb_dev=DM1, submitter="other", in_workload=0)
    resync = request(START_NS + 4 * MS, 500, 4096, dev=SDA, origin=0, **RESYNC)
    block = [
        part_of(own, SDA, 1000, 8192, sb_dev=DM0),
        part_of(others, SDA, 90_000, 4096, sb_dev=DM1, submitter="other", in_workload=0),
        request(START_NS + 3 * MS, 0, 512, dev=SDA, sb_dev=SDA, origin=0, submitter="other", in_workload=0),
        resync,
    ]
    results = measured_of(Spec(block=block, volume=[own, others], run=facts), tmp_path / "r")
    assert results.block is not None and results.owners is not None
    assert [(row.op, row.bytes) for row in results.device_totals] == [("write", 8192)]
    assert results.owners.of("workload").requests == 1 and results.owners.of("others").requests == 0
    of_disks = results.block.disk_owners
    assert of_disks is not None and of_disks.codes is not None
    labels = [of_disks.column().labels[code] for code in of_disks.codes]
    assert labels == ["workload", "others", "others", "layers"]
    assert results.stack is not None
    assert [(b.node.name, b.is_neighbour, b.is_repeated) for b in results.stack.branches] == [
        ("dm-0", False, False),
        ("sda", False, False),
        ("dm-1", True, False),
        ("sda", True, True),
    ]
    ratios = {row.op: (row.top_bytes, row.served_bytes) for row in results.stack.amplification}
    assert ratios["write"] == (8192, 8192)


@pytest.mark.usefixtures("words_only")
def test_zram_has_the_volumes_view_alone(tmp_path: Path) -> None:
    volume = [top_bio(i + 1, START_NS + i * MS, 8 * i, 4096, dev=ZRAM0, ino=5) for i in range(3)]
    spec = Spec(volume=volume, run=stacked_run([node("zram0", "zram", [])]))
    results = measured_of(spec, tmp_path / "r")
    assert results.block is not None and results.stack is not None
    assert [(row.op, row.requests, row.bytes) for row in results.device_totals] == [("write", 3, 12288)]
    assert results.block.seeks.distances.rows.size == 0 and not results.stack.amplification
    make_report(tmp_path / "r")
    report = (tmp_path / "r" / "report.txt").read_text()
    assert "zram0 has no disk below: there are bios, and no requests" in " ".join(report.split())


def test_bare_roots_and_volumes_make_one_view(tmp_path: Path) -> None:
    """ext4 on dm-0 on sda, its journal on the bare sdb."""
    nodes = [node("dm-0", "lvm", ["sda"]), node("sdb", "disk", []), node("sda", "disk", [])]
    facts = stacked_run(nodes, {"dm-0": "data", "sdb": "journal"})
    top = top_bio(1, START_NS + MS, 0, 8192, dev=DM0)
    block = [
        part_of(top, SDA, 64, 8192),
        request(START_NS + 2 * MS, 0, 4096, dev=SDB, origin=0, submitter="kernel_thread")
        | {"class": "metadata"},
    ]
    results = measured_of(Spec(block=block, volume=[top], run=facts), tmp_path / "r")
    totals = {(row.class_): (row.requests, row.bytes) for row in results.device_totals}
    assert totals == {"data": (1, 8192), "journal": (1, 4096)}
    assert results.block is not None
    q2c = [row for row in results.block.latency.rows["write", ""] if row.stage == "Q2C"]
    assert [(row.count, row.at_ns[0], row.at_ns[-1]) for row in q2c] == [(2, 110_000, 150_000)]
    assert [row.label for row in results.device.rows] == ["sdb (journal)", "sda"]


def test_imbalance_names_the_disk_above_the_mean(tmp_path: Path) -> None:
    """3 of 4 MiB on sda: 1.5 times the mean of two disks; twice as busy as sdb makes 4/3."""
    nodes = [node("sda", "disk", []), node("sdb", "disk", [])]
    block = [
        request(START_NS + MS, 0, 3 << 20, dev=SDA, complete_ns=START_NS + 3 * MS),
        request(START_NS + MS, 0, 1 << 20, dev=SDB, complete_ns=START_NS + 2 * MS),
    ]
    facts = stacked_run(nodes, {"sda": "data", "sdb": "member"})
    stack = measured_of(Spec(block=block, run=facts), tmp_path / "r").stack
    assert stack is not None
    found = [(row.of, row.what, row.busiest, round(row.ratio, 3)) for row in stack.imbalances]
    assert found == [("the file system", "bytes", "sda", 1.5), ("the file system", "busy time", "sda", 1.333)]


def counters(dev: int, read: int, written: int) -> list[dict[str, Any]]:
    """Counters of a device at the start and the end of the run."""
    return [
        {"t_ns": START_NS + t, "name": f"disk.{op}_bytes", "value": value * at, "dev": dev}
        for at, t in enumerate((0, 9 * 10**9))
        for op, value in (("read", read), ("write", written))
    ]


@pytest.mark.usefixtures("words_only")
def test_every_layers_own_counters_are_compared(tmp_path: Path) -> None:
    spec = raid5()
    spec.counter = [
        *counters(MD0, 64 * KIB, 256 * KIB),
        *counters(SDA, 64 * KIB, 128 * KIB),
        *counters(SDB, 32 * KIB, 128 * KIB),
        *counters(SDC, 0, 130 * KIB),
    ]
    results = measured_of(spec, tmp_path / "r")
    by_name = {own.name: (own.difference("read"), own.difference("write")) for own in results.device.counters}
    assert by_name == {"sda": (0, 0), "sdb": (0, 0), "sdc": (0, -2 * KIB), "md0": (0, 0)}
    make_report(tmp_path / "r")
    report = " ".join((tmp_path / "r" / "report.txt").read_text().split())
    assert "own counters of sda, sdb, md0: as traced, read and written" in report
    assert "sdc's own counter, write: 133,120 B; traced 131,072 B, difference -2,048 B" in report


@pytest.mark.usefixtures("words_only")
def test_banners_say_first_what_is_wrong_below(tmp_path: Path) -> None:
    nodes = raid5_nodes()
    nodes[3] |= {"recorded": "no", "why_not": "the recorder takes 64 devices"}
    zeros, moved = {"read_bytes": 0, "write_bytes": 0}, {"read_bytes": 0, "write_bytes": 160 * KIB}
    spec = raid5(
        at_start={"sdc": zeros},
        at_end={"sdc": moved},
        states={"md0": {"at_start": {"degraded": 0}, "at_end": {"degraded": 1, "sync_action": "recover"}}},
        changes=["md0: lost sdb during the run"],
    )
    spec.run["stack"]["nodes"] = nodes
    spec.block = [row for row in spec.block if row["dev"] != SDC]
    make_report(spec.write(tmp_path / "r"))
    lines = (tmp_path / "r" / "report.txt").read_text().split("\n")
    text = " ".join(line.removeprefix("!! ") for line in lines if line.startswith("!! "))
    # 160 KiB of sdc's own counter over these and the 352 KiB of sda and sdb
    assert "sdc is not recorded (the recorder takes 64 devices): 31.2 % of the disks' bytes" in text
    assert "md0 is degraded at the end: 1 of its disks missing; recovering at the end" in text
    assert "changed during the run: md0: lost sdb during the run" in text


@pytest.mark.usefixtures("words_only")
def test_section_equals_results_recomputed_from_tables(tmp_path: Path) -> None:
    make_report(raid5().write(tmp_path / "r"))
    check_stack(tmp_path / "r")
    report = tmp_path / "r" / "detail.txt"
    report.write_text(report.read_text().replace("3 bio", "4 bio"))
    with pytest.raises(AssertionError):
        check_stack(tmp_path / "r")


@pytest.mark.usefixtures("words_only")
def test_hostile_stack_gives_a_report(tmp_path: Path) -> None:
    """A chain of a thousand devices, a circle, names of letters that move a cursor, and lost tables."""
    nodes = [
        {"name": f"n{i}", "recorded": "bios", "below": [f"n{i + 1}", "n0"], "label": "\x1b[2J" * 30}
        for i in range(1100)
    ]
    spec = raid5()
    spec.run["stack"] = {
        "roots": [{"name": "n0", "role": "\n"}, {"name": "n0"}, {"name": "n9", "role": "x" * 500}],
        "nodes": [*nodes, {"name": "sda", "dev": "8:0", "recorded": "requests"}],
        "states": {"n0": {"at_start": {"degraded": -5, "sync_action": ["\x07"]}}},
        "changes": ["x" * 10_000] * 500,
        "at_start": {"n0": {"read_bytes": 1e300}},
        "at_end": {"n0": {"read_bytes": -1}},
    }
    make_report(spec.write(tmp_path / "r"))
    report = (tmp_path / "r" / "report.txt").read_text()
    assert "\x1b" not in report and "\x07" not in report
    assert all(len(line) <= 80 for line in report.split("\n"))
    assert "DISKS BELOW THE FILE SYSTEM" in report


@pytest.mark.usefixtures("words_only")
@pytest.mark.parametrize("kind", ["raid5", "lvm"])
def test_tree_is_ascii_and_fits_a_mail(tmp_path: Path, kind: str) -> None:
    spec = raid5() if kind == "raid5" else Spec(run=stacked_run(lvm_on_crypt_nodes(), parts=[SDA2]))
    if kind == "lvm":
        top = top_bio(1, START_NS + MS, 0, 8192, dev=DM0)
        spec.volume = [top, bio(START_NS + MS, 0, 8192, dev=DM1, bio_id=2, origin=1)]
        spec.block = [part_of(top, SDA, 64, 8192)]
    make_report(spec.write(tmp_path / "r"))
    report = (tmp_path / "r" / "report.txt").read_text()
    section = report[report.index("DISKS BELOW THE FILE SYSTEM") :].split("\n\n")[0]
    assert all(len(line) <= 80 for line in report.split("\n"))
    assert section.isascii()
    order = ["md0", "`- sda", "`- sdb", "`- sdc"] if kind == "raid5" else ["dm-0", "`- dm-1", "`- sda"]
    assert [section.index(name) for name in order] == sorted(section.index(name) for name in order)


def test_comparison_has_what_the_layers_add(tmp_path: Path) -> None:
    raid5().write(tmp_path / "a")
    Spec(block=[request(START_NS + MS, 0)], run=stacked_run([node("sda", "disk", [])])).write(tmp_path / "b")
    runs = [load_compared("A", tmp_path / "a"), load_compared("B", tmp_path / "b")]
    values = {measure.name: measure.values for measure in causes(runs)}
    assert values["disks' bytes / volume's, write"] == [1.5, None]
    assert values["time in the layers, write"] == [50_000, None]
