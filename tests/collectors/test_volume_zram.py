# SPDX-License-Identifier: BSD-2-Clause
"""Bios of a volume without a disk below, zram: beside the kernel's counters, fio's figures, known places."""

from __future__ import annotations

import json
import mmap
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.collectors import stacks
from tests.collectors.loop_disk import MIB, SECTOR_BYTES, Areas, extents, mounted
from tests.collectors.named_rows import NamedRows
from tests.collectors.recording import needs_btf, recording
from tests.collectors.zram_disk import zram_disk
from tests.marks import needs_root

pytestmark = [needs_root, needs_btf]
BYTES = 64 * MIB
BLOCKS = 1024  # that fio reads and writes


@pytest.fixture
def zram() -> Iterator[str]:
    """A new zram device of 64 MiB."""
    with zram_disk(BYTES) as name:
        yield name


def test_loaded_volume_fires_for_no_bio_that_has_ended(zram: str, tmp_path: Path) -> None:
    """A slot of the table of bios may hold one whose end was not seen: asked for, it is not there."""
    limit_ns = 300_000_000
    words = [
        "fio",
        "--name=a",
        f"--filename=/dev/{zram}",
        "--rw=randread",
        "--bs=4k",
        "--direct=1",
        "--numjobs=2",
    ]
    words += ["--ioengine=io_uring", "--iodepth=16", "--size=64M", "--time_based", "--runtime=4"]
    triggers = ["--trigger", f"request:{limit_ns}", "--trigger", f"stall:{limit_ns}"]
    with recording(tmp_path / "out", "--collect", "block", "--volume", zram, *triggers) as run:
        subprocess.run(words, stdout=subprocess.DEVNULL, check=True, cwd=tmp_path)
    rows = run.table("volume")
    ended = rows[rows["complete_ns"] > 0]
    assert len(ended) > 100_000
    # A CPU that the hypervisor took meanwhile is no error: such a bio is there, and may fire.
    longest_ns = int((ended["complete_ns"] - ended["queue_ns"]).max())
    assert ("fired" in run.printed) == (longest_ns >= limit_ns)


def test_bios_are_those_of_fio_and_diskstats(zram: str, tmp_path: Path) -> None:
    """Each bio once, at its place, with fio's latency between its Q and its end."""
    words = ["fio", "--name=a", f"--filename=/dev/{zram}", "--rw=randrw", "--bs=4k", "--direct=1"]
    words += ["--ioengine=psync", f"--size={BLOCKS * 4}k", "--output-format=json", "--end_fsync=1"]
    subprocess.run(
        ["dd", "if=/dev/urandom", f"of=/dev/{zram}", "bs=1M", "count=8", "oflag=direct"], check=True
    )
    with recording(tmp_path / "out", "--collect", "block", "--volume", zram) as run:
        # Inside: what other programs read while the recorder starts is in the counters alone.
        before = stacks.stat(zram)
        done = subprocess.run(words, stdout=subprocess.PIPE, check=True, cwd=tmp_path)
        after = stacks.stat(zram)
    job = json.loads(done.stdout)["jobs"][0]
    volume = NamedRows(run.out / "volume.rec")
    rows, ops = volume.rows, volume.named(volume.rows, "op")
    fio = rows["comm"] == b"fio"
    for op in ("read", "write"):
        of_op, at = ops == op, stacks.COUNTED[op]
        assert int(rows["bytes"][of_op].sum()) == (after[at] - before[at]) * SECTOR_BYTES
        assert (
            int((of_op & fio & (rows["bytes"] == 4096)).sum()) >= job[op]["total_ios"] - 8
        )  # fio's look first
        direct = rows[of_op & fio]
        taken = (direct["complete_ns"] - direct["queue_ns"]).astype(np.int64)
        assert (taken > 0).all()
        assert 0 < taken.mean() < job[op]["clat_ns"]["mean"]
        assert set(volume.named(direct, "class")) <= {"data"} or op == "read"
    places = np.sort(rows["sector"][(ops == "write") & fio & (rows["bytes"] == 4096)])
    assert len(places) == len(set(places.tolist())) and places.max() < BLOCKS * 8 and not (places % 8).any()
    assert set(rows["dev"].tolist()) == {stacks.number_of(zram)}
    assert len(set(rows["bio_id"].tolist())) == len(rows) and (rows["bio_id"] != 0).all()
    assert (rows["origin"] == rows["bio_id"]).all()
    assert not rows["error"].any()
    state = run.source("block")
    assert state["seen"] == state["recorded"] == len(rows)
    assert sum(state["lost"].values()) == 0
    assert not len(run.table("block"))


def test_file_systems_bios_have_class_and_inode(zram: str, tmp_path: Path) -> None:
    """A directory, a file written back and read again, and the journal, on a volume as on a disk."""
    subprocess.run(
        ["mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0", f"/dev/{zram}"], check=True
    )
    with (
        recording(tmp_path / "out", "--collect", "block", "--volume", zram) as run,
        mounted(f"/dev/{zram}", tmp_path / "mnt") as mnt,
    ):
        (mnt / "folder").mkdir()
        file = mnt / "folder/file"
        with file.open("wb") as out:
            out.write(os.urandom(MIB))
            out.flush()
            os.fsync(out.fileno())
            os.posix_fadvise(out.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        ino, places = file.stat().st_ino, extents(file)
        file.read_bytes()
    volume = NamedRows(run.out / "volume.rec")
    rows, ops, classes = volume.rows, volume.named(volume.rows, "op"), volume.named(volume.rows, "class")
    for op in ("read", "write"):
        of_file = rows[(ops == op) & (rows["ino"] == ino) & (classes == "data")]
        assert int(of_file["bytes"].sum()) == MIB, op
        assert Areas(places).holds(of_file).all(), op
        assert set(of_file["sb_dev"].tolist()) == {stacks.number_of(zram)}
    assert (classes == "metadata").any()
    journal = rows[np.char.startswith(rows["comm"], b"jbd2")]
    assert len(journal) and set(volume.named(journal, "submitter")) == {"kernel_thread"}


def test_a_bio_that_fails_has_its_error(zram: str, tmp_path: Path) -> None:
    """Random data does not fit into a page of memory."""
    Path(f"/sys/block/{zram}/mem_limit").write_text(str(mmap.PAGESIZE))
    with (
        recording(tmp_path / "out", "--collect", "block", "--volume", zram) as run,
        mmap.mmap(-1, MIB) as data,
    ):
        data.write(os.urandom(MIB))
        device = os.open(f"/dev/{zram}", os.O_WRONLY | os.O_DIRECT | os.O_CLOEXEC)
        try:
            with pytest.raises(OSError) as raised:
                os.write(device, data)
        finally:
            os.close(device)
    rows = run.table("volume")
    failed = rows[rows["error"] != 0]
    assert len(failed) and set(failed["error"].tolist()) == {raised.value.errno}
    assert (failed["complete_ns"] > failed["queue_ns"]).all()
