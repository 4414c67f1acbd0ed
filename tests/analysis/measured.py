# SPDX-License-Identifier: BSD-2-Clause
"""Results of areas that a test knows to be there."""

from __future__ import annotations

from analysis.measures.block.results import BlockResults
from analysis.measures.device.results import DepthResults
from analysis.measures.results import Results


def block_results(results: Results) -> BlockResults:
    """The results of the block table, which the run has."""
    assert results.block is not None
    return results.block


def depths(results: Results) -> DepthResults:
    """The queue depths, which the run has."""
    assert results.device.depth is not None
    return results.device.depth
