# SPDX-License-Identifier: BSD-2-Clause
"""What must be known before any number of the first screen: killed, lossy, emulated, imported, too short."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.findings.rule import Case, Found


def warnings(case: Case, found: Found, banners: Sequence[str]) -> list[str]:
    """The report's banners, after what makes the run no measurement at all."""
    caveats = [finding.what for finding in found.findings if finding.kind in found.caveats]
    imported = case.run.text("imported", "format")
    first = (
        [f"imported from {imported}: requests alone, so waits and calls are not known"] if imported else []
    )
    return [*first, *banners, *caveats]
