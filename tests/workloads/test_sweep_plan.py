# SPDX-License-Identifier: BSD-2-Clause
"""The plan of a sweep: how values split, their product, what is refused, and the order of runs."""

import json
from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collectors.collector import choices
from workloads.cli.options import Options
from workloads.cli.parse import given_words
from workloads.machines.kernels import Kernel
from workloads.sweep import document
from workloads.sweep.format import format_sweep
from workloads.sweep.from_words import is_sweep, split, sweep_request
from workloads.sweep.planner import Planner
from workloads.sweep.request import Part, Request, Subject
from workloads.sweep.sweep_plan import SweepPlan
from workloads.system.errors import MachineError, OptionError


def planner(kernel: Kernel | None = None) -> Planner:
    """Return a planner as make plan's, with this kernel for virtual machines."""
    return Planner(choices(), "plan", lambda _: kernel or Kernel("6.1.0-1-amd64", None, None, None))


def sweep(**words: str) -> SweepPlan:
    """Return the plan of make sweep with these variables."""
    env = {f"SEEKMETER_{name}": text for name, text in words.items()}
    return planner().make(sweep_request(given_words({**env, "SEEKMETER_WORDS": " ".join(words)}, "sweep")))


@pytest.mark.parametrize(
    ("name", "text", "values"),
    [
        ("FS", "ext4  xfs:btrfs2007", ["ext4", "xfs:btrfs2007"]),
        ("MOUNT", "- noatime,commit=30", ["-", "noatime,commit=30"]),
        ("ARGS", "-n 40 -o 4 | -n 80", ["-n 40 -o 4", "-n 80"]),
        ("ARGS", "-x 'a|b'", ["-x 'a|b'"]),
        ("MKFS", "| -b 1024", ["-", "-b 1024"]),
        ("MKFS", "-b 1024 |", ["-b 1024", "-"]),
        ("DISK", "file | file file", ["file", "file file"]),
        ("COLLECT", "block calls | none", ["block calls", "none"]),
        ("CMD", "dd if=/dev/zero | tee x", ["dd if=/dev/zero | tee x"]),
        ("DIR", "/srv/my data", ["/srv/my data"]),
    ],
)
def test_value_splits_at_blanks_or_bars(name: str, text: str, values: list[str]) -> None:
    assert split(name, text) == values


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ({"FS": "ext4", "WL": "filemark"}, False),
        ({"FS": "ext4", "DISK": "file file"}, False),
        ({"FS": "ext4", "CMD": "a | b"}, False),
        ({"FS": "ext4 xfs"}, True),
        ({"FS": "ext4", "REPS": "3"}, True),
        ({"FS": "ext4", "TRACING": "off"}, True),
    ],
)
def test_plan_is_of_a_sweep_with_a_list_or_repetitions(words: dict[str, str], expected: bool) -> None:
    assert is_sweep(words) is expected


def test_product_has_every_combination_once() -> None:
    plan = sweep(FS="ext4 xfs", WL="filemark", THREADS="1 8 64", SCHED="- none", SCALE="quick")
    assert len(plan.configurations) == 12
    assert len({json.dumps(dict(each.words)) for each in plan.configurations}) == 12
    assert plan.axes == ("FS", "SCHED", "THREADS")  # the order of make help: make has none
    first, second = plan.configurations[:2]
    assert dict(first.words) == {"FS": "ext4", "WL": "filemark", "THREADS": "1", "SCALE": "quick"}
    assert (first.subject, first.label) == ("ext4", "ext4, no SCHED, 1 thread")
    assert second.words["THREADS"] == second.axes["THREADS"] == "8"
    assert [each.id for each in plan.configurations][-1] == "c12"
    assert {each.est_seconds for each in plan.configurations} == {28.0}
    assert first.size_bytes == 2 << 30
    assert plan.name == "ext4+xfs-filemark"


def test_impossible_combination_is_refused_with_a_reason() -> None:
    plan = sweep(FS="ext4 btrfs", WL="filemark", JOURNAL="- file", SCALE="quick")
    assert len(plan.configurations) == 3
    (refused,) = plan.refused
    assert (refused.subject, refused.kind) == ("btrfs", "option")
    assert refused.why.startswith("JOURNAL does not fit btrfs")
    assert refused.axes == {"FS": "btrfs", "JOURNAL": "file"}


def test_options_of_mkfs_and_mount_are_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each trial formats and mounts scratch files: 24 configurations have four different ones."""
    tried: list[tuple[str, tuple[str, ...]]] = []

    def check(options: Options, *_: object, **__: object) -> list[str]:
        tried.append((str(options.fs), options.mount))
        if options.fs == "xfs" and options.mount:
            raise OptionError("MOUNT: this kernel rejects the xfs mount option commit")
        return []

    monkeypatch.setattr("workloads.plan.trial.check_options", check)
    words = {"FS": "ext4 xfs", "WL": "filemark", "SCALE": "quick", "MOUNT": "- commit=30"}
    plan = sweep(**words, THREADS="1 2 3", SCHED="none bfq")
    both = ((), ("commit=30",))
    assert sorted(tried) == [(fs, mount) for fs in ("ext4", "xfs") for mount in both]
    assert len(plan.configurations) == 18
    assert len(plan.refused) == 6 and {each.subject for each in plan.refused} == {"xfs"}


def test_refused_number_of_cpus_leaves_the_rest() -> None:
    plan = sweep(FS="ext4", WL="filemark", CPUS="1 64", SCALE="quick", VM="0")
    assert [each.words["CPUS"] for each in plan.configurations] == ["1"]
    assert "CPUS=64: this machine has" in plan.refused[0].why


def test_sweep_without_a_possible_run_gives_the_reason() -> None:
    with pytest.raises(OptionError, match="JOURNAL does not fit btrfs"):
        sweep(FS="btrfs", WL="filemark", JOURNAL="file ram", SCALE="quick")
    with pytest.raises(MachineError, match="does not fit: "):
        sweep(FS="ext4 xfs", WL="filemark", SIZE="900000T", DISK="ram")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ({"FS": "ext4 xsf"}, "FS=xsf: no file system 'xsf': did you mean xfs"),
        ({"WL": "filemark filmark"}, "did you mean filemark"),
        ({"SCHED": "none cfq"}, "SCHED=cfq is gone"),
        ({"SCALE": "quick deflaut"}, "did you mean default"),
        ({"THREADS": "1 eight"}, "THREADS=eight is not a whole number"),
        ({"SIZE": "10G 20F"}, "SIZE=20F is not a size"),
        ({"CPUS": "1 two"}, "CPUS=two"),
        ({"COLLECT": "block | blocks"}, "no collector 'blocks': did you mean locks or block"),
        ({"FS": "ext4 xfs ext4"}, "FS names ext4 twice"),
        ({"REPS": "0"}, "REPS=0 is not a whole number from 1"),
        ({"REPS": "some"}, "REPS=some"),
        ({"GOAL": "-1"}, "GOAL=-1 is not a percentage"),
        ({"GOAL": "nan"}, "GOAL=nan is not a percentage"),
        ({"MOST": "20"}, "MOST is the limit of GOAL"),
        ({"GOAL": "5", "MOST": "9"}, "MOST=9 is not a whole number from 10"),
        ({"GOAL": "5", "REPS": "3"}, "REPS=3 is too few for GOAL"),
        ({"GOAL": "5", "REPS": "40"}, "REPS=40 is more than MOST=30"),
        ({"TRACING": "of"}, "TRACING=of is not a way to trace: did you mean off"),
        ({"TRACING": "off", "COLLECT": "block"}, "COLLECT contradicts TRACING=off"),
        ({"REPZ": "3"}, "REPZ is not a variable of Seekmeter: did you mean REPS"),
        ({"RUNS": "a b"}, "RUNS does not fit the job sweep"),
        ({"MKFS": ""}, "MKFS is empty"),
        (
            {"THREADS": " ".join(map(str, range(1, 50))), "SEED": " ".join(map(str, range(50)))},
            "has 2450 configurations: at most 2000",
        ),
    ],
)
def test_wrong_value_names_the_right_one(words: dict[str, str], says: str) -> None:
    with pytest.raises(OptionError, match=says):
        sweep(**{"FS": "ext4", "WL": "filemark", "SCALE": "quick", **words})


def test_tracing_both_doubles_the_configurations() -> None:
    plan = sweep(FS="ext4", WL="filemark", COLLECT="block", WITH="mkfs", TRACING="both", SCALE="quick")
    traced, untraced = plan.configurations
    assert (traced.traced, untraced.traced) == (True, False)
    assert (traced.words["COLLECT"], untraced.words["COLLECT"]) == ("block", "none")
    assert "WITH" in traced.words and "WITH" not in untraced.words
    assert plan.axes == ("TRACING",)
    assert [each.label for each in plan.configurations] == ["ext4, traced", "ext4, untraced"]


def test_file_system_the_kernel_lacks_runs_in_a_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("workloads.filesystems.kernel_has", lambda name: name != "jfs")
    plan = sweep(FS="ext4 jfs", WL="filemark", SCALE="quick")
    assert [each.virtual for each in plan.configurations] == [False, True]


def test_subjects_of_a_part_have_their_own_words_and_labels() -> None:
    part = Part(
        "create",
        {"WL": "filemark", "SCALE": "quick"},
        {"THREADS": ("1", "2")},
        (
            Subject("ext3, journal apart", {"FS": "ext3", "JOURNAL": "file"}),
            Subject("btrfs", {"FS": "btrfs"}),
        ),
        reps=3,
    )
    again = Part("again", {"FS": "ext4", "WL": "filemark", "SCALE": "quick"}, {"SCHED": ("cfq",)}, reps=1)
    plan = planner().make(Request("x", "make study", {}, (part, again), old_schedulers=True, order_seed=1))
    assert [each.subject for each in plan.configurations[:4:2]] == ["ext3, journal apart", "btrfs"]
    assert plan.configurations[0].label == "ext3, journal apart, 1 thread"
    assert plan.configurations[0].words["JOURNAL"] == "file"
    last = plan.configurations[-1]
    assert (last.words["SCHED"], last.axes["SCHED"]) == ("bfq", "cfq")
    assert last.label == "ext4, bfq (cfq in the paper)"
    assert last.notes == ("the scheduler cfq is bfq today",)
    assert [len(plan.block(block)) for block in (1, 2, 3, 4)] == [5, 4, 4, 0]


def order(plan: SweepPlan, blocks: Sequence[int], machine: str = "m1") -> list[list[str | None]]:
    return [[task.configuration for task in plan.block(block, machine)] for block in blocks]


@settings(max_examples=6, deadline=None)
@given(st.integers(0, 2**31), st.integers(2, 9))
def test_block_has_each_configuration_in_the_seeds_order(seed: int, count: int) -> None:
    threads = " ".join(str(number) for number in range(1, count + 1))
    words = {"FS": "ext4", "WL": "filemark", "SCALE": "quick", "THREADS": threads, "ORDER": str(seed)}
    plan, again = sweep(**words), sweep(**words)
    blocks = order(plan, range(1, 6))
    assert blocks == order(again, range(1, 6))
    ids = [each.id for each in plan.configurations]
    assert all(sorted(map(str, block)) == ids for block in blocks)
    assert [task.id for task in plan.block(2)] == [f"{each}-r02" for each in blocks[1]]


def test_order_of_blocks_favours_no_configuration() -> None:
    plan = sweep(FS="ext4", WL="filemark", SCALE="quick", THREADS="1 2 3 4", ORDER="7", REPS="400")
    blocks = order(plan, range(1, 401))
    assert len({tuple(block) for block in blocks}) == 24
    assert blocks != order(plan, range(1, 401), "m2")
    firsts = Counter(block[0] for block in blocks)  # 100 each, standard deviation 8.7
    assert all(60 < count < 140 for count in firsts.values()), firsts


def test_anchor_is_the_first_configuration_quick_untraced() -> None:
    plan = sweep(
        FS="xfs ext4", WL="filemark", SCALE="default", COLLECT="block", WITH="mkfs", SIZE="4G",
        DISK="hdd", TIME="10", CRASH_AT="5",
    )  # fmt: skip
    anchor = plan.anchor("first")
    assert (anchor.id, anchor.configuration) == ("anchor-first", None)
    assert anchor.words == {
        "FS": "xfs", "WL": "filemark", "SCALE": "quick", "COLLECT": "none", "SIZE": "4G",
        "DISK": "hdd", "TIME": "10",
    }  # fmt: skip
    assert plan.anchor("last", "m2").id == "anchor-last-m2"


def test_document_gives_the_same_plan_back() -> None:
    plan = sweep(FS="ext4 btrfs", WL="filemark", JOURNAL="- file", SCALE="quick", GOAL="5", TRACING="both")
    assert document.from_json(json.loads(json.dumps(document.to_json(plan)))) == plan
    assert (plan.goal_pct, plan.reps, plan.most_reps) == (5.0, 10, 30)


@pytest.mark.parametrize(
    "broken",
    [{}, {"kind": "sweep"}, {"schema": 2}, {"configurations": [{}]}, {"configurations": 3},
     {"order_seed": "x"}, {"words": []}, {"reps": None, "parts": None}],
)  # fmt: skip
def test_broken_document_is_a_value_error(broken: dict[str, object]) -> None:
    good = document.to_json(sweep(FS="ext4", WL="filemark", SCALE="quick"))
    value = {**good, **broken} if broken else {}
    if broken == {"kind": "sweep"}:
        value = dict(broken)
    with pytest.raises(ValueError, match=r"not a sweep|invalid literal|a configuration"):
        document.from_json(value)


def test_hostile_name_of_a_configuration_is_refused() -> None:
    value = document.to_json(sweep(FS="ext4", WL="filemark", SCALE="quick"))
    value["configurations"][0]["id"] = "../../etc"
    with pytest.raises(ValueError, match="plain id"):
        document.from_json(value)


def test_plan_with_a_goal_gives_both_bounds() -> None:
    lines = format_sweep(sweep(FS="ext4 xfs", WL="filemark", SCALE="quick", GOAL="5", MOST="20"), False)
    assert any("10 to 20 runs each: 20 to 40 runs and 2 anchors" in line for line in lines)
    assert any(line.startswith("time        9 min to 19 min") for line in lines)  # 20 and 40 runs of 28 s
    assert any(line.startswith("goal") and "at most 5 % of the mean, or 20 runs" in line for line in lines)


def test_plan_marks_untraced_and_virtual_configurations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workloads.filesystems.kernel_has", lambda name: name != "jfs")
    plan = sweep(FS="ext4 jfs", CMD="true", SIZE="512M", TRACING="off")
    lines = [line for line in format_sweep(plan, True) if line.startswith("c0")]
    assert lines[0].endswith("512M untraced") and lines[1].endswith("512M untraced in a virtual machine")
