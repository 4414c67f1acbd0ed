# SPDX-License-Identifier: BSD-2-Clause
"""Fixtures of tests as another user: a directory of root's open to that user, and a home behind sudo."""

from collections.abc import Iterator
from pathlib import Path

import pytest

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
