# SPDX-License-Identifier: BSD-2-Clause
"""The report of a run with a power cut: the section, the banners, the mark on the IO graph."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analysis.measures.results import measure
from analysis.render.document import Section
from analysis.rundir.run import open_run
from analysis.sections.banners import make_banners
from analysis.sections.outcome import how_it_ended
from analysis.sections.power_cut import build_power_cut
from analysis.tables.load import load_tables
from tests.analysis.measured import draw
from tests.analysis.synthetic import START_NS, Spec, request, run_json

CUT_NS = START_NS + 4_050_000_000  # 4 s after the workload's start
REPLAY_NS = CUT_NS + 100_000_000
KEPT = {"told": 40, "told_after_cut": 2, "kept": 17, "broken_count": 0, "nameless": 0, "broken": []}
BROKEN = {
    **KEPT,
    "kept": 16,
    "broken_count": 1,
    "broken": ["t00/d1/f03 is gone, and its directory was synced"],
}


def crash(**more: Any) -> dict[str, Any]:
    """run.json's "crash" as the session writes it."""
    asked = {"at": "flush:3", "keep": "some", "seed": 7, "torn": True}
    sizes = {"dirty_bytes": 1_000_000, "kept_bytes": 400_000, "lost_bytes": 600_000, "torn_sector": 2048}
    replay = {"replay_s": 0.5, "replay_error": None, "clean": True, "promises": KEPT}
    return {**asked, "cut_ns": CUT_NS, "at_request": 1234, **sizes, **replay, **more}


def write(path: Path, facts: dict[str, Any] | None) -> Path:
    """A run that was cut: five requests in the workload, three in the replay."""
    spec = Spec(run=run_json(6))
    spec.block = [request(START_NS + i * 500_000_000, i * 1000, 8192, op="write") for i in range(1, 6)]
    spec.block += [
        request(REPLAY_NS + i * 1_000_000, i * 8, 4096, op=op)
        for i, op in enumerate(("read", "read", "write"))
    ]
    spec.phases = [
        {"name": "promise", "start_ns": START_NS + 50_000_000, "end_ns": CUT_NS, "ops": 9, "bytes": 9000},
        {
            "name": "replay",
            "start_ns": REPLAY_NS - 1,
            "end_ns": REPLAY_NS + 500_000_000,
            "ops": 0,
            "bytes": 0,
        },
    ]
    spec.run["filesystem"]["fsck"] = {"command": "e2fsck -fn", "clean": True, "seconds": 0.2, "said": []}
    spec.run["workload"]["exit_status"] = -9
    if facts is not None:
        spec.run["crash"] = facts
    return spec.write(path)


def section(path: Path) -> Section | None:
    run = open_run(path)
    tables = load_tables(run)
    found = build_power_cut(run, tables, measure(run, tables))
    return found[0] if found else None


def test_section_states_loss_replay_fsck_and_promises(tmp_path: Path) -> None:
    found = section(write(tmp_path / "r", crash()))
    assert found is not None
    assert found.facts == [
        ("asked", "CRASH_AT=flush:3 CRASH=some:7,torn"),
        ("cut", "4.00 s after the workload's start, at the disk's request 1,234"),
        ("not on the platter", "1.00 MB, 400 kB kept all the same"),
        ("lost", "600 kB"),
        ("torn", "the write under the head, at sector 2,048"),
        ("log replay", "500 ms, 3 requests: 8.19 kB read, 4.10 kB written"),
        ("fsck", "clean"),
        (
            "promises",
            "40 syncs returned 0 (2 after the cut); of what was promised at the cut 17 kept, none broken",
        ),
    ]
    assert found.notes == []


def test_run_without_a_power_cut_has_no_section(tmp_path: Path) -> None:
    assert section(write(tmp_path / "r", None)) is None


def test_cut_that_never_came_is_said(tmp_path: Path) -> None:
    path = write(
        tmp_path / "r", {"at": "90", "keep": "lost", "cut_ns": None, "why": "the workload had ended"}
    )
    found = section(path)
    assert found is not None and found.facts[1] == ("cut", "never: the workload had ended")
    assert "the power was not cut (CRASH_AT=90 CRASH=lost): the workload had ended" in make_banners(
        open_run(path), {}
    )
    assert how_it_ended(open_run(path)) == "signal 9 (SIGKILL)"


def test_end_by_the_cut_is_no_failure_of_the_workload(tmp_path: Path) -> None:
    run = open_run(write(tmp_path / "r", crash()))
    assert how_it_ended(run) == "power cut"
    banners = make_banners(run, {})
    assert "the power was cut before the workload's end: see Power cut" in banners
    assert not any("failed" in banner or "broken" in banner for banner in banners)


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (
            {"promises": BROKEN},
            "1 broken promise after the power cut: t00/d1/f03 is gone, and its directory was synced",
        ),
        (
            {"replay_error": "wrong fs type", "promises": None},
            "the file system cannot be mounted after the power cut: wrong fs type",
        ),
    ],
    ids=("promise", "replay"),
)
def test_broken_promise_stands_on_top(facts: dict[str, Any], expected: str, tmp_path: Path) -> None:
    path = write(tmp_path / "r", crash(**facts))
    assert make_banners(open_run(path), {})[0] == expected
    found = section(path)
    assert found is not None
    shown = dict(found.facts)
    assert "1 BROKEN" in shown["promises"] or "FAILED" in shown["log replay"]


def test_other_workloads_are_told_what_is_not_known(tmp_path: Path) -> None:
    found = section(write(tmp_path / "r", crash(promises=None)))
    assert found is not None and dict(found.facts)["promises"] == "not checked"
    assert "only the workload promises (WL=promises) logs" in found.notes[0]


@pytest.mark.parametrize(
    "facts", [{"cut_ns": "x"}, {"cut_ns": 1e300, "promises": []}, {"cut_ns": -1, "broken": 3}]
)
def test_nonsense_in_run_json_is_no_error(facts: dict[str, Any], tmp_path: Path) -> None:
    path = write(tmp_path / "r", facts)
    assert section(path) is not None
    make_banners(open_run(path), {})
    draw(path)


def test_io_graph_marks_the_cut_in_each_panel(tmp_path: Path) -> None:
    def marks(facts: dict[str, Any] | None, name: str) -> tuple[int, int]:
        figure = draw(write(tmp_path / name, facts))
        lines = [line for ax in figure.axes for line in ax.lines if line.get_color() == "#A00000"]
        at = [line for line in lines if np.allclose(np.asarray(line.get_xdata(), dtype=float), 4.0)]
        return len(at), sum(text.get_text() == "power cut" for ax in figure.axes for text in ax.texts)

    panels, labels = marks(crash(), "cut")
    assert panels > 5 and labels == 1
    assert marks(None, "whole") == (0, 0)
