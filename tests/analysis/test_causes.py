# SPDX-License-Identifier: BSD-2-Clause
"""Causes of waits by rules in TOML files: stacks give their cause, broken files are refused."""

from __future__ import annotations

import random
import shutil
import tomllib
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from analysis.causes import roles as roles_module
from analysis.causes.classify import Waited, classify, function_name
from analysis.causes.roles import read_roles, role_of
from analysis.causes.rules import FOLDER, GROUPS, NOT_RULES, RuleError, Rules, read_rules, rules
from analysis.rundir import tested

DATA = Path(__file__).parents[1] / "data" / "stacks"
KTHREAD = "kthread ret_from_fork ret_from_fork_asm"


def read_stacks() -> list[tuple[str, str, str, str]]:
    """Cause, place, state and functions of each line of the files in tests/data/stacks."""
    lines = [line for file in sorted(DATA.glob("*.txt")) for line in file.read_text().splitlines()]
    stacks = []
    for line in lines:
        told, colon, names = line.partition(": ")
        if colon and not line.startswith("#"):
            cause, place, *in_io = told.split()
            stacks.append((cause, place, "io_wait" if in_io else "blocked", names))
    return stacks


STACKS = read_stacks()


def stack(names: str) -> tuple[str, ...]:
    """Frames as the recorder writes them, below those of the scheduler and of tracing."""
    below = "bpf_prog_1f2e bpf_trace_run4 __bpf_trace_sched_switch __schedule schedule io_schedule"
    return tuple(f"{name}+0x1c/0x90" for name in f"{below} {names}".split())


@pytest.mark.parametrize(
    ("cause", "place", "state", "names"), STACKS, ids=[f"{c}-{p}" for c, p, _, _ in STACKS]
)
def test_stack_gives_its_cause_and_place(cause: str, place: str, state: str, names: str) -> None:
    assert classify(stack(names), state) == Waited(cause, place)


def test_function_names_lose_offset_module_and_suffix() -> None:
    frames = ["f+0x1/0x2", "f.constprop.0+0x1", "f.isra.0", "f+0x1/0x2 [xfs]", "f.part.0+0x1 [jbd2]"]
    assert {function_name(frame) for frame in frames} == {"f"}


def test_lock_of_the_task_wins_over_the_innermost_function() -> None:
    frames = stack("do_get_write_access jbd2_journal_get_write_access")
    assert classify(frames, "blocked", "none").cause == "page_io"
    assert classify(frames, "blocked", "mutex") == Waited("lock", "do_get_write_access")
    assert classify((), "blocked", "rwsem_write") == Waited("lock", "")
    # a semaphore is a buffer's as well: the stack decides, if it can
    assert classify(stack("do_get_write_access f"), "blocked", "semaphore").cause == "page_io"
    assert classify(stack("new_wait vfs_new"), "blocked", "semaphore") == Waited("lock", "new_wait")
    # what wins anywhere wins over a lock, too
    assert classify(stack("shrink_slab shrink_node"), "blocked", "rwsem_read").cause == "reclaim"


def test_task_in_io_without_a_rule_is_io_and_no_guess() -> None:
    frames = stack("new_wait vfs_new")
    assert classify(frames, "io_wait") == Waited("io", "new_wait")
    assert classify((), "sleeping") == Waited("no_stack", "")
    assert classify((), "other") == Waited("stopped", "")


def test_a_kernel_threads_own_function_deep_in_a_stack_is_no_idleness() -> None:
    assert classify(stack(f"new_wait worker_thread {KTHREAD}"), "blocked").cause == "unknown"
    assert (
        classify(stack(f"new_wait process_one_work worker_thread {KTHREAD}"), "sleeping").cause == "unknown"
    )


@cache
def written() -> dict[str, dict[str, Any]]:
    """The TOML files as they are."""
    return {path.stem: tomllib.loads(path.read_text()) for path in FOLDER.glob("*.toml")}


def naive(frames: tuple[str, ...], in_io: bool) -> str:
    """The cause by the TOML files themselves, without loader, for stacks without locks."""
    tables = written()
    common = tables["common"]
    order = [tables[name] for name in sorted(set(tables) - {*NOT_RULES, "common"})] + [common]
    every = [rule for table in order for rule in table.get("rule", [])]

    def any_of(patterns: list[str], name: str) -> bool:
        return any(fnmatchcase(name, pattern.replace("[", "[[]")) for pattern in patterns)

    names = [frame.split("+")[0].split(".")[0] for frame in frames]
    names = [name for name in names if not any_of(common["skip"], name)]

    def holds(rule: dict[str, object], at: int) -> bool:
        if (rule.get("first") or rule.get("main")) and at:
            return False
        if rule.get("io", in_io) != in_io:
            return False
        if rule.get("main") and names[1:2] != ["kthread"]:
            return False
        if not any_of(rule["functions"], names[at]):  # type: ignore[arg-type]
            return False
        under = rule.get("under")
        return not under or any(any_of(under, outer) for outer in names[at + 1 :])  # type: ignore[arg-type]

    for at in reversed(range(len(names))):
        for rule in every:
            if rule.get("anywhere") and holds(rule, at):
                return str(rule["cause"])
    for at, name in enumerate(names):
        if any_of(common["locks"], name):
            return "lock"
        for rule in every:
            if not rule.get("anywhere") and holds(rule, at):
                return str(rule["cause"])
    return "unknown" if names else "no_stack"


def test_causes_equal_a_naive_reading_of_the_files() -> None:
    draw = random.Random(3)
    words = [name for _, _, _, names in STACKS for name in names.split()] + ["new_wait", "vfs_new"]
    for _ in range(300):
        frames = stack(" ".join(draw.choice(words) for _ in range(draw.randint(0, 7))))
        assert classify(frames, "blocked").cause == naive(frames, False), frames
        found, expected = classify(frames, "io_wait").cause, naive(frames, True)
        assert found == ("io" if expected in ("unknown", "no_stack") else expected), frames


def test_files_of_the_tree_are_valid() -> None:
    known = rules()
    assert {rule.cause for rule in known.rules} <= set(known.causes)
    assert {cause.group for cause in known.causes.values()} <= set(GROUPS)
    assert all(len(cause.text) <= 22 for cause in known.causes.values())
    used = {rule.cause for rule in known.rules} | {"lock", "io", "unknown", "no_stack", "none"}
    assert set(known.causes) == used, "a cause that no rule gives"


BROKEN = [
    ("ext4.toml", "[[rule]]\ncause = 'nothing'\nfunctions = ['f']\n", "no cause is called 'nothing'"),
    ("ext4.toml", "[[rule]]\ncause = 'lock'\nfunctions = []\n", "is no list of functions"),
    ("ext4.toml", "[[rule]]\ncause = 'lock'\n", "is no list of functions"),
    ("ext4.toml", "[[rule]]\ncause = 'lock'\nfunctions = ['f(']\n", "invalid pattern"),
    ("ext4.toml", "[[rule]]\ncause = 'lock'\nfunctions = ['f', 'f']\n", "names f twice"),
    ("ext4.toml", "[[rule]]\ncause = 'lock'\nfunctions = ['f']\nunder = 3\n", "is no list"),
    ("ext4.toml", "[[rule]]\ncause = 'lock'\nfunctions = ['f']\nfirst = 1\n", "neither true nor false"),
    ("ext4.toml", "[[rule]]\ncause = 'lock'\nfunctions = ['f']\nfirst = true\nmain = true\n", "has more"),
    ("ext4.toml", "[[rule]]\ncause = 'lock'\nfunctions = ['f']\nio = 'no'\n", "io of a rule"),
    ("ext4.toml", "[[rule]]\ncause = 'lock'\nfunctions = ['f']\nwhere = 'x'\n", "unknown key where"),
    ("ext4.toml", "skip = ['f']\n", "unknown key skip"),
    ("ext4.toml", "rule = [1]\n", "a rule is no table"),
    ("ext4.toml", "[[rule\n", "ext4.toml:"),
    ("common.toml", "skip = ['f']\n", "locks is no list"),
    ("causes.toml", "[[cause]]\nname = 'a'\ntext = 'b'\ngroup = 'nothing'\n", "group of a is none of"),
    ("causes.toml", "[[cause]]\nname = 'a'\ntext = 'b'\ngroup = 'own'\n", "is missing"),
    ("causes.toml", "[[cause]]\nname = 'a'\ntext = ''\ngroup = 'own'\n", "needs name, text and group"),
]  # fmt: skip


@pytest.mark.parametrize(("file", "content", "fault"), BROKEN, ids=[fault for _, _, fault in BROKEN])
def test_a_broken_file_is_refused_by_name(tmp_path: Path, file: str, content: str, fault: str) -> None:
    folder = tmp_path / "causes"
    shutil.copytree(FOLDER, folder)
    (folder / file).write_text(content)
    with pytest.raises(RuleError, match=fault) as error:
        read_rules(folder)
    assert file in str(error.value)


def _written(known: Rules) -> set[str]:
    """Names and patterns of all rules."""
    return {str(rule.functions) for rule in known.rules}


def test_a_new_file_is_a_file_systems_rules(tmp_path: Path) -> None:
    folder = tmp_path / "causes"
    shutil.copytree(FOLDER, folder)
    before = read_rules(folder)
    (folder / "newfs.toml").write_text("[[rule]]\ncause = 'commit'\nfunctions = ['newfs_commit*']\n")
    after = read_rules(folder)
    assert len(after.rules) == len(before.rules) + 1 and after.digest != before.digest
    assert after.rules[-1] == before.rules[-1]  # the common rules stay last
    assert any("newfs_commit" in names for names in _written(after) - _written(before))


TESTED = tested.TestedFilesystem(
    kind="xfs",
    is_only=True,
    devices=frozenset({"loop8", "7:8"}),
    numbers=frozenset({"7:8"}),
    below_devices=frozenset({"vda", "254:0"}),
    below_numbers=frozenset({"254:0"}),
)
ROLES = [
    ("workload", "compilebench", "", "", "workload"),
    ("recorder", "python", "", "", "recorder"),
    ("other", "sshd", "", "", "other"),
    ("other", "qemu-nbd", "", "", "disk"),
    ("kernel", "xfsaild/loop8", "", "", "filesystem"),
    ("kernel", "jbd2/vda1-8", "", "", "disk"),
    ("kernel", "jbd2/vdb-8", "", "", "other"),
    ("kernel", "kworker/u8:3", "wb_workfn", "flush-7:8", "filesystem"),
    ("kernel", "kworker/u8:3", "wb_workfn", "flush-254:0", "disk"),
    ("kernel", "kworker/u8:3", "wb_workfn", "flush-8:0", "other"),
    ("kernel", "kworker/u8:3", "loop_rootcg_workfn", "loop8", "disk"),
    ("kernel", "kworker/0:1", "xfs_end_io", "xfs-conv/loop8", "filesystem"),
    ("kernel", "kworker/0:1", "xfs_inodegc_worker", "", "filesystem"),
    ("kernel", "kworker/0:1H", "blk_mq_run_work_fn", "kblockd", "disk"),
    ("kernel", "kworker/0:1", "", "", "other"),
    ("kernel", "kswapd0", "", "", "other"),
    ("kernel", "kcryptd/254:3", "", "", "disk"),
    ("unknown", "", "", "", "other"),
]


@pytest.mark.parametrize(("recorded", "comm", "work", "work_name", "role"), ROLES)
def test_role_is_told_by_name_work_and_device(
    recorded: str, comm: str, work: str, work_name: str, role: str
) -> None:
    assert role_of(recorded, comm, work, work_name, TESTED) == role


def test_broken_roles_are_refused(tmp_path: Path) -> None:
    text = (FOLDER / "roles.toml").read_text()
    assert read_roles(FOLDER / "roles.toml") == roles_module.roles()
    path = tmp_path / "roles.toml"
    for old, new in (
        ("block_layer", "blocks"),
        ('["loop_workfn"', '[3, "loop_workfn"'),
        ("[of_kind]", "[of]"),
    ):
        path.write_text(text.replace(old, new, 1))
        with pytest.raises(RuleError, match=r"roles\.toml"):
            read_roles(path)
