# SPDX-License-Identifier: BSD-2-Clause
"""Sweep directories opened: whole, half done, spoilt and hostile."""

import json
from pathlib import Path
from typing import Any

import pytest

from analysis.errors import OptionError, ReportError
from analysis.rundir.sweep_dir import is_sweep, open_sweep
from tests.analysis.sweeps import configuration, marker, sweep_json, write_sweep

PLAN = sweep_json([configuration(1, {"FS": "ext4"}), configuration(2, {"FS": "xfs"})])


def _write(path: Path, plan: Any, tasks: dict[str, Any]) -> Path:
    path.mkdir()
    (path / "sweep.json").write_text(plan if isinstance(plan, str) else json.dumps(plan))
    for name, text in tasks.items():
        (path / "runs" / name).mkdir(parents=True)
        if text is not None:
            (path / "runs" / name / "task.json").write_text(
                text if isinstance(text, str) else json.dumps(text)
            )
    return path


def test_open_sweep_reads_plan_and_tasks(tmp_path: Path) -> None:
    rates = {"anchor-first": 50.0, "c02-r01": 80.0, "c01-r01": 100.0, "c01-r02": None}
    path = write_sweep(tmp_path / "s", PLAN, rates)
    sweep = open_sweep(path)
    assert is_sweep(path) and not is_sweep(path / "runs") and not is_sweep(Path("\0"))
    assert [one.label for one in sweep.configurations] == ["ext4", "xfs"]
    assert [(task.task, task.order, task.outcome) for task in sweep.tasks] == [
        ("anchor-first", 1, "done"),
        ("c02-r01", 2, "done"),
        ("c01-r01", 3, "done"),
        ("c01-r02", 4, "failed"),
    ]
    assert sweep.tasks[0].is_anchor and sweep.tasks[0].configuration is None
    assert sweep.tasks[1].configuration == sweep.configurations[1]
    assert sweep.tasks[3].why == "the disk is full"
    assert sweep.configurations[0].reps == 3
    assert sweep.machines["m1"].cpus == 2
    assert sweep.missing == []


def test_open_sweep_keeps_earlier_attempts_apart(tmp_path: Path) -> None:
    done = marker("c01-r01", 1)
    path = _write(
        tmp_path / "s",
        {**PLAN, "state": "interrupted"},
        {"c01-r01": done, "c01-r01.failed-1": done, "c02-r01.interrupted-2": None, "c02-r01": None},
    )
    sweep = open_sweep(path)
    assert {(task.task, task.outcome) for task in sweep.tasks} == {
        ("c01-r01", "done"),
        ("c02-r01", "interrupted"),
    }
    assert {(task.task, task.outcome, task.attempt) for task in sweep.earlier} == {
        ("c01-r01", "failed", 1),
        ("c02-r01", "interrupted", 2),
    }


def test_open_sweep_says_running_while_the_sweep_runs(tmp_path: Path) -> None:
    path = _write(tmp_path / "s", {**PLAN, "state": "running"}, {"c01-r01": None})
    assert [task.outcome for task in open_sweep(path).tasks] == ["running"]


@pytest.mark.parametrize("text", ["", "{", "[]", "[" * 100_000, '{"kind": "run"}', '{"kind": NaN}', "\0"])
def test_broken_plan_is_an_error(tmp_path: Path, text: str) -> None:
    with pytest.raises(ReportError):
        open_sweep(_write(tmp_path / "s", text, {}))


def test_missing_directory_is_a_wrong_option(tmp_path: Path) -> None:
    with pytest.raises(OptionError):
        open_sweep(tmp_path / "none")


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "{}", "[" * 50_000, "x" * 100_000, json.dumps(marker("c01-r02", 1)),
        json.dumps(marker("c01-r01", 1, outcome="well")),
        json.dumps(marker("c01-r01", 1, configuration="c99")),
        json.dumps(marker("c01-r01", 1, configuration=["c01"])),
    ],
)  # fmt: skip
def test_broken_marker_makes_its_task_unreadable(tmp_path: Path, text: str) -> None:
    [task] = open_sweep(_write(tmp_path / "s", PLAN, {"c01-r01": text})).tasks
    assert task.outcome == "unreadable" and task.why


def test_marker_that_is_no_file_makes_its_task_unreadable(tmp_path: Path) -> None:
    path = _write(tmp_path / "s", PLAN, {"c01-r01": None, "c02-r01": None})
    (path / "runs/c01-r01/task.json").symlink_to("/etc/passwd")
    (path / "runs/c02-r01/task.json").mkdir()
    assert [task.outcome for task in open_sweep(path).tasks] == ["unreadable", "unreadable"]


def test_name_without_marker_states_repetition_and_machine(tmp_path: Path) -> None:
    [task] = open_sweep(_write(tmp_path / "s", PLAN, {"c02-r03-m2": None})).tasks
    assert (task.configuration, task.rep, task.machine) == (
        open_sweep(tmp_path / "s").configurations[1],
        3,
        "m2",
    )


def test_links_and_strange_names_in_runs_are_left_out(tmp_path: Path) -> None:
    path = _write(tmp_path / "s", PLAN, {"c01-r01": marker("c01-r01", 1), "strange name": None})
    (path / "runs/c02-r01").symlink_to(path / "runs/c01-r01")
    assert [task.task for task in open_sweep(path).tasks] == ["c01-r01"]


def test_hostile_plan_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    plan = {
        "schema": 9, "kind": "sweep", "name": "\x1b[31m" + "n" * 5000, "state": {"a": 1}, "reps": 1e308,
        "axes": "FS", "parts": 3, "machines": [], "study": "x", "absent": [1, {"what": None}],
        "refused": [{"why": ["x"]}, None],
        "configurations": [
            {"id": "../up"}, {"id": "c01", "words": ["FS"], "label": 7}, {"id": "c01"}, {"id": 5},
            {"id": "c02", "words": {"FS": {}, "WL": "\x07"}, "traced": "no", "virtual": 1},
        ],
    }  # fmt: skip
    sweep = open_sweep(_write(tmp_path / "s", plan, {"c01-r01": marker("c01-r01", 1)}))
    assert "\x1b" not in sweep.name and len(sweep.name) < 200
    assert [one.id for one in sweep.configurations] == ["c01", "5", "c02"]
    assert sweep.configurations[2].words == {"WL": "\\x07"}
    assert not sweep.configurations[2].virtual
    assert any("schema" in sentence for sentence in sweep.missing)
    assert any("parts is no list" in sentence for sentence in sweep.missing)
    assert sweep.study is None and sweep.machines == {}
