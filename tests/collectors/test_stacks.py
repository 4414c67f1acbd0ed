# SPDX-License-Identifier: BSD-2-Clause
"""Every layer of a stack of devices is recorded right: beside the kernel's counters, and layer beside layer.

One file system on each stack of stacks.py, one small workload in a cgroup, one recording of all layers.
Kernels without device-mapper and md skip most: tests/machines/test_stacks_inside.py runs them in machines.
"""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.collectors import stacks
from tests.collectors.loop_disk import SECTOR_BYTES, mounted, tmpfs
from tests.collectors.named_rows import NamedRows
from tests.collectors.recording import (
    Recording,
    cgroup,
    needs_btf,
    recording,
    run_inside,
)
from tests.collectors.stack_kinds import EXT4, KINDS, Kind
from tests.collectors.stacks import CHUNK_SECTORS, Layers, Site
from tests.marks import needs_root

pytestmark = [needs_root, needs_btf, pytest.mark.long]

PARITY = ("parity",)
OWN = ("volume",)
# Buffered and direct, small and large, data and metadata; read back with cold caches.
WORKLOAD = """
set -e
cd "$0"
dd if=/dev/urandom of=big bs=256K count=24 conv=fsync
mkdir small
for i in 1 2 3 4 5 6 7 8; do dd if=/dev/urandom of=small/$i bs=3000 count=1; done
sync -f .
dd if=/dev/zero of=direct bs=64K count=16 oflag=direct
dd if=/dev/zero of=direct bs=4K count=8 seek=5 oflag=direct conv=notrunc
dd if=/dev/zero of=direct bs=1M count=1 oflag=direct conv=notrunc,fsync
echo 3 >/proc/sys/vm/drop_caches
dd if=big of=/dev/null bs=128K
dd if=direct of=/dev/null bs=64K iflag=direct
dd if=direct of=/dev/null bs=4K count=8 skip=11 iflag=direct
"""


@dataclass
class Recorded:
    """One recording of a stack."""

    kind: Kind
    layers: Layers
    devs: dict[str, int]  # as in the tables: major << 20 | minor
    before: dict[str, list[int]]
    after: dict[str, list[int]]
    run: Recording
    cgroup_id: int
    block: NamedRows
    volume: NamedRows
    data_offset: int  # of an md array's members, in sectors; 0: no array

    def counted(self, name: str, at: int) -> int:
        return self.after[name][at] - self.before[name][at]

    @property
    def top_dev(self) -> int:
        return self.devs[self.layers.roots[0]]

    @property
    def top(self) -> Any:
        """The rows of the volume that the file system lies on."""
        return self.volume.of(self.top_dev)

    @property
    def leaf(self) -> Any:
        devs = [self.devs[name] for name in self.layers.leaves]
        return self.block.rows[np.isin(self.block.rows["dev"], devs)]


def words_of(layers: Layers) -> tuple[list[str], dict[str, int]]:
    """Return the recorder's options for these devices, and the number of each."""
    words: list[str] = []
    devs: dict[str, int] = {}
    made_up = 0
    for name in layers.devices:
        own = Path("/sys/block", name)
        if (own / "dev").exists():
            words += ["--volume" if name in layers.volumes else "--disk", name]
            devs[name] = stacks.number_of(name)
        else:
            words += ["--hidden", f"4095:{made_up}={name}"]
            devs[name] = 4095 << 20 | made_up
            made_up += 1
    for number in layers.members:
        words += ["--component", number]
    return words, devs


def record(kind: Kind, folder: Path, undo: ExitStack) -> Recorded:
    """Build the stack, make a file system, record the workload on it."""
    stacks.need(kind.modules, kind.programs)
    ram = undo.enter_context(tmpfs(folder / "ram", "1G"))
    roots = kind.build(Site(ram, undo, kind.disks))
    layers = stacks.layers(roots)
    words, devs = words_of(layers)
    subprocess.run([*EXT4, roots[0]], check=True, capture_output=True)
    group = undo.enter_context(cgroup())
    for _ in range(3):  # a layer may write something of its own while the recorder starts
        started = stacks.idle_stats(layers.devices, kind.quiet_seconds)
        out = folder / "out"
        with recording(out, "--collect", "block", "--cgroup", str(group), *words) as run:
            before = {name: stacks.stat(name) for name in layers.devices}
            if before != started:
                continue
            with mounted(roots[0], folder / "mnt") as mnt:
                process = run_inside(group, ["sh", "-c", WORKLOAD, mnt], stderr=subprocess.PIPE)
                printed = process.communicate(timeout=120)
                assert process.returncode == 0, printed
            after = stacks.idle_stats(layers.devices, kind.quiet_seconds)
        break
    else:
        pytest.fail("the stack writes by itself, without an end")
    assert {name: stacks.stat(name) for name in layers.devices} == after, "a layer wrote at the end"
    volume = NamedRows(out / "volume.rec")
    member = Path("/sys/block", layers.roots[0], "md", f"dev-{layers.leaves[0]}", "offset")
    offset = int(member.read_text()) if member.exists() else 0
    return Recorded(
        kind,
        layers,
        devs,
        before,
        after,
        run,
        group.stat().st_ino,
        NamedRows(out / "block.rec"),
        volume,
        offset,
    )


@pytest.fixture(scope="module", params=KINDS)
def recorded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """One recording of each stack; the stack is taken down before the checks."""
    with ExitStack() as undo:
        one = record(KINDS[request.param], tmp_path_factory.mktemp(request.param), undo)
    assert_nothing_left()
    return one


def assert_nothing_left() -> None:
    """No device, mount or loop of ours is left."""
    names = os.listdir("/sys/block")
    left = [name for name in names if name.startswith(("md1", "bcache", "nvme0c"))]
    left += [name for name in names if f"skm-{os.getpid()}" in _dm_name(name)]
    assert left == []


def _dm_name(name: str) -> str:
    path = Path("/sys/block", name, "dm/name")
    return path.read_text() if path.exists() else ""


def test_bytes_of_every_layer_equal_diskstats(
    recorded: Recorded, record_property: Callable[[str, object], None]
) -> None:
    """Volumes: the bios submitted. Leaves: the requests issued."""
    wrong = {}
    for name in recorded.layers.devices:
        table = recorded.volume if name in recorded.layers.volumes else recorded.block
        mine, kernels = {}, {}
        for op, at in stacks.COUNTED.items():
            ops = ("write", "write_zeroes") if op == "write" else (op,)
            mine[op] = sum(int(table.of(recorded.devs[name], op=each)["bytes"].sum()) for each in ops)
            kernels[op] = recorded.counted(name, at) * SECTOR_BYTES
        record_property(name, f"{mine['read']} read, {mine['write']} written")
        # dm-raid is md inside device-mapper: Linux 6.12 counts a bio in both, 6.1 does not.
        if (
            recorded.kind.is_dm_raid
            and name in recorded.layers.roots
            and kernels["write"] == 2 * mine["write"]
        ):
            kernels = {op: size // 2 for op, size in kernels.items()}
        if mine != kernels and any(recorded.after[name]):  # 6.1 counts nothing of NVMe heads and md's linear
            wrong[name] = (mine, kernels)
    assert wrong == {}
    state = recorded.run.source("block")
    assert sum(state["lost"].values()) == 0, state["lost"]
    assert len(recorded.top) > 20


def served_bytes(rows: Any) -> Any:
    """Return what requests hold for their origin: a request may have parity beside data."""
    return rows["bytes"].astype(np.int64) - rows["parity_bytes"]


def more_than_whole(recorded: Recorded, op: str, copies: int) -> list[tuple[Any, ...]]:
    """Return bios whose requests at the leaves have other bytes than the bio times copies, and these."""
    leaf, wrong = recorded.leaf, []
    for bio in recorded.volume.of(recorded.top_dev, op=op):
        rows = leaf[leaf["origin"] == bio["bio_id"]]
        if served_bytes(rows).sum() != bio["bytes"] * copies and not rows["merges"].any():
            names = ["dev", "sector", "bytes", "origin_sector", "comm"]
            wrong.append((bio["sector"], bio["bytes"], bio["comm"], rows[names].tolist()))
    return wrong[:8]


def test_leaf_bytes_by_origin_are_the_volumes_times_copies(
    recorded: Recorded, record_property: Callable[[str, object], None]
) -> None:
    """And what is not by origin is the layer's own."""
    leaf, block = recorded.leaf, recorded.block
    classes = block.named(leaf, "class")
    served = leaf["origin_dev"] == recorded.top_dev
    for op in ("read", "write"):
        of_op = block.named(leaf, "op") == op
        bios = recorded.volume.of(recorded.top_dev, op=op)
        copies = recorded.kind.write_copies if op == "write" else 1
        wanted = int(bios["bytes"][bios["error"] == 0].sum()) * copies
        by_origin = int(served_bytes(leaf[of_op & served]).sum())
        others: Counter[str] = Counter()
        own = of_op & ~served
        for name, size in zip(classes[own], served_bytes(leaf[own]), strict=True):
            others[name] += int(size)
        others["parity"] = int(leaf["parity_bytes"][of_op].sum())
        record_property(op, f"volume {wanted // copies}, by origin {by_origin}, others {dict(others)}")
        by_page = others.total() - others["volume"] - others["parity"]
        assert recorded.kind.by_page or by_page == 0, (op, others)
        if recorded.kind.has_holes and op == "read":
            assert 0 < by_origin + by_page <= wanted
        elif recorded.kind.copies_vary:
            assert by_origin + by_page >= wanted or op == "read", op
        else:
            assert by_origin + by_page == wanted, (op, more_than_whole(recorded, op, copies))
        if recorded.kind.is_plain:
            assert others.total() == 0, (op, others)


def test_every_origin_is_a_bio_of_the_volume(recorded: Recorded) -> None:
    """A request names a bio that was there, lies in its range, and has all else from the bio."""
    top = recorded.top
    by_id = {int(row["bio_id"]): row for row in top}
    assert len(by_id) == len(top)
    leaf = recorded.leaf
    for row in leaf[leaf["origin_dev"] == recorded.top_dev]:
        bio = by_id[int(row["origin"])]
        assert row["origin_ns"] == bio["queue_ns"] <= row["issue_ns"]
        last = max(int(bio["sector"]) + int(bio["bytes"]) // SECTOR_BYTES, int(bio["sector"]) + 1)
        assert bio["sector"] <= row["origin_sector"] < last, (row, bio)
        names = ["ino", "sb_dev", "pid", "tgid", "comm", "submitter", "in_workload", "cgroup"]
        # A flush has no pages, whatever the bio that asks for the flush has.
        if row["bytes"] and recorded.block.names["block_class"][int(row["class"])] != "parity":
            names.append("class")
        assert [row[name] for name in names] == [bio[name] for name in names], (row, bio)


def test_requests_lie_where_the_stack_puts_their_origin(recorded: Recorded) -> None:
    """By the arithmetic of each layout: the request's first sector, and the volume's that it serves."""
    where = recorded.kind.place
    if where is None:
        return
    leaf = recorded.leaf
    served = leaf[(leaf["origin_dev"] == recorded.top_dev) & (leaf["bytes"] > 0)]
    served = served[served["parity_bytes"] == 0]
    disks = {recorded.devs[name]: at for at, name in enumerate(recorded.layers.leaves)}
    assert len(served) > 20
    for row in served:
        places = where(int(row["origin_sector"]), recorded.data_offset)
        assert (disks[int(row["dev"])], int(row["sector"])) in places, (row, places)


def test_middle_layers_name_the_same_origin(recorded: Recorded) -> None:
    """Bios of the layers between, too."""
    top = {int(row["bio_id"]): row for row in recorded.top}
    for name in recorded.layers.volumes[1:]:
        rows = recorded.volume.of(recorded.devs[name])
        is_own = rows["origin"] == 0
        served, own = rows[~is_own], rows[is_own]
        assert set(recorded.volume.named(own, "class")) <= {"volume"}, name
        if recorded.kind.is_plain:
            assert len(served) == len(rows) > 20
        for row in served:
            bio = top[int(row["origin"])]
            assert [row[key] for key in ("class", "ino", "comm")] == [
                bio[key] for key in ("class", "ino", "comm")
            ]


def of_class(sums: Counter[tuple[str, int]], kind: str) -> int:
    """Return the bytes of a class, of all inodes."""
    return sum(size for (name, _), size in sums.items() if name == kind)


def test_classes_and_inodes_have_the_same_bytes_in_both_views(
    recorded: Recorded, record_property: Callable[[str, object], None]
) -> None:
    """Bytes by class and inode of the volume, times copies, are those of the leaves but for 1 %."""
    top, leaf = recorded.top, recorded.leaf
    for op in ("read", "write"):
        copies = recorded.kind.write_copies if op == "write" else 1
        mine: Counter[tuple[str, int]] = Counter()
        leaves: Counter[tuple[str, int]] = Counter()
        for table, rows, sums in ((recorded.volume, top, mine), (recorded.block, leaf, leaves)):
            rows = rows[table.named(rows, "op") == op]
            sizes = served_bytes(rows) if table is recorded.block else rows["bytes"]
            for name, ino, size in zip(table.named(rows, "class"), rows["ino"], sizes, strict=True):
                if name not in OWN + PARITY:
                    sums[name, int(ino)] += int(size)
        total = sum(mine.values())
        differ = {key: (mine[key] * copies, leaves[key]) for key in mine | leaves
                  if mine[key] * copies != leaves[key]}  # fmt: skip
        share = sum(abs(a - b) for a, b in differ.values()) / max(total * copies, 1)
        record_property(op, f"{len(mine)} of (class, inode), {100 * share:.3f} % differ {differ or ''}")
        if recorded.kind.copies_vary or (recorded.kind.has_holes and op == "read"):
            # By class: a request that merges bios has the first one's inode.
            for kind in ("data", "metadata"):
                assert op == "read" or of_class(leaves, kind) >= of_class(mine, kind) > 0, kind
            continue
        if not leaf["merges"].any():  # a request of several bios has the first one's class and inode
            assert differ == {}
        assert "data" in {name for name, _ in mine}
        assert "metadata" in {name for name, _ in mine}
        assert share < 0.01, (op, differ)


def test_submitters_are_the_ones_of_the_volume(recorded: Recorded) -> None:
    """No thread of a layer where an origin is known."""
    threads = (b"dmcrypt", b"md100", b"kcopyd", b"bcache", b"kdmflush", b"dm_writecache", b"mdX", b"nvme")
    leaf = recorded.leaf
    for comm in set(leaf[leaf["origin_dev"] == recorded.top_dev]["comm"].tolist()):
        assert not comm.startswith(threads), comm
    for comm in set(recorded.top["comm"].tolist()):
        assert not comm.startswith(threads), comm


def test_direct_io_has_the_workloads_cgroup(recorded: Recorded) -> None:
    """At both layers: dd's direct writes and reads."""
    for table, rows in ((recorded.volume, recorded.top), (recorded.block, recorded.leaf)):
        rows = rows[(rows["comm"] == b"dd") & (table.named(rows, "class") == "data")]
        assert len(rows) > 10 or recorded.kind.copies_vary
        assert set(rows["cgroup"].tolist()) == {recorded.cgroup_id}
        assert rows["in_workload"].all()


@pytest.mark.parametrize(("level", "data_disks", "parity_disks"), [("raid5", 2, 1), ("raid6", 2, 2)])
def test_parity_of_full_stripes_is_its_share(
    tmp_path: Path, level: str, data_disks: int, parity_disks: int
) -> None:
    """Whole stripes by direct I/O: parity is 1/(n-1) of the data (raid6: 2/(n-2)), and nothing is read."""
    stacks.need(["raid456"], ["mdadm"])
    kind = KINDS[level]
    stripe_bytes = data_disks * CHUNK_SECTORS * SECTOR_BYTES
    with ExitStack() as undo:
        site = Site(undo.enter_context(tmpfs(tmp_path / "ram", "1G")), undo, kind.disks)
        (array,) = kind.build(site)
        layers = stacks.layers([array])
        words, devs = words_of(layers)
        stacks.idle_stats(layers.devices, kind.quiet_seconds)
        with recording(tmp_path / "out", "--collect", "block", *words):
            write = ["dd", "if=/dev/zero", f"of={array}", f"bs={stripe_bytes}", "count=64", "oflag=direct"]
            subprocess.run(write, check=True, capture_output=True)
            stacks.idle_stats(layers.devices, kind.quiet_seconds)
    block = NamedRows(tmp_path / "out/block.rec")
    rows = block.rows[np.isin(block.rows["dev"], [devs[name] for name in layers.leaves])]
    classes, ops = block.named(rows, "class"), block.named(rows, "op")
    writes = ops == "write"
    assert int(served_bytes(rows[writes & (classes == "data")]).sum()) == 64 * stripe_bytes
    parity = int(rows["parity_bytes"][writes].sum())
    assert parity == 64 * stripe_bytes * parity_disks // data_disks
    assert set(rows["comm"][writes & (classes == "data")].tolist()) == {b"dd"}
    assert not rows["bytes"][(ops == "read") & (classes == "volume")].any()
