# SPDX-License-Identifier: BSD-2-Clause
"""What tests of reports share."""

import pytest

from analysis.figures.compare import iographs, locks_heatmap, verdicts
from analysis.figures.run import distributions, iograph

_PNG = b"\x89PNG\r\n\x1a\n"
_SVG = b'<svg xmlns="http://www.w3.org/2000/svg"/>'


@pytest.fixture
def words_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the large pictures empty, as drawing takes most of the time of a test that reads words."""
    for module in (iograph, distributions, iographs, locks_heatmap, verdicts):
        monkeypatch.setattr(module, "render", lambda *_: (_PNG, _SVG))
