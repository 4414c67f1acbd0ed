# SPDX-License-Identifier: BSD-2-Clause
"""The trace readers in C, built with AddressSanitizer and UndefinedBehaviorSanitizer."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

TREE = Path(__file__).resolve().parents[3]


CHECKS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")


def build(folder: Path, program: Path) -> Path:
    """Build the C files of a folder to a program that exits at the first wrong access."""
    flags: list[str | Path] = ["-std=c11", "-O1", "-g", "-D_GNU_SOURCE", *CHECKS, "-I", TREE / "bpf"]
    subprocess.run(["gcc", *flags, *sorted(folder.glob("*.c")), "-o", program], check=True)
    return program


@pytest.fixture(scope="session")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """build/import-blktrace with sanitizers."""
    folder = TREE / "analysis/importers/blktrace_reader"
    return build(folder, tmp_path_factory.mktemp("reader") / "import-blktrace")


@pytest.fixture(scope="session")
def translator(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """build/text-to-blktrace with sanitizers."""
    folder = TREE / "analysis/importers/text_reader"
    return build(folder, tmp_path_factory.mktemp("translator") / "text-to-blktrace")
