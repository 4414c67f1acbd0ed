# SPDX-License-Identifier: BSD-2-Clause
"""The drives' files: what is derived, against arithmetic of its own; every wrong file is refused."""

import math
import os
import random
import tomllib
from pathlib import Path
from typing import Any

import pytest

from workloads.drives import model
from workloads.system.errors import OptionError

MODELS = Path(model.__file__).parent / "models"


def flat(name: str) -> dict[str, list[list[float]]]:
    """The parameters of a whole drive: key -> rows of numbers (words are left out)."""
    drive = model.load(name)
    rows: dict[str, list[list[float]]] = {}
    for line in drive.flat(drive.capacity_bytes).splitlines():
        key, *values = line.split()
        rows.setdefault(key, []).append([float(v) for v in values if v[0].isdigit()])
    return rows


@pytest.mark.parametrize("name", model.names())
def test_a_drive_holds_its_size_and_no_more(name: str) -> None:
    rows = flat(name)
    sectors, first = 0.0, 0.0
    for last, track in rows["zone"]:
        sectors += (last + 1 - first) * track * rows["surfaces"][0][0]
        first = last + 1
    stated = tomllib.loads((MODELS / f"{name}.toml").read_text()).get("size_bytes", sectors * 512)
    assert 0 <= stated - rows["sectors"][0][0] * 512 < 4096
    assert stated <= sectors * 512 < stated * 1.01


@pytest.mark.parametrize("name", ["sata2007", "scsi2002", "fc15k", "laptop5400", "sata2tb"])
def test_rates_of_the_ends_are_those_stated(name: str) -> None:
    rows = flat(name)
    stated: dict[str, Any] = tomllib.loads((MODELS / f"{name}.toml").read_text())["zones"]
    revolution_s = 60 / rows["rpm"][0][0]
    heads, track, cylinder = (rows[k][0][0] for k in ("surfaces", "track_skew", "cylinder_skew"))
    for zone, rate in ((0, "outer_mb_per_s"), (-1, "inner_mb_per_s")):
        a_cylinder_s = revolution_s * (heads + (heads - 1) * track + cylinder)
        mb_per_s = rows["zone"][zone][1] * heads * 512 / a_cylinder_s / 1e6
        assert mb_per_s == pytest.approx(stated[rate], rel=0.002)


@pytest.mark.parametrize("name", ["sata2007", "scsi2002", "fc15k", "laptop5400", "sata2tb"])
def test_seeks_have_the_stated_mean_and_ends(name: str) -> None:
    seeks = flat(name)["seek"]
    stated: dict[str, Any] = tomllib.loads((MODELS / f"{name}.toml").read_text())["seek"]
    assert seeks[0] == [1, stated["one_cylinder_ms"] * 1e6]
    assert seeks[-1][1] == pytest.approx(stated["full_ms"] * 1e6, rel=0.001)
    last = int(seeks[-1][0])
    draws = random.Random(1)
    total = 0.0
    for _ in range(20_000):
        distance = max(abs(draws.randint(0, last) - draws.randint(0, last)), 1)
        after = next(i for i, row in enumerate(seeks) if row[0] >= distance)
        (d0, t0), (d1, t1) = seeks[max(after - 1, 0)], seeks[after]
        total += t1 if d1 == d0 else t0 + (t1 - t0) * (distance - d0) / (d1 - d0)
    assert total / 20_000 == pytest.approx(stated["average_ms"] * 1e6, rel=0.03)


@pytest.mark.parametrize("name", model.names())
def test_skews_cover_the_switch_and_no_revolution(name: str) -> None:
    rows = flat(name)
    revolution_ns = 60e9 / rows["rpm"][0][0]
    switch, settle = rows["head_switch_ns"][0][0], rows["write_settle_ns"][0][0]
    assert switch <= rows["track_skew"][0][0] * revolution_ns < 0.6 * revolution_ns
    assert (
        max(rows["seek"][0][1], switch) <= rows["cylinder_skew"][0][0] * revolution_ns < 0.6 * revolution_ns
    )
    if "skew" not in tomllib.loads((MODELS / f"{name}.toml").read_text()):
        assert rows["track_skew"][0][0] * revolution_ns >= switch + settle


def test_a_part_of_a_drive_begins_where_it_is_told() -> None:
    drive = model.load("sata2007")
    text = drive.flat(1 << 30, 100 << 30).splitlines()
    assert text[:2] == ["sectors 2097152", f"first_sector {100 << 21}"]
    with pytest.raises(OptionError, match=r"does not fit sata2007, which has 232\.9G"):
        drive.flat(1 << 30, drive.capacity_bytes - (1 << 29))
    with pytest.raises(OptionError, match="whole sectors"):
        drive.flat(1000)


def changed(tmp_path: Path, old: str, new: str) -> str:
    """The path of sata2007's file with one text replaced."""
    text = (MODELS / "sata2007.toml").read_text()
    assert text.count(old) == 1
    path = tmp_path / "mine.toml"
    path.write_text(text.replace(old, new))
    model.load.cache_clear()
    return str(path)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("rpm = 7200", "rpm = nan", "rpm = nan: give 100 to 100000"),
        ("rpm = 7200", "rpm = 0", "rpm = 0: give 100"),
        ("rpm = 7200", "rmp = 7200", "unknown key rmp: did you mean rpm?"),
        ("rpm = 7200", "rpm = true", "rpm that is no number"),
        ("rpm = 7200", "rpm = '7200'", "rpm that is no number"),
        ("surfaces = 4", "surfaces = 2.5", "give a whole number"),
        ("count = 30", "count = 65", "zones.count = 65: give 1 to 64"),
        ("outer_mb_per_s = 67.8", "outer_mb_per_s = 20", "the outer zone is the faster one"),
        ("outer_mb_per_s = 67.8", "outer_mb_per_s = 1e300", "give 0.1 to 10000"),
        ("outer_mb_per_s = 67.8", "table = [[5, 500], [5, 400]]", "last cylinders do not grow"),
        ("average_ms = 8.5", "average_ms = 0.5", "do not grow"),
        ("average_ms = 8.5", "average_ms = 17.9", "no growing curve"),
        ("one_cylinder_ms = 0.8", "table = [[1, 1], [2, inf]]", "no pair of numbers"),
        ("one_cylinder_ms = 0.8", "table = [[9, 1], [2, 3]]", "distances do not grow"),
        ("one_cylinder_ms = 0.8", "table = [[1, 2], [2, 1]]", "a longer seek is faster"),
        ('rule = "sptf"', 'rule = "elevator"', "queue.rule elevator"),
        ('rule = "sptf"', "rule = 3", "queue.rule that is no text"),
        ("rpm = 7200", f"rpm = {'9' * 5000}", "is not TOML: exceeds the limit"),
        ("rpm = 7200", f"rpm = 0x{'f' * 5000}", "rpm = a number of many digits: give"),
        ("rpm = 7200", f"{'r' * 5000} = 1", f"unknown key {'r' * 60}…: "),
        ("sources = [", "sources = [1, ", "sources that are no list of texts"),
        ("extents = 256", "extents = 0", "write_cache.extents = 0"),
        ("depth = 32", "depth = -1", "queue.depth = -1"),
        ("bytes = 7_340_032", "bytes = 99999999999", "write_cache.bytes"),
        ("size_bytes = 250_059_350_016", "size_bytes = 1", "size_bytes = 1: give"),
        ('title = "7200 rpm SATA disk of 2007, 250 GB"', 'title = "a\\u001bb"', "printable"),
        ("[queue]", "[queues]", "unknown key queues: did you mean queue?"),
    ],
)
def test_a_wrong_drive_is_refused_by_its_key(tmp_path: Path, old: str, new: str, says: str) -> None:
    with pytest.raises(OptionError) as refused:
        model.load(changed(tmp_path, old, new))
    assert says in refused.value.message
    assert "\n" not in refused.value.message and len(refused.value.message) < 500


def test_a_file_that_is_no_drive_is_refused(tmp_path: Path) -> None:
    fifo, big, link, binary = (tmp_path / n for n in ("fifo.toml", "big.toml", "none.toml", "bin.toml"))
    os.mkfifo(fifo)
    big.write_bytes(b"#" * ((1 << 20) + 1))
    link.symlink_to(tmp_path / "missing")
    binary.write_bytes(b"\xff\x00")
    for path, says in (
        (fifo, "no regular file"),
        (big, "more than 1M"),
        (link, "cannot be read"),
        (binary, "is not TOML"),
        (tmp_path, "is a directory"),
    ):
        with pytest.raises(OptionError, match=says):
            model.load(f"{path}/" if path is tmp_path else str(path))


@pytest.mark.root
def test_a_file_is_read_with_the_users_rights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = tmp_path / "secret.toml"
    secret.write_text((MODELS / "sata2007.toml").read_text())
    secret.chmod(0o600)
    model.load.cache_clear()
    monkeypatch.setenv("SUDO_UID", "65534")
    with pytest.raises(OptionError, match="cannot be read"):
        model.load(str(secret))


def test_a_curve_has_its_three_times() -> None:
    a, b = model.curve(0.8, 8.5, 18.0, 100_000)
    assert a * math.sqrt(100_000) + b * 100_000 + 0.8 == pytest.approx(18.0)
