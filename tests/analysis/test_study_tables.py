# SPDX-License-Identifier: BSD-2-Clause
"""Tables of studies against the papers' own arithmetic: published figures, put in as if they were measured.

Expected numbers are worked out by hand from the published figures, or follow from them by their definition.
"""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from analysis.measures.study.cells import Cells, relative
from analysis.measures.study.results import StudyResults, measure_study
from analysis.measures.sweep.data import load_data
from analysis.render import text
from analysis.render.document import Section
from analysis.rundir.sweep_dir import open_sweep
from analysis.sections.study.document import make_document
from analysis.sections.study.missing import missing_rows
from analysis.sections.study.shape import find_shapes, needs
from analysis.sections.study.shapes.ranking import deltas
from analysis.sections.sweep.normalised import build_normalised
from tests.analysis.studies import Figures, frame_of, measured_study, published_of, study_sweep, toml_of
from tests.analysis.sweeps import configuration, marker, sweep_json, write_sweep


@pytest.fixture(scope="module")
def stepan(tmp_path_factory: pytest.TempPathFactory) -> StudyResults:
    """stepan2005 with its own figures."""
    return measured_study(tmp_path_factory.mktemp("stepan") / "s", "stepan2005")


def table_of(results: StudyResults, shape: str, title: str = "") -> Cells:
    """The first table of a shape whose title has these words."""
    return next(table for table in results.tables if table.spec.shape == shape and title in table.spec.title)


def section_of(results: StudyResults, table: Cells) -> Section:
    """The section that its shape makes of the table."""
    return find_shapes()[table.spec.shape].build(table, results)


def block(section: Section, name: str) -> list[list[str]]:
    """The lines of a ranking's row: from its name to the next name."""
    rows = [list(row) for row in section.tables[0].rows]
    start = next(i for i, row in enumerate(rows) if row[0].startswith(f"{name},"))
    end = next((i for i in range(start + 1, len(rows)) if rows[i][0]), len(rows))
    return rows[start:end]


def test_ranking_has_the_papers_order_and_deltas(stepan: StudyResults) -> None:
    lines = block(section_of(stepan, table_of(stepan, "ranking")), "write maximum")
    ranked = [line for line in lines if line[3]]
    assert [line[1] for line in ranked] == ["ext3", "reiser3", "ext2", "jfs", "xfs"]
    # jfs: (692055 - 614084) / 692055 = 0.11267, (614084 - 692055) / 614084 = -0.12697
    assert ranked[3][3:5] == ["11.3", "-12.7"] and ranked[3][6:8] == ["11.3", "-12.7"]
    # ext3: (692055 - 333045) / 692055 = 0.51876, (333045 - 692055) / 333045 = -1.07796
    assert ranked[0][3:5] == ["51.9", "-107.8"]
    assert ranked[4][3] == ranked[4][6] == "best"


def test_ranking_has_every_published_order(stepan: StudyResults) -> None:
    by_row: dict[str, list[tuple[float, str]]] = {}
    for one in published_of("stepan2005"):
        if one["table"] == "iozone":
            by_row.setdefault(one["row"], []).append((float(one["value"]), one["subject"]))
    section = section_of(stepan, table_of(stepan, "ranking"))
    assert len(by_row) == 42
    for name, figures in by_row.items():
        values = {subject: value for value, subject in figures}
        ranked = [line[1] for line in block(section, name) if line[1] in values]
        assert [values[subject] for subject in ranked] == sorted(values.values()), name


def test_deltas_share_their_definition() -> None:
    assert deltas(50.0, 100.0) == (0.5, -1.0)
    assert deltas(0.0, 100.0) == (1.0, None) and deltas(5.0, 0.0) == (None, 1.0)


def test_overall_is_at_most_the_sum_of_the_best_of_each_metric(stepan: StudyResults) -> None:
    """overall is the sum of one run; each metric may be another run's, so their sum is at least that."""
    table = table_of(stepan, "matrix")
    rows = {row.name: row for row in table.rows}
    six = ("maximum", "minimum", "total average", "target average", "ora-ta", "specfp-ta")
    for operation in ("write", "rewrite", "read", "reread", "random write", "random read"):
        for subject in ("ext2", "ext3", "reiser3", "jfs", "xfs"):
            values = [table.cell(rows[f"{operation} {name}"], subject).measured for name in (*six, "overall")]
            means = [one.mean.value for one in values if one is not None]
            assert len(means) == 7 and means[6] <= sum(means[:6]) * (1 + 1e-9), (operation, subject)


def test_matrix_shows_the_best_option_of_a_subject(tmp_path: Path) -> None:
    def change(sweep: Any, figures: Figures) -> None:
        second = next(one for one in sweep.configurations if one.subject == "jfs_xj_dl")
        figures[second.id, "write: maximum"] = [700_000.0, 700_000.0]

    results = measured_study(tmp_path / "s", "stepan2005", change)
    table = table_of(results, "matrix")
    row = next(row for row in table.rows if row.name == "write maximum")
    cell = table.cell(row, "jfs")
    assert cell.measured is not None and cell.measured.option == "jfs_xj_dl"
    assert [one.option for one in cell.options] == ["jfs_xj_dl", "jfs_noatime"]
    assert table.best(row) == "jfs"


def test_normalised_has_the_papers_shares_and_places(tmp_path: Path) -> None:
    def change(sweep: Any, figures: Figures) -> None:
        """The places that the source names without a figure, in its order; jfs fastest with noop."""
        shares = {"ext4": 0.9, "ext2": 0.8, "ext3": 0.7}
        for one in sweep.configurations:
            if one.part == "schedulers" and one.axes["THREADS"] == "20" and one.subject in shares:
                figures[one.id, "throughput"] = [shares[one.subject]] * 2
            if one.part == "schedulers" and one.subject == "jfs" and one.axes["SCHED"] != "noop":
                figures[one.id, "throughput"] = [value / 2 for value in figures[one.id, "throughput"]]

    results = measured_study(tmp_path / "s", "gus2011", change)
    table = table_of(results, "normalised")
    rows = {row.name: row for row in table.rows}
    five, twenty = rows["5 processes"], rows["20 processes"]
    assert relative(table, five, "ext2")[0] == 1.0 and relative(table, five, "xfs")[0] == pytest.approx(0.97)
    assert table.ranked(twenty) == ["jfs", "ext3", "ext2", "ext4", "xfs"]
    assert relative(table, twenty, "jfs")[0] == pytest.approx(0.40)
    section = section_of(results, table)
    lines = [list(line) for line in section.tables[0].rows]
    jfs = 2 + list(table.subjects).index("jfs")
    best = next(line for line in lines if line[1] == "best SCHED")
    assert best[jfs] == "noop"
    options = {(row[0], row[1]): row[2:] for row in section.tables[1].rows}
    order = list(section.tables[1].titles[2:])
    shares = dict(zip(order, options["20 processes", "jfs"], strict=True))
    assert shares == {"noop": "1.00", "deadline": "0.50", "cfq": "0.50"}
    orders = [pair for pair in results.agreement.pairs if pair.row.name == "20 processes"]
    assert {pair.order for pair in orders} == {"agrees"}
    assert len(orders) == 10  # of five subjects, three have a place only


def test_spin_share_has_the_papers_order(tmp_path: Path) -> None:
    results = measured_study(tmp_path / "s", "bryant2002")
    table = table_of(results, "spin_share")
    rows = {row.name: row for row in table.rows}
    assert table.ranked(rows["runqueue lock"]) == ["xfs", "ext2", "ext3", "reiserfs"]
    shown = [list(line) for line in section_of(results, table).tables[0].rows]
    ext2 = 2 + list(table.subjects).index("ext2")
    runqueue = next(i for i, line in enumerate(shown) if line[0].startswith("runqueue lock"))
    assert shown[runqueue][ext2] == "25.0 +-0" and shown[runqueue + 1][ext2] == "25.0"
    gone = table.cell(rows["big kernel lock"], "ext3")
    assert gone.measured is None and "no such thing" in gone.why
    assert gone.published is not None and gone.published.value == 85


def test_spin_share_gives_other_locks_rows_of_their_own(tmp_path: Path) -> None:
    def change(sweep: Any, figures: Figures) -> None:
        one = next(one for one in sweep.configurations if one.part == "lockmeter" and one.subject == "ext4")
        figures[one.id, "spinning on spinlock journal_s.j_state_lock"] = [0.02, 0.03]
        figures[one.id, "spinning on spinlock little.lock"] = [0.0002, 0.0003]

    table = table_of(measured_study(tmp_path / "s", "bryant2002", change), "spin_share")
    names = [row.name for row in table.rows]
    assert "spinlock journal_s.j_state_lock" in names and "spinlock little.lock" not in names


def test_operations_mark_the_papers_best(tmp_path: Path) -> None:
    results = measured_study(tmp_path / "s", "btrfs2007")
    table = table_of(results, "operations", "kernel trees")
    best = {row.name: table.best(row) for row in table.rows}
    assert best["initial create"] == "btrfs" and best["patch tree"] == "ext3"
    assert best["clean tree"] == "xfs" and best["stat tree"] == "xfs" and best["fsck after run"] == "btrfs"
    for lines in section_of(results, table).tables[0].rows:
        marked = [cell for cell in lines[2:] if cell.startswith("[")]
        assert len(marked) == 1, lines
    files = table_of(results, "million_files", "512")
    tar = next(row for row in files.rows if row.name == "read (tar)")
    assert files.ranked(tar) == ["ext3", "xfs", "btrfs"]


def test_peak_is_relative_to_the_baseline(tmp_path: Path) -> None:
    def change(sweep: Any, figures: Figures) -> None:
        peaks = {("ext2", "2"): 1000.0, ("ext3", "2"): 900.0, ("ext2", "28"): 4000.0, ("ext3", "28"): 2600.0}
        for one in sweep.configurations:
            if (value := peaks.get((one.subject, one.axes.get("CPUS", "")))) and one.part == "aim7":
                figures[one.id, "peak"] = [value, value]

    results = measured_study(tmp_path / "s", "bryant2002", change)
    table = table_of(results, "peak")
    lines = [list(line) for line in section_of(results, table).tables[0].rows]
    at = {subject: 2 + i for i, subject in enumerate(table.subjects)}
    first = {i: line for i, line in enumerate(lines) if line[1] == "relative"}
    assert first[1][at["ext2"]] == "1.00" and first[1][at["ext3"]] == "0.90"
    last = lines[next(i for i, line in enumerate(lines) if line[0].startswith("28 CPUs")) + 1]
    assert last[at["ext2"]] == "4.00" and last[at["ext3"]] == "2.60"
    assert {pair.ratio for pair in results.agreement.pairs if pair.table == table.spec.title} >= {"agrees"}


def test_scaling_finds_a_planted_trend(tmp_path: Path) -> None:
    def change(sweep: Any, figures: Figures) -> None:
        for one in sweep.configurations:
            if one.part == "saturation" and one.subject in ("ext4", "xfs"):
                n = float(one.axes["THREADS"])
                value = 0.34 * n**0.29 if one.subject == "xfs" else 100 * min(n, 4)
                figures[one.id, "throughput"] = [value * 0.999, value * 1.001]

    results = measured_study(tmp_path / "s", "gus2011", change)
    table = next(t for t in results.tables if t.spec.shape == "scaling" and t.spec.part == "saturation")
    section = section_of(results, table)
    fits = {row[0]: row for row in section.tables[1].rows}
    assert fits["xfs"][1:3] == ["0.340", "0.29"] and fits["xfs"][4:6] == ["1.00", "1.00"]
    assert fits["xfs"][6] == "20" and fits["xfs"][7] == "7"  # (7/10)**0.29 = 0.902: less than 10 % apart
    assert fits["ext4"][7] == "4"


def test_refused_and_failed_stay_in_the_tables(tmp_path: Path) -> None:
    refused = [
        {
            "part": "webcache", "subject": "reiserfs", "words": {"FS": "reiserfs"}, "axes": {},
            "why": "Linux 6.13 removed reiserfs", "kind": "machine",
        }
    ] * 2  # fmt: skip
    toml, published = toml_of("webcache2004"), published_of("webcache2004")
    sweep = study_sweep(tmp_path / "s", toml, published, without=["reiserfs"], refused=refused)
    task = f"{next(one.id for one in sweep.configurations if one.subject == 'ext2')}-r01"
    failed = marker(task, 1, outcome="failed", why="the disk is full", exit_code=1)
    (tmp_path / "s/runs" / task).mkdir()
    (tmp_path / "s/runs" / task / "task.json").write_text(json.dumps(failed))
    sweep = open_sweep(tmp_path / "s")
    results = measure_study(sweep, frame_of(sweep, {}), needs())[0]
    assert ("reiserfs: 2 combinations", "Linux 6.13 removed reiserfs") in missing_rows(results)
    table = results.tables[0]
    assert table.cell(table.rows[0], "reiserfs").why == "Linux 6.13 removed reiserfs"
    assert table.cell(table.rows[0], "ext2").why == "the run failed: the disk is full"
    assert table.cell(table.rows[0], "xfs").why == "not run yet"
    shown = text.render(make_document([results]))
    assert "Linux 6.13 removed reiserfs" in shown and "the disk is full" in shown and "434" in shown


def test_row_of_a_refused_value_has_its_reason(tmp_path: Path) -> None:
    """The published row "28 CPUs" is of runs that this machine refuses; nothing measures it."""
    refused = [
        {
            "part": "aim7", "subject": subject, "words": {"FS": subject, "CPUS": "28"},
            "axes": {"CPUS": "28"}, "why": "2 CPUs alone", "kind": "machine",
        }
        for subject in ("ext2", "ext3", "xfs")
    ]  # fmt: skip
    toml, published = toml_of("bryant2002"), published_of("bryant2002")
    for part in toml["part"]:
        part.setdefault("subject", toml["subject"])
        if part["name"] == "aim7":
            part["axes"] = {"CPUS": ["2"]}
    sweep = study_sweep(tmp_path / "s", toml, published, refused=refused)
    results = measure_study(sweep, frame_of(sweep, {}), needs())[0]
    table = next(table for table in results.tables if table.spec.shape == "peak")
    row = next(row for row in table.rows if row.name == "28 CPUs")
    assert {table.cell(row, subject).why for subject in ("ext2", "ext3", "xfs")} == {"2 CPUs alone"}


def test_virtual_figures_are_not_ranked_with_others(tmp_path: Path) -> None:
    inside = ("reiserfs", "reiserfs notail")
    results = measured_study(tmp_path / "s", "webcache2004", virtual=inside)
    table = results.tables[0]
    untar = table.rows[0]
    assert not set(inside) & set(table.ranked(untar)) and table.best(untar) == "ext2"
    assert relative(table, untar, "reiserfs")[0] is None
    pairs = {(pair.first, pair.second): pair for pair in results.agreement.pairs if pair.row is untar}
    assert pairs["ext2", "reiserfs"].order == "not compared" and pairs["ext2", "reiserfs"].difference is None
    assert pairs["reiserfs", "reiserfs notail"].order == "agrees"  # both inside
    assert pairs["ext2", "ext3"].order == "agrees"
    cells = dict(zip(table.subjects, section_of(results, table).tables[0].rows[0][2:], strict=True))
    assert cells["reiserfs"].endswith(" v") and not cells["ext3"].endswith(" v")


HOSTILE: list[dict[str, Any]] = [
    {"part": [{"name": "x", "table": [{"shape": "operations", "title": "t", "wrong": 1}]}]},
    {"part": [{"name": "x", "table": [{"shape": "nonsense", "title": "t"}]}]},
    {"part": [{"name": "x", "table": [{"shape": "operations", "title": "t", "rows": ["a"]}]}]},
    {"part": [{"name": "x", "table": [{"shape": "ranking", "title": "t", "better": "sideways"}]}]},
    {"part": "no list"},
    {"part": [5, {"name": ["x"], "table": [None, {"shape": ["a"]}], "subject": "no list"}]},
]


@pytest.mark.parametrize("toml", HOSTILE)
def test_hostile_tables_become_problems(tmp_path: Path, toml: dict[str, Any]) -> None:
    published = [
        {"table": "t", "row": "a", "subject": "b", "value": "nan", "unit": "", "bound": "", "note": ""},
        {"table": "t", "row": "a", "subject": "b", "value": 1e400, "bound": "=", "note": ["x"]},
        "no object", {"value": {}},
    ]  # fmt: skip
    study = {"name": "\x1b[2J", "scale": {}, "toml": toml, "published": published}
    (tmp_path / "s").mkdir()
    plan = json.dumps(sweep_json([], study=study), default=str).replace("Infinity", "null")
    (tmp_path / "s" / "sweep.json").write_text(plan)
    results = measure_study(open_sweep(tmp_path / "s"), frame_of(open_sweep(tmp_path / "s"), {}), needs())[0]
    assert results.study.problems
    shown = text.render(make_document([results]))
    assert "\x1b" not in shown and "!!" in shown


def test_a_table_of_very_many_rows_and_subjects_is_cut(tmp_path: Path) -> None:
    toml = {"part": [{"name": "p", "table": [{"shape": "operations", "title": "t", "published": "t"}]}] * 2}
    published = [
        {"table": "t", "row": f"row {n}", "subject": f"subject {n}", "value": n, "unit": "s", "bound": ""}
        for n in range(5000)
    ]
    sweep = study_sweep(tmp_path / "s", {**toml, "subject": []}, published)
    results = measure_study(sweep, frame_of(sweep, {}), needs())[0]
    assert [len(table.cells) for table in results.tables] == [300 * 48] * 2
    assert "of 5,000 subjects" in results.tables[0].notes[0]


def test_an_unknown_key_is_named_with_the_known_ones(tmp_path: Path) -> None:
    sweep = study_sweep(tmp_path / "s", {**HOSTILE[0], "subject": []}, [])
    problem = measure_study(sweep, frame_of(sweep, {}), needs())[0].study.problems[0]
    assert "'wrong' is unknown" in problem and "operations takes" in problem and "published" in problem


def test_a_sweep_over_schedulers_is_normalised(tmp_path: Path) -> None:
    chosen = [
        configuration(n, {"FS": fs, "SCHED": sched})
        for n, (fs, sched) in enumerate(product(("ext4", "xfs"), ("none", "bfq")), 1)
    ]
    rates = {"c01-r01": 100.0, "c02-r01": 50.0, "c03-r01": 150.0, "c04-r01": 200.0}
    data = load_data(write_sweep(tmp_path / "s", sweep_json(chosen, axes=["FS", "SCHED"]), rates))
    (section,) = build_normalised(data)
    of_best, _, best = section.tables[0].rows[:3]
    assert list(of_best[1:]) == ["of best", "0.50", "1.00"]  # 100 / 200
    assert list(best[1:]) == ["best SCHED", "none", "bfq"]
    options = [list(row[1:]) for row in section.tables[1].rows]
    assert section.tables[1].titles[2:] == ["none", "bfq"]
    assert options == [["ext4", "1.00", "0.50"], ["xfs", "0.75", "1.00"]]
    without = [configuration(1, {"FS": "ext4"}), configuration(2, {"FS": "xfs"})]
    rates = {"c01-r01": 100.0, "c02-r01": 50.0}
    assert build_normalised(load_data(write_sweep(tmp_path / "t", sweep_json(without), rates))) == []


def test_untraced_runs_count_where_tracing_is_both(tmp_path: Path) -> None:
    toml = {
        "title": "t", "subject": [{"label": "ext4"}],
        "part": [{
            "name": "p", "axes": {"TRACING": ["on", "off"]},
            "table": [{"shape": "operations", "title": "t", "rows": {"create": "create"}}],
        }],
    }  # fmt: skip
    sweep = study_sweep(tmp_path / "s", toml, [])
    plan = json.loads((tmp_path / "s/sweep.json").read_text())
    for one in plan["configurations"]:
        one["traced"] = one["axes"]["TRACING"] == "on"
    (tmp_path / "s/sweep.json").write_text(json.dumps(plan))
    sweep = open_sweep(tmp_path / "s")
    figures: Figures = {("c001", "create"): [90.0, 91.0], ("c002", "create"): [100.0, 101.0]}
    (table,) = measure_study(sweep, frame_of(sweep, figures), needs())[0].tables
    assert [row.name for row in table.rows] == ["create"]
    measured = table.cell(table.rows[0], "ext4").measured
    assert measured is not None and measured.values == (100.0, 101.0)
    assert (measured.configuration, measured.traced) == ("c002", "c001")
