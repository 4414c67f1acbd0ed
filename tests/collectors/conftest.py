# SPDX-License-Identifier: BSD-2-Clause
"""Fixtures: a directory that another user may enter, a home behind sudo; threads that know their time."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.collectors.known_run import KnownRun, record_known
from tests.collectors.other_user import USER, home_of, passable, play_sudo


@pytest.fixture
def open_place() -> Iterator[Path]:
    """A directory of root's that others may enter: pytest closes its own whenever one begins."""
    with passable() as place:
        yield place


@pytest.fixture
def home(open_place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory of the user's that others may look into, who starts all by sudo."""
    play_sudo(USER, monkeypatch)
    return home_of(USER, open_place)


@pytest.fixture(scope="session")
def known_run(tmp_path_factory: pytest.TempPathFactory) -> KnownRun:
    """One recording of programs/known_times.c, for all files that look at it."""
    return record_known(tmp_path_factory.mktemp("known"))
