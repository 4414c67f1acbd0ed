# SPDX-License-Identifier: BSD-2-Clause
"""A real blktrace of a striped device and its two disks: bios and origins equal to the stripe's arithmetic.

data/striped/ was recorded on Debian's kernel 6.1.0-56 with blktrace (2.0.0), beside these commands on a
device-mapper stripe of two loop devices in chunks of 64 KiB:

    dd if=/dev/zero of=DEVICE bs=192K count=6 seek=1 oflag=direct
    dd if=DEVICE of=/dev/null bs=4K count=8 skip=30 iflag=direct
    dd if=/dev/zero of=DEVICE bs=1M count=1 seek=5 oflag=direct conv=fsync
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from analysis.importers.stack import stack_of
from tests.analysis.importers.blktrace_files import Imported, run_reader
from tests.collectors.recording import read_table

DATA = Path(__file__).with_name("data") / "striped"
KIB = 1024
SECTOR_BYTES, CHUNK_SECTORS = 512, 128
# What dd asked for: operation, first byte, bytes.
ASKED = [
    *(("write", 192 * KIB * i, 192 * KIB) for i in range(1, 7)),
    *(("read", 4 * KIB * i, 4 * KIB) for i in range(30, 38)),
    ("write", 5 * KIB * KIB, KIB * KIB),
]


@pytest.fixture(scope="module")
def imported(reader: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Imported, Path]:
    folder = tmp_path_factory.mktemp("striped")
    return run_reader(reader, folder, sorted(DATA.glob("*.blktrace.*"))), folder


def test_real_stripes_bios_are_what_dd_asked_for(imported: tuple[Imported, Path]) -> None:
    got, folder = imported
    header, table = read_table(folder / "volume.rec")
    ops = header["enums"]["block_op"]
    bios = [row for row in table if ops[str(row["op"])] in ("read", "write")]
    assert [
        (ops[str(row["op"])], int(row["sector"]) * SECTOR_BYTES, int(row["bytes"])) for row in bios
    ] == ASKED
    assert all(row["complete_ns"] > row["queue_ns"] and row["comm"] == b"dd" for row in bios)
    assert [ops[str(row["op"])] for row in table].count("flush") == 1
    assert got.lost == {}


def test_real_stripes_requests_lie_where_the_stripe_puts_them(imported: tuple[Imported, Path]) -> None:
    """Chunk n of the volume is chunk n // 2 of disk n % 2; of a request of several the first counts."""
    got, folder = imported
    _, table = read_table(folder / "volume.rec")
    bios = {int(row["bio_id"]): row for row in table}
    volume = int(table["dev"][0])
    disks = sorted({row["dev"] for row in got.rows})
    bytes_of_disk: Counter[tuple[int, str]] = Counter()
    for row in got.rows:
        bio = bios[row["origin"]]
        assert (row["origin_dev"], row["origin_ns"], row["comm"]) == (volume, bio["queue_ns"], "dd")
        if row["op"] == "flush":
            continue
        chunk, within = divmod(row["origin_sector"], CHUNK_SECTORS)
        assert (disks.index(row["dev"]), row["sector"]) == (chunk % 2, chunk // 2 * CHUNK_SECTORS + within)
        assert (
            bio["queue_ns"] <= row["queue_ns"] <= row["issue_ns"] < row["complete_ns"] <= bio["complete_ns"]
        )
        bytes_of_disk[disks.index(row["dev"]), row["op"]] += row["bytes"]
    expected: Counter[tuple[int, str]] = Counter()
    for op, first, size in ASKED:
        for sector in range(first // SECTOR_BYTES, (first + size) // SECTOR_BYTES):
            expected[sector // CHUNK_SECTORS % 2, op] += SECTOR_BYTES
    assert bytes_of_disk == expected


def test_real_stripes_tree_has_two_disks(imported: tuple[Imported, Path]) -> None:
    got, _ = imported
    stack = stack_of(got.facts, {})
    assert stack is not None and [len(node["below"]) for node in stack["nodes"]] == [2, 0, 0]
    assert [node["recorded"] for node in stack["nodes"]] == ["bios", "requests", "requests"]
