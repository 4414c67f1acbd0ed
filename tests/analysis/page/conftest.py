# SPDX-License-Identifier: BSD-2-Clause
"""One browser for all tests of pages in a process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.analysis.page.browser import MISSING, Browser, find_chromium


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A headless browser; skips where there is none."""
    if find_chromium() is None:
        pytest.skip(MISSING)
    started = Browser(tmp_path_factory.mktemp("browser"))
    yield started
    started.close()
