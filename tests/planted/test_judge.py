# SPDX-License-Identifier: BSD-2-Clause
"""The judgement of planted causes, by findings made by hand; the command line; the plants' file systems."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest

from tests.planted.__main__ import parse
from tests.planted.judge import Row, Seen, line
from tests.planted.plant import Plant, find_plants
from tests.planted.site import MKFS


def _plant(is_graded: bool = False) -> Plant:
    kinds = frozenset({"held"})
    return Plant("limit", "a limit", kinds, ("ext4",), lambda *_: nullcontext({}), is_graded)


def test_first_finding_of_another_kind_is_not_right() -> None:
    right = Seen(7.0, (("held", 5.9), ("cpu_taken", 0.5)))
    wrong = Seen(7.0, (("cpu_taken", 6.5), ("held", 6.1)))
    row = Row(_plant(), "ext4", [(right, Seen(1.0, ())), (wrong, Seen(1.0, ()))])
    assert (row.right, row.false, row.others) == (1, 0, ["cpu_taken"])
    assert row.found_s == pytest.approx(6.0)
    assert "| 1 of 2 | 6.0 s | 6.0 +-0.0 s | yes | 0 of 2 | cpu_taken |" in line(row)


def test_finding_in_the_run_without_is_false() -> None:
    row = Row(_plant(), "ext4", [(Seen(7.0, ()), Seen(1.0, (("held", 0.1),)))])
    assert (row.right, row.false, row.found_s, row.others) == (0, 1, None, ["none"])
    assert "| 0 of 1 | none | 6.0 +-0.0 s | no | 1 of 1 | none |" in line(row)


def test_graded_cause_counts_what_is_more() -> None:
    row = Row(_plant(True), "ext4", [(Seen(9.0, (("held", 8.0),)), Seen(3.0, (("held", 2.0),)))])
    assert row.found_s == pytest.approx(6.0)
    assert "same kind, less" in line(row)


def test_words_are_sorted_by_what_they_are() -> None:
    asked = parse(["again", "frozen", "xfs", "3", "/tmp/runs/"])
    assert (asked.mode, asked.reps, asked.folder) == ("again", 3, Path("/tmp/runs").resolve())
    assert [(plant.name, name) for plant, name in asked.cases()] == [("frozen", "xfs")]
    with pytest.raises(ValueError, match="froze is no plant"):
        parse(["froze"])


def test_each_plant_has_file_systems_that_can_be_made() -> None:
    for name, plant in find_plants().items():
        assert plant.name == name
        assert plant.kinds
        assert set(plant.filesystems) <= set(MKFS)
