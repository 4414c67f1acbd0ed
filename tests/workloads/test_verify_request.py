# SPDX-License-Identifier: BSD-2-Clause
"""What make verify asks for: the words of both runs of a pair, and what no remedy may change."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

import pytest

from collectors.collector import choices
from workloads.machines.kernels import Kernel
from workloads.sweep import document
from workloads.sweep.format import format_sweep
from workloads.sweep.from_finding import REMEDIES, Recorded, finding_number, finding_request
from workloads.sweep.planner import Planner
from workloads.sweep.request import Request
from workloads.sweep.sweep_plan import SweepPlan
from workloads.system.errors import MachineError, OptionError

RECORDED = Recorded(
    run="/runs/a",
    words={"FS": "ext4", "WL": "filemark", "SCALE": "quick", "OUT": "runs/a", "COLLECT": "block calls"},
    seconds=20.0,
    wall_s=18.0,
    number=2,
    kind="log_space",
    what="The journal was full 15 times: 6.0 s of 18.0 (33 %).",
    cost_s=(5.9, 6.0, 6.1),
    remedy_words={"MKFS": "-J size=256"},
    remedy_text="a journal of 268 MB",
    predicted_s=(0.0, 3.0, 6.1),
)


def request(recorded: Recorded = RECORDED, **given: str) -> Request:
    """The request of make verify with these variables."""
    return finding_request({"RUN": "runs/latest", "FINDING": "2", **given}, recorded)


def planned(recorded: Recorded = RECORDED, **given: str) -> SweepPlan:
    """The plan of make verify with these variables."""
    planner = Planner(choices(), "plan", lambda _: Kernel("6.1.0-1-amd64", None, None, None))
    return planner.make(request(recorded, **given))


def words_of(plan: SweepPlan) -> list[dict[str, str]]:
    """The words of both configurations."""
    return [dict(each.words) for each in plan.configurations]


def test_both_runs_have_the_words_of_the_run_and_record_nothing() -> None:
    plan = planned()
    own = {"FS": "ext4", "WL": "filemark", "SCALE": "quick", "COLLECT": "none"}
    assert words_of(plan) == [own, own | {"MKFS": "-J size=256"}]
    assert [each.subject for each in plan.configurations] == ["with the cause", "without"]
    assert not any(each.traced for each in plan.configurations)
    assert not plan.has_anchors and (plan.reps, plan.most_reps, plan.goal_pct) == (4, 10, 15.0)
    assert {task.configuration for task in plan.block(1)} == {"c01", "c02"}
    finding = plan.finding or {}
    assert finding["run"] == plan.words["RUN"] == "/runs/a"  # not runs/latest, which moves on
    assert finding["goal_s"] == pytest.approx(0.9) and finding["predicted_s"] == [0.0, 3.0, 6.1]


@pytest.mark.parametrize(
    ("own", "remedy", "expected"),
    [
        ({"MKFS": "-J size=4"}, {"MKFS": ""}, [{"MKFS": "-J size=4"}, {}]),
        ({"MKFS": "-b 1024"}, {"MKFS": "-J size=64"}, [{"MKFS": "-b 1024"}, {"MKFS": "-J size=64"}]),
        ({"MEM": "256M"}, {"MEM": "", "THREADS": "1"}, [{"MEM": "256M"}, {"THREADS": "1"}]),
        ({}, {"SCHED": "none", "DISK": "ram"}, [{}, {"SCHED": "none", "DISK": "ram"}]),
        ({"DISK": "hdd", "TIME": "10"}, {"DISK": "ram"}, [{"DISK": "hdd", "TIME": "10"}, {"DISK": "ram"}]),
    ],
)  # fmt: skip
def test_remedy_replaces_adds_and_leaves_out(
    own: Mapping[str, str], remedy: Mapping[str, str], expected: list[Mapping[str, str]]
) -> None:
    recorded = replace(RECORDED, words={**RECORDED.words, **own}, remedy_words=remedy)
    base = {"FS": "ext4", "WL": "filemark", "SCALE": "quick", "COLLECT": "none"}
    assert words_of(planned(recorded)) == [base | dict(each) for each in expected]


def test_runs_record_where_recording_is_the_cause() -> None:
    plan = planned(replace(RECORDED, remedy_words={"COLLECT": "none"}))
    own = {"FS": "ext4", "WL": "filemark", "SCALE": "quick"}
    assert words_of(plan) == [own | {"COLLECT": "block calls"}, own | {"COLLECT": "none"}]
    assert [each.traced for each in plan.configurations] == [True, False]
    assert "tracing     as the words say" in "\n".join(format_sweep(plan, True))


HOSTILE = (
    *("; touch pwned", "$(touch pwned)", "`touch pwned`", "-J size=16 && touch pwned", "ext4'\"", '"', "  "),
    *(
        "a\nb",
        "\x1b[31m",
        "9" * 400,
        "9e999",
        "-1",
        "1e999",
        "--help",
        "0-99999999",
        "../../x",
        "/etc/passwd",
    ),
    "\udcff",
)


@pytest.mark.parametrize(("number", "name"), enumerate([*REMEDIES, "FS", "WL", "CMD", "ERASE", "OUT", ""]))
def test_hostile_words_are_refused_in_a_sentence_or_arguments(number: int, name: str) -> None:
    """Nothing but the user's own shell (CMD=) ever sees a word as a command."""
    for text in HOSTILE[number % 5 :: 5]:
        for recorded in (
            replace(RECORDED, remedy_words={name: text}),
            replace(RECORDED, words={**RECORDED.words, name: text}),
        ):
            with suppress(OptionError, MachineError):
                plan = planned(recorded)
                assert name not in recorded.remedy_words or name in REMEDIES
                assert all(each.words["FS"] == "ext4" for each in plan.configurations)


def test_real_disk_needs_erase_again_for_the_runs_that_use_it() -> None:
    words = {**RECORDED.words, "DISK": "/dev/sdz", "ERASE": "/dev/sdz"}
    recorded = replace(RECORDED, words=words, remedy_words={"JOURNAL": "/dev/sdy"})
    cause, without = (dict(subject.words) for subject in request(recorded).parts[0].subjects)
    assert "ERASE" not in {*cause, *without}  # that of the run allows nothing
    given = request(recorded, ERASE="/dev/sdz /dev/sdy").parts[0]
    assert [subject.words["ERASE"] for subject in given.subjects] == ["/dev/sdz", "/dev/sdz /dev/sdy"]
    onto_memory = replace(recorded, remedy_words={"DISK": "ram"})
    cause, without = (dict(s.words) for s in request(onto_memory, ERASE="/dev/sdz").parts[0].subjects)
    assert (cause["ERASE"], without["DISK"]) == ("/dev/sdz", "ram") and "ERASE" not in without
    with pytest.raises(OptionError, match="ERASE=/dev/sdx has nothing to allow"):
        request(recorded, ERASE="/dev/sdz /dev/sdx")
    with pytest.raises(OptionError, match="DISK=/dev/sdz would be erased: to allow that give"):
        planned(recorded)


@pytest.mark.parametrize("name", ["CMD", "WL", "ERASE", "OUT", "DIR", "WITH", "KERNEL", "PATH", ""])
def test_remedy_changes_neither_the_command_nor_what_is_allowed(name: str) -> None:
    recorded = replace(RECORDED, remedy_words={name: "x"})
    with pytest.raises(OptionError, match="which no remedy may"):
        request(recorded)


@pytest.mark.parametrize("remedy", [{}, {"MKFS": ""}, {"SCALE": "quick"}])
def test_remedy_that_changes_nothing_is_refused(remedy: Mapping[str, str]) -> None:
    with pytest.raises(OptionError, match="changes nothing"):
        request(replace(RECORDED, remedy_words=remedy))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"MKFS": "-J device=/dev/sda"}, "MKFS"),
        ({"SCHED": "noop"}, "gone from Linux"),
        ({"FS": "xsf"}, "did you mean xfs"),
        ({"JOURNAL": "file", "FS": "btrfs"}, "does not fit btrfs"),
        ({"THREADS": "many"}, "whole number"),
    ],
)
def test_side_that_cannot_be_run_is_an_error(words: Mapping[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        planned(replace(RECORDED, remedy_words=words))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"GOAL": "0"}, "GOAL=0 is not a percentage"),
        ({"GOAL": "wide"}, "GOAL=wide is not a percentage"),
        ({"MOST": "1"}, "MOST=1 is not a whole number from 2 to 30"),
        ({"MOST": "31"}, "MOST=31 is not a whole number from 2 to 30"),
        ({"ORDER": "-1"}, "ORDER=-1"),
    ],
)
def test_wrong_value_is_named(given: Mapping[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        request(RECORDED, **given)


def test_finding_must_be_named() -> None:
    with pytest.raises(OptionError, match="add FINDING=1"):
        finding_number({"RUN": "runs/latest"})
    assert finding_number({"FINDING": "3"}) == 3


def test_plan_states_prediction_pairs_time_and_both_commands() -> None:
    plan = planned(GOAL="20", MOST="6", ORDER="7")
    text = "\n".join(format_sweep(plan, True))
    assert "command     make verify RUN=runs/latest FINDING=2 GOAL=20 MOST=6 ORDER=7" in text
    assert "finding     2 of /runs/a: The journal was full 15 times" in text
    assert "remedy      a journal of 268 MB: MKFS='-J size=256'" in text
    assert "predicted   3 s less, between 0 and 6.1 s" in text
    assert "goal        4 to 6 pairs, until the seconds saved are known within 1.2 s" in text
    assert "both        FS=ext4 WL=filemark SCALE=quick" in text
    assert "time        3 min to 5 min" in text and "anchor" not in text  # 8 to 12 runs of 23 s
    assert "tracing     off" in text


def test_few_pairs_are_looked_at_once() -> None:
    plan = planned(MOST="2")
    assert (plan.reps, plan.most_reps) == (2, 2)
    assert "goal        2 pairs, until" in "\n".join(format_sweep(plan, True))


def test_plan_survives_json() -> None:
    plan = planned()
    assert document.from_json(json.loads(json.dumps(document.to_json(plan)))) == plan
