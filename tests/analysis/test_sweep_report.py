# SPDX-License-Identifier: BSD-2-Clause
"""The report of a sweep: its words on known figures, its files, a sweep in the middle, hostile names."""

import csv
import io
import json
import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from analysis.__main__ import main
from analysis.discovery import find_parts
from analysis.errors import OptionError, ReportError
from analysis.figures import sweep as sweep_figures
from analysis.measures.sweep.data import SweepData, load_data, make_groups
from analysis.measures.sweep.figures import no_figures
from analysis.measures.sweep.within_run import IN_SECOND_HALF
from analysis.render import markdown, text
from analysis.render.document import Document, Section, Table
from analysis.render.output import Output, SweepSource
from analysis.rundir.run import clean
from analysis.rundir.sweep_dir import open_sweep
from analysis.sections.sweep import show
from analysis.sections.sweep.document import find_sections, make_document
from analysis.sections.sweep.files import COLUMNS, as_csv, as_json
from analysis.sweep import make_sweep_report, sweep_goal
from tests.analysis.sweep_data import make_data, text_of
from tests.analysis.sweeps import FIGURE_COLUMNS, configuration, figures, sweep_json, write_sweep

A, B, C = [98.0, 100.0, 102.0], [78.0, 80.0, 82.0], [99.0, 101.0, 103.0]


def _section(data: SweepData, key: str) -> str:
    """The text of the sections of one module."""
    document = make_document(data)
    found = [section for section in document.sections if section.key == key]
    assert found
    return text_of(found)


def test_answer_names_best_verdicts_and_what_the_runs_see(tmp_path: Path) -> None:
    told = _section(make_data(tmp_path / "s", figures({"a": A, "b": B, "c": C})), "answer")
    assert "best by transactions, /s (higher is better): c, 101 +-5.0 (3 runs)" in told
    assert re.search(r"a: 0\.99 of it \[0\.9\d, 1\.0\d\]; not told apart, p 0\.\d+; sees [\d.]+ %", told)
    assert re.search(r"b: 0\.79 of it \[0\.7\d, 0\.8\d\]; they differ, p <0\.001", told)


def test_answer_says_that_single_runs_have_no_verdict(tmp_path: Path) -> None:
    told = _section(make_data(tmp_path / "s", figures({"a": [100.0], "b": [50.0]})), "answer")
    assert "of it: b 0.50; single runs, no verdict" in told


def test_answer_says_whether_the_goal_is_reached(tmp_path: Path) -> None:
    frame = figures({"a": [100.0, 101.0] * 5, "b": B})
    told = _section(make_data(tmp_path / "s", frame, goal_pct=5.0), "answer")
    assert "goal of 5 % not reached by 1 configuration: b (n=3: at least 10 are looked at)" in told
    frame = figures({"a": [100.0, 101.0] * 5})
    told = _section(make_data(tmp_path / "t", frame, goal_pct=5.0), "answer")
    assert "goal: every mean's half-width is at most 5 %" in told


def test_results_show_values_of_few_runs_and_bootstrap_of_many(tmp_path: Path) -> None:
    many = [100.0 + i for i in range(10)]
    told = _section(make_data(tmp_path / "s", figures({"a": many, "b": B})), "results")
    assert "b 78.0; 80.0; 82.0" in told
    assert re.search(r"a 100 to 109, bootstrap \[10[23]; 10[67]\]", told)
    assert "a 10 104 +-2.2 104 best" in told


def test_outlier_is_named_and_kept(tmp_path: Path) -> None:
    values = [100.0, 101.0, 99.0, 100.5, 99.5, 100.2, 99.8, 300.0]
    told = _section(make_data(tmp_path / "s", figures({"a": values, "b": [100.0] * 8})), "results")
    assert "a: 300 in a-r08 is more than 3 interquartile ranges from the quartiles" in told
    assert "a 8 125 +-" in told


def test_machines_have_tables_of_their_own(tmp_path: Path) -> None:
    other = figures({"a": B, "b": A}, machine="m2").assign(task=lambda f: f.task + "-m2")
    data = make_data(tmp_path / "s", pd.concat([figures({"a": A, "b": B}), other]))
    told = _section(data, "results")
    assert "(on box (m1))" in told.lower() and "(on m2)" in told.lower()
    assert "n=6" not in told and " 6 " not in told
    document = make_document(data)
    assert any("figures are never averaged over machines" in banner for banner in document.banners)


def test_virtual_runs_are_marked_and_never_compared_with_others(tmp_path: Path) -> None:
    frame = pd.concat([figures({"a": A}), figures({"v": [500.0, 501.0, 502.0]}, virtual=True)])
    data = make_data(tmp_path / "s", frame)
    told = _section(data, "results")
    assert "(in a virtual machine)" in told.lower()
    assert "5.01" not in told and "0.20" not in told  # no ratio between them
    assert any("virtual machine" in banner for banner in make_document(data).banners)


def test_emulated_runs_are_named_in_a_banner(tmp_path: Path) -> None:
    plan = sweep_json([configuration(1, {"FS": "ext4"}), configuration(2, {"FS": "xfs"}, virtual=True)])
    path = write_sweep(tmp_path / "s", plan, {"c01-r01": 100.0, "c02-r01": 50.0})
    facts = json.loads((path / "runs/c02-r01/run.json").read_text())
    facts["machine"]["vm"] = {"accel": "tcg"}
    (path / "runs/c02-r01/run.json").write_text(json.dumps(facts))
    data = load_data(path)
    assert data.emulated == {"c02"}
    assert any("emulated CPUs (QEMU TCG): xfs;" in banner for banner in make_document(data).banners)


def test_tracing_cost_has_its_ratio_and_interval(tmp_path: Path) -> None:
    frame = pd.concat(
        [figures({"c01": [90.0, 91.0, 89.0]}), figures({"c02": [100.0, 101.0, 99.0]}, traced=False)]
    )
    plan = [
        configuration(1, {"FS": "ext4"}, label="ext4, traced"),
        configuration(2, {"FS": "ext4", "COLLECT": "none"}, label="ext4, untraced", traced=False),
    ]
    told = _section(make_data(tmp_path / "s", frame, plan, tracing="both"), "tracing_cost")
    assert re.search(r"differ ext4 100 \+-2\.5 90\.0 \+-2\.5 0\.90 \[0\.8\d, 0\.9\d\] \+10\.0 % yes", told)


def test_tracing_cost_says_why_there_is_none(tmp_path: Path) -> None:
    told = _section(make_data(tmp_path / "s", figures({"a": A})), "tracing_cost")
    assert "not available: all runs had TRACING=on" in told


def _cause(values: dict[str, list[float]], measure: str, unit: str = "") -> pd.DataFrame:
    return figures(values, measure=measure, unit=unit, kind="cause", better="", headline=False)


def test_causes_stand_beside_the_headline(tmp_path: Path) -> None:
    frame = pd.concat(
        [
            figures({"a": A, "b": B}),
            _cause({"a": [100.0, 101.0, 99.0], "b": [500.0, 510.0, 490.0]}, "seeks"),
            _cause({"a": [1e9, 1e9, 1e9], "b": [2e9, 2e9]}, "disk write: bytes", "B"),
        ]
    )
    told = _section(make_data(tmp_path / "s", frame), "causes")
    assert "transactions, /s 100 80.0 0.80!" in told
    assert "seeks 100 500 5.00!" in told
    assert "disk write: bytes 1.00 GB 2.00 GB n=2 2.00!" in told


def _within(values: dict[str, list[float]], measure: str) -> pd.DataFrame:
    return figures(values, measure=measure, unit="MB/s", kind="within", better="", headline=False)


def test_warm_up_is_shown_with_and_without(tmp_path: Path) -> None:
    frame = pd.concat(
        [
            figures({"a": A, "b": [5.0]}),
            _within({"a": [8.0, 9.0, 10.0], "b": [7.0]}, "throughput of the main phase"),
            _within({"a": [9.0, 10.0]}, "throughput without warm-up"),
            _within({"a": [3.0, 5.0]}, "warm-up"),
            _within({"a": [100.0] * 3, "b": [30.0]}, "bins of the main phase"),
            _within({"x": [1.0]}, IN_SECOND_HALF).assign(configuration="a", task="a-r03", rep=3),
        ]
    )  # fmt: skip
    told = _section(make_data(tmp_path / "s", frame), "within_runs")
    assert "a 3 9.00 +-2.5 9.50 +-6.4 4.00 1 0" in told
    assert "b 1 7.00 - - 0 1" in told
    assert "b 1 7.00 - - 0 1 - [MB/s" in told  # its batches are not independent


def test_batch_means_of_a_single_run_have_an_interval(tmp_path: Path) -> None:
    frame = pd.concat(
        [
            figures({"b": [5.0]}),
            _within({"b": [7.0]}, "throughput of the main phase"),
            _within({"b": [20.0]}, "independent batches"),
            _within({"b": [0.5]}, "half-width over batches"),
        ]
    )
    told = _section(make_data(tmp_path / "s", frame), "within_runs")
    assert "b 1 7.00 - - 0 1 7.00 +-0.50 of 20" in told


def test_drift_has_a_banner_and_anchors_their_meaning(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    frame = figures({"a": [100.0] * 10, "b": [200.0] * 10, "c": [50.0] * 10})
    frame = frame.assign(value=frame.value * (1 - 0.01 * frame.order) * (1 + rng.normal(0, 0.01, 30)))
    row = FIGURE_COLUMNS | {"anchor": True, "configuration": "", "rep": 0, "block": 0}
    anchors = pd.DataFrame(
        [
            row | {"task": "anchor-first", "order": 0, "value": 10.0},
            row | {"task": "anchor-last", "order": 31, "value": 5.0},
        ]
    )
    data = make_data(tmp_path / "s", pd.concat([frame, anchors]))
    assert any("figures drift on box" in banner for banner in make_document(data).banners)
    told = _section(data, "order")
    assert (
        "the last anchor (transactions) is 50 % worse than the first, more than two runs differ by chance"
        in told
    )
    assert "10.0 /s 5.00 0.50" in told


def test_losses_are_listed_and_marked(tmp_path: Path) -> None:
    frame = pd.concat([figures({"a": A, "b": B}), _cause({"a": A, "b": B}, "seeks")])
    frame.loc[(frame.task == "a-r01") & (frame.kind == "cause"), "lossy"] = True
    data = make_data(tmp_path / "s", frame, losses={"a-r01": ("block: 5 lost of 10 seen",)})
    assert "a-r01 block: 5 lost of 10 seen" in _section(data, "losses")
    assert "seeks 100* 80.0 0.80!" in _section(data, "causes")
    assert any("events were lost in 1 run" in banner for banner in make_document(data).banners)


@pytest.fixture(scope="module")
def half_done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sweep in the middle: half of its runs, one failed, one broken, one running; two refused."""
    plan = sweep_json(
        [configuration(1, {"FS": "ext4"}), configuration(2, {"FS": "xfs"})],
        reps=3,
        state="running",
        refused=[
            {"part": "main", "subject": "btrfs", "label": "btrfs, JOURNAL=file", "words": {}, "axes": {},
             "why": "btrfs has no external journal", "kind": "option"},
        ],
        absent=[{"what": "28 CPUs", "why": "this machine has 2"}],
    )  # fmt: skip
    rates = {"anchor-first": 50.0, "c01-r01": 100.0, "c02-r01": 80.0, "c02-r02": None}
    path = write_sweep(tmp_path_factory.mktemp("half") / "s", plan, rates)
    broken = path / "runs/c02-r01/run.json"
    broken.write_text("{")
    (path / "runs/c01-r02/raw").mkdir(parents=True)
    (path / "runs/c01-r01.failed-1").mkdir()
    make_sweep_report(path)
    return path


def test_sweep_in_the_middle_is_reported(half_done: Path) -> None:
    told = " ".join((half_done / "sweep.txt").read_text().split())
    assert "the sweep is running: 1 of 6 planned runs are done" in told.replace(" !! ", " ")
    assert "best by transactions, /s (higher is better): ext4, 100 (1 run)" in told
    assert "c02-r02 xfs failed the disk is full" in told
    assert "c01-r02 ext4 running -" in told
    assert "c02-r01 xfs unreadable run.json" in told
    assert "c01-r01.failed-1 ext4 made again: failed -" in told
    assert "btrfs, JOURNAL=file option btrfs has no external journal" in told
    assert "28 CPUs this machine has 2" in told


def test_report_fits_a_mail_and_has_every_file(half_done: Path) -> None:
    assert max(map(len, (half_done / "sweep.txt").read_text().splitlines())) <= 80
    names = {path.name for path in half_done.iterdir() if path.is_file()}
    assert names >= {
        "sweep.txt",
        "sweep.html",
        "sweep.csv",
        "sweep.md",
        "figures.json",
        "sweep.png",
        "sweep.svg",
    }
    assert (half_done / "sweep.png").read_bytes().startswith(b"\x89PNG")
    page = (half_done / "sweep.html").read_text()
    assert "<script" not in page and not re.search(r"(?:src|href)=\"(?!data:|#)", page)


def test_every_section_is_there_or_says_why(tmp_path: Path) -> None:
    plan = sweep_json([configuration(1, {"FS": "ext4"})])
    path = write_sweep(tmp_path / "s", plan)
    make_sweep_report(path)
    told = (path / "sweep.txt").read_text()
    document = make_document(make_data(tmp_path / "t", no_figures(), [configuration(1, {"FS": "ext4"})]))
    keys = [section.key for section in document.sections]
    assert set(keys) == {spec.key for spec in find_sections()} - {"normalised"}  # only of several SCHED
    for section in document.sections:
        assert section.absent or section.facts or section.tables or section.notes, section.key
    assert "not available: no run is done yet" in told
    assert not (path / "sweep.png").exists()


def test_picture_of_an_earlier_report_is_removed(tmp_path: Path) -> None:
    path = write_sweep(tmp_path / "s", sweep_json([configuration(1, {"FS": "ext4"})]))
    (path / "sweep.png").write_bytes(b"old")
    make_sweep_report(path)
    assert not (path / "sweep.png").exists()


def test_csv_has_the_figures_of_the_text(tmp_path: Path) -> None:
    data = make_data(tmp_path / "s", figures({"a": A, "b": B}))
    rows = list(csv.DictReader(io.StringIO(as_csv(data))))
    assert tuple(rows[0]) == COLUMNS
    assert [row["configuration"] for row in rows] == ["a", "b"]
    assert float(rows[0]["half_width"]) == pytest.approx(4.968277)
    assert (rows[1]["reference"], float(rows[1]["ratio"]), rows[1]["differ"]) == ("a", 0.8, "1")
    assert rows[1]["values"] == "78 80 82"
    assert rows[0]["ratio"] == rows[0]["bootstrap_low"] == ""


def test_json_has_the_figures_of_the_text(tmp_path: Path) -> None:
    tree = json.loads(as_json(make_data(tmp_path / "s", figures({"a": A, "b": B}))))
    [group] = tree["groups"]
    assert (group["measure"], group["best"], group["better"]) == ("transactions", "a", "higher")
    first, second = group["configurations"]
    assert first["values"] == A and first["ratio"] is None
    assert second["ratio"] == pytest.approx(0.8) and second["differ"] is True
    assert (tree["done_runs"], tree["planned_runs"], tree["state"]) == (6, 6, "complete")


def test_infinite_figures_are_no_json_numbers(tmp_path: Path) -> None:
    frame = figures({"a": [0.0, 0.0], "b": [1.0, 2.0]}, better="lower")
    assert json.loads(as_json(make_data(tmp_path / "s", frame)))["groups"]


@pytest.mark.filterwarnings("ignore:overflow encountered")
def test_figures_that_overflow_are_reported(tmp_path: Path) -> None:
    huge = {"a": [1e308, -1e308, 1e308], "b": [5e-324, 0.0, 1.0], "c": [1e200, 1e200, 1e200]}
    frame = pd.concat([figures(huge), _cause(huge, "seeks"), figures(huge, measure="x", headline=False)])
    data = make_data(tmp_path / "s", frame, goal_pct=5.0)
    told = text.render(make_document(data))
    assert max(map(len, told.splitlines())) <= 80
    assert json.loads(as_json(data)) and as_csv(data)


HOSTILE = "<script>alert(1)</script> | `x` \\ *b* \x1b[31m \u202e 'q'"


def _hostile(tmp_path: Path) -> SweepData:
    plan = [
        configuration(1, {"FS": HOSTILE}, id="a", label=HOSTILE * 20, subject=HOSTILE, notes=[HOSTILE]),
        configuration(2, {"FS": "b"}, id="b", left_out={HOSTILE: HOSTILE}),
    ]
    frame = figures({"a": A, "b": B}, measure=HOSTILE[:30].replace("\x1b", ""), unit="/s")
    return make_data(tmp_path / "s", frame, plan, name=HOSTILE, command=HOSTILE)


def test_hostile_names_do_not_format(tmp_path: Path) -> None:
    document = make_document(_hostile(tmp_path))
    told = text.render(document)
    assert "\x1b" not in told and "\u202e" not in told
    assert max(map(len, told.splitlines())) <= 80
    written = markdown.render(document)
    assert "<script>" not in written and "\n| " in written
    assert not re.search(r"(?<!\\)<(?!/?sub>)", written)
    rows = [line for line in written.splitlines() if "alert" in line and line.startswith("|")]
    assert rows
    sizes = {len(re.findall(r"(?<!\\)\|", row)) for row in rows}
    assert sizes <= {3, 4, 5, 10}  # columns of the tables that name the configuration, and one


def test_pictures_of_hostile_names_are_drawn(tmp_path: Path) -> None:
    data = _hostile(tmp_path)
    for output in find_parts(sweep_figures, "OUTPUT", Output):
        made = output.make(SweepSource(data, clean(HOSTILE), [clean(HOSTILE)]))
        assert set(made.files) <= set(output.names)


def test_markdown_has_the_parts_of_a_document() -> None:
    section = Section(
        "T|x", facts=[("a", "b")], tables=[Table(("<l", "r"), [["1|2", "3"]])], notes=["n*"], definition="d"
    )
    written = markdown.render(
        Document("Title", ["banner"], [section, Section("S", absent="why")]), {"p.png": "cap"}
    )
    assert written == (
        "# Title\n\n> **banner**\n\n![cap](p.png)\n\n## T\\|x\n\n- a: b\n\n| l | r |\n| --- | --: |\n|"
        " 1\\|2 | 3 |\n\n- n\\*\n\n<sub>d</sub>\n\n## S\n\nNot available: why\n"
    )


@pytest.mark.parametrize(
    ("value", "half", "unit", "wanted"),
    [
        (120.4, 3.21, "/s", "120 +-3.2"),
        (4.1e9, 2e8, "B", "4.10 +-0.20 GB"),
        (1.5e6, 2e5, "ns", "1.50 +-0.20 ms"),
        (0.25, 0.01, "share", "25.0 +-1.0 %"),
        (2.5e6, 1e5, "/s", "2.50 +-0.10 M"),
        (0.0, 0.0, "s", "0 +-0"),
        (7.0, None, "s", "7.00"),
    ],
)
def test_mean_and_half_width_are_in_one_unit(
    value: float, half: float | None, unit: str, wanted: str
) -> None:
    assert show.with_half(value, half, unit) == wanted


def test_commands_have_their_exit_codes(half_done: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(half_done)]) == 0
    told = capsys.readouterr().out
    assert "ANSWER" in told and str(half_done / "sweep.txt") in told
    assert main(["report", "--locks=all", str(half_done)]) == 2
    assert main(["sweep-goal", str(half_done), "none"]) == 2
    assert main(["sweep-goal", str(half_done)]) == 2  # it has no goal of its own
    assert main(["sweep-goal", str(half_done / "runs"), "5"]) == 1
    capsys.readouterr()
    assert main(["sweep-goal", str(half_done), "5"]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "c01 ext4: n=1: at least 10 are looked at",
        "c02 xfs: no run is done",
    ]


def test_goal_that_is_reached_prints_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = make_data(tmp_path / "s", figures({"a": [100.0, 101.0] * 5}), goal_pct=5.0)
    monkeypatch.setattr("analysis.sweep.load_data", lambda path: data)
    assert sweep_goal(tmp_path / "s", "") == ("", 0)
    assert sweep_goal(tmp_path / "s", "0.1")[1] == 1
    with pytest.raises(OptionError):
        sweep_goal(tmp_path / "s", "nan")


def test_answer_says_why_rule_and_p_disagree(tmp_path: Path) -> None:
    near, far = [95.0, 95.1, 94.9], [100.0, 100.1, 99.9]
    told = _section(make_data(tmp_path / "s", figures({"a": far, "b": near})), "answer")
    assert "they differ, but by less than the rule's 10 %, p <0.001" in told
    wide = [[100.0, 140.0] * 5, [80.0, 120.0] * 5]
    told = _section(make_data(tmp_path / "t", figures(dict(zip("ab", wide, strict=True)))), "answer")
    assert "their intervals overlap: not told apart by the rule, p 0.04" in told


JUNK: list[Any] = [
    None,
    True,
    -1,
    1e308,
    10**40,
    "",
    "x" * 3000,
    "\x1b[0m",
    [],
    {},
    [1, [2]],
    {"a": {"b": []}},
    "c01",
]


def _spoilt(rng: random.Random, value: Any) -> Any:
    """The value with some of its parts left out, or replaced by others of any type."""
    if rng.random() < 0.03:
        return rng.choice(JUNK)
    if isinstance(value, dict):
        return {key: _spoilt(rng, part) for key, part in value.items() if rng.random() > 0.02}
    return [_spoilt(rng, part) for part in value] if isinstance(value, list) else value


@pytest.mark.parametrize("seed", range(30))
def test_spoilt_plan_and_markers_never_crash_the_report(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    frame = pd.concat([figures({"c01": A, "c02": B}), _cause({"c01": A, "c02": B}, "seeks")])
    plan = [configuration(1, {"FS": "ext4"}), configuration(2, {"FS": "xfs"})]
    data = make_data(tmp_path / "s", frame, plan, goal_pct=5.0, absent=[{"what": "a", "why": "b"}])
    for path in (data.sweep.path / "sweep.json", *data.sweep.path.glob("runs/*/task.json")):
        path.write_text(json.dumps(_spoilt(rng, json.loads(path.read_text()))))
    try:
        sweep = open_sweep(data.sweep.path)
    except ReportError:
        return
    done = [task.task for task in sweep.tasks if task.outcome == "done"]
    known = frame[frame.task.isin(done) & frame.configuration.isin([one.id for one in sweep.configurations])]
    spoilt = SweepData(sweep, known, {}, make_groups(sweep.configurations, known), {})
    told = text.render(make_document(spoilt))
    assert max(map(len, told.splitlines())) <= 80
    assert json.loads(as_json(spoilt)) and as_csv(spoilt)


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    path = write_sweep(tmp_path / "s", sweep_json([configuration(1, {"FS": "ext4"})]), {"c01-r01": 100.0})
    (tmp_path / "elsewhere").mkdir()
    (path / "tables").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "text").write_text("mine")
    (path / "sweep.txt").symlink_to(tmp_path / "text")
    make_sweep_report(path)
    assert list((tmp_path / "elsewhere").iterdir()) == []
    assert (tmp_path / "text").read_text() == "mine"
    assert "ext4, 100 (1 run)" in (path / "sweep.txt").read_text()
