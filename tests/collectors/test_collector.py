# SPDX-License-Identifier: BSD-2-Clause
"""The collector interface: discovery by folder, order of starts, and what each collector states."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from collectors.collector import Collector, choices, collectors, start_groups
from collectors.recorder import process, shared
from collectors.trace import emulated_disks

TREE = Path(__file__).parents[2]
HOOK = re.compile(r'^SEC\("(?:tp_btf|raw_tp)/(\w+)"\)', re.MULTILINE)
IN_RECORDER = [one for one in collectors().values() if one.start is shared.start]


def test_every_folder_with_a_collector_is_found() -> None:
    for path in TREE.glob("collectors/*/collector.py"):
        assert (path.parent.name in collectors()) == ("\nCOLLECTOR = " in path.read_text()), path
    assert all(name == one.name for name, one in collectors().items())


def test_the_default_collectors_are_listed_first() -> None:
    defaults = list(choices().values())
    assert defaults == sorted(defaults, reverse=True)
    assert [name for name, is_default in choices().items() if is_default] == [
        "block",
        "locks",
        "calls",
        "counters",
        "threads",
        "events",
        "sched",
    ]


def test_blktrace_starts_first_and_perf_last_around_one_recorder() -> None:
    groups = [names for names, _ in start_groups(list(collectors()))]
    assert groups[0] == ["blktrace"] and groups[-1] == ["perf"]
    assert groups[1:-1] == [[one.name for one in sorted(IN_RECORDER, key=lambda one: one.order)]]


@pytest.mark.parametrize("collector", IN_RECORDER, ids=lambda one: one.name)
def test_tracepoints_are_those_of_the_bpf_program(collector: Collector) -> None:
    """doctor concludes from them where it cannot load the programs."""
    sources = TREE.glob(f"bpf/{collector.name}/*.[ch]")
    hooks = {hook for path in sources for hook in HOOK.findall(path.read_text())}
    assert list(collector.tracepoints) == sorted(hooks)


def test_tables_name_their_collector_in_analysis() -> None:
    from analysis.tables.load import TABLES

    tables = {table: one.name for one in collectors().values() for table in one.tables}
    tables[emulated_disks.TABLE] = emulated_disks.TABLE  # which the disks write, whatever COLLECT= names
    assert tables == {name: spec.collector for name, spec in TABLES.items() if spec.collector}


def test_the_recorder_has_the_same_collectors_and_defaults() -> None:
    done = subprocess.run([process.BINARY, "--list"], capture_output=True, text=True, check=True)
    listed = [json.loads(line) for line in done.stdout.splitlines()]
    assert {entry["name"]: entry["default"] for entry in listed} == {
        one.name: one.default for one in IN_RECORDER
    }


def test_modules_need_the_standard_library_only() -> None:
    """doctor, plan and list run before any setup."""
    code = "from collectors.collector import collectors; print(len(collectors()))"
    done = subprocess.run(
        [sys.executable, "-S", "-B", "-c", code], cwd=TREE, capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == [str(len(collectors()))], done.stderr
