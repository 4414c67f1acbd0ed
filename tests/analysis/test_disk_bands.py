# SPDX-License-Identifier: BSD-2-Clause
"""The strip of what the file system keeps where: at the heights of the map, named, and hiding no request."""

from __future__ import annotations

import json

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PatchCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from analysis.figures import disk_bands, style
from analysis.figures.disk_bands import DiskBands
from analysis.figures.disk_panel import DiskPanels
from analysis.figures.run import iograph
from analysis.measures.results import Results, measure
from analysis.rundir import devices
from analysis.rundir.run import Run, open_run
from analysis.tables.load import Tables, load_tables
from tests.analysis.synthetic import decaying_ext3


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Tables, Results]:
    """The example run, with areas around what it has: its journal, and tables below."""
    path = decaying_ext3(seconds=20).write(tmp_path_factory.mktemp("bands") / "run")
    facts = json.loads((path / "run.json").read_text())
    dev = facts["device"]["dev"]
    (journal,) = facts["filesystem"]["geometry"]["journal"]
    end = facts["device"]["size_bytes"] // 512
    facts["filesystem"]["geometry"] |= {
        "areas": [
            {"name": "the log", "kind": "journal", "dev": dev, "extents": [journal]},
            {"name": "tables", "kind": "metadata", "dev": dev, "extents": [[0, journal[0] // 2]]},
        ],
        "spans": [
            {
                **{"dev": dev, "start_sector": 0, "end_sector": end, "rest": "files", "rest_kind": "mixed"},
                **{"group": "allocation group", "group_sectors": end // 8, "first_group_sector": 0},
            }
        ],
    }
    (path / "run.json").write_text(json.dumps(facts))
    run = open_run(path)
    tables = load_tables(run)
    return run, tables, measure(run, tables)


def panels(loaded: tuple[Run, Tables, Results]) -> tuple[DiskPanels, DiskBands]:
    run, tables, m = loaded
    assert tables.block is not None
    found = devices.with_requests(run, tables.block)
    disk = DiskPanels.make(tables.block, found, m)
    assert disk is not None
    bands = DiskBands.make(disk, [device.number for device in found], m.geometry)
    assert bands is not None
    return disk, bands


def test_bands_lie_at_their_sectors_of_the_map(loaded: tuple[Run, Tables, Results]) -> None:
    disk, bands = panels(loaded)
    m = loaded[2]
    (device,) = m.geometry.devices.values()
    for band in bands.bands:
        assert 0 <= band.low < band.high <= disk.height_rows
    # sampled sector by sector: the band at its height is that of its area
    for begin, end in disk.axis.stretches:
        for sector in np.linspace(begin + 1, end - 2, 200).astype(int).tolist():
            code = int(device.areas[np.searchsorted(device.edges, sector, side="right") - 1])
            row = disk.row_of(sector)
            here = [band for band in bands.bands if band.low - 0.35 <= row <= band.high + 0.35]
            assert m.geometry.areas[code] in [band.area for band in here], sector
    ends = [
        number * device.groups[0].sectors for _, number, begins in bands.groups["allocation group"] if begins
    ]
    rows = [row for row, _, begins in bands.groups["allocation group"] if begins]
    assert rows == pytest.approx([disk.row_of(sector) for sector in ends], abs=1.0)


def test_bands_are_labelled_and_hide_no_requests(loaded: tuple[Run, Tables, Results]) -> None:
    disk, bands = panels(loaded)
    with mpl.rc_context(style.RC):  # type: ignore[arg-type]
        figure = Figure(figsize=(8, 4))
        FigureCanvasAgg(figure)
        ax = figure.add_axes((0.1, 0.1, 0.8, 0.8))
        disk.draw(ax, "write", disk.ranges())
        bands.draw(ax, disk, "write", 6.4, 3.2)
        figure.canvas.draw()
        named = {text.get_text(): text for text in ax.texts}
        assert "the log" in named
        assert "files" not in named  # what may hold anything has no name over the map
        assert any(name.startswith("AG ") for name in named)
        strips = {
            to_hex(np.asarray(one.get_facecolor())[0])
            for one in ax.collections
            if isinstance(one, PatchCollection)
        }
        assert style.JOURNAL.lower() in strips
        used = disk_bands._occupied(disk, "write")
        assert used.shape[0] == disk.height_rows
        box = ax.get_window_extent()
        columns, rows = used.shape[1] / box.width, disk.height_rows * 1.04 / box.height
        mine = named["the log"].get_window_extent()
        left, right = (int((x - box.x0) * columns) for x in (mine.x0, mine.x1))
        low, high = (int((y - box.y0) * rows - 0.02 * disk.height_rows) for y in (mine.y0 + 2, mine.y1 - 2))
        free = ~np.asarray(used[max(low, 0) : high + 1].any(axis=0))
        wide = right - left
        if np.convolve(free[: used.shape[1]], np.ones(wide + 8), "valid").max() >= wide + 8:  # there is room
            assert free[left:right].mean() > 0.9


def test_strip_of_the_layout_is_explained(loaded: tuple[Run, Tables, Results]) -> None:
    run, tables, m = loaded
    with mpl.rc_context(style.RC):  # type: ignore[arg-type]
        figure = iograph.draw(run, tables, m, "t", "s", [])
        words = [text.get_text() for text in (*figure.texts, *(t for ax in figure.axes for t in ax.texts))]
    assert any("areas of the file system" in text for text in words)
    assert "the log" in words


def test_labels_move_away_from_requests() -> None:
    used = np.zeros((20, 100), dtype=np.bool_)
    assert disk_bands._label_right(used, 5, 8, 0.2) == pytest.approx(0.996)
    used[6, 70:] = True
    assert disk_bands._label_right(used, 5, 8, 0.2) == pytest.approx(0.7)
    assert disk_bands._label_right(used, 9, 12, 0.2) == pytest.approx(0.996)
    used[:] = True
    assert 0.2 <= disk_bands._label_right(used, 5, 8, 0.2) <= 0.996
