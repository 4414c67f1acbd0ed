# SPDX-License-Identifier: BSD-2-Clause
"""Report and IO graph on threads' time: sums, sentences on the apparatus, and nothing for older runs."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.patches import StepPatch

from analysis.figures import style
from analysis.figures.panels.thread_states import LABELS
from analysis.measures.results import measure
from analysis.measures.threads.over_time import SERIES
from analysis.render.document import Document, Section
from analysis.render.text import render
from analysis.rundir.run import open_run
from analysis.sections.document import make_document
from analysis.tables.load import load_tables
from tests.analysis.measured import draw
from tests.analysis.synthetic import BIN_NS, START_NS, Spec, collector
from tests.analysis.test_style import lab
from tests.analysis.thread_tables import MS, STACKS, THREADS, facts_of_run, random_spec, thread_row

BINS = 80


def every_bin(**row: Any) -> list[dict[str, Any]]:
    return [
        {"bin_ns": START_NS + (i + 10) * BIN_NS, "count": 1, "max_ns": row["ns"], **row} for i in range(BINS)
    ]


def spec_of(times: list[dict[str, Any]], **more: Any) -> Spec:
    return Spec(
        thread_time=times,
        thread=[thread_row(row) for row in THREADS],
        stack=[{"stack_id": i, "frames": frames} for i, frames in enumerate(STACKS)],
        run=facts_of_run(),
        **more,
    )


def section_of(path: Path) -> Section | None:
    run = open_run(path)
    tables = load_tables(run)
    document = make_document(run, tables, measure(run, tables))
    return next((section for section in document.sections if section.key == "threads"), None)


def table_rows(section: Section, head: str) -> list[list[str]]:
    return [list(row) for table in section.tables if head in table.titles for row in table.rows]


def test_section_lists_states_and_causes_that_sum_up(tmp_path: Path) -> None:
    times = [
        *every_bin(ns=60 * MS, state="running", samples=60, samples_user=6),
        *every_bin(ns=30 * MS, state="blocked", stack_id=0),
        *every_bin(ns=10 * MS, state="runnable", by="kernel"),
        *every_bin(ns=100 * MS, state="sleeping", stack_id=2, thread=3),
    ]
    section = section_of(spec_of(times).write(tmp_path / "r"))
    assert section is not None
    assert table_rows(section, "workload") == [
        ["4.32 s", "54.0", "", "", "on a CPU, kernel", ""],
        ["2.40 s", "30.0", "80", "30.0 ms", "journal or log space", "__jbd2_log_wait_for_space"],
        ["800 ms", "10.0", "80", "10.0 ms", "ready: kernel ran", ""],
        ["480 ms", "6.0", "", "", "on a CPU, own code", ""],
    ]
    assert table_rows(section, "file system") == [["8.00 s", "", "80", "", "(no work)", ""]]
    assert "cause not known: 0.0 % of the 2.40 s that these threads were blocked" in section.notes
    assert not any("held the workload up" in note for note in section.notes)
    text = render(Document("t", [], [section]))
    assert max(len(line) for line in text.splitlines()) <= 80


def test_those_who_kept_the_workload_from_running_are_named(tmp_path: Path) -> None:
    ready = every_bin(ns=10 * MS, state="runnable", by="kernel")
    times = [*every_bin(ns=60 * MS, state="running"), *ready]
    loop = every_bin(ns=20 * MS, state="running", thread=4, work_name=b"loop3")
    recorder = every_bin(ns=20 * MS, state="runnable", by="recorder")
    for name, more, whose in (("disk", loop, "kernel threads"), ("recorder", recorder, "the recorder")):
        section = section_of(spec_of([*times, *more]).write(tmp_path / name))
        assert section is not None
        assert any(f"while {whose} had the CPU" in note for note in section.notes), name


def test_busy_disk_machinery_is_named_as_a_limit(tmp_path: Path) -> None:
    waiting = every_bin(ns=95 * MS, state="io_wait", stack_id=1)
    loop = {"thread": 4, "work_name": b"loop3", "state": "running"}
    busy = section_of(spec_of([*waiting, *every_bin(ns=92 * MS, **loop)]).write(tmp_path / "busy"))
    idle = section_of(spec_of([*waiting, *every_bin(ns=30 * MS, **loop)]).write(tmp_path / "idle"))
    assert busy is not None and idle is not None
    said = "the disk's machinery took 0.92 CPUs in the 8.00 s"
    assert any(said in note for note in busy.notes)
    assert not any("machinery took" in note for note in idle.notes)
    assert table_rows(busy, "apparatus") == [["disk's machinery", "loop3", "1", "7.36 s", "0 ns", "0 ns"]]


def test_unknown_stacks_are_shown_with_their_share(tmp_path: Path) -> None:
    times = [
        *every_bin(ns=20 * MS, state="blocked", stack_id=3),
        *every_bin(ns=60 * MS, state="blocked", stack_id=0),
        *every_bin(ns=20 * MS, state="blocked"),
    ]
    section = section_of(spec_of(times).write(tmp_path / "r"))
    assert section is not None
    assert table_rows(section, "waits that no rule knows, innermost first") == [
        ["1.60 s", "80", "workload", "(no stack)"],
        ["1.60 s", "80", "workload", "new_wait < vfs_new"],
    ]
    assert any("cause not known: 40.0 % of the 8.00 s" in note for note in section.notes)


def test_programs_of_the_workload_are_listed_by_name(tmp_path: Path) -> None:
    spec = spec_of([*every_bin(ns=9 * MS, state="running"), *every_bin(ns=4 * MS, state="running", thread=2)])
    section = section_of(spec.write(tmp_path / "one"))
    assert section is not None and table_rows(section, "workload, by name") == []
    assert spec.thread is not None
    spec.thread[1]["comm"] = "postgres"
    section = section_of(spec.write(tmp_path / "two"))
    assert section is not None
    assert table_rows(section, "workload, by name") == [
        ["compilebench", "1", "720 ms", "0 ns", "0 ns", "0 ns"],
        ["postgres", "1", "320 ms", "0 ns", "0 ns", "0 ns"],
    ]


def test_more_cpu_time_than_cpus_is_said(tmp_path: Path) -> None:
    for name, threads, is_said in (("much", (1, 2, 5), True), ("all", (1, 2), False)):
        times = [row for number in threads for row in every_bin(ns=100 * MS, state="running", thread=number)]
        spec = spec_of(times)
        spec.run["clock"]["record_start_ns"] = START_NS + 10 * BIN_NS
        spec.run["clock"]["record_end_ns"] = START_NS + 90 * BIN_NS
        section = section_of(spec.write(tmp_path / name))
        assert section is not None
        assert any("more than there is" in note for note in section.notes) == is_said


def test_random_runs_report_fits_the_page(tmp_path: Path) -> None:
    section = section_of(random_spec(11).write(tmp_path / "r"))
    assert section is not None and section.essential
    phases = table_rows(section, "s by phase")
    assert [row[0] for row in phases] == ["write", "read", "(no phase)"]
    text = render(Document("t", [], [section]))
    assert max(len(line) for line in text.splitlines()) <= 80


def test_runs_without_thread_times_say_nothing(tmp_path: Path) -> None:
    assert section_of(Spec().write(tmp_path / "r")) is None
    assert not any("threads: mean" in ax.get_title(loc="left") for ax in draw(tmp_path / "r").axes)


def test_collector_that_was_off_gives_its_reason(tmp_path: Path) -> None:
    spec = Spec(run=facts_of_run())
    spec.losses = {"collectors": {"threads": {**collector(0), "state": "off", "why": "no BTF"}}}
    section = section_of(spec.write(tmp_path / "r"))
    assert section is not None and section.absent == "no BTF"


def test_panel_stacks_the_workloads_threads(tmp_path: Path) -> None:
    times = [
        *every_bin(ns=100 * MS, state="running", samples=10, samples_user=5),
        *every_bin(ns=100 * MS, state="blocked", stack_id=0, thread=2),
    ]
    figure = draw(spec_of(times).write(tmp_path / "r"))
    (ax,) = [ax for ax in figure.axes if "threads: mean" in ax.get_title(loc="left")]
    legend = ax.get_legend()
    assert legend is not None
    names = [text.get_text() for text in legend.get_texts()]
    assert names == [LABELS["journal"], LABELS["kernel"], LABELS["user"]]
    filled = [patch for patch in ax.patches if isinstance(patch, StepPatch) and patch.get_fill()]
    tops = [patch.get_data()[0].max() for patch in filled]
    assert tops == pytest.approx([0.5, 1.0, 2.0])


def test_neighbours_in_the_stack_are_apart_for_every_reader() -> None:
    assert set(style.THREADS) == set(SERIES) == set(LABELS)
    for reader in ("normal", "protan", "deutan", "tritan"):
        for one, other in pairwise(SERIES):
            distance = np.linalg.norm(lab(style.THREADS[one], reader) - lab(style.THREADS[other], reader))
            assert distance >= 15, (reader, one, other)
    for one, other in pairwise(SERIES):
        grey = [lab(style.THREADS[key], "normal")[0] for key in (one, other)]
        hatches = [style.THREADS_HATCH.get(key) for key in (one, other)]
        assert abs(grey[0] - grey[1]) >= 8 or hatches[0] != hatches[1], (one, other)


def test_note_says_where_the_kernel_s_io_delay_is_wrong(tmp_path: Path) -> None:
    end = START_NS + 10 * BIN_NS
    times = [{"bin_ns": START_NS, "length_ns": 10 * BIN_NS, "ns": 10 * BIN_NS, "state": "io_wait"}]
    for is_sure in (True, False):
        row = {**THREADS[0], "end_ns": end, "blkio_delay_ns": 1000 * MS, "is_blkio_sure": is_sure}
        spec = Spec(thread_time=times, thread=[thread_row(row)], run=facts_of_run())
        section = section_of(spec.write(tmp_path / str(is_sure)))
        assert section is not None
        notes = "\n".join(section.notes)
        assert ("I/O delay differs by 0.0 %" in notes) == is_sure
        assert ("count of block I/O delay is wrong here" in notes) != is_sure
