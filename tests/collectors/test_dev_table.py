# SPDX-License-Identifier: BSD-2-Clause
"""The table of device numbers (collectors/block/dev_table.c): each is found at one look, and no other."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

from tests.collectors.recording import TREE, compile_program

MOST = 320  # DEV_ENTRIES_MAX: 64 disks and volumes, 256 components


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile programs/dev_table.c with the table."""
    folders = [f"-I{TREE / folder}" for folder in ("collectors", "collectors/block", "bpf")]
    source = str(TREE / "collectors/block/dev_table.c")
    return compile_program("dev_table", tmp_path_factory.mktemp("dev_table"), *folders, source)


def disks(count: int) -> list[int]:
    """As the kernel numbers SCSI disks, 16 minors each, and partitions of each, and dm devices."""
    numbers = [8 << 20 | minor for minor in range(0, 16 * count, 16)]
    numbers += [number + part for number in numbers for part in (1, 2, 3)]
    return (numbers + [253 << 20 | minor for minor in range(count)])[:MOST]


@pytest.mark.parametrize(
    "numbers",
    [
        [],
        [8 << 20],
        disks(16),
        disks(64),
        [259 << 20 | minor for minor in range(MOST)],
        random.Random(1).sample(range(1, 1 << 32), MOST),
        [4095 << 20 | minor for minor in range(64)] + [minor << 20 for minor in range(1, 256)],
    ],
    ids=["none", "one", "sixteen", "sixtyfour", "nvme", "random", "hidden"],
)
def test_every_number_is_found_and_no_other(program: Path, numbers: list[int]) -> None:
    run = subprocess.run(
        [program],
        input="\n".join(map(str, numbers)),
        text=True,
        stdout=subprocess.PIPE,
        check=True,
        timeout=20,
    )
    place = {number: at for at, number in enumerate(numbers)}
    wanted = [f"{at} {place.get(number + 1, -1)}" for at, number in enumerate(numbers)]
    assert run.stdout.splitlines() == wanted
