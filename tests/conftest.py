# SPDX-License-Identifier: BSD-2-Clause
"""What every test shares: the tree, and an environment without the words of the make that runs the tests."""

import os
import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

TREE = Path(__file__).parent.parent
MEASURING = ("collectors", "workloads", "analysis/importers")
# Assertions of what tests share say their values, as the tests' own do.
for room in (TREE / "tests").rglob("*.py"):
    if not room.name.startswith("test_"):
        pytest.register_assert_rewrite(".".join(room.relative_to(TREE).with_suffix("").parts))
# In the background of a script ^C is ignored, by what the tests start and send it to as well.
signal.signal(signal.SIGINT, signal.default_int_handler)
# The same examples each time, and as long as it takes: how fast one is made and tried is the machine's load.
settings.register_profile(
    "seekmeter", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("seekmeter")


@pytest.fixture(autouse=True)
def no_words_from_make(monkeypatch: pytest.MonkeyPatch) -> None:
    """`make test` hands its own words and flags on in the environment; a test starts without them.

    And without PYTHONUNBUFFERED, as users have it: it hides what a closed terminal does to Python's end.
    """
    for name in list(os.environ):
        if name == "SEEKMETER_WORDS" or name in (
            "MAKEFLAGS",
            "MFLAGS",
            "MAKELEVEL",
            "SEEKMETER_OUT",
            "PYTHONUNBUFFERED",
        ):
            monkeypatch.delenv(name)


@pytest.fixture(scope="session")
def tree() -> Path:
    """The root of the source tree."""
    return TREE


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The virtual machine's half hour runs beside what a busy machine changes nothing about.

    So: its start, finished runs and workloads, its results, and then, alone, what measures this kernel.
    """

    def turn(item: pytest.Item) -> int:
        if item.path.name == "test_inside_machine.py":
            return 0 if item.name == "test_the_machine_is_started" else 2
        room = item.path.relative_to(TREE / "tests").parts[0]
        return 1 if room in ("analysis", "workloads", "front") else 3

    items.sort(key=turn)
    # These measure a machine that is never still, beside tracers with gaps of their own. One that fails has a
    # second run at once; its first failure is printed and counted (README.md).
    for item in items:
        if any(item.path.is_relative_to(TREE / "tests" / room) for room in MEASURING):
            item.add_marker(pytest.mark.flaky(reruns=1))
