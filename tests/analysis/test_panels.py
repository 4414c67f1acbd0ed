# SPDX-License-Identifier: BSD-2-Clause
"""Panels of the IO graph: each states its key and order, draws its data, or says why it is empty."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.figures.panel import Graph, Panel, find_panels
from analysis.figures.run import iograph
from analysis.measures.results import measure
from analysis.rundir.run import open_run
from analysis.tables.load import load_tables
from tests.analysis.measured import draw
from tests.analysis.synthetic import START_NS, Spec, collector, decaying_ext3, request, run_json


def texts(figure: Figure) -> dict[str, list[str]]:
    """The words inside each panel, by its title."""
    return {ax.get_title(loc="left"): [text.get_text() for text in ax.texts] for ax in figure.axes}


def test_panels_state_unique_keys_and_orders() -> None:
    panels = find_panels()
    assert [panel.order for panel in panels] == sorted({panel.order for panel in panels})
    assert len({panel.key for panel in panels}) == len(panels)
    assert all(panel.key.isidentifier() and panel.collectors for panel in panels)
    folder = Path(iograph.__file__).parents[1] / "panels"
    assert {panel.key for panel in panels} == {path.stem for path in folder.glob("[!_]*.py")}


def test_compared_panels_are_panels_of_the_io_graph() -> None:
    keys = [panel.key for panel in find_panels() if panel.compared_height_in]
    assert keys == ["throughput", "request_rates", "request_latency"]


def test_a_panel_without_data_names_its_collector(tmp_path: Path) -> None:
    spec = Spec(run={**run_json(3), "collectors": ["block", "locks", "counters"]})
    spec.losses = {"collectors": {"locks": {**collector(0), "state": "off", "why": "no BTF"}}}
    path = spec.write(tmp_path / "r")
    shutil.rmtree(path / "raw")
    run = open_run(path)
    tables = load_tables(run)
    graph = Graph(run, measure(run, tables))
    for panel in find_panels():
        assert panel.why_empty(graph).startswith(f"no {panel.collectors[0]} data: ")
    found = texts(draw(path))
    assert sum("no block data" in " ".join(words) for words in found.values()) == 5
    assert sum("no locks data" in " ".join(words) for words in found.values()) == 2
    assert not any(title.startswith("Disk offset of") for title in found)


def test_a_panel_of_requests_says_that_there_were_none(tmp_path: Path) -> None:
    found = texts(draw(Spec().write(tmp_path / "r")))
    assert found["Disk offset"] == ["no request moved any bytes"]
    assert found["Request latency from queue to completion (Q2C)"] == ["no requests"]


def test_latency_without_a_completed_request_says_so(tmp_path: Path) -> None:
    path = Spec(block=[request(START_NS + 9_000, 8, complete_ns=0)]).write(tmp_path / "r")
    found = texts(draw(path))
    assert found["Request latency from queue to completion (Q2C)"] == ["no request was seen to complete"]


def test_a_new_panel_is_drawn_by_its_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def draw_one(ax: Axes, graph: Graph) -> list[object]:
        ax.plot([0, 1], [1, 2])
        return []

    mine = Panel(
        key="mine",
        order=35,
        height_in=0.5,
        collectors=("block",),
        needs=lambda results: results.block,
        title=lambda graph: f"A question of {graph.run.name}",
        draw=draw_one,  # type: ignore[arg-type]
    )
    panels = sorted([*find_panels(), mine], key=lambda panel: panel.order)
    monkeypatch.setattr(iograph, "find_panels", lambda: panels)
    path = decaying_ext3(3, 100).write(tmp_path / "r")
    titles = [title.split(",")[0] for title in texts(draw(path)) if title]
    assert titles[titles.index("Throughput") + 1] == "A question of r"
