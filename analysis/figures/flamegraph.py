# SPDX-License-Identifier: BSD-2-Clause
"""Flame graphs as static SVG, readable without scripts: the outermost function at the bottom, the lock on
top, width is time, a frame's title (tooltip) has the figures. Several can stand one above the other, each
with a scale of its own.

Frames too narrow to see are drawn as one "… (n frames)", so nothing is missing from a width.
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
LETTER = 6.7  # width of one, in the frames' font
NARROWEST = 1.2  # narrower frames are merged
SPIN, SPIN_TINT = "#c0482f", "#e9b0a2"
SLEEP, SLEEP_TINT = "#eeb93c", "#f9e6b6"
RAN, RAN_TINT = "#5b8fb9", "#c9dcec"
MERGED = "#d9d9d9"
DARK = (SPIN,)  # written on in white


@dataclass(frozen=True)
class Panel:
    """One flame graph. spin_words and sleep_words name the two parts of a stack's time; sleep_words empty:
    there is one part, spin_ns."""

    title: str
    note: str
    stacks: Sequence[Stack]
    spin_words: str = "spinning"
    sleep_words: str = "sleeping"
    empty: str = "nothing"


@dataclass
class Node:
    """A frame and what it called."""

    name: str
    spin: float = 0.0
    sleep: float = 0.0
    children: dict[str, Node] = field(default_factory=dict)

    @property
    def ns(self) -> float:
        """Time of this frame and all above it."""
        return self.spin + self.sleep

    def frames(self) -> int:
        """Frames from here up."""
        return 1 + sum(child.frames() for child in self.children.values())


@dataclass(frozen=True)
class Box:
    """A frame as it is drawn; x and width as shares of the whole."""

    depth: int
    x: float
    width: float
    name: str
    title: str
    color: str


def tree(stacks: Sequence[Stack]) -> Node:
    """All stacks from one root."""
    root = Node("all")
    for stack in stacks:
        node = root
        for name in (None, *stack.frames):
            if name is not None:
                node = node.children.setdefault(name, Node(name))
            node.spin += stack.spin_ns
            node.sleep += stack.sleep_ns
    return root


def _mix(low: str, high: str, share: float) -> str:
    parts = (
        round(int(low[i : i + 2], 16) * (1 - share) + int(high[i : i + 2], 16) * share) for i in (1, 3, 5)
    )
    return "#" + "".join(f"{part:02x}" for part in parts)


def boxes(panel: Panel) -> list[Box]:
    """All frames of a panel, each with its place."""
    root = tree(panel.stacks)
    whole = root.ns
    found: list[Box] = []
    if not whole > 0:
        return found
    two = bool(panel.sleep_words)
    least = NARROWEST / (WIDTH - 2 * MARGIN)

    def words(name: str, ns: float, spin: float, sleep: float) -> str:
        parts = f"; {panel.spin_words} {units.ns(spin)}, {panel.sleep_words} {units.ns(sleep)}" if two else ""
        return f"{name}: {units.ns(ns)}, {units.percent(ns / whole)} %{parts}"

    todo = [(root, 0, 0.0)]
    while todo:
        node, depth, x = todo.pop()
        width = node.ns / whole
        title = words(node.name, node.ns, node.spin, node.sleep)
        if node.children:
            color = _mix(SLEEP_TINT, SPIN_TINT, node.spin / node.ns) if two else RAN_TINT
            found.append(Box(depth, x, width, node.name, title, color))
        else:
            at = x
            for ns, color in ((node.spin, SPIN if two else RAN), (node.sleep, SLEEP)):
                if ns > 0:
                    found.append(Box(depth, at, ns / whole, node.name, title, color))
                    at += ns / whole
        few: list[Node] = []
        for child in sorted(node.children.values(), key=lambda c: (-c.ns, c.name)):
            if child.ns / whole < least:
                few.append(child)
                continue
            todo.append((child, depth + 1, x))
            x += child.ns / whole
        if few:
            ns = sum(c.ns for c in few)
            name = f"… ({sum(c.frames() for c in few):,} frames)"
            title = words(name, ns, sum(c.spin for c in few), sum(c.sleep for c in few))
            found.append(Box(depth + 1, x, ns / whole, name, title, MERGED))
    return found


def _text(name: str, width: float) -> str:
    """As much of the name as fits; empty if that says nothing."""
    room = int((width - 4) / LETTER)
    if len(name) <= room:
        return name
    return name[: room - 2] + ".." if room >= 5 else ""


def _draw(panel: Panel, top: float, id_: int) -> tuple[list[str], float]:
    """The panel's elements and where it ends."""
    found = boxes(panel)
    lines = [
        f'<text class="flame-title" x="{MARGIN:g}" y="{top + 16:g}">{escape(panel.title)}</text>',
        f'<text class="flame-note" x="{MARGIN:g}" y="{top + 32:g}">{escape(panel.note)}</text>',
    ]
    top += 40
    if not found:
        lines.append(f'<text class="flame-note" x="{MARGIN:g}" y="{top + 14:g}">{escape(panel.empty)}</text>')
        return lines, top + 24
    depth = max(box.depth for box in found)
    bottom = top + (depth + 1) * ROW
    scale = WIDTH - 2 * MARGIN
    lines.append(f'<g id="g{id_}">')
    for box in found:
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
    lines = []
    x = MARGIN
    parts = [(MERGED, f"… : frames narrower than {NARROWEST / (WIDTH - 2 * MARGIN) * 100:.1f} % as one")]
    if any(panel.sleep_words for panel in panels):
        parts.insert(0, (_mix(SLEEP_TINT, SPIN_TINT, 0.5), "callers: mixed by the share of both"))
    if any(not panel.sleep_words for panel in panels):
        parts.insert(0, (RAN, "CPU time by samples"))
    if any(panel.sleep_words for panel in panels):
        parts[:0] = [(SPIN, "spinning"), (SLEEP, "sleeping")]
    for color, words in parts:
        lines.append(f'<rect x="{x:g}" y="{top:g}" width="12" height="12" fill="{color}"/>')
        lines.append(f'<text class="flame-note" x="{x + 17:g}" y="{top + 10:g}">{escape(words)}</text>')
        x += 17 + len(words) * 6.6 + 22
    return lines


def render(panels: Sequence[Panel]) -> bytes:
    """The SVG file. Names come from the run: all are escaped."""
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
