# SPDX-License-Identifier: BSD-2-Clause
"""Every finding says what would take its cause away, or why nothing can; so does a run of no repetition."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from analysis import findings as folder
from analysis.answer import findings_json
from analysis.findings import remedies
from analysis.findings.finding import Cost, Remedy
from analysis.findings.prediction import bounded
from analysis.findings.rule import Case, Rule, find_all
from tests.analysis.cpu_cases import case_of as cpu_case
from tests.analysis.cpu_cases import on_cpu, path_of, share, spec_of
from tests.analysis.test_findings import GOOD

RULES = sorted(Path(folder.__file__).parent.glob("*.py"))


def case_of(path: Path, **facts: Any) -> Case:
    """A run of 6 s with these facts in run.json."""
    spec = spec_of(on_cpu(1, 6000))
    spec.run |= {"state": "complete", "exit_status": 0} | facts
    return cpu_case(path, spec, path_of([share(6.0)]))


def findings_of(case: Case) -> Sequence[Any]:
    """GOOD, as the report has it."""
    return find_all([Rule("commit", 1, "", (), lambda _: [GOOD])], case).findings


@pytest.mark.parametrize("module", RULES, ids=lambda path: path.stem)
def test_each_rule_says_why_there_is_no_remedy(module: Path) -> None:
    calls = [node for node in ast.walk(ast.parse(module.read_text())) if isinstance(node, ast.Call)]
    made = [node for node in calls if isinstance(node.func, ast.Name) and node.func.id == "Finding"]
    assert all("no_remedy" in [keyword.arg for keyword in node.keywords] for node in made)


def test_run_that_can_be_repeated_keeps_its_remedy(tmp_path: Path) -> None:
    (finding,) = findings_of(case_of(tmp_path / "r"))
    assert finding.remedy == GOOD.remedy


def test_command_on_another_disk_drops_the_drives_words(tmp_path: Path) -> None:
    words = {"FS": "ext4", "DISK": "hdd", "TIME": "10", "CRASH_AT": "5"}
    case = case_of(tmp_path / "r", words=words)
    assert set(case.command().split()[2:]) == {f"{name}={text}" for name, text in words.items()}
    assert set(case.command(DISK="ram").split()[2:]) == {"FS=ext4", "DISK=ram"}


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        ({"words": {"DIR": "/srv", "CMD": "true"}}, "DIR="),
        ({"words": {"DEV": "sda"}}, "what others did"),
        ({"words": None}, "what others did"),
        ({"imported": {"format": "blktrace"}}, "imported"),
        ({"exit_status": 1}, "did not end in order"),
        ({"state": "interrupted"}, "did not end in order"),
        ({"workload": {"timed": True}}, "a clock or its own results"),
        ({"workload": {"argv": ["sh", "-c", "fio --time_based x"]}}, "a clock or its own results"),
        ({"workload": {"argv": ["/usr/bin/dbench", "5"]}}, "a clock or its own results"),
    ],
)
def test_run_that_cannot_be_repeated_predicts_nothing(
    tmp_path: Path, facts: dict[str, Any], why: str
) -> None:
    (finding,) = findings_of(case_of(tmp_path / "r", **facts))
    assert finding.remedy is None and why in finding.no_remedy
    assert finding.test.startswith("with a journal of 1 GB: ")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ({}, {"DISK": "ram"}),
        ({"DISK": "file file"}, None),
        ({"DISK": "file", "JOURNAL": "file"}, {"DISK": "ram", "JOURNAL": "ram"}),
        ({"DISK": "ram"}, None),
        ({"DISK": "/dev/sdb"}, None),
        ({"JOURNAL": "/dev/sdb"}, None),
    ],
)
def test_ram_disk_replaces_disk_files_alone(
    tmp_path: Path, words: dict[str, str], expected: dict[str, str] | None
) -> None:
    case = case_of(tmp_path / "r", words={"FS": "ext4"} | words)
    assert remedies.ram_words(case) == expected
    assert remedies.why_no_ram(case)


@pytest.mark.parametrize(
    ("workload", "cost_s", "saved_s"),
    [
        ({"threads": 2}, 7.0, 4.0),  # two threads of 3 s each, but for the lock
        ({"threads": 2}, 4.0, None),  # 12 s alone
        ({"threads": 8}, 9.5, 6.0),
        ({"threads": 1}, 7.0, None),
        ({"threads": 2, "argv": ["fio", "--numjobs=2"]}, 7.0, None),
        ({}, 7.0, None),
    ],
)
def test_one_thread_is_a_remedy_where_it_is_predicted_to_be_faster(
    tmp_path: Path, workload: dict[str, Any], cost_s: float, saved_s: float | None
) -> None:
    case = case_of(tmp_path / "r", workload=workload)
    cost = Cost(cost_s, cost_s, cost_s)
    found = remedies.one_thread(case, cost)
    assert (None if found is None else found.saved.value_s) == pytest.approx(saved_s)
    assert found is None or found.words == {"THREADS": "1"}
    assert remedies.why_not_one_thread(case, cost)


@pytest.mark.parametrize(
    ("mount", "expected"),
    [
        ("noatime,compress=zstd:3", "noatime"),
        ("compress", ""),
        ("compress-force=lzo", ""),
        ("noatime", None),
        ("", None),
    ],
)
def test_mount_options_are_left_out_by_name(tmp_path: Path, mount: str, expected: str | None) -> None:
    case = case_of(tmp_path / "r", words={"FS": "btrfs", "MOUNT": mount})
    found = remedies.without_options(case, ("compress",), Cost(1.0, 1.0, 1.0))
    assert (None if found is None else found.words["MOUNT"]) == expected


@pytest.mark.parametrize(
    ("facts", "saved_s"),
    [
        ({"machine": {"cpus": 1}}, 4.0),  # 6 of the 10 s are on one CPU
        ({"machine": {"cpus": 2}}, 7.0),
        ({"machine": {"cpus": 2}, "workload": {"cpus": [1]}}, 4.0),
        ({"machine": {}}, 9.0),
    ],
)
def test_remedy_saves_no_cpu_time_of_the_workload(
    tmp_path: Path, facts: dict[str, Any], saved_s: float
) -> None:
    case = case_of(tmp_path / "r", **facts)
    remedy = Remedy({"MKFS": "-J size=1024"}, "a journal of 1 GB", Cost(9.0, 0.0, 9.5))
    found = bounded(remedy, case.run, case.results.threads, 10.0)
    assert found.saved.value_s == pytest.approx(saved_s)
    assert found.saved.high_s == pytest.approx(9.5 if saved_s == 9.0 else saved_s)
    assert ("full" in found.text) == (saved_s < 9.0)
    more_cpus = replace(remedy, words={"CPUS": ""})
    assert bounded(more_cpus, case.run, case.results.threads, 10.0) == more_cpus
    locks = bounded(replace(remedy, saved=Cost(1.0, 0.0, 2.0)), case.run, None, 10.0, locks_s=3.0)
    assert (locks.saved.value_s, locks.saved.high_s) == (1.0, 5.0)


def test_remedy_is_json_and_the_reason_of_none_too(tmp_path: Path) -> None:
    case = case_of(tmp_path / "r")
    found = find_all([Rule("commit", 1, "", (), lambda _: [GOOD])], case)
    assert b'"no_remedy": ""' in findings_json.encoded(case, found)
    none = replace(GOOD, remedy=None, no_remedy="it froze 1 time", test="make x")
    found = find_all([Rule("commit", 1, "", (), lambda _: [none])], case)
    assert b'"no_remedy": "it froze 1 time"' in findings_json.encoded(case, found)
