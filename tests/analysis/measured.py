# SPDX-License-Identifier: BSD-2-Clause
"""Results of a run that a test wrote, and of areas that it knows to be there; the run's IO graph."""

from __future__ import annotations

from pathlib import Path

from matplotlib.figure import Figure

from analysis.figures import style
from analysis.figures.run import iograph
from analysis.measures.block.results import BlockResults
from analysis.measures.device.results import DepthResults
from analysis.measures.results import Results, measure
from analysis.rundir.run import open_run
from analysis.tables.load import load_tables
from tests.analysis.synthetic import Spec


def measured_of(spec: Spec, path: Path) -> Results:
    """Write a run directory, of which nothing is missing, and measure it."""
    run = open_run(spec.write(path))
    results = measure(run, load_tables(run))
    assert not run.missing
    return results


def draw(path: Path, by_volume: bool = False) -> Figure:
    """The IO graph of a run directory."""
    run = open_run(path)
    tables = load_tables(run)
    with style.applied():
        return iograph.draw(run, tables, measure(run, tables), "title", "subtitle", [], by_volume)


def block_results(results: Results) -> BlockResults:
    """The results of the block table, which the run has."""
    assert results.block is not None
    return results.block


def depths(results: Results) -> DepthResults:
    """The queue depths, which the run has."""
    assert results.device.depth is not None
    return results.device.depth
