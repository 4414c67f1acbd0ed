# SPDX-License-Identifier: BSD-2-Clause
"""Fixtures and hooks of all tests: the tree, the environment, markers, order, two processes."""

import os
import re
import signal
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

TREE = Path(__file__).parent.parent
# Folders whose tests trace this kernel.
TRACING = ("tests/collectors/", "tests/analysis/importers/")
# A file of theirs that needs root traces this kernel.
ROOT = re.compile(r"needs_root|mark\.root")
# Markers of what disturbs tests that trace: reads of their disks, a program that takes a CPU when it likes.
ALONE = ("scans_disks", "real_time")
# Fixtures that mount or make a loop device: a test with such a fixture needs root.
MOUNTING = {"ram", "loop"}
# Assertions in shared test modules show their values, like those in test files.
for module in (TREE / "tests").rglob("*.py"):
    if not module.name.startswith("test_"):
        pytest.register_assert_rewrite(".".join(module.relative_to(TREE).with_suffix("").parts))
# A background job of a script ignores SIGINT, and so would the programs that tests start and interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)
# Hypothesis: the same examples each time, without a deadline, as their speed depends on the machine's load.
settings.register_profile(
    "seekmeter", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("seekmeter")


@pytest.fixture(autouse=True)
def no_variables_of_make(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove variables and flags that `make test` passes in the environment.

    Also PYTHONUNBUFFERED, which users lack: it hides how Python ends when its terminal is closed.
    """
    for name in (
        *("SEEKMETER_WORDS", "SEEKMETER_ARGS", "SEEKMETER_OUT"),
        *("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "PYTHONUNBUFFERED"),
    ):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="session")
def tree() -> Path:
    """The root of the source tree."""
    return TREE


@pytest.fixture(scope="session")
def open_tree() -> Iterator[Path]:
    """A tree that every user may enter, for tests in which another user runs its programs."""
    from tests.open_tree import opened  # imported here: assertion rewriting is registered above

    with opened(TREE) as path:
        yield path


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip tests marked root when not run by root."""
    if os.geteuid() != 0 and item.get_closest_marker("root"):
        pytest.skip("needs root to format, mount or trace: run make test as root or with sudo")


@cache
def runs_alone(path: str) -> bool:
    """Whether a file of tests traces this kernel, or disturbs tests that do. path: from the tree."""
    text = (TREE / path).read_text()
    return any(marker in text for marker in ALONE) or (
        path.startswith(TRACING) and ROOT.search(text) is not None
    )


class OneAtATime(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """Give all tests of a file to one process, and all files that run alone to one process.

    Tests that measure this machine then run one at a time, and fixtures of a file are made once.
    """

    def _split_scope(self, nodeid: str) -> str:
        path = nodeid.partition("::")[0]
        return "tracing" if runs_alone(path) else path


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> OneAtATime:
    """Make pytest-xdist use OneAtATime."""
    return OneAtATime(config, log)


class FailureLines:
    """Prints each failure at once: the summary comes after minutes, in the longest tier after an hour."""

    def __init__(self, reporter: pytest.TerminalReporter) -> None:
        self.reporter = reporter

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            message = crash.message.partition("\n")[0] if crash else ""
            self.reporter.ensure_newline()
            self.reporter.write_line(f"FAILED {report.nodeid} {message}")


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Register FailureLines in the process that has the terminal."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter:
        config.pluginmanager.register(FailureLines(reporter))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests with mounting fixtures as root; run virtual machines first, then tests that trace."""
    for item in items:
        if MOUNTING & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.root)

    def rank(item: pytest.Item) -> int:
        return 0 if item.get_closest_marker("vm") else 1 if runs_alone(item.nodeid.partition("::")[0]) else 2

    items.sort(key=rank)
