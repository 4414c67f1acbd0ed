# SPDX-License-Identifier: BSD-2-Clause
"""The IO graph of several disks: a map each, no byte left out, and what each disk did over time."""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.figure import Figure

from analysis.figures import device_maps, save
from analysis.figures.device_maps import MOST_MAPS, DeviceMaps
from analysis.measures.device.by_time import busy_periods
from analysis.measures.results import Results, measure
from analysis.rundir import devices
from analysis.rundir.run import open_run
from analysis.rundir.stack import Stack
from analysis.tables.load import load_tables
from tests.analysis.measured import draw
from tests.analysis.synthetic import START_NS, Spec, request, run_json

SECOND = 1_000_000_000


def number(disk: int) -> int:
    return 8 << 20 | 16 * disk


def on_disks(disks: int, idle: tuple[int, ...] = (), reading: tuple[int, ...] = ()) -> Spec:
    """Disk i wrote 10 * (disks - i) times 4 kB; a reading one read as often 512 B, an idle one flushed."""
    spec = Spec(run=run_json(10))
    facts = [
        {"name": f"sd{chr(97 + i)}", "dev": f"8:{16 * i}", "kind": "device", "size_bytes": 1 << 40}
        for i in range(disks)
    ]
    spec.run["device"], spec.run["more_devices"] = facts[0], facts[1:]
    for i in range(disks):
        if i in idle:
            spec.block.append(request(START_NS + SECOND, 0, 0, op="flush", dev=number(i)))
            continue
        for k in range(10 * (disks - i)):
            t = START_NS + SECOND + k * 10_000_000 + i * 1000
            spec.block.append(request(t, k * 8 * (1 + i), 4096, dev=number(i), complete_ns=t + 5_000_000))
            if i in reading:
                spec.block.append(request(t + 10, k * 8, 512, op="read", dev=number(i)))
    return spec


def maps_of(path: Path) -> tuple[DeviceMaps, Results]:
    run = open_run(path)
    tables = load_tables(run)
    assert tables.block is not None
    results = measure(run, tables)
    found = devices.with_requests(run, tables.block)
    labels = [device_maps.device_label(device, tables.stack_of_run) for device in found]
    maps = DeviceMaps.make(tables.block, found, labels, results, "disk")
    assert maps is not None
    return maps, results


def words(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.texts]


@pytest.mark.parametrize("disks", [2, 4, 8, 12])
def test_every_byte_is_in_a_map_or_named(tmp_path: Path, disks: int) -> None:
    maps, _ = maps_of(on_disks(disks).write(tmp_path / "r"))
    assert len(maps.maps) == min(disks, MOST_MAPS)
    for i, one in enumerate(maps.maps):  # the busiest are the first
        wanted = 10 * (disks - i) * 4096
        assert sum(float(cells.sum()) for cells in one.disk.maps["write"].values()) == wanted
        assert one.disk.bytes_ == {"write": wanted, "read": 0}
    others = [10 * (disks - i) * 4096 for i in range(MOST_MAPS, disks)]
    assert maps.others_bytes == sum(others) and len(maps.others) == len(others)
    assert maps.bytes_["write"] == sum(10 * n * 4096 for n in range(1, disks + 1))
    if others:
        share = 100 * sum(others) / maps.bytes_["write"]
        assert maps.note("write") == f"4 more with {share:.1f} % of all bytes: sdi, sdj, sdk, sdl"
    else:
        assert maps.note("write") == ""


def test_the_busiest_disks_keep_the_order_of_the_run(tmp_path: Path) -> None:
    spec = on_disks(10)
    for row in spec.block:  # the last disk is the busiest
        row["dev"] = number(9 - (row["dev"] & 0xFF) // 16)
    maps, _ = maps_of(spec.write(tmp_path / "r"))
    assert [one.device.name for one in maps.maps] == [f"sd{c}" for c in "cdefghij"]
    assert maps.others == ["sdb", "sda"]


def test_a_disk_without_reads_or_bytes_is_named(tmp_path: Path) -> None:
    path = on_disks(4, idle=(3,), reading=(1,)).write(tmp_path / "r")
    maps, _ = maps_of(path)
    assert [one.device.name for one in maps.maps] == ["sda", "sdb", "sdc"]
    assert maps.note("write") == "no request moved any bytes: sdd"
    assert maps.note("read") == "no reads: sda, sdc; no request moved any bytes: sdd"
    figure = draw(path)
    assert save.png(figure, 40).startswith(b"\x89PNG")
    shown = words(figure)
    assert (
        sum("written" in text for text in shown) == 3 and sum(text.endswith(" read") for text in shown) == 1
    )
    assert "sdb (disk 2) · device · 1.10 TB · 15.4 kB read" in shown  # 30 of 512 B
    assert maps.note("write") in shown and maps.note("read") in shown


def test_one_ink_means_as_many_bytes_on_all_disks(tmp_path: Path) -> None:
    maps, _ = maps_of(on_disks(3).write(tmp_path / "r"))
    each = [one.disk.ranges()["write", "data"] for one in maps.maps]
    assert maps.ranges()["write", "data"] == (min(low for low, _ in each), max(high for _, high in each))
    assert len({one.disk.unit for one in maps.maps}) == 1


def test_panels_of_several_disks_are_drawn_for_several_only(tmp_path: Path) -> None:
    titles = [ax.get_title(loc="left") for ax in draw(on_disks(2).write(tmp_path / "two")).axes]
    assert {"Seeks per second, by disk", "Busy, % of time, by disk"} <= set(titles)
    assert "Queue depth, requests at the device (mean), by disk" in titles
    assert "Requests and seeks per second, all disks" in titles
    titles = [ax.get_title(loc="left") for ax in draw(on_disks(1).write(tmp_path / "one")).axes]
    assert not any("by disk" in title or "all" in title for title in titles)
    assert "Queue depth, requests" in titles


def test_more_disks_than_lines_are_a_range(tmp_path: Path) -> None:
    figure = draw(on_disks(12).write(tmp_path / "r"))
    panel = next(ax for ax in figure.axes if ax.get_title(loc="left") == "Busy, % of time, of 12 disks")
    legend = panel.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == [
        "lowest to highest disk",
        "median of the disks",
        "sda: highest mean",
    ]


def test_series_of_a_disk_are_its_own(tmp_path: Path) -> None:
    """Disk 0: 20 requests of 5 ms, in order on the disk; disk 1: 10, each 4 kB behind the one before."""
    _, results = maps_of(on_disks(2).write(tmp_path / "r"))
    length_s = results.timeline.lengths_s
    for one, requests, seeks in zip(results.device.series, (20, 10), (0, 0), strict=True):
        assert (one.depth * length_s).sum() == pytest.approx(requests * 5e-3)
        assert (one.busy_pct * length_s).sum() == pytest.approx(100 * requests * 5e-3)
        assert (one.seeks_per_s * length_s).sum() == seeks


def test_seeks_of_the_disks_sum_to_all_seeks(tmp_path: Path) -> None:
    rng = random.Random(3)
    spec = Spec(run=run_json(10))
    for _ in range(900):
        t = START_NS + rng.randrange(9 * SECOND)
        spec.block.append(request(t, rng.randrange(1 << 30), 4096, dev=number(rng.randrange(3))))
    _, results = maps_of(spec.write(tmp_path / "r"))
    assert results.block is not None
    by_disk = sum(one.seeks_per_s for one in results.device.series)
    assert np.asarray(by_disk) == pytest.approx(results.block.seeks.per_s)


intervals = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 12)), max_size=30)


@settings(max_examples=80, deadline=None)
@given(intervals)
def test_busy_time_is_the_union_of_the_requests(items: list[tuple[int, int]]) -> None:
    begin = np.array(sorted(at for at, _ in items), dtype=np.int64)
    end = np.array(sorted(at + length for at, length in items), dtype=np.int64)
    first, last = busy_periods(begin, end)
    moments = {t for at, length in items for t in range(at, at + length)}
    assert int((last - first).sum()) == len(moments)
    assert (first[1:] > last[:-1]).all()


def test_many_idle_names_are_counted() -> None:
    assert device_maps.named([f"sd{i}" for i in range(8)]) == "sd0, sd1, sd2, sd3, sd4, sd5 and 2 more"


def test_names_of_a_hostile_run_stay_within_the_picture(tmp_path: Path) -> None:
    spec = on_disks(3)
    for i, one in enumerate((spec.run["device"], *spec.run["more_devices"])):
        one |= {
            "name": f"{i}$\\frac{{\n" + "x" * 5000,
            "model": "\x1b[31m" + "y" * 5000,
            "size_bytes": 1 << 62,
        }
    figure = draw(spec.write(tmp_path / "r"))
    assert save.png(figure, 40).startswith(b"\x89PNG")
    assert all(len(text) <= 130 and text.isprintable() for text in words(figure) if "written" in text)


def facts(**more: Any) -> devices.Device:
    return devices.Device(1, "sda", "disk", more)


def test_a_label_tells_what_a_disk_is() -> None:
    label = partial(device_maps.device_label, stack=Stack())
    assert (
        label(facts(model="ST4000", kind="device", size_bytes=4 * 10**12)) == "sda (disk) · ST4000 · 4.00 TB"
    )
    assert label(facts(kind="file")) == "sda (disk) · file · size not known"
    assert label(facts(model=7, size_bytes="x")) == "sda (disk) · size not known"
