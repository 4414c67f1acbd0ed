# SPDX-License-Identifier: BSD-2-Clause
"""Pictures of a file system on a volume: the volume beside its disks, and BY=volume, by arithmetic."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.errors import ReportError
from analysis.figures.compare import iographs
from analysis.figures.run import iograph
from analysis.measures.compare.compared_run import load_compared
from analysis.measures.results import Results, measure
from analysis.movie import make_movie
from analysis.report import make_report
from analysis.rundir.run import open_run
from analysis.tables.load import load_tables
from tests.analysis.measured import draw, measured_of
from tests.analysis.stacked import (
    DM0,
    DM1,
    MD0,
    SDA,
    SDA2,
    SDB,
    SDC,
    ZRAM0,
    lvm_on_crypt_nodes,
    node,
    part_of,
    raid5_nodes,
    stacked_run,
    top_bio,
)
from tests.analysis.synthetic import START_NS, Spec, request
from tests.analysis.test_movie import frames_of

SECOND = 1_000_000_000
CHUNK = 65536
BIOS = 40


def raid5() -> Spec:
    """40 full stripes of md0: 64 kB on two disks, 64 kB parity on the third; and 8 reads of a resync."""
    bios, requests = [], []
    for i in range(BIOS):
        queue_ns = START_NS + SECOND + i * 100_000_000
        top = top_bio(i + 1, queue_ns, i * 256, 2 * CHUNK, dev=MD0, complete_ns=queue_ns + 400_000)
        bios.append(top)
        for k, disk in enumerate((SDA, SDB, SDC)):
            more = {"class": "parity"} if k == 2 else {}
            requests.append(part_of(top, disk, 2048 + i * 128, CHUNK, **more))
    for i in range(8):
        row = request(START_NS + SECOND + i * 100_000_000 + 7, i * 128, CHUNK, dev=SDB, op="read", origin=0)
        requests.append({**row, "class": "volume"})
    return Spec(block=requests, volume=bios, run=stacked_run(raid5_nodes()))


def zram() -> Spec:
    spec = Spec(run=stacked_run([node("zram0", "zram", [])]))
    spec.volume = [top_bio(i + 1, START_NS + SECOND + i, i * 8, 4096, dev=ZRAM0) for i in range(30)]
    return spec


def lvm() -> Spec:
    """Three bios of 4 kB to dm-0, on dm-1, on sda2: one disk."""
    tops = [top_bio(i + 1, START_NS + SECOND + i * 1000, i * 8, 4096, dev=DM0) for i in range(3)]
    lower = [{**top, "bio_id": 10 + top["bio_id"], "dev": DM1} for top in tops]
    requests = [part_of(top, SDA, 2048 + top["sector"], 4096) for top in tops]
    return Spec(block=requests, volume=tops + lower, run=stacked_run(lvm_on_crypt_nodes(), parts=[SDA2]))


def titles(figure: Figure) -> list[str]:
    found = [ax.get_title(loc="left") for ax in figure.axes]
    return [title.replace(", all programs", "") for title in found if title]


def panel(figure: Figure, title: str) -> Axes:
    return next(ax for ax in figure.axes if ax.get_title(loc="left").startswith(title))


def sums(results: Results, series: dict[str, Any]) -> dict[str, float]:
    return {name: float((values * results.timeline.lengths_s).sum()) for name, values in series.items()}


def test_volume_and_disks_have_their_own_bytes(tmp_path: Path) -> None:
    results = measured_of(raid5(), tmp_path / "r")
    below = results.below
    assert below is not None and results.block is not None and below.volume == "volume md0"
    asked = sums(results, results.block.throughput.mb_s["write"])
    assert asked["data"] == pytest.approx(BIOS * 2 * CHUNK / 1e6) and asked["parity"] == 0
    disks = sums(results, below.mb_s["write"])
    assert disks["data"] == pytest.approx(BIOS * 2 * CHUNK / 1e6)
    assert disks["parity"] == pytest.approx(BIOS * CHUNK / 1e6)
    assert sums(results, below.mb_s["read"])["volume"] == pytest.approx(8 * CHUNK / 1e6)
    assert sums(results, below.iops) == pytest.approx({"write": 3 * BIOS, "read": 8})


def test_latency_is_of_the_volume_and_of_the_disks(tmp_path: Path) -> None:
    """Q2C of a bio: 400 us; D2C of its requests: 100 us."""
    results = measured_of(raid5(), tmp_path / "r")
    assert results.below is not None and results.block is not None
    volume, disks = results.block.latency.series["write"], results.below.latency["write"]
    assert np.nanmax(volume.max_ns) == np.nanmin(volume.p50_ns) == 400_000
    assert np.nanmax(disks.max_ns) == np.nanmin(disks.p50_ns) == 100_000


def test_panels_show_the_volume_beside_its_disks(tmp_path: Path) -> None:
    figure = draw(raid5().write(tmp_path / "r"))
    found = titles(figure)
    at = found.index("Throughput of the volume md0, MB/s: writes up, reads down")
    assert found[at + 1] == "Throughput of the disks, MB/s: writes up, reads down"
    at = found.index("Latency of the volume md0 from queue to completion (Q2C)")
    assert found[at + 1] == "Latency of the disks from issue to completion (D2C)"
    assert found[:2] == ["Disk offset of writes, MB, by disk", "Disk offset of reads, MB, by disk"]
    latency = [panel(figure, f"Latency of the {of}") for of in ("volume", "disks")]
    assert latency[0].get_ylim() == latency[1].get_ylim()
    throughput = [panel(figure, f"Throughput of the {of}") for of in ("volume", "disks")]
    assert throughput[0].get_ylim() == throughput[1].get_ylim()
    legend = throughput[1].get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()][1:] == [
        "volume md0",
        "device, data",
        "device, volume",
        "device, parity",
    ]


def test_resync_does_not_flatten_the_volume(tmp_path: Path) -> None:
    spec = raid5()
    for row in spec.block:
        if row.get("class") == "volume":
            row["bytes"] = 1 << 26
    figure = draw(spec.write(tmp_path / "r"))
    volume = panel(figure, "Throughput of the volume md0, MB/s: writes, own scale")
    disks = panel(figure, "Throughput of the disks")
    assert volume.get_ylim()[1] < disks.get_ylim()[1] - disks.get_ylim()[0]


def test_by_volume_draws_the_map_of_the_volume(tmp_path: Path) -> None:
    figure = draw(raid5().write(tmp_path / "r"), by_volume=True)
    assert titles(figure)[0].endswith("on the volume md0")
    run = open_run(tmp_path / "r")
    tables = load_tables(run)
    graph = iograph._make_graph(run, tables, measure(run, tables), by_volume=True)
    assert graph.disk is not None and graph.devices is None
    assert graph.disk.bytes_ == {"write": BIOS * 2 * CHUNK, "read": 0}
    graph = iograph._make_graph(run, tables, measure(run, tables), by_volume=False)
    assert graph.devices is not None and graph.disk is None
    assert graph.devices.bytes_ == {"write": BIOS * 3 * CHUNK, "read": 8 * CHUNK}


def test_a_volume_without_disks_has_the_only_map(tmp_path: Path) -> None:
    found = titles(draw(zram().write(tmp_path / "r")))
    assert found[0] == "Disk offset of writes, kB, on the volume zram0"
    assert not any("of the disk" in title for title in found)
    assert "Latency of the volume zram0 from queue to completion (Q2C)" in found


def test_one_disk_below_a_volume_has_one_map(tmp_path: Path) -> None:
    found = titles(draw(lvm().write(tmp_path / "r")))
    assert found[0] == "Disk offset of writes, kB"
    assert "Throughput of the volume vg/root, MB/s: writes" in found
    assert "Throughput of the disk, MB/s: writes" in found
    assert not any("by disk" in title or "all disks" in title for title in found)


def test_by_volume_is_refused_without_a_volume(tmp_path: Path) -> None:
    path = Spec(block=[request(START_NS + SECOND, 8)]).write(tmp_path / "r")
    for make in (make_report, make_movie):
        with pytest.raises(ReportError, match="r has no volume above its disks: leave BY=volume out"):
            make(path, by_volume=True)


@pytest.mark.parametrize(("by_volume", "devices"), [(False, 3), (True, 1)])
def test_movie_shows_the_disks_or_the_volume(tmp_path: Path, by_volume: bool, devices: int) -> None:
    path = raid5().write(tmp_path / "r")
    make_movie(path, by_volume=by_volume)
    data, requests, sizes = frames_of(path)
    assert len(data["devices"]) == devices
    assert sum(requests.values()) == (BIOS if by_volume else 3 * BIOS + 8)
    assert sum(sizes.values()) == CHUNK * (2 * BIOS if by_volume else 3 * BIOS + 8)
    assert data["devices"][0] == (
        "md0 (volume) · md raid5 · 1.00 GB" if by_volume else "sda · disk · 1.00 GB"
    )


def test_movie_of_a_volume_without_disks_shows_the_volume(tmp_path: Path) -> None:
    path = zram().write(tmp_path / "r")
    make_movie(path)
    _, requests, _ = frames_of(path)
    assert sum(requests.values()) == 30


def test_two_volumes_and_a_bare_journal_have_a_map_each(tmp_path: Path) -> None:
    nodes = [
        node("dm-0", "lvm", ["sda"]),
        node("dm-1", "lvm", ["sdb"]),
        *(node(name, "disk", []) for name in ("sdc", "sda", "sdb")),
    ]
    tops = [top_bio(i + 1, START_NS + SECOND + i, i * 8, 4096, dev=(DM0, DM1)[i % 2]) for i in range(30)]
    requests = [part_of(top, SDA if top["dev"] == DM0 else SDB, top["sector"], 4096) for top in tops]
    requests += [request(START_NS + SECOND + i, i * 8, 4096, dev=SDC, origin=0) for i in range(5)]
    roles = {"dm-0": "data", "dm-1": "member", "sdc": "journal"}
    path = tmp_path / "r"
    Spec(block=requests, volume=tops, run=stacked_run(nodes, roles)).write(path)
    figure = draw(path, by_volume=True)
    assert titles(figure)[0] == "Disk offset of writes, kB, by volume"
    labels = [text.get_text() for text in figure.texts if text.get_text().endswith(" written")]
    assert [label.partition(" ·")[0] for label in labels] == [
        "dm-0 (volume)",
        "dm-1 (volume 2)",
        "sdc (journal)",
    ]
    assert [label.rpartition("· ")[2] for label in labels] == ["61.4 kB written"] * 2 + ["20.5 kB written"]
    make_movie(path, by_volume=True)
    data, moved, _ = frames_of(path)
    assert len(data["devices"]) == 3 and sum(moved.values()) == 35


def test_comparison_has_the_volume_beside_a_bare_disk(tmp_path: Path) -> None:
    """Both are what the file system used: one band of the axis, whatever lies below."""
    bare = Spec(block=[request(START_NS + SECOND + i, i * 8) for i in range(50)])
    runs = [load_compared("A", raid5().write(tmp_path / "a")), load_compared("B", bare.write(tmp_path / "b"))]
    maps = iographs.disk_maps(runs)
    assert [one.names for one in maps if one is not None] == [["disk"], ["disk"]]
    assert [one.bytes_["write"] for one in maps if one is not None] == [BIOS * 2 * CHUNK, 50 * 4096]
    found = [row.title for row in iographs._rows(runs, maps)]
    assert "Request latency from queue to completion (Q2C), all disks" in found
    assert not any("md0" in title for title in found)
    same = [row.title for row in iographs._rows(runs[:1] * 2, maps[:1] * 2)]
    assert "Latency of the volume md0 from queue to completion (Q2C)" in same
