# SPDX-License-Identifier: BSD-2-Clause
"""What the page holds of one run. Times are ns since the run's zero, the workload's start; texts are clean().

The dataclasses become JSON field by field; each Column in them becomes a reference to bytes (packed.py).
They are no contract with other programs: a page holds its data and the scripts that read them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeVar

from analysis.page.columns import Column, Texts
from analysis.render.output import RunSource

T = TypeVar("T")


@dataclass(frozen=True)
class Nodes:
    """Call paths as a tree: node i is the frame words[word[i]] called from node parent[i] (-1: a root)."""

    parent: Column  # coding "s"
    word: Column


@dataclass(frozen=True)
class Label:
    """What tells the keys of a cube apart: of key i words[codes[i]], or, of call paths, the node codes[i]."""

    name: str
    words: Sequence[str]
    codes: Column
    kind: Literal["text", "stack"] = "text"
    nodes: Nodes | None = None  # of kind "stack"


@dataclass(frozen=True)
class Value:
    """One figure of an entry. how: what a window has of its entries, their sum or the largest."""

    name: str
    unit: str  # "count", "bytes", "ns", or another unit as it is printed
    how: Literal["sum", "max"] = "sum"


@dataclass(frozen=True)
class Ratio:
    """A figure made of two: values[over] / values[under]; under None: per second of the window."""

    name: str
    unit: str
    over: int
    under: int | None = None


@dataclass(frozen=True)
class Entries:
    """The entries of a cube, sorted by bin: of key `key` in bin `bin` the values, a column each."""

    bin: Column  # coding "du"
    key: Column
    values: Sequence[Column]


@dataclass(frozen=True)
class Cube:
    """Figures by key and time bin. A window sums the entries of its bins, by key.

    edges: n + 1 ascending times of n bins. bin_text: why the bins are as they are, where that must be said.
    why: the reason where there is nothing to show.
    """

    key: str
    order: int
    title: str
    definition: str
    edges: Column  # coding "ds"
    labels: Sequence[Label]
    values: Sequence[Value]
    entries: Entries
    ratios: Sequence[Ratio] = ()
    shown: Literal["table", "flame", "none"] = "table"
    sort: int = 0  # value by which the rows are sorted first
    mark: str = ""  # " *": a collector lost rows
    bin_text: str = ""
    why: str = ""


@dataclass(frozen=True)
class FromCube:
    """A series summed from a cube: values[value] of these keys (None: all), per second or per values[per]."""

    cube: str
    value: int
    keys: Sequence[int] | None = None
    per: int | None = None  # None: per second
    scale: float = 1.0  # of what is shown


@dataclass(frozen=True)
class Samples:
    """A series of samples; step: a value holds until the next one, else it is a line between them."""

    t: Column  # coding "ds"
    v: Column
    step: bool = True
    scale: float = 1.0


@dataclass(frozen=True)
class Series:
    """One line, or one band, of a panel."""

    name: str
    light: str  # colour on white
    dark: str  # colour on black
    source: FromCube | Samples
    dash: Sequence[float] = ()
    hatch: str = ""  # of a band, as in style.py: "////"
    down: bool = False  # drawn below the zero line


@dataclass(frozen=True)
class Lanes:
    """Threads as lanes: which labels of a cube are lane and state, and which value is the time."""

    cube: str
    lane_label: int
    state_label: int
    value: int
    colors: Mapping[str, tuple[str, str]]  # state: colour on white, on black
    hatches: Mapping[str, str] = field(default_factory=dict)  # state: hatch, of those that have one
    idle: Sequence[str] = ()  # states that make no lane worth showing
    first_label: int | None = None  # label of which the lanes with first_word come first
    first_word: str = ""
    most: int = 40  # lanes shown, those with most time that is not idle


@dataclass(frozen=True)
class Panel:
    """One question over time, as in the static IO graph: the same titles, colours and units."""

    key: str
    order: int
    title: str
    unit: str
    kind: Literal["lines", "stacked", "lanes", "heat"]
    series: Sequence[Series] = ()
    lanes: Lanes | None = None
    cube: str = ""  # of kind "heat"
    height_px: int = 110
    mark: str = ""
    why: str = ""  # the reason where there is nothing to draw


@dataclass(frozen=True)
class MapKind:
    """One kind of request in a map. Colours: three from few to many requests, with spaces between; or one."""

    op: str
    class_: str
    light: str
    dark: str


@dataclass(frozen=True)
class Area:
    """An area of the file system on a device."""

    name: str
    kind: str
    from_byte: int
    to_byte: int


@dataclass(frozen=True)
class OffsetMap:
    """Requests of one device by time and offset. cell: time bin * offset_bins + offset bin, ascending."""

    dev: int
    name: str
    edges: Column  # of the time bins, coding "ds"
    offset_bins: int
    bin_bytes: int
    from_byte: int  # offset of the first bin
    kinds: Sequence[MapKind]
    per_kind: Sequence[int]  # entries of each kind, which follow one another
    cell: Sequence[Column]  # of each kind, coding "du"
    count: Sequence[Column]
    areas: Sequence[Area] = ()
    mark: str = ""


@dataclass(frozen=True)
class Rows:
    """Single requests, in the order of their issue. complete: windows in which none is missing."""

    count: int
    recorded: int  # requests that the run has
    complete: Sequence[tuple[int, int]]
    flags: Column  # sum of 1: a seek, by the report's rule; 2: its times are known and in order
    t_us: Column  # microseconds since the zero, rounded down; coding "ds"
    kind: Column  # key of the cube "requests"
    dev: Column  # index into devs
    devs: Sequence[int]
    sector: Column  # coding "s"
    bytes: Column
    # -1, both: the completion was not seen, or the times are not in order
    q2d_ns: Column  # coding "s"
    d2c_ns: Column  # coding "s"
    file: Column  # 0: not known, else index + 1 into files
    files: Texts
    thread: Column  # index into threads
    threads: Sequence[str]


@dataclass(frozen=True)
class Mark:
    """A window worth a look. number: of a finding, as the answer counts them; 0: none."""

    kind: str  # finding, phase, commit, dip, stop, ...
    name: str
    text: str
    start_ns: int
    end_ns: int
    number: int = 0


@dataclass(frozen=True)
class Content:
    """What one module of parts/ gives to the page."""

    cubes: Sequence[Cube] = ()
    panels: Sequence[Panel] = ()
    maps: Sequence[OffsetMap] = ()
    rows: Rows | None = None
    marks: Sequence[Mark] = ()
    notes: Sequence[str] = ()  # on what is exact and what is binned
    left_out: Sequence[str] = ()  # what is not in the page, and why


@dataclass(frozen=True)
class Budget:
    """What a run may take of a page."""

    bytes: int  # of all its parts, deflated
    most_bins: int = 50_000  # of a cube
    taken_bytes: int = 0  # by the modules before

    @property
    def left_bytes(self) -> int:
        """What the modules before left."""
        return max(self.bytes - self.taken_bytes, 0)

    def after(self, taken_bytes: int) -> Budget:
        """The budget after so many bytes were taken."""
        return replace(self, taken_bytes=taken_bytes)


@dataclass(frozen=True)
class Asked:
    """What a module of parts/ makes its content from."""

    source: RunSource
    zero_ns: int  # CLOCK_MONOTONIC time of the run's zero
    start_ns: int  # of the page, relative to zero
    end_ns: int
    budget: Budget
    marks: Sequence[Mark] = field(default_factory=tuple)  # of the modules before
    cubes: Sequence[Cube] = field(default_factory=tuple)  # of the modules before, without entries
    shared: dict[str, Any] = field(default_factory=dict)  # what several modules need, made by the first

    def once(self, key: str, make: Callable[[], T]) -> T:
        """What `make` returns, made for the first module that asks for it by this key."""
        if key not in self.shared:
            self.shared[key] = make()
        made: T = self.shared[key]
        return made

    def after(self, content: Content) -> Asked:
        """What the next module is asked."""
        headers = [replace(cube, entries=Entries(cube.edges, cube.edges, ())) for cube in content.cubes]
        return replace(self, marks=(*self.marks, *content.marks), cubes=(*self.cubes, *headers))


@dataclass(frozen=True)
class Part:
    """One subject of the page. Modules are asked in order; a later one sees marks and cubes of the others."""

    key: str
    order: int
    make: Callable[[Asked], Content]
