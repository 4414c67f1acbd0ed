# SPDX-License-Identifier: BSD-2-Clause
"""The reader of block traces, built again with the compiler's checks of memory and of undefined behaviour."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

TREE = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="session")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """import-blktrace that ends with an error at the first wrong access."""
    program = tmp_path_factory.mktemp("reader") / "import-blktrace"
    sources = sorted((TREE / "analysis/importers/blktrace_reader").glob("*.c"))
    checks = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    subprocess.run(
        [
            "gcc",
            "-std=c11",
            "-O1",
            "-g",
            "-D_GNU_SOURCE",
            *checks,
            "-I",
            TREE / "bpf",
            *sources,
            "-o",
            program,
        ],
        check=True,
    )
    return program
