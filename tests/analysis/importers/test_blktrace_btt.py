# SPDX-License-Identifier: BSD-2-Clause
"""Request stages of real traces: equal to btt's where btt is right, to the naive pairing where it is not."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from analysis.importers.trace import import_trace
from analysis.measures.block import seeks
from analysis.measures.results import measure
from analysis.render import text
from analysis.rundir.run import open_run
from analysis.sections.document import make_document
from analysis.tables.load import load_tables
from tests.analysis.importers.blktrace_files import Imported, run_reader
from tests.analysis.importers.naive_pairing import PAIRED, pair
from tests.analysis.importers.test_blktrace_real import write_as_blktrace
from tests.collectors.blk_tracer import BlkTracer, blk_tracer
from tests.collectors.loop_disk import MIB, loop_disk
from tests.marks import needs_root

pytestmark = [needs_root]
LINE = r"^{} +([\d.]+) +([\d.]+) +([\d.]+) +(\d+)$"


@pytest.fixture(scope="module", params=["none", "mq-deadline", pytest.param("bfq", marks=pytest.mark.long)])
def traced(
    request: pytest.FixtureRequest, reader: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[BlkTracer, Imported, Path]:
    """A disk's trace: reads and writes of up to 64 KiB, which nobody has to split, and merges."""
    scheduler: str = request.param
    tmp_path = tmp_path_factory.mktemp("traced")
    folder = tmp_path / "trace"
    folder.mkdir()
    with loop_disk(tmp_path / "image", 128 * MIB, "--direct-io=on") as disk:
        if scheduler not in disk.schedulers():
            pytest.skip(f"the kernel has no scheduler {scheduler}: load its module")
        disk.set_scheduler(scheduler)
        with blk_tracer(disk.name, tmp_path) as tracer:
            common = ["fio", "--name=io", f"--filename={disk.path}", "--ioengine=libaio", "--direct=1",
                      "--allow_file_create=0"]  # fmt: skip
            for words in (
                ["--rw=randrw", "--bsrange=4k-64k", "--number_ios=600", "--iodepth=32"],
                [
                    "--rw=write",
                    "--bs=4k",
                    "--io_size=4M",
                    "--iodepth=16",
                    "--iodepth_batch_submit=16",
                    "--iodepth_batch_complete_min=16",
                ],
                [
                    "--rw=write",
                    "--bs=8k",
                    "--io_size=2M",
                    "--iodepth=64",
                    "--iodepth_batch_submit=32",
                    "--iodepth_batch_complete_min=32",
                ],
            ):
                subprocess.run([*common, *words], check=True, capture_output=True)
            disk.idle_stat()
    got = run_reader(reader, tmp_path / "out", write_as_blktrace(tracer.stream, folder, {}))
    assert got.lost == {}
    return tracer, got, folder


def btt_of(folder: Path) -> str:
    subprocess.run(["blkparse", "-q", "-O", "-i", "disk", "-d", "dump"], check=True, cwd=folder)
    done = subprocess.run(["btt", "-i", "dump"], capture_output=True, text=True, check=True, cwd=folder)
    return done.stdout


def sums(btt: str, stage: str) -> tuple[int, int, int, int]:
    """Least, mean, most (ns) and number."""
    found = re.search(LINE.format(stage), btt, re.MULTILINE)
    assert found, btt
    least, mean, most = (round(float(word) * 1e9) for word in found.groups()[:3])
    return least, mean, most, int(found[4])


def test_stages_merges_and_plugs_equal_btts(traced: tuple[BlkTracer, Imported, Path]) -> None:
    tracer, got, folder = traced
    btt = btt_of(folder)
    rows = got.rows
    actions = Counter(event.action for event in tracer.events)
    merges = sum(row["merges"] for row in rows)
    assert actions["X"] == actions["R"] == 0 and merges == actions["M"] + actions["F"] > 500
    inserted = [row for row in rows if row["insert_ns"]]
    expected = {
        "Q2G": [row["get_request_ns"] - row["queue_ns"] for row in rows],
        "G2I": [row["insert_ns"] - row["get_request_ns"] for row in inserted],
        "I2D": [row["issue_ns"] - row["insert_ns"] for row in inserted],
        # btt counts a request's once for each of its bios
        "D2C": [row["complete_ns"] - row["issue_ns"] for row in rows for _ in range(row["merges"] + 1)],
    }
    for stage, values in expected.items():
        if not values:
            assert actions["I"] == 0 and not re.search(LINE.format(stage), btt, re.MULTILINE)
            continue
        least, mean, most, number = sums(btt, stage)
        assert (least, most, number) == (min(values), max(values), len(values)), stage
        assert abs(mean - sum(values) / len(values)) <= 1, stage
    for stage, column in (("Q2M", "q2m_ns"), ("M2D", "m2d_ns")):
        _, mean, _, number = sums(btt, stage)
        assert number == merges
        assert abs(mean - sum(row[column] for row in rows) / merges) <= 1, stage
    # a merged bio's life: to the merge, to the issue, to the end
    every = sum(
        row["complete_ns"] - row["queue_ns"]
        + row["q2m_ns"] + row["m2d_ns"] + row["merges"] * (row["complete_ns"] - row["issue_ns"])
        for row in rows
    )  # fmt: skip
    _, mean, most, number = sums(btt, "Q2C")
    assert (most, number) == (max(row["complete_ns"] - row["queue_ns"] for row in rows), len(rows) + merges)
    assert abs(mean - every / number) <= 1
    found = re.search(r"# Plugs # Timer.*?\) \| +(\d+)\( +(\d+)\)", btt, re.DOTALL)
    assert found and [int(word) for word in found.groups()] == [
        actions["U"] + actions["UT"], actions["UT"]
    ]  # fmt: skip
    assert len(got.plugs) == actions["U"] + actions["UT"]
    assert sum(plug["by_schedule"] for plug in got.plugs) == actions["UT"]
    each = re.search(r"IOs/Unp .*?\) \| +([\d.]+)", btt, re.DOTALL)
    explicit = [plug["depth"] for plug in got.plugs if not plug["by_schedule"]]
    assert each and float(each[1]) == pytest.approx(sum(explicit) / len(explicit), abs=0.06)


def test_every_request_equals_the_naive_pairing(traced: tuple[BlkTracer, Imported, Path]) -> None:
    tracer, got, _ = traced
    truth = sorted(tuple(getattr(one, name) for name in PAIRED) for one in pair(tracer.events))
    assert got.tuples(PAIRED) == truth
    # each unplug's start is the thread's last plug
    plugged: dict[int, int] = {}
    starts = []
    for event in tracer.events:
        if event.action == "P":
            plugged[event.pid] = event.t_ns
        elif event.action in ("U", "UT"):
            starts.append((plugged.pop(event.pid, 0), event.t_ns, event.pid))
    assert [(plug["plug_ns"], plug["unplug_ns"], plug["pid"]) for plug in got.plugs] == starts


def test_distances_equal_btts_except_its_median(
    traced: tuple[BlkTracer, Imported, Path], tmp_path: Path
) -> None:
    """Of distances from issue to issue btt's number and mean are right; what it calls the median is not."""
    tracer, _, folder = traced
    found = re.search(r"D2D Seek Information.*?\) \| +(\d+) +([\d.]+) +\d+ \|", btt_of(folder), re.DOTALL)
    assert found
    issued = [event for event in tracer.events if event.action == "D" and event.size]
    signed, nearer, head = [], [], 0
    for event in issued:
        end = event.sector + event.size // 512
        signed.append(event.sector - head)
        nearer.append(min(abs(event.sector - head), abs(end - head)))  # about as btt counts
        head = end
    assert int(found[1]) == len(nearer)
    assert float(found[2]) == pytest.approx(sum(nearer) / len(nearer), rel=1e-3)
    run = import_trace(folder / "disk", tmp_path / "run")
    block = load_tables(open_run(run)).block
    assert block is not None
    distances = seeks.measure_distances(block)
    assert distances.distance_sectors[distances.has_previous].tolist() == signed[1:]
    truth = sorted(abs(distance) * 512 for distance in signed[1:] if abs(distance) > 128)
    summary = seeks.summary(distances)
    assert summary.absolute_bytes is not None
    at = seeks.ABSOLUTE_PERCENTS.index(50.0)
    assert summary.absolute_bytes[at] == truth[(len(truth) + 1) // 2 - 1] > 0


def test_scheduler_none_has_no_insert_stage(traced: tuple[BlkTracer, Imported, Path], tmp_path: Path) -> None:
    """blkparse -t shows the raw time of the issue where there was no insertion: ours has no such stage."""
    tracer, got, folder = traced
    inserted = any(event.action == "I" for event in tracer.events)
    run = open_run(import_trace(folder / "disk", tmp_path / "run"))
    tables = load_tables(run)
    document = text.render(make_document(run, tables, measure(run, tables)))
    life = document[document.index("REQUEST STAGES (Q2C)") : document.index("DEVICE UTILIZATION")]
    assert ("I2D" in life.split("[Q2G")[0].replace("no I2D", "")) == inserted
    assert ("no Q2I and no I2D" in " ".join(life.split())) == (not inserted)
    span = tracer.events[-1].t_ns - tracer.events[0].t_ns
    assert max(row["complete_ns"] - row["queue_ns"] for row in got.rows) <= span
