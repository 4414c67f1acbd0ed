# SPDX-License-Identifier: BSD-2-Clause
"""The truth tests once more, on another kernel: the distribution's, in a virtual machine (inside_machine.py).

It takes longest of all and one CPU, so it is started first, and waited for when all is done that needs no
quiet machine (tests/conftest.py has the order).
"""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.collectors.inside_machine import FILES
from tests.collectors.sessions import TREE

SECONDS = 3000


@dataclass(frozen=True)
class Case:
    """One test inside."""

    name: str
    outcome: str  # passed, failed, skipped
    text: str


@dataclass(frozen=True)
class Started:
    """The program that runs the machine, and where."""

    process: subprocess.Popen[str]
    run: Path


@pytest.fixture(scope="session")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    """The machine, running; ended with the tests, however they end."""
    run = tmp_path_factory.mktemp("inside")
    with (run / "stderr").open("w") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.collectors.inside_machine", run],
            cwd=TREE,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,
        )
    yield Started(process, run)
    process.terminate()
    process.communicate(timeout=120)


@pytest.fixture(scope="session")
def cases(started: Started) -> dict[str, list[Case]]:
    """All of them run in one machine; their outcomes by file."""
    printed, _ = started.process.communicate(timeout=SECONDS)
    assert started.process.returncode == 0, (started.run / "stderr").read_text()
    ended = json.loads(printed.splitlines()[-1])
    assert ended["status"] in (0, 1), "\n".join([ended["why"], *ended["said"]])
    if again := ran_again(ended["said"]):
        warnings.warn("\n".join(["failed once in the machine:", *again]), stacklevel=1)
    found = defaultdict(list)
    for case in ElementTree.parse(started.run / "raw/truth.xml").iter("testcase"):
        bad = [child for child in case if child.tag in ("failure", "error", "skipped")]
        outcome = {"skipped": "skipped"}.get(bad[0].tag, "failed") if bad else "passed"
        text = (bad[0].get("message") or "") + (bad[0].text or "") if bad else ""
        found[case.get("classname", "").rpartition(".")[2]].append(Case(case.get("name", ""), outcome, text))
    return found


def ran_again(said: list[str]) -> list[str]:
    """What pytest inside says of tests that had a second run (../README.md)."""
    head = next((at for at, line in enumerate(said) if "= rerun test summary info =" in line), len(said))
    end = next((at for at in range(head + 1, len(said)) if said[at].startswith("====")), len(said))
    return said[head + 1 : end]


def test_the_machine_is_started(started: Started) -> None:
    assert started.process.poll() is None


@pytest.mark.parametrize("file", FILES)
def test_the_truth_on_another_kernel(cases: dict[str, list[Case]], file: str) -> None:
    assert (TREE / f"tests/collectors/{file}.py").exists()
    bad = [case for case in cases[file] if case.outcome != "passed"]
    assert not bad, "\n".join(f"{case.name} {case.outcome}: {case.text}" for case in bad)
    assert cases[file], "nothing ran"
