# SPDX-License-Identifier: BSD-2-Clause
"""A study's report as files: text, page, Markdown, tables, pictures; and the gallery's page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from analysis.__main__ import main
from analysis.errors import OptionError
from analysis.figures.study import matrix
from analysis.gallery import make_gallery
from analysis.measures.study.matrix import measure_matrices
from analysis.measures.study.results import measure_study
from analysis.render import text
from analysis.render.output import StudySource
from analysis.rundir.sweep_dir import open_sweep
from analysis.sections.study.document import make_document
from analysis.sections.study.shape import needs
from analysis.sweep import make_sweep_report
from tests.analysis.studies import Figures, frame_of, study_sweep
from tests.analysis.sweeps import configuration, sweep_json, write_sweep

TITLE = "transactions <b>|*by* threads"
TOML: dict[str, Any] = {
    "title": "A study", "source": "bryant2002", "system": "a machine of 2002", "about": "small files",
    "subject": [{"label": "ext4"}, {"label": "xfs"}, {"label": "jfs"}],
    "part": [{
        "name": "main", "title": "small files", "table": [
            {"shape": "operations", "title": "transactions/s", "published": "t", "where": {"THREADS": "4"},
             "rows": {"transactions": "transactions"}},
            {"shape": "scaling", "title": TITLE, "axis": "THREADS", "rows": {"transactions": "transactions"}},
            {"shape": "iographs", "title": "IO graphs", "where": {"THREADS": "4"}},
        ],
    }],
}  # fmt: skip
PUBLISHED = [
    {
        "table": "t",
        "row": "transactions",
        "subject": fs,
        "value": value,
        "unit": "/s",
        "bound": "",
        "note": "",
    }
    for fs, value in (("ext4", 10), ("xfs", 5), ("jfs", 1))
]


def write_study(path: Path) -> Path:
    """A study of two file systems with 1 and 4 threads, two runs each; jfs is refused."""
    plan = sweep_json(
        [
            configuration(1, {"FS": "ext4", "THREADS": "1"}),
            configuration(2, {"FS": "ext4", "THREADS": "4"}),
            configuration(3, {"FS": "xfs", "THREADS": "1"}),
            configuration(4, {"FS": "xfs", "THREADS": "4"}),
        ],
        reps=2, name="study-quick",
        study={"name": "study", "scale": "quick", "toml": TOML, "published": PUBLISHED},
        refused=[{"part": "main", "subject": "jfs", "words": {"FS": "jfs"}, "axes": {}, "why": "no jfs here",
                  "kind": "machine"}],
        absent=[{"what": "28 CPUs", "why": "this machine has 2"}],
    )  # fmt: skip
    rates = {"c01-r01": 100.0, "c01-r02": 102.0, "c02-r01": 200.0, "c02-r02": 204.0,
             "c03-r01": 90.0, "c03-r02": 91.0, "c04-r01": 400.0, "c04-r02": 404.0}  # fmt: skip
    return write_sweep(path, plan, rates)


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A study's directory after its report, and what the terminal shows."""
    path = write_study(tmp_path_factory.mktemp("study") / "s")
    (path / "study-09-relative.png").write_bytes(b"of an earlier report")
    return path, make_sweep_report(path)


def test_report_of_a_study_is_the_study_then_the_sweep(reported: tuple[Path, str]) -> None:
    path, shown = reported
    report = (path / "study.txt").read_text()
    assert max(map(len, report.splitlines())) <= 80
    titles = [line.split(" ---")[0] for line in report.splitlines() if line.endswith("---")]
    assert titles.index("WHAT IT COMES TO") < next(i for i, t in enumerate(titles) if t.startswith("SWEEP: "))
    assert "no jfs here" in report and "28 CPUs" in report
    assert "run as  WL=filemark THREADS=4" in report
    assert "WHAT IT COMES TO" in shown and "study.html" in shown and "SWEEP: " not in shown
    assert not (path / "sweep.txt").exists() and not (path / "study-09-relative.png").exists()


def test_report_states_what_disagrees(reported: tuple[Path, str]) -> None:
    report = " ".join((reported[0] / "study.txt").read_text().split())
    # 402 / 202 = 1.990 here, 5 / 10 in the paper
    assert "xfs/ext4 1.99" in report and "paper 0.500" in report and "0 agree, 1 do not" in report


def test_pictures_and_page_are_whole(reported: tuple[Path, str]) -> None:
    path, _ = reported
    for name in ("study-01-relative", "study-02-scaling", "study-03-iographs"):
        assert (path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert b"<svg" in (path / f"{name}.svg").read_bytes()
    page = (path / "study.html").read_text()
    assert page.count("data:image/svg+xml;base64,") >= 3 and "<b>|" not in page and "&lt;b&gt;|" in page
    assert "http://" not in page.replace("http://www.w3.org", "")
    markdown = (path / "study.md").read_text()
    assert "](study-03-iographs.png)" in markdown and "<b>" not in markdown


@pytest.mark.long
def test_gallery_has_page_and_small_pictures(reported: tuple[Path, str], tmp_path: Path) -> None:
    path, _ = reported
    (tmp_path / "docs/studies").mkdir(parents=True)
    (tmp_path / "docs/studies/study.md").write_text("of an earlier gallery")
    make_gallery(path, tmp_path / "docs/studies")
    page = (tmp_path / "docs/studies/study.md").read_text()
    assert page.index("What it comes to") < page.index("## transactions/s") < page.index("against the paper")
    for place in ("01-relative", "02-scaling", "03-iographs"):
        assert f"](study-{place}.png)" in page
        picture = (tmp_path / f"docs/studies/study-{place}.png").read_bytes()
        assert picture.startswith(b"\x89PNG") and len(picture) < (path / f"study-{place}.png").stat().st_size
    for what in ("28 CPUs", "no jfs here", "2 CPUs", "6.18.1", "quick", "n = 2", "2026-11-24"):
        assert what in page
    assert "Sweep:" not in page


def test_gallery_of_no_study_is_an_error(tmp_path: Path) -> None:
    path = write_sweep(tmp_path / "s", sweep_json([configuration(1, {"FS": "ext4"})]))
    with pytest.raises(OptionError, match="sweep of no study"):
        make_gallery(path, tmp_path / "out")
    assert main(["gallery", str(path), str(tmp_path / "out")]) == 2


def test_a_study_without_runs_shows_the_published_figures(tmp_path: Path) -> None:
    path = write_study(tmp_path / "s")
    plan = json.loads((path / "sweep.json").read_text()) | {"state": "running"}
    empty = write_sweep(tmp_path / "empty", plan)
    shown = make_sweep_report(empty)
    report = " ".join((empty / "study.txt").read_text().split())
    assert "not run yet" in report and "nothing of this table is measured yet" in report
    assert "the study is running" in shown and "nothing to agree with" in " ".join(shown.split())


def test_machines_of_a_study_have_tables_of_their_own(tmp_path: Path) -> None:
    toml = {**TOML, "part": [{**TOML["part"][0], "axes": {"THREADS": ["1", "4"]}}]}
    sweep = study_sweep(tmp_path / "s", toml, PUBLISHED, machines={"m1": {"hostname": "box"}, "m2": {}})
    ours: Figures = {(one.id, "transactions"): [100.0] for one in sweep.configurations}
    frame = frame_of(sweep, ours)
    other = frame.assign(machine="m2", value=1000.0)
    every = measure_study(sweep, pd.concat([frame, other], ignore_index=True), needs())
    assert [results.machine for results in every] == ["m1", "m2"]
    document = make_document(every)
    shown = text.render(document)
    assert any("never averaged" in banner for banner in document.banners)
    assert "BOX: TRANSACTIONS/S" in shown and "M2: TRANSACTIONS/S" in shown
    assert " 100" in shown and "1,000" in shown and " 550" not in shown


def test_matrices_are_means_of_the_best_options_runs(tmp_path: Path) -> None:
    rows = {"write overall": "write: overall"}
    toml = {
        "title": "m", "part": [{
            "name": "main", "table": [{"shape": "matrix", "title": "matrix", "rows": rows}],
            "subject": [{"label": "ext4_a", "group": "ext4"}, {"label": "ext4_b", "group": "ext4"}],
        }],
    }  # fmt: skip
    plan = sweep_json(
        [configuration(n, {"FS": "ext4"}, subject=name) for n, name in ((1, "ext4_a"), (2, "ext4_b"))],
        reps=2, study={"name": "m", "scale": "quick", "toml": toml, "published": []},
    )  # fmt: skip
    path = write_sweep(tmp_path / "s", plan, {"c01-r01": 1.0, "c02-r01": 1.0, "c02-r02": 1.0})
    for task, speed in (("c01-r01", 900.0), ("c02-r01", 1000.0), ("c02-r02", 3000.0)):
        cells = [
            {"table": "iomatrix cell", "operation": "write", "file_kib": file, "record_kib": 4,
             "kib_per_s": speed * file, "start_ns": 1, "end_ns": 2}
            for file in (4, 8)
        ]  # fmt: skip
        (path / "runs" / task / "raw/figures.jsonl").write_text("\n".join(map(json.dumps, cells)) + "\n")
    sweep = open_sweep(path)
    figures: Figures = {("c01", "write: overall"): [1.0], ("c02", "write: overall"): [2.0, 4.0]}
    results = measure_study(sweep, frame_of(sweep, figures), needs())[0]
    (one,) = measure_matrices(results.tables[0], sweep)
    assert (one.subject, one.option) == ("ext4", "ext4_b")
    assert {place: mean.value for place, mean in one.cells.items()} == {
        ("write", 4, 4): 8000.0, ("write", 8, 4): 16000.0
    }  # fmt: skip
    made = matrix.make(StudySource(results, []))
    assert b"ext4,ext4_b,write,4,4,2,8000," in made.files["study-matrix.csv"]
    assert made.files["study-01-matrix.png"].startswith(b"\x89PNG")
