# SPDX-License-Identifier: BSD-2-Clause
"""Read and check a drive's TOML file, and derive the parameters that the programs in C take.

What a data sheet states (rates, three seek times, switch times) is turned into what a drive is (cylinders,
sectors a track, a table of seeks, skews). README.md describes the keys; the formulas stand at the functions.
"""

import functools
import itertools
import math
import os
import stat
import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from workloads.system import front
from workloads.system.errors import OptionError, nearest
from workloads.system.owner import owner
from workloads.system.rights import as_user
from workloads.system.tree import TREE
from workloads.system.units import show_size

DEFAULT = "sata2007"
_HERE = TREE / "workloads/drives/models"
_FILE_MOST_BYTES = 1 << 20
_SECTOR_BYTES = 512
_MS = 1_000_000  # nanoseconds
_MOST_ZONES, _MOST_SEEKS = 64, 256  # params.h
_MOST_CACHE_BYTES = 256 << 20  # the server keeps them in locked memory
# Points of a seek curve that a formula gives: dense where it bends.
_CURVE_POINTS = 96
# Sectors that a skew has more than the time it must cover, for the start of the next track to be caught.
_SKEW_SPARE_SECTORS = 2

_TOP = ("title", "sources", "size_bytes", "rpm", "surfaces", "zones", "seek", "skew", "electronics", "queue")
_KEYS: Mapping[str, Collection[str]] = {
    "": (*_TOP, "write_cache", "read_ahead"),
    "zones": ("outer_mb_per_s", "inner_mb_per_s", "count", "table"),
    "seek": ("one_cylinder_ms", "average_ms", "full_ms", "table", "write_settle_ms", "head_switch_ms"),
    "skew": ("track", "cylinder"),
    "electronics": ("read_overhead_ms", "write_overhead_ms", "bus_mb_per_s"),
    "queue": ("depth", "rule", "most_age_ms"),
    "write_cache": ("bytes", "extents", "window", "destage_at", "destage_idle_ms"),
    "read_ahead": ("segments", "segment_bytes", "before"),
}
_RULES = ("fifo", "sstf", "sptf")


@dataclass(frozen=True)
class DriveModel:
    """A drive: what `DISK=hdd:NAME` emulates."""

    name: str  # sata2007, or the path of the user's file
    title: str
    capacity_bytes: int  # of the whole drive
    rpm: float
    surfaces: int
    zones: tuple[tuple[int, int], ...]  # last cylinder, sectors a track; outermost first
    seeks: tuple[tuple[int, int], ...]  # cylinders, ns
    write_settle_ns: int
    head_switch_ns: int
    track_skew: float  # shares of a revolution
    cylinder_skew: float
    read_overhead_ns: int
    write_overhead_ns: int
    bus_bytes_per_s: float
    queue_depth: int
    rule: str  # fifo, sstf, sptf
    most_age_ns: int
    write_cache_bytes: int  # 0: none
    write_cache_extents: int
    destage_at: float
    destage_idle_ns: int
    destage_window: int  # 0: of all dirty extents
    reads_before: bool  # a read keeps what passes the head before its first sector
    read_segments: int  # 0: no read-ahead
    segment_sectors: int

    def flat(self, size_bytes: int, offset_bytes: int = 0) -> str:
        """Return the parameters as native/model/params.h describes them, for a disk on a part of the drive.

        Raises OptionError if the part is not within the drive, or no whole sectors.
        """
        if size_bytes < _SECTOR_BYTES or offset_bytes < 0 or (size_bytes | offset_bytes) % _SECTOR_BYTES:
            raise OptionError(
                f"a disk of {size_bytes} bytes from byte {offset_bytes} on is not possible: give whole "
                f"sectors of {_SECTOR_BYTES} bytes"
            )
        if size_bytes + offset_bytes > self.capacity_bytes:
            begin = f" from {show_size(offset_bytes)} on" if offset_bytes else ""
            raise OptionError(
                f"a disk of {show_size(size_bytes)}{begin} does not fit {self.name}, which has "
                f"{show_size(self.capacity_bytes)}: give a smaller SIZE, "
                f"or another drive ({front.command('list')})"
            )
        lines = [
            f"sectors {size_bytes // _SECTOR_BYTES}",
            f"first_sector {offset_bytes // _SECTOR_BYTES}",
            f"rpm {self.rpm:g}",
            f"surfaces {self.surfaces}",
            *(f"zone {last} {sectors}" for last, sectors in self.zones),
            *(f"seek {cylinders} {ns}" for cylinders, ns in self.seeks),
            f"write_settle_ns {self.write_settle_ns}",
            f"head_switch_ns {self.head_switch_ns}",
            f"track_skew {self.track_skew:.6f}",
            f"cylinder_skew {self.cylinder_skew:.6f}",
            f"read_overhead_ns {self.read_overhead_ns}",
            f"write_overhead_ns {self.write_overhead_ns}",
            f"bus_bytes_per_s {self.bus_bytes_per_s:.0f}",
            f"queue_depth {self.queue_depth}",
            f"scheduling {self.rule}",
            f"most_age_ns {self.most_age_ns}",
            f"write_cache_bytes {self.write_cache_bytes}",
            f"write_cache_extents {self.write_cache_extents}",
            f"destage_at {self.destage_at:.6f}",
            f"destage_idle_ns {self.destage_idle_ns}",
            f"destage_window {self.destage_window}",
            f"read_before {int(self.reads_before)}",
            f"read_segments {self.read_segments}",
            f"segment_sectors {self.segment_sectors}",
        ]
        return "\n".join(lines) + "\n"


def names() -> list[str]:
    """Return the names of the drives of this tree."""
    return sorted(path.stem for path in _HERE.glob("*.toml"))


def is_path(text: str) -> bool:
    """Return whether a drive is named by the path of a file, and not by a name of make list."""
    return "/" in text or text.endswith(".toml")


@functools.cache
def load(name: str) -> DriveModel:
    """Return a drive by its name, or by the path of a TOML file. Raises OptionError."""
    if not name or name == "hdd":
        name = DEFAULT
    if is_path(name):
        text = _read_of_user(Path(name))
    elif name in names():
        text = (_HERE / f"{name}.toml").read_bytes()
    else:
        raise OptionError(f"{name} is not a drive, and no ./FILE.toml: {nearest(name, names())}")
    try:
        described = tomllib.loads(text.decode())
    except (ValueError, RecursionError) as error:  # ValueError: a number of too many digits, too
        raise OptionError(f"{name} is not TOML: {_short(str(error).lower())}") from None
    return _Reader(name, described).drive()


def _read_of_user(path: Path) -> bytes:
    """Read a file that the user named, with the user's rights: root is not to show what they may not read."""
    try:
        with as_user(owner()):
            file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
        with open(file, "rb") as content:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                raise OptionError(f"{path} is no regular file: name a TOML file of a drive")
            text = content.read(_FILE_MOST_BYTES + 1)
    except OSError as error:
        raise OptionError(
            f"{path} cannot be read ({(error.strerror or '').lower()}): name a TOML file, or a drive "
            f"of {front.command('list')}"
        ) from None
    if len(text) > _FILE_MOST_BYTES:
        raise OptionError(
            f"{path} has more than {show_size(_FILE_MOST_BYTES)}: that is no drive's description"
        )
    return text


class _Reader:
    """Takes the values of one TOML file; every fault is an OptionError that names the file and the key."""

    def __init__(self, name: str, described: Mapping[str, Any]) -> None:
        self._name = name
        self._all = described
        for section, keys in _KEYS.items():
            for key in self._section(section):
                if key not in keys:
                    unknown = _short(key)
                    self._fail(f"has an unknown key {self._path(section, unknown)}: {nearest(unknown, keys)}")
        sources = described.get("sources", [])
        if not isinstance(sources, list) or not all(isinstance(source, str) for source in sources):
            self._fail('has sources that are no list of texts: write sources = ["..."]')

    def drive(self) -> DriveModel:
        """Return the checked drive."""
        rpm = self._number("", "rpm", 100, 100_000)
        revolution_ns = 60e9 / rpm
        surfaces = self._whole("", "surfaces", 1, 64)
        write_settle_ns = self._ms("seek", "write_settle_ms", 0, 100)
        head_switch_ns = self._ms("seek", "head_switch_ms", 0, 100)
        zones = self._zone_table() if "table" in self._section("zones") else ()
        cylinder_ns = self._first_seek_ns()
        spare = _SKEW_SPARE_SECTORS / self._least_sectors(zones, revolution_ns)
        skew = self._section("skew")
        track = (head_switch_ns + write_settle_ns) / revolution_ns + spare
        cylinder = (max(cylinder_ns, head_switch_ns) + write_settle_ns) / revolution_ns + spare
        track = self._number("skew", "track", 0, 0.999) if "track" in skew else track % 1
        cylinder = self._number("skew", "cylinder", 0, 0.999) if "cylinder" in skew else cylinder % 1
        if not zones:
            zones = self._zones_of_rates(revolution_ns, surfaces, track, cylinder)
        cylinders = zones[-1][0] + 1
        platter_bytes = _platter_sectors(zones, surfaces) * _SECTOR_BYTES
        capacity_bytes = platter_bytes
        if "size_bytes" in self._all:
            capacity_bytes = self._whole("", "size_bytes", 1 << 20, 1 << 49)
            if capacity_bytes > platter_bytes:
                self._fail(
                    f"has size_bytes {capacity_bytes}, and its zones have {platter_bytes}: lower size_bytes"
                )
        segments = self._whole("read_ahead", "segments", 0, 256)
        segment_bytes = self._whole("read_ahead", "segment_bytes", 0, 1 << 27)
        if segments and segment_bytes < 4096:
            self._fail("has read_ahead.segment_bytes below 4096: raise it, or give segments = 0")
        cache_bytes = self._whole("write_cache", "bytes", 0, _MOST_CACHE_BYTES)
        return DriveModel(
            name=self._name,
            title=self._text("title"),
            capacity_bytes=capacity_bytes // 4096 * 4096,
            rpm=rpm,
            surfaces=surfaces,
            zones=zones,
            seeks=self._seek_table(cylinders),
            write_settle_ns=write_settle_ns,
            head_switch_ns=head_switch_ns,
            track_skew=track,
            cylinder_skew=cylinder,
            read_overhead_ns=self._ms("electronics", "read_overhead_ms", 0, 100),
            write_overhead_ns=self._ms("electronics", "write_overhead_ms", 0, 100),
            bus_bytes_per_s=self._number("electronics", "bus_mb_per_s", 1, 100_000) * 1e6,
            queue_depth=self._whole("queue", "depth", 1, 256),
            rule=self._rule(),
            most_age_ns=self._ms("queue", "most_age_ms", 0, 60_000),
            write_cache_bytes=cache_bytes,
            write_cache_extents=self._whole("write_cache", "extents", 1, 1 << 16) if cache_bytes else 0,
            destage_at=self._number("write_cache", "destage_at", 0, 1) if cache_bytes else 0.0,
            destage_idle_ns=self._ms("write_cache", "destage_idle_ms", 0, 60_000) if cache_bytes else 0,
            destage_window=self._window(),
            reads_before=self._flag("read_ahead", "before"),
            read_segments=segments if segment_bytes else 0,
            segment_sectors=segment_bytes // _SECTOR_BYTES if segments else 0,
        )

    def _window(self) -> int:
        """Return of how many of the oldest dirty extents a destage is chosen; 0: of those near the head."""
        if "window" not in self._section("write_cache"):
            return 0
        return self._whole("write_cache", "window", 0, 64)

    def _least_sectors(self, zones: Sequence[tuple[int, int]], revolution_ns: float) -> float:
        """Return about how many sectors a track of the innermost zone has."""
        if zones:
            return min(sectors for _, sectors in zones)
        inner = self._number("zones", "inner_mb_per_s", 0.1, 10_000) * 1e6
        return max(inner * revolution_ns / 1e9 / _SECTOR_BYTES, 16)

    def _zone_table(self) -> tuple[tuple[int, int], ...]:
        """zones.table: [last cylinder, sectors a track] each, outermost first."""
        rows = self._pairs("zones", "table", _MOST_ZONES)
        for (last, sectors), (after, _) in zip(rows, [*rows[1:], (math.inf, 0.0)], strict=True):
            if not (last.is_integer() and 0 <= last < after and last < 10_000_000):
                self._fail("has a zones.table whose last cylinders do not grow: sort it, outermost first")
            if not (sectors.is_integer() and 16 <= sectors <= 65535):
                self._fail(f"has a zone of {sectors:g} sectors a track: give 16 to 65535")
        return tuple((int(last), int(sectors)) for last, sectors in rows)

    def _zones_of_rates(
        self, revolution_ns: float, surfaces: int, track_skew: float, cylinder_skew: float
    ) -> tuple[tuple[int, int], ...]:
        """Zones of equal numbers of cylinders, with sustained rates in equal steps from outer to inner.

        Bit density is the same everywhere, so the sectors of a track fall linearly with the cylinder. The
        sustained rate is that of whole cylinders, as Hitachi's specifications define it: one is read in
        surfaces + (surfaces - 1) track skews + one cylinder skew revolutions. How many cylinders there are
        follows from size_bytes.
        """
        outer = self._number("zones", "outer_mb_per_s", 0.1, 10_000) * 1e6
        inner = self._number("zones", "inner_mb_per_s", 0.1, 10_000) * 1e6
        count = self._whole("zones", "count", 1, _MOST_ZONES)
        if inner > outer:
            self._fail("has zones.inner_mb_per_s above outer_mb_per_s: the outer zone is the faster one")
        turns = surfaces + (surfaces - 1) * track_skew + cylinder_skew
        per_rate = turns * revolution_ns / 1e9 / surfaces / _SECTOR_BYTES
        sizes = [
            round((outer - (outer - inner) * zone / max(count - 1, 1)) * per_rate) for zone in range(count)
        ]
        if not 16 <= min(sizes) <= max(sizes) <= 65535:
            self._fail(
                f"has rates that mean {min(sizes)} to {max(sizes)} sectors a track: 16 to 65535 are possible"
            )
        sectors = self._whole("", "size_bytes", 1 << 20, 1 << 49) / _SECTOR_BYTES
        each = math.ceil(sectors / surfaces / sum(sizes))
        if each * count >= 10_000_000:
            self._fail(f"has {each * count} cylinders: fewer than 10,000,000 are possible")
        return tuple((each * (zone + 1) - 1, size) for zone, size in enumerate(sizes))

    def _first_seek_ns(self) -> int:
        if "table" in self._section("seek"):
            return round(self._pairs("seek", "table", _MOST_SEEKS)[0][1] * _MS)
        return self._ms("seek", "one_cylinder_ms", 0.01, 100)

    def _seek_table(self, cylinders: int) -> tuple[tuple[int, int], ...]:
        """seek.table: [cylinders, ms] each; or the curve through three times that a data sheet has.

        See curve().
        """
        if "table" in self._section("seek"):
            rows = self._pairs("seek", "table", _MOST_SEEKS)
            for (distance, ms), (after, _) in zip(rows, [*rows[1:], (math.inf, 0.0)], strict=True):
                if not (distance.is_integer() and 1 <= distance < after and distance < 10_000_000):
                    self._fail(
                        "has a seek.table whose distances do not grow: sort it; the first is 1 or more"
                    )
                if not 0.01 <= ms <= 1000:
                    self._fail(f"has a seek of {ms:g} ms: give 0.01 to 1000")
            if any(later < earlier for (_, earlier), (_, later) in itertools.pairwise(rows)):
                self._fail("has a seek.table in which a longer seek is faster: let the times grow")
            return tuple((int(distance), round(ms * _MS)) for distance, ms in rows)
        one = self._number("seek", "one_cylinder_ms", 0.01, 100)
        mean = self._number("seek", "average_ms", 0.01, 500)
        full = self._number("seek", "full_ms", 0.01, 1000)
        if not one <= mean <= full:
            self._fail("has seek times that do not grow from one_cylinder_ms over average_ms to full_ms")
        last = max(cylinders - 1, 1)
        a, b = curve(one, mean, full, last)
        points = sorted(
            {
                1,
                last,
                *(round(1 + (last - 1) * (step / (_CURVE_POINTS - 1)) ** 2) for step in range(_CURVE_POINTS)),
            }
        )
        times = [a * math.sqrt(distance - 1) + b * (distance - 1) + one for distance in points]
        if any(later < earlier for earlier, later in itertools.pairwise(times)):
            self._fail("has seek times that no growing curve passes: give seek.table")
        return tuple((distance, round(ms * _MS)) for distance, ms in zip(points, times, strict=True))

    def _rule(self) -> str:
        rule = self._section("queue").get("rule")
        if rule not in _RULES:
            word = _short(rule) if isinstance(rule, str) else "that is no text"
            self._fail(f"has queue.rule {word}: {nearest(word, _RULES)}")
        return str(rule)

    def _section(self, name: str) -> Mapping[str, Any]:
        section = self._all.get(name, {}) if name else self._all
        if not isinstance(section, Mapping):
            self._fail(f"has a {name} that is no table: write [{name}]")
        return section

    def _text(self, key: str) -> str:
        text = self._all.get(key)
        if not isinstance(text, str) or not 0 < len(text) <= 100 or not text.isprintable():
            self._fail(f"has no {key} of at most 100 printable characters: add {key}")
        return str(text)

    def _number(self, section: str, key: str, least: float, most: float) -> float:
        value = self._section(section).get(key)
        if value is None:
            self._fail(f"has no {self._path(section, key)}: add it")
        if isinstance(value, bool) or not isinstance(value, int | float):
            self._fail(f"has a {self._path(section, key)} that is no number")
        if not least <= value <= most:  # NaN is not
            shown = (
                f"{value!r}" if abs(value) < 1e15 or isinstance(value, float) else "a number of many digits"
            )
            self._fail(f"has {self._path(section, key)} = {shown}: give {least:g} to {most:g}")
        return float(value)

    def _flag(self, section: str, key: str) -> bool:
        value = self._section(section).get(key, False)
        if not isinstance(value, bool):
            self._fail(f"has a {self._path(section, key)} that is neither true nor false")
        return bool(value)

    def _whole(self, section: str, key: str, least: int, most: int) -> int:
        number = self._number(section, key, least, most)
        if not number.is_integer():
            self._fail(f"has {self._path(section, key)} = {number:g}: give a whole number")
        return int(number)

    def _ms(self, section: str, key: str, least: float, most: float) -> int:
        """Return a time in ms as nanoseconds."""
        return round(self._number(section, key, least, most) * _MS)

    def _pairs(self, section: str, key: str, most: int) -> Sequence[tuple[float, float]]:
        rows = self._section(section).get(key)
        path = self._path(section, key)
        if not isinstance(rows, list) or not 0 < len(rows) <= most:
            self._fail(f"has no {path} of 1 to {most} rows: write [[1, 2], [3, 4]]")
        for row in rows:
            if not isinstance(row, list) or len(row) != 2 or not all(_is_finite(value) for value in row):
                self._fail(f"has a row of {path} that is no pair of numbers")
        return [(float(first), float(second)) for first, second in rows]

    def _path(self, section: str, key: str) -> str:
        return f"{section}.{key}" if section else key

    def _fail(self, fault: str) -> NoReturn:
        raise OptionError(f"the drive {self._name} {fault}")


def _short(text: str) -> str:
    """Return what a message shows of a text of the user's file."""
    return text if len(text) <= 60 else f"{text[:60]}…"


def _is_finite(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return abs(value) < 1e15  # neither NaN nor infinite


def curve(one_ms: float, mean_ms: float, full_ms: float, last: int) -> tuple[float, float]:
    """Return a and b of the seek curve a sqrt(d - 1) + b (d - 1) + one_ms, d = 1 to last cylinders.

    The mean over random pairs of cylinders is mean_ms, the longest full_ms (Lee and Katz, "An Analytic
    Performance Model of Disk Arrays", SIGMETRICS 1993).
    """
    a = (-10 * one_ms + 15 * mean_ms - 5 * full_ms) / (3 * math.sqrt(last))
    b = (7 * one_ms - 15 * mean_ms + 8 * full_ms) / (3 * last)
    return a, b


def _platter_sectors(zones: Sequence[tuple[int, int]], surfaces: int) -> int:
    total, first = 0, 0
    for last, sectors in zones:
        total += (last + 1 - first) * sectors * surfaces
        first = last + 1
    return total
