# SPDX-License-Identifier: BSD-2-Clause
"""blktrace of real stacks: the imported bytes of each layer are the kernel's, and each origin is a bio.

Kernels without device-mapper, md or blktrace skip most: tests/machines/test_stacks_inside.py runs these tests
in machines.
"""

from __future__ import annotations

import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.analysis.importers.blktrace_files import Imported, named_rows, run_reader
from tests.collectors import stacks
from tests.collectors.loop_disk import SECTOR_BYTES, mounted, tmpfs
from tests.collectors.recording import needs_btf, recording
from tests.collectors.stack_kinds import EXT4, KINDS, Kind
from tests.collectors.stacks import Layers, Site
from tests.collectors.test_stacks import WORKLOAD, assert_nothing_left, words_of
from tests.marks import needs_root

pytestmark = [needs_root, needs_btf, pytest.mark.long]
PLAIN = Path(__file__).resolve().parents[3] / "build" / "import-blktrace"
DEBUGFS = Path("/sys/kernel/debug")
TRACED = (
    "linear", "striped", "lvm", "crypt", "lvm_on_crypt", "raid0", "raid1", "raid10",
    "md_linear",
)  # fmt: skip
START_SECONDS, SETTLE_SECONDS = 60, 1  # its files are there before it traces


@contextmanager
def blktraced(names: Sequence[str], folder: Path) -> Iterator[None]:
    """Trace the devices during the block, to a file for each device and CPU in the folder."""
    if not (DEBUGFS / "block").is_dir():
        subprocess.run(["mount", "-t", "debugfs", "none", DEBUGFS], check=False)
    folder.mkdir()
    command = ["blktrace", "-D", str(folder), "-b", "1024", "-n", "8"]
    for name in names:
        command += ["-d", f"/dev/{name}"]
    with (folder.parent / "blktrace.said").open("w") as said:
        tracer = subprocess.Popen(command, stdout=said, stderr=said)
    try:
        deadline = time.monotonic() + START_SECONDS
        while tracer.poll() is None and not all(
            (DEBUGFS / "block" / name / "trace0").exists() for name in names
        ):
            assert time.monotonic() < deadline, "blktrace does not begin"
            time.sleep(0.1)
        time.sleep(SETTLE_SECONDS)
        if tracer.poll() is not None:
            pytest.skip(f"blktrace can't trace here: {(folder.parent / 'blktrace.said').read_text()}")
        yield
    finally:
        tracer.terminate()
        tracer.wait()
    assert not tracer.returncode or tracer.returncode < 0, (folder.parent / "blktrace.said").read_text()


@dataclass
class Traced:
    """One import of a stack's trace."""

    kind: Kind
    layers: Layers
    devs: dict[str, int]
    before: dict[str, list[int]]
    after: dict[str, list[int]]
    imported: Imported
    bios: list[dict[str, Any]]
    recorded: Recorded

    def rows(self, name: str) -> list[dict[str, Any]]:
        table = self.bios if name in self.layers.volumes else self.imported.rows
        return [row for row in table if row["dev"] == self.devs[name]]


@dataclass
class Recorded:
    """The recorder's tables of the same I/O, as the import has them."""

    rows: list[dict[str, Any]]
    bios: list[dict[str, Any]]
    lost: dict[str, int]


def trace(kind: Kind, folder: Path, undo: ExitStack) -> Traced:
    """Build the stack and a file system, trace the workload on it, import the trace."""
    stacks.need(kind.modules, [*kind.programs, "blktrace"])
    ram = undo.enter_context(tmpfs(folder / "ram", "1G"))
    roots = kind.build(Site(ram, undo, kind.disks))
    layers = stacks.layers(roots)
    words, devs = words_of(layers)
    subprocess.run([*EXT4, *roots], check=True, capture_output=True)
    stacks.idle_stats(layers.devices, kind.quiet_seconds)
    with (
        recording(folder / "recorded", "--collect", "block", *words) as recorder,
        blktraced(layers.devices, folder / "trace"),
    ):
        before = {name: stacks.stat(name) for name in layers.devices}
        with mounted(roots[0], folder / "mnt") as mnt:
            subprocess.run(["sh", "-c", WORKLOAD, mnt], check=True, capture_output=True, timeout=120)
        after = stacks.idle_stats(layers.devices, kind.quiet_seconds)
    got = run_reader(PLAIN, folder / "out", sorted((folder / "trace").glob("*.blktrace.*")))
    recorded = Recorded(
        named_rows(folder / "recorded/block.rec")[1],
        named_rows(folder / "recorded/volume.rec")[1],
        recorder.source("block")["lost"],
    )
    _, bios = named_rows(folder / "out/volume.rec")
    return Traced(kind, layers, devs, before, after, got, bios, recorded)


@pytest.fixture(scope="module", params=TRACED)
def traced(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Traced:
    with ExitStack() as undo:
        one = trace(KINDS[request.param], tmp_path_factory.mktemp(request.param), undo)
    assert_nothing_left()
    return one


def test_imported_bytes_of_every_layer_equal_diskstats(
    traced: Traced, record_property: Callable[[str, object], None]
) -> None:
    wrong = {}
    for name in traced.layers.devices:
        mine: Counter[str] = Counter()
        for row in traced.rows(name):
            mine[row["op"]] += row["bytes"]
        kernels = {
            op: (traced.after[name][at] - traced.before[name][at]) * SECTOR_BYTES
            for op, at in stacks.COUNTED.items()
        }
        record_property(name, f"{mine['read']} read, {mine['write']} written")
        # 6.1 counts nothing of md's linear.
        if {op: mine[op] for op in kernels} != kernels and any(traced.after[name]):
            wrong[name] = ({op: mine[op] for op in kernels}, kernels)
    assert wrong == {}
    assert traced.imported.lost == {}


def test_imported_leaf_bytes_by_origin_are_the_volumes(
    traced: Traced, record_property: Callable[[str, object], None]
) -> None:
    wrong = {}
    for op in ("read", "write"):
        top = sum(row["bytes"] for row in traced.rows(traced.layers.roots[0]) if row["op"] == op)
        copies = traced.kind.write_copies if op == "write" else 1
        leaf = [row for row in traced.imported.rows if row["op"] == op]
        served = sum(row["bytes"] - row["parity_bytes"] for row in leaf if row["origin"])
        rest = sum(row["bytes"] - row["parity_bytes"] for row in leaf) - served
        record_property(op, f"volume {top}, by origin {served}, of none {rest}")
        if served != top * copies or (traced.kind.is_plain and rest):
            wrong[op] = (top * copies, served, rest)
    assert wrong == {}


def test_imported_origins_are_bios_that_hold_the_sector(traced: Traced) -> None:
    dev = traced.devs[traced.layers.roots[0]]
    top = {row["bio_id"]: row for row in traced.rows(traced.layers.roots[0])}
    assert len(top) > 20 and all(row["complete_ns"] > row["queue_ns"] for row in top.values())
    for row in traced.imported.rows:
        if not row["origin"]:
            continue
        bio = top[row["origin"]]
        assert row["origin_dev"] == dev and row["origin_ns"] == bio["queue_ns"] <= row["issue_ns"]
        last = bio["sector"] + max(bio["bytes"] // SECTOR_BYTES, 1)
        assert bio["sector"] <= row["origin_sector"] < last or not row["bytes"], (row, bio)
        assert (row["pid"], row["comm"]) == (bio["pid"], bio["comm"]), (row, bio)


def keys(rows: list[dict[str, Any]], names: Sequence[str]) -> Counter[tuple[Any, ...]]:
    """How often each value of these columns is there. A trace calls a write of zeroes a write."""
    return Counter(
        tuple("write" if row[name] == "write_zeroes" else row[name] for name in names) for row in rows
    )


def test_imported_bios_equal_the_recorders(
    traced: Traced, record_property: Callable[[str, object], None]
) -> None:
    """Each bio of each volume: device, kind, place, thread; both times within a few us."""
    names = ("dev", "op", "sector", "bytes", "pid", "comm", "error")
    mine, other = keys(traced.bios, names), keys(traced.recorded.bios, names)
    record_property("bios", f"{mine.total()} imported, {other.total()} recorded")
    record_property("only imported", str(list((mine - other).items())[:6]))
    record_property("only recorded", str(list((other - mine).items())[:6]))
    assert mine == other and sum(traced.recorded.lost.values()) == 0


def test_imported_origins_equal_the_recorders(
    traced: Traced, record_property: Callable[[str, object], None]
) -> None:
    """Each request of each leaf: the same top volume, sector and submitter, or none in both."""
    names = ("dev", "op", "sector", "bytes", "parity_bytes", "origin_dev", "origin_sector", "comm")
    mine, other = (
        keys([row for row in rows if row["op"] != "flush"], names)
        for rows in (traced.imported.rows, traced.recorded.rows)
    )
    record_property("requests", f"{mine.total()} imported, {other.total()} recorded")
    record_property("only imported", str(list((mine - other).items())[:6]))
    record_property("only recorded", str(list((other - mine).items())[:6]))
    assert mine == other
