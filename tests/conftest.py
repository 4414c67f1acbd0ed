# SPDX-License-Identifier: BSD-2-Clause
"""What every test shares: the tree, an environment without the words of make, and what the markers mean."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

TREE = Path(__file__).parent.parent
# The rooms whose tests trace this kernel.
TRACING = ("tests/collectors/", "tests/analysis/importers/")
# Fixtures that mount, or make a loop device: a test with one of these needs root.
MOUNTING = {"ram", "loop"}
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
    """The tree where every user may enter it, for tests that have another user run what is in it."""
    from tests.open_tree import opened  # only now: its assertions are registered above

    with opened(TREE) as place:
        yield place


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what needs root where there is none."""
    if os.geteuid() != 0 and item.get_closest_marker("root"):
        pytest.skip("needs root to format, mount or trace: run make test as root or with sudo")


class OneAtATime(LoadScopeScheduling):  # type: ignore[misc]  # of a package without types
    """Two processes run tests: of each file all in one of them, and of the rooms that trace the kernel too.

    So what measures this machine runs one at a time, and what tests of a file share is made once.
    """

    def _split_scope(self, nodeid: str) -> str:
        path = nodeid.partition("::")[0]
        return "tracing" if path.startswith(TRACING) else path


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> OneAtATime:
    """Have pytest-xdist spread the tests so."""
    return OneAtATime(config, log)


class SaidAtOnce:
    """Names what fails as it fails: the summary comes after minutes, in the longest tier after an hour."""

    def __init__(self, reporter: pytest.TerminalReporter) -> None:
        self.reporter = reporter

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            why = crash.message.partition("\n")[0] if crash else ""
            self.reporter.ensure_newline()
            self.reporter.write_line(f"FAILED {report.nodeid} {why}")


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Say failures at once, in the process that has the terminal."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter:
        config.pluginmanager.register(SaidAtOnce(reporter))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what mounts, and begin with the longest chains: virtual machines, and what runs one at a time."""
    for item in items:
        if MOUNTING & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.root)

    def turn(item: pytest.Item) -> int:
        return 0 if item.get_closest_marker("vm") else 1 if item.nodeid.startswith(TRACING) else 2

    items.sort(key=turn)
