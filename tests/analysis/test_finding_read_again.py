# SPDX-License-Identifier: BSD-2-Clause
"""Reads of what had been in memory are found, with what took it from there; first reads are none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from analysis.findings.cold_reads import RULES as COLD
from analysis.findings.read_again import RULES
from tests.analysis.device_cases import BEGIN, DIRECT, case_of, found_by, one

LARGE = 128 << 10
TWO_ROUNDS = [one(20000, bytes=LARGE, sector=256 * (i % 30)) for i in range(60)]


def counters(**values: tuple[int, int]) -> list[dict[str, Any]]:
    """Each counter's value at the begin and at the end."""
    return [
        {"t_ns": BEGIN + t, "name": name.replace("_", ".", 1), "value": value}
        for name, both in values.items()
        for t, value in zip((0, 900_000_000), both, strict=True)
    ]


def test_the_second_reading_of_a_file_after_its_cache_was_dropped(tmp_path: Path) -> None:
    samples = counters(vm_cache_drops=(5, 6), vm_refault_bytes=(7, 7), mem_free_bytes=(2 << 30, 1 << 30))
    case = case_of(tmp_path / "run", TWO_ROUNDS, counter=samples)
    (found,) = found_by(RULES, case)
    assert found.cost.value_s == pytest.approx(30 * 20007e-6, rel=0.01)
    assert "3.93 MB of the 7.86 MB of data that the disk read (50 %)" in found.because[1]
    assert found.because[2] == "Somebody dropped the page cache 1 time meanwhile (vm.drop_caches)."
    assert "1.07 GB of memory were free" in found.because[3]
    assert found.certainty == "sure"
    (cold,) = found_by(COLD, case)  # the first reading
    assert cold.cost.value_s == pytest.approx(30 * 20002e-6, rel=0.01)


def test_reclaimed_pages_and_unknown_reasons_are_less_sure(tmp_path: Path) -> None:
    (found,) = found_by(
        RULES, case_of(tmp_path / "a", TWO_ROUNDS, counter=counters(vm_refault_bytes=(0, LARGE)))
    )
    assert found.certainty == "likely" and "131 kB" in found.because[2]
    (found,) = found_by(RULES, case_of(tmp_path / "b", TWO_ROUNDS))
    assert found.certainty == "likely" and "was not seen" in found.doubt


def test_what_was_read_once_or_past_the_cache_is_not_read_again(tmp_path: Path) -> None:
    once = [one(2000, bytes=LARGE, sector=256 * i) for i in range(60)]
    assert not found_by(RULES, case_of(tmp_path / "a", once))
    written = [
        one(2000, bytes=LARGE, sector=256 * i, op="write", end_io_id=DIRECT, wait="direct") for i in range(30)
    ]
    assert not found_by(RULES, case_of(tmp_path / "b", [*written, *once[:30]]))
    direct = [row | {"columns": row["columns"] | {"end_io_id": DIRECT}} for row in TWO_ROUNDS]
    assert not found_by(RULES, case_of(tmp_path / "c", direct))
