# SPDX-License-Identifier: BSD-2-Clause
"""Flame graphs as static SVG, without scripts: a frame is as wide as its time, its callers are below it.

The outermost function is at the bottom, the lock (or the function that ran) on top. A frame's tooltip has its
numbers. Several flame graphs can stand one above the other, each with its own scale. Frames too narrow to see
are drawn as one frame "… (n frames)", so no width is missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from xml.sax.saxutils import escape

from analysis import units
from analysis.measures.locks.lock_stacks import Stack

WIDTH = 1200.0
MARGIN = 10.0
ROW = 17.0  # height of a frame
LETTER = 6.7  # width of a letter in the frames' font
NARROWEST = 1.2  # frames narrower than this are merged
SPIN, SPIN_TINT = "#c0482f", "#e9b0a2"
SLEEP, SLEEP_TINT = "#eeb93c", "#f9e6b6"
RAN, RAN_TINT = "#5b8fb9", "#c9dcec"
MERGED = "#d9d9d9"
DARK = (SPIN,)  # colors with white text on them


@dataclass(frozen=True)
class Panel:
    """One flame graph.

    spin_label and sleep_label name the two parts of a stack's time. With sleep_label "", spin_ns is all of
    its time. empty: the text in place of the graph if no stack has any time.
    """

    title: str
    note: str
    stacks: Sequence[Stack]
    spin_label: str = "spinning"
    sleep_label: str = "sleeping"
    empty: str = "nothing"


@dataclass
class Node:
    """One function at one position of the call tree, with all functions that it called."""

    name: str
    spin_ns: float = 0.0
    sleep_ns: float = 0.0
    children: dict[str, Node] = field(default_factory=dict)

    @property
    def ns(self) -> float:
        """Time of this function and all functions above it."""
        return self.spin_ns + self.sleep_ns

    def frames(self) -> int:
        """Number of frames: this one and all above it."""
        return 1 + sum(child.frames() for child in self.children.values())


@dataclass(frozen=True)
class Box:
    """One drawn frame. depth: 0 at the bottom. x, width: shares of the graph's width. title: the tooltip."""

    depth: int
    x: float
    width: float
    name: str
    title: str
    color: str


def tree(stacks: Sequence[Stack]) -> Node:
    """The call tree of all stacks, below one root named "all"."""
    root = Node("all")
    for stack in stacks:
        node = root
        for name in (None, *stack.frames):
            if name is not None:
                node = node.children.setdefault(name, Node(name))
            node.spin_ns += stack.spin_ns
            node.sleep_ns += stack.sleep_ns
    return root


def _mix(low: str, high: str, share: float) -> str:
    parts = (
        round(int(low[i : i + 2], 16) * (1 - share) + int(high[i : i + 2], 16) * share) for i in (1, 3, 5)
    )
    return "#" + "".join(f"{part:02x}" for part in parts)


class _Layout:
    """The boxes of one panel, placed from the root up."""

    def __init__(self, panel: Panel, whole_ns: float) -> None:
        self.panel = panel
        self.whole_ns = whole_ns
        self.boxes: list[Box] = []

    @property
    def _two_parts(self) -> bool:
        return bool(self.panel.sleep_label)

    def place_all(self, root: Node) -> None:
        """Place every frame, callers before the functions that they called."""
        todo = [(root, 0, 0.0)]
        while todo:
            node, depth, x = todo.pop()
            self._place(node, depth, x)
            todo += self._children(node, depth, x)

    def _children(self, node: Node, depth: int, x: float) -> list[tuple[Node, int, float]]:
        """The called functions wide enough to see, each with depth and x; one box for all the others."""
        wide: list[tuple[Node, int, float]] = []
        narrow: list[Node] = []
        for child in sorted(node.children.values(), key=lambda c: (-c.ns, c.name)):
            if child.ns / self.whole_ns < NARROWEST / (WIDTH - 2 * MARGIN):
                narrow.append(child)
                continue
            wide.append((child, depth + 1, x))
            x += child.ns / self.whole_ns
        if narrow:
            name = f"… ({sum(child.frames() for child in narrow):,} frames)"
            spin_ns, sleep_ns = (sum(getattr(c, part) for c in narrow) for part in ("spin_ns", "sleep_ns"))
            ns = sum(child.ns for child in narrow)
            title = self._title(name, ns, spin_ns, sleep_ns)
            self.boxes.append(Box(depth + 1, x, ns / self.whole_ns, name, title, MERGED))
        return wide

    def _place(self, node: Node, depth: int, x: float) -> None:
        """A caller is one box of mixed colour; an innermost frame has a box for each part of its time."""
        title = self._title(node.name, node.ns, node.spin_ns, node.sleep_ns)
        if node.children:
            color = _mix(SLEEP_TINT, SPIN_TINT, node.spin_ns / node.ns) if self._two_parts else RAN_TINT
            self.boxes.append(Box(depth, x, node.ns / self.whole_ns, node.name, title, color))
            return
        for ns, color in ((node.spin_ns, SPIN if self._two_parts else RAN), (node.sleep_ns, SLEEP)):
            if ns > 0:
                self.boxes.append(Box(depth, x, ns / self.whole_ns, node.name, title, color))
                x += ns / self.whole_ns

    def _title(self, name: str, ns: float, spin_ns: float, sleep_ns: float) -> str:
        """The tooltip: "f: 900 ns, 90.0 %; spinning 100 ns, sleeping 800 ns"."""
        whole = f"{name}: {units.ns(ns)}, {units.percent(ns / self.whole_ns)} %"
        if not self._two_parts:
            return whole
        panel = self.panel
        return f"{whole}; {panel.spin_label} {units.ns(spin_ns)}, {panel.sleep_label} {units.ns(sleep_ns)}"


def boxes(panel: Panel) -> list[Box]:
    """All frames of a panel, placed; empty if no stack has any time."""
    root = tree(panel.stacks)
    if not root.ns > 0:
        return []
    layout = _Layout(panel, root.ns)
    layout.place_all(root)
    return layout.boxes


def _text(name: str, width: float) -> str:
    """As much of the name as fits into the width; empty if fewer than 5 letters do."""
    room = int((width - 4) / LETTER)
    if len(name) <= room:
        return name
    return name[: room - 2] + ".." if room >= 5 else ""


def _draw(panel: Panel, top: float, id_: int) -> tuple[list[str], float]:
    """The panel's SVG elements, and the y of its lower edge."""
    frames = boxes(panel)
    lines = [
        f'<text class="flame-title" x="{MARGIN:g}" y="{top + 16:g}">{escape(panel.title)}</text>',
        f'<text class="flame-note" x="{MARGIN:g}" y="{top + 32:g}">{escape(panel.note)}</text>',
    ]
    top += 40
    if not frames:
        lines.append(f'<text class="flame-note" x="{MARGIN:g}" y="{top + 14:g}">{escape(panel.empty)}</text>')
        return lines, top + 24
    depth = max(box.depth for box in frames)
    bottom = top + (depth + 1) * ROW
    scale = WIDTH - 2 * MARGIN
    lines.append(f'<g id="g{id_}">')
    for box in frames:
        x, width = MARGIN + box.x * scale, box.width * scale
        y = bottom - (box.depth + 1) * ROW
        text = _text(box.name, width)
        lines.append(f"<g><title>{escape(box.title)}</title>")
        lines.append(
            f'<rect x="{x:.2f}" y="{y:g}" width="{max(width - 0.4, 0.1):.2f}" height="{ROW - 1:g}"'
            f' fill="{box.color}"/>'
        )
        if text:
            white = ' fill="#fff"' if box.color in DARK else ""
            lines.append(f'<text x="{x + 3:.2f}" y="{y + 12:g}"{white}>{escape(text)}</text>')
        lines.append("</g>")
    lines.append("</g>")
    return lines, bottom + 14


def _legend(panels: Sequence[Panel], top: float) -> list[str]:
    """The SVG elements of one legend for all panels."""
    lines = []
    x = MARGIN
    parts = [(MERGED, f"…: frames narrower than {NARROWEST / (WIDTH - 2 * MARGIN) * 100:.1f} %, merged")]
    if any(panel.sleep_label for panel in panels):
        parts.insert(
            0, (_mix(SLEEP_TINT, SPIN_TINT, 0.5), "callers: mixed by share of spinning and sleeping")
        )
    if any(not panel.sleep_label for panel in panels):
        parts.insert(0, (RAN, "CPU time by samples"))
    if any(panel.sleep_label for panel in panels):
        parts[:0] = [(SPIN, "spinning"), (SLEEP, "sleeping")]
    for color, label in parts:
        lines.append(f'<rect x="{x:g}" y="{top:g}" width="12" height="12" fill="{color}"/>')
        lines.append(f'<text class="flame-note" x="{x + 17:g}" y="{top + 10:g}">{escape(label)}</text>')
        x += 17 + len(label) * 6.6 + 22
    return lines


def render(panels: Sequence[Panel]) -> bytes:
    """The SVG file of the panels, one above the other. Names come from the run: all are escaped."""
    body: list[str] = []
    top = 8.0
    for id_, panel in enumerate(panels):
        lines, top = _draw(panel, top, id_)
        body += lines
    body += _legend(panels, top)
    height = top + 24
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH:g} {height:g}" width="{WIDTH:g}"'
        f' height="{height:g}" font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="11">'
        "<style>.flame-title{font:bold 15px 'DejaVu Sans',sans-serif}"
        ".flame-note{font:11.5px 'DejaVu Sans',sans-serif;fill:#555}</style>"
        f'<rect width="{WIDTH:g}" height="{height:g}" fill="#fff"/>'
    )
    return (head + "\n".join(body) + "</svg>\n").encode("utf-8", "backslashreplace")
