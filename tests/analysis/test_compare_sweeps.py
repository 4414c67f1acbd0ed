# SPDX-License-Identifier: BSD-2-Clause
"""Sweeps as sides: which configurations and machines stand beside each other, and what gets no verdict."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from analysis.measures.compare.compared_sweeps import ComparedSweeps, match
from analysis.measures.compare.sweep_machines import ComparedSweep
from analysis.measures.compare.verdicts import CANNOT_TELL, NO_WORSE, WORSE, Verdicts, judge
from analysis.measures.sweep.data import SweepData, make_groups
from analysis.render.text import render
from analysis.rundir.sweep_dir import open_sweep
from analysis.sections.compare.sweeps_document import make_sweeps_document
from tests.analysis.sweeps import configuration, figures, marker, sweep_json, write_sweep
from tests.analysis.test_compare import compare

ROOT = Path(__file__).parents[2]
BOX = {"hostname": "box", "kernel": "6.1", "cpus": 2, "memory_bytes": 8 << 30, "cpu_model": "CPU"}
NOISE = (-1, 0, 1, 0.5, -0.5)  # percent


def about(mean: float) -> list[float]:
    return [mean * (1 + one / 100) for one in NOISE]


def sweep(
    folder: Path,
    letter: str,
    words: Sequence[Mapping[str, str]],
    means: Sequence[float],
    frame: pd.DataFrame | None = None,
    **plan: Any,
) -> ComparedSweep:
    """A sweep directory with a plan, and figures of a metric (transactions/s) around these means."""
    configurations = [configuration(i, one) for i, one in enumerate(words, 1)]
    folder.mkdir(exist_ok=True)
    path = folder / letter
    path.mkdir()
    (path / "sweep.json").write_text(json.dumps(sweep_json(configurations, **plan)))
    named = {one["id"]: about(mean) for one, mean in zip(configurations, means, strict=False)}
    return compared(letter, path, figures(named) if frame is None else frame)


def compared(
    letter: str, path: Path, frame: pd.DataFrame, unreadable: Mapping[str, str] | None = None
) -> ComparedSweep:
    """The sweep of a directory with these figures."""
    plan = open_sweep(path)
    groups = make_groups(plan.configurations, frame)
    return ComparedSweep(letter, SweepData(plan, frame, unreadable or {}, groups, {}))


def anchors(value: float, machine: str = "m1", n: int = 2) -> pd.DataFrame:
    return figures({"anchor": [value] * n}, anchor=True, configuration="", machine=machine)


def judged(*sweeps: ComparedSweep) -> tuple[ComparedSweeps, Verdicts, str]:
    """The match, the verdicts, and the text in one line."""
    matched = match(sweeps)
    verdicts = judge(matched.pairs)
    text = render(make_sweeps_document(matched, verdicts))
    assert max(map(len, text.splitlines())) <= 80
    return matched, verdicts, " ".join(text.replace("!! ", "").split())


def headlines(verdicts: Verdicts) -> dict[str, str]:
    return {one.pair.where: one.word for one in verdicts.verdicts if one.figure.is_headline}


def kernels(folder: Path, first: Sequence[float], other: Sequence[float], **plan: Any) -> list[ComparedSweep]:
    """Sweeps of ext4 and xfs on two kernels."""
    return [
        sweep(folder, letter, [{"FS": fs, "KERNEL": kernel} for fs in ("ext4", "xfs")], means, **plan)
        for letter, kernel, means in (("A", "6.1", first), ("B", "6.12", other))
    ]


def test_two_kernels_are_compared_configuration_by_configuration(tmp_path: Path) -> None:
    matched, verdicts, text = judged(*kernels(tmp_path, (100, 200), (99.8, 150)))
    assert matched.differing == {"KERNEL": ["6.1", "6.12"]} and not matched.left_out
    assert headlines(verdicts) == {"ext4, 6.1": "no difference seen", "xfs, 6.1": "worse"}
    assert verdicts.overall == WORSE and "1 of 2 headline figures; transactions (xfs, 6.1)" in verdicts.why
    assert "KERNEL A 6.1 B 6.12" in text and "every configuration is in all sweeps" in text


def test_two_dates_of_one_sweep_are_no_worse(tmp_path: Path) -> None:
    words = [{"FS": fs, "THREADS": n} for fs in ("ext4", "xfs") for n in ("1", "8")]
    sweeps = [sweep(tmp_path, letter, words, (10, 20, 30, 40)) for letter in "AB"]
    matched, verdicts, text = judged(*sweeps)
    assert len(matched.pairs) == 4 and not matched.differing and verdicts.overall == NO_WORSE
    assert "only the time differs" in text


def test_three_sweeps_are_each_compared_with_the_first(tmp_path: Path) -> None:
    sweeps = [
        sweep(tmp_path, letter, [{"FS": "ext4"}], (m,))
        for letter, m in zip("ABC", (100, 130, 70), strict=True)
    ]
    _, verdicts, _ = judged(*sweeps)
    assert [(one.pair.first, one.pair.other, one.word) for one in verdicts.verdicts] == [
        ("A", "B", "better"), ("A", "C", "worse"),
    ]  # fmt: skip


def test_unmatched_configurations_are_listed_with_the_reason(tmp_path: Path) -> None:
    refused = {
        "part": "main",
        "subject": "jfs",
        "words": {},
        "axes": {},
        "why": "no jfs here",
        "kind": "machine",
    }
    a = sweep(tmp_path, "A", [{"FS": "ext4"}, {"FS": "jfs"}, {"FS": "xfs"}], (1, 2, 3))
    b = sweep(tmp_path, "B", [{"FS": "xfs"}, {"FS": "btrfs"}, {"FS": "ext4"}], (3, 2, 1), refused=[refused])
    matched, verdicts, text = judged(a, b)
    assert set(headlines(verdicts)) == {"ext4", "xfs"} and verdicts.overall == NO_WORSE
    assert set(matched.left_out) == {
        ("A", "jfs", "not in sweep B"),
        ("B", "btrfs", "not in sweep A"),
        ("B", "jfs", "refused: no jfs here"),
    }
    assert "B jfs refused: no jfs here" in text


def test_other_work_is_never_matched(tmp_path: Path) -> None:
    """WL, SCALE and the like differ: nothing is compared, however constant they are."""
    for i, word in enumerate(("WL", "SCALE", "ARGS", "CMD")):
        a = sweep(tmp_path / str(i), "A", [{"FS": "ext4", word: "one"}], (1,))
        b = sweep(tmp_path / str(i), "B", [{"FS": "ext4", word: "two"}], (1,))
        matched, verdicts, _ = judged(a, b)
        assert not matched.pairs and len(matched.left_out) == 2 and verdicts.overall == CANNOT_TELL


def test_file_systems_may_be_what_differs(tmp_path: Path) -> None:
    a = sweep(tmp_path, "A", [{"FS": "ext4", "THREADS": n} for n in "18"], (10, 20))
    b = sweep(tmp_path, "B", [{"FS": "xfs", "THREADS": n} for n in "18"], (10, 40))
    matched, verdicts, _ = judged(a, b)
    assert matched.differing == {"FS": ["ext4", "xfs"]}
    assert headlines(verdicts) == {"ext4, 1": "no difference seen", "ext4, 8": "better"}


def test_traced_and_untraced_runs_are_apart(tmp_path: Path) -> None:
    sweeps = kernels(tmp_path, (100, 200), (100, 200))
    plan = sweeps[1].sweep.facts | {"configurations": [
        one | {"traced": False} for one in sweeps[1].sweep.facts["configurations"]
    ]}  # fmt: skip
    (sweeps[1].sweep.path / "sweep.json").write_text(json.dumps(plan))
    other = compared("B", sweeps[1].sweep.path, sweeps[1].frame)
    assert not match([sweeps[0], other]).pairs


def test_other_machines_are_said_loudly_with_the_anchors(tmp_path: Path) -> None:
    a, b = kernels(tmp_path, (100, 200), (100, 200))
    a = compared("A", a.sweep.path, pd.concat([a.frame, anchors(50)]))
    plan = b.sweep.facts | {"machines": {"m1": BOX | {"hostname": "other"}}}
    (b.sweep.path / "sweep.json").write_text(json.dumps(plan))
    b = compared("B", b.sweep.path, pd.concat([b.frame, anchors(40)]))
    matched, verdicts, text = judged(a, b)
    (pair,) = matched.machines
    assert not pair.is_same and pair.anchors is not None and pair.anchors.ratio == pytest.approx(0.8)
    assert "B ran on another machine than A: any difference may be the machine's" in text
    assert "OTHER MACHINES; anchor transactions, /s: 50.0 +-0 and 40.0 +-0, ratio 0.80" in text
    assert all(one.difference is not None and one.difference.first.n == 5 for one in verdicts.verdicts)


def test_kernels_that_count_memory_otherwise_are_one_machine(tmp_path: Path) -> None:
    a = sweep(tmp_path, "A", [{"FS": "ext4"}], (1,), machines={"m1": BOX})
    same = BOX | {"kernel": "6.12", "memory_bytes": int((8 << 30) * 0.98)}
    b = sweep(tmp_path, "B", [{"FS": "ext4"}], (1,), machines={"m1": same})
    assert [pair.is_same for pair in match([a, b]).machines] == [True]


def test_machines_are_never_averaged(tmp_path: Path) -> None:
    """Of two machines a sweep, each is compared with itself, whatever its name in the other sweep."""
    big = BOX | {"hostname": "big", "cpus": 64}
    frames = [
        pd.concat([figures({"c01": about(m1)}, machine="m1"), figures({"c01": about(m2)}, machine="m2")])
        for m1, m2 in ((100, 1000), (1000, 80))
    ]
    a = sweep(tmp_path, "A", [{"FS": "ext4"}], (), frames[0], machines={"m1": BOX, "m2": big})
    b = sweep(tmp_path, "B", [{"FS": "ext4"}], (), frames[1], machines={"m1": big, "m2": BOX})
    matched, verdicts, text = judged(a, b)
    assert headlines(verdicts) == {"ext4, on box": "worse", "ext4, on big": "no difference seen"}
    differences = [one.difference for one in verdicts.verdicts if one.difference is not None]
    assert [one.first.value for one in differences] == pytest.approx([100, 1000])
    assert [one.other.value for one in differences] == pytest.approx([80, 1000])
    assert all(pair.is_same for pair in matched.machines) and "another machine" not in text
    alone = compared("B", b.sweep.path, b.frame[b.frame["machine"] == "m2"])
    assert match([a, alone]).left_out == [("A", "all, on big", "sweep B has no run on this machine")]


def only_why(*sweeps: ComparedSweep) -> str:
    """The reason why the only headline gets no verdict."""
    verdicts = judge(match(sweeps).pairs)
    (one,) = [one for one in verdicts.verdicts if one.figure.is_headline]
    assert one.word == CANNOT_TELL and verdicts.overall == CANNOT_TELL
    return one.why


def one_each(folder: Path, **columns: Any) -> list[ComparedSweep]:
    """Two sweeps of one configuration; columns: of the other sweep's figures."""
    a = sweep(folder, "A", [{"FS": "ext4"}], (100,))
    b = sweep(folder, "B", [{"FS": "ext4"}], (), figures({"c01": about(50)}, **columns))
    return [a, b]


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        ({"virtual": True}, "times in a virtual machine against times outside"),
        ({"bound": True}, "a lower bound"),
        ({"lossy": True}, "events were lost"),
        ({"anchor": True}, "not measured on the other side"),
        ({"machine": "m2"}, "not measured on the other side"),
        ({"measure": "other"}, None),
    ],
)
def test_figures_that_cannot_be_judged_say_why(
    tmp_path: Path, columns: dict[str, Any], why: str | None
) -> None:
    sweeps = one_each(tmp_path, **columns)
    if why is None:
        assert judge(match(sweeps).pairs).overall == CANNOT_TELL
    elif columns.get("machine") == "m2":  # another machine, which the plan does not name
        assert judge(match(sweeps).pairs).overall == WORSE and not match(sweeps).machines[0].is_same
    else:
        assert only_why(*sweeps) == why


def test_sizes_in_a_virtual_machine_are_compared(tmp_path: Path) -> None:
    a, b = one_each(tmp_path, virtual=True, unit="B", better="lower")
    a = compared("A", a.sweep.path, a.frame.assign(unit="B", better="lower"))
    assert judge(match([a, b]).pairs).overall == NO_WORSE


def test_several_kernels_in_one_side_give_no_verdict(tmp_path: Path) -> None:
    a, b = one_each(tmp_path)
    b.frame.loc[b.frame["rep"] > 2, "kernel"] = "6.19"
    assert only_why(a, b) == "runs of one side were made on several kernels (6.18.1, 6.19)"


def test_failed_runs_let_no_gate_pass(tmp_path: Path) -> None:
    a, b = one_each(tmp_path)
    failed = b.sweep.path / "runs/c01-r02"
    failed.mkdir(parents=True)
    (failed / "task.json").write_text(json.dumps(marker("c01-r02", 2, outcome="failed", why="disk full")))
    b = compared("B", b.sweep.path, a.frame)
    assert only_why(a, b) == "1 of 1 runs failed or can't be read in sweep B"


def test_planned_configuration_without_a_run_lets_no_gate_pass(tmp_path: Path) -> None:
    words = [{"FS": "ext4"}, {"FS": "xfs"}, {"FS": "jfs"}]
    a = sweep(tmp_path, "A", words, (1, 2))
    b = sweep(tmp_path, "B", words, (1,), state="interrupted")
    matched, verdicts, text = judged(a, b)
    assert headlines(verdicts) == {"ext4": "no difference seen", "xfs": CANNOT_TELL}
    assert (
        verdicts.overall == CANNOT_TELL
        and "B: the sweep is interrupted: 0 of 9 planned runs are done" in text
    )
    assert matched.left_out == [("A+B", "jfs", "no run of it is done")]
    matched, verdicts, _ = judged(a, compared("B", b.sweep.path, b.frame[:0]))
    assert not matched.pairs and verdicts.overall == CANNOT_TELL
    assert matched.left_out[0] == ("B", "ext4", "no run of it is done")


def test_causes_stand_beside_worse_figures(tmp_path: Path) -> None:
    a, b = one_each(tmp_path)
    more: dict[str, Any] = {"measure": "seeks", "unit": "", "kind": "cause", "better": "", "headline": False}
    a = compared("A", a.sweep.path, pd.concat([a.frame, figures({"c01": about(1000)}, **more)]))
    b = compared("B", b.sweep.path, pd.concat([b.frame, figures({"c01": about(9000)}, **more)]))
    _, verdicts, text = judged(a, b)
    assert verdicts.overall == WORSE and len(verdicts.verdicts) == 1
    assert "beside the worse ext4, transactions (B) differs most: seeks 1,000 to 9,000" in text


def test_drift_of_a_sweep_is_said(tmp_path: Path) -> None:
    words = [{"FS": fs} for fs in ("ext4", "xfs", "jfs")]
    a = sweep(tmp_path, "A", words, (1, 2, 3))
    drifting = figures({f"c0{i}": [100 - 3 * block for block in range(5)] for i in (1, 2, 3)})
    drifting["value"] -= drifting["order"] * 0.5
    b = sweep(tmp_path, "B", words, (), drifting)
    for task, order in zip(drifting["task"], drifting["order"], strict=True):
        run = b.sweep.path / "runs" / task
        run.mkdir(parents=True)
        (run / "task.json").write_text(json.dumps(marker(task, order)))
    _, _, text = judged(a, compared("B", b.sweep.path, drifting))
    assert "B: figures drift on box" in text and "A: figures drift" not in text


def test_figures_within_a_run_get_no_verdict(tmp_path: Path) -> None:
    a, b = one_each(tmp_path, kind="within", headline=False)
    assert not any(one.figure.kind == "within" for one in judge(match([a, b]).pairs).verdicts)


# --- the command -----------------------------------------------------------------------------------


def directory(folder: Path, name: str, kernel: str, means: Mapping[str, float], reps: int = 4) -> Path:
    """A sweep directory of whole runs."""
    plan = sweep_json([configuration(i, {"FS": fs, "KERNEL": kernel}) for i, fs in enumerate(means, 1)])
    rates: dict[str, float | None] = {"anchor-first": 50.0}
    for rep in range(1, reps + 1):
        for i, mean in enumerate(means.values(), 1):
            rates[f"c{i:02}-r{rep:02}"] = mean * (1 + NOISE[rep - 1] / 100)
    return write_sweep(folder / name, plan, rates | {"anchor-last": 50.5})


def test_command_exits_with_the_verdict_on_sweeps(tmp_path: Path) -> None:
    """As a CI job starts it: a process of its own; the reader of its output may have ended."""
    sweeps = [
        str(directory(tmp_path, "a", "6.1", {"ext4": 100, "xfs": 200}, 2)),
        str(directory(tmp_path, "b", "6.12", {"ext4": 100, "xfs": 20}, 2)),
    ]
    out = tmp_path / "out"
    command = [sys.executable, "-m", "analysis", "compare", f"--out={out}", "--gate=1", *sweeps]
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as closed:
        done = subprocess.run(command, cwd=ROOT, stdout=closed, stderr=subprocess.PIPE, check=False)
    assert (done.returncode, done.stderr) == (1, b"")
    names = {path.name for path in out.iterdir()} - {"compare_full.txt"}
    pictures = {"verdicts.png", "verdicts.svg"}
    assert names == {"compare.txt", "compare.html", "compare.csv", "compare.json", *pictures}
    about = json.loads((out / "compare.json").read_text())
    assert about["schema"] == 3 and about["runs"] == [] and about["differing"] == {"KERNEL": ["6.1", "6.12"]}
    assert [one["letter"] for one in about["sweeps"]] == ["A", "B"]
    assert about["machines"][0] == {
        "first": "box", "sweep": "B", "other": "box", "same": True, "anchor_ratio": pytest.approx(1.0),
    }  # fmt: skip
    assert about["verdict"]["overall"] == "worse" and about["not_compared"] == []
    worse = [one["where"] for one in about["verdicts"] if one["verdict"] == "worse" and one["headline"]]
    assert worse == ["xfs, 6.1"]


@pytest.mark.parametrize(
    ("names", "says"),
    [
        (["a"], "a is one sweep; `make report RUN=a` shows its configurations side by side"),
        (["a", "run"], "a is a sweep and run is none; compare sweeps with sweeps, or runs with runs"),
        (["run", "a"], "a is a sweep and run is none"),
        (["a", "./a"], "are the same run"),
    ],
)
def test_wrong_sides_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: list[str], says: str
) -> None:
    directory(tmp_path, "a", "6.1", {"ext4": 1}, 1)
    (tmp_path / "run").mkdir()
    monkeypatch.chdir(tmp_path)
    done = compare("--gate=1", *names)
    assert done.returncode == 2 and says in done.stderr and not (tmp_path / "runs").exists()


@pytest.mark.usefixtures("words_only")
@pytest.mark.parametrize(
    "spoilt", ["nonsense", "[]", '{"kind": "sweep"}', '{"kind": "run"}', '{"kind": "sweep", "machines": 7}']
)
def test_broken_sweeps_are_no_traceback(tmp_path: Path, spoilt: str) -> None:
    good = directory(tmp_path, "a", "6.1", {"ext4": 1}, 1)
    (tmp_path / "b").mkdir()
    (tmp_path / "b/sweep.json").write_text(spoilt)
    for order in [(tmp_path / "b", good)] + [(good, tmp_path / "b")] * (spoilt == "nonsense"):
        done = compare("--gate=1", f"--out={tmp_path / order[0].name}-out", *order)
        assert done.returncode in (1, 3) and "Traceback" not in done.stderr


@pytest.mark.usefixtures("words_only")
def test_hostile_names_are_escaped(tmp_path: Path) -> None:
    evil = "<script>alert(1)</script>\x1b[31m\n=cmd()" + "z" * 300
    sweeps = []
    for name in ("a", "b"):
        path = directory(tmp_path, name, "6.1", {evil: 100.0}, 2)
        plan = json.loads((path / "sweep.json").read_text())
        plan |= {"name": evil, "command": evil}
        plan["machines"]["m1"]["hostname"] = evil + name
        (path / "sweep.json").write_text(json.dumps(plan))
        sweeps.append(path)
    done = compare(f"--out={tmp_path / 'out'}", *sweeps)
    assert done.returncode == 0 and "\x1b" not in done.stdout
    page = (tmp_path / "out/compare.html").read_text()
    assert "<script>" not in page and "&lt;script&gt;" in page
    assert max(map(len, (tmp_path / "out/compare.txt").read_text().splitlines())) <= 80
