# SPDX-License-Identifier: BSD-2-Clause
"""Flame graphs, folded stacks, the blocking graph, and the report's words on locks: totals and bad names."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from analysis.exporters.with_report import folded
from analysis.figures import flamegraph, style
from analysis.measures.locks import lock_stacks
from analysis.measures.locks.lock_stacks import Stack
from analysis.report import make_report
from tests.analysis.page_html import Parsed, runs_one_script
from tests.analysis.synthetic import BIN_NS, START_NS, Spec
from tests.analysis.test_locks import TASKS, load, name_of, random_spec, type_of, waits_of

SVG = "{http://www.w3.org/2000/svg}"
EVIL = "</text><script>alert(1)</script>&<!--;  $(rm -rf) \x1b[31m\u202e\ud800"


def parse(svg: bytes) -> ET.Element:
    root = ET.fromstring(svg.decode())
    assert root.tag == SVG + "svg"
    return root


def frames(svg: bytes) -> list[tuple[float, float, float, str]]:
    """x, y, width and title of every frame."""
    found = []
    for group in parse(svg).iter(SVG + "g"):
        title, rect = group.find(SVG + "title"), group.find(SVG + "rect")
        if title is not None and rect is not None:
            x, y, width = (float(rect.attrib[k]) for k in ("x", "y", "width"))
            found.append((x, y, width, title.text or ""))
    return found


def lines(data: bytes) -> dict[str, int]:
    found = {}
    for line in data.decode().splitlines():
        stack, _, value = line.rpartition(" ")
        assert re.fullmatch(r"\d+", value) and int(value) > 0 and " " not in stack, line
        assert stack not in found
        found[stack] = int(value)
    return found


@pytest.mark.usefixtures("words_only")
def test_folded_stacks_sum_to_the_table(tmp_path: Path) -> None:
    spec = random_spec(11, sampled=False)
    tables, m = load(spec, tmp_path / "r")
    waiting = lock_stacks.waiting(waits_of(m), tables.stacks)
    every = lines(folded.waiting(waiting))
    assert sum(every.values()) == pytest.approx(
        sum(r["spin_ns"] + r["sleep_ns"] for r in spec.lock_wait) / 1e3, abs=1
    )
    by_leaf: dict[str, float] = defaultdict(float)
    for row in spec.lock_wait:
        by_leaf[folded.frame(f"{type_of(row)}:{name_of(spec, row)}")] += (
            row["spin_ns"] + row["sleep_ns"]
        ) / 1e3
    have: dict[str, float] = defaultdict(float)
    for stack, value in every.items():
        have[stack.split(";")[-1]] += value
    assert have.keys() <= by_leaf.keys()
    for leaf, us in by_leaf.items():
        assert have[leaf] == pytest.approx(us, abs=len(every))  # rounding is carried from line to line
    spinning = lines(folded.spinning(waiting, []))
    assert sum(spinning.values()) == pytest.approx(sum(r["spin_ns"] for r in spec.lock_wait) / 1e3, abs=1)
    holding = lines(folded.waiting(lock_stacks.holding(waits_of(m), tables.stacks)))
    held = sum(r["spin_ns"] + r["sleep_ns"] for r in spec.lock_wait if r["holder_state"] in TASKS)
    assert sum(holding.values()) == pytest.approx(held / 1e3, abs=1)
    assert {stack.split(";")[0] for stack in holding} == {"alice", "bob"}
    # outermost first: the function next to the lock is the caller
    assert all("outer_" in stack.split(";")[1] for stack in every if stack.startswith("do_syscall_64"))


def test_folded_frames_hold_no_separators() -> None:
    stack = Stack(("a b;c\td\ne", "", "lock\u00a0x"), 5_000, 0)
    assert folded.waiting([stack]) == b"a_b_c_d_e;?;lock_x 5\n"
    many = [Stack((f"f{i}",), 400, 0) for i in range(1000)]
    assert sum(lines(folded.waiting(many)).values()) == 400


def panel(stacks: list[Stack], **more: Any) -> flamegraph.Panel:
    return flamegraph.Panel("t", "n", stacks, **more)


def test_flame_graph_widths_are_times() -> None:
    stacks = [
        Stack(("main", "a", "lock"), 100, 300),
        Stack(("main", "b", "lock"), 0, 500),
        Stack(("other", "lock"), 100, 0),
    ]
    found = frames(flamegraph.render([panel(stacks)]))
    whole = flamegraph.WIDTH - 2 * flamegraph.MARGIN
    widths: dict[str, float] = defaultdict(float)
    for _, _, width, title in found:
        widths[title.split(":")[0]] += width
    for name, ns, boxes in (
        ("all", 1000, 1),
        ("main", 900, 1),
        ("a", 400, 1),
        ("b", 500, 1),
        ("lock", 1000, 4),
    ):
        assert widths[name] == pytest.approx(ns / 1000 * whole, abs=0.5 * boxes), name
    # the outermost at the bottom, the lock above its caller
    y = {title.split(":")[0]: y for _, y, _, title in found}
    assert y["all"] > y["main"] > y["a"] > y["lock"]
    assert "main: 900 ns, 90.0 %; spinning 100 ns, sleeping 800 ns" in {title for *_, title in found}
    # a frame lies within the one below it
    for x, top, width, _ in found:
        below = [b for b in found if b[1] == top + flamegraph.ROW]
        assert not below or any(b[0] - 0.1 <= x and x + width <= b[0] + b[2] + 0.5 for b in below)


def test_narrow_frames_are_merged_and_none_is_missing() -> None:
    stacks = [Stack(("main", "wide", "lock"), 0, 10**6)]
    stacks += [Stack(("main", f"thin{i}", "x", "lock"), 0, 100) for i in range(300)]
    found = frames(flamegraph.render([panel(stacks)]))
    merged = [f for f in found if f[3].startswith("…")]
    assert len(merged) == 1 and merged[0][3].startswith("… (900 frames): 30.0 us")
    assert len(found) == 5
    second = [f for f in found if f[1] == merged[0][1]]
    assert sum(f[2] for f in second) == pytest.approx(flamegraph.WIDTH - 2 * flamegraph.MARGIN, abs=1)


def test_deep_and_empty_flame_graphs_are_drawn() -> None:
    deep = Stack((*(f"f{i}" for i in range(200)), "lock"), 0, 5)
    assert len(frames(flamegraph.render([panel([deep])]))) == 202
    nothing = flamegraph.render([panel([], empty="nobody waited")])
    assert frames(nothing) == [] and b"nobody waited" in nothing


def evil_spec() -> Spec:
    spec = random_spec(12, sampled=True)
    for lock in spec.lock:
        if lock["name"]:
            lock["name"] += EVIL
    for stack in spec.stack:
        stack["frames"] = [*stack["frames"][:3], f"{EVIL}+0x1", *stack["frames"][3:]]
    for row in spec.lock_wait:
        if row["holder_comm"]:
            row["holder_comm"] = b"<b>&\x1b;\xff\"'"
    spec.paths = [{"dev": "7:3", "ino": 505, "path": EVIL}]
    spec.lock_sample = [
        {"bin_ns": START_NS, "stack_id": i, "doing": doing, "lock_id": 1 if doing == "holding" else 0}
        for i in range(4)
        for doing in ("spin_seen", "spin_unseen", "holding")
    ]
    return spec


@pytest.mark.usefixtures("words_only")
def test_hostile_names_are_escaped_in_pictures(tmp_path: Path) -> None:
    path = evil_spec().write(tmp_path / "r")
    make_report(path)
    for name in ("lock_waiting.svg", "lock_holding.svg", "lock_blocking.svg"):
        svg = (path / name).read_bytes()
        parse(svg)
        assert b"<script" not in svg and b"<b>" not in svg
    waiting = (path / "lock_waiting.svg").read_text()
    assert "&lt;script&gt;alert(1)" in waiting and "\x1b" not in waiting and "\u202e" not in waiting
    page = (path / "report.html").read_text()
    assert runs_one_script(Parsed(page)) and "<b>" not in page and "&lt;script&gt;" in page
    text = (path / "report.txt").read_text("utf-8")
    assert max(len(line) for line in text.splitlines()) <= 80
    assert "\x1b" not in text and "(rm -rf)" in text
    for name in ("waiting.folded", "holding.folded", "spinning.folded"):
        assert lines((path / name).read_bytes())


def section(text: str, title: str) -> str:
    found = re.search(rf"^{re.escape(title)}[ *]*-+\n(.*?)(?=^\S[^\n]* -+\n|\Z)", text, re.M | re.S)
    assert found, title
    return found.group(1)


@pytest.mark.usefixtures("words_only")
def test_report_states_shares_sampled_named_and_hidden(tmp_path: Path) -> None:
    spec = random_spec(13, sampled=True)
    spec.lock[0]["named_by"] = spec.lock[3]["named_by"] = spec.lock[6]["named_by"] = "call path"
    spec.run["kernel"]["config"] = {"CONFIG_DEBUG_LOCK_ALLOC": "y"}
    path = spec.write(tmp_path / "r")
    make_report(path)
    text = (path / "report.txt").read_text()
    waits = re.sub(r"\s+", " ", section(text, "LOCK WAITS"))
    total = sum(r["spin_ns"] + r["sleep_ns"] for r in spec.lock_wait)
    seen = sum(r["spin_ns"] + r["sleep_ns"] for r in spec.lock_wait if r["stack_id"] != -2)
    unnamed = sum(r["spin_ns"] + r["sleep_ns"] for r in spec.lock_wait if r["lock_id"] >= 10)
    guessed = sum(r["spin_ns"] + r["sleep_ns"] for r in spec.lock_wait if r["lock_id"] in (1, 4, 7))
    assert f"waits with {100 - 100 * seen / total:.1f} % of the waiting time have none" in waits
    assert f"{100 * unnamed / total:.1f} % of the wait is on locks named by their caller" in waits
    assert f"come from the call path: {100 * guessed / total:.1f} % of the wait" in waits
    assert "thing.lock_1 ?" in waits and "no tracepoint shows: " in waits and "~" in waits
    assert "CONFIG_DEBUG_LOCK_ALLOC: this kernel reports every mutex taken" in waits
    assert "not sampled" in section(text, "LOCK SPINNING (SAMPLED)")
    for title in ("INODE LOCKS", "LOCK WAITS BY STACK", "WHO WAITS FOR WHOM"):
        assert section(text, title)
    assert "(not resolved)" in section(text, "INODE LOCKS")


@pytest.mark.usefixtures("words_only")
def test_run_without_lock_waits_has_no_lock_pictures(tmp_path: Path) -> None:
    spec = random_spec(14, sampled=False)
    path = spec.write(tmp_path / "r")
    make_report(path)
    assert (path / "lock_waiting.svg").exists() and (path / "lock_blocking.png").exists()
    again = Spec().write(tmp_path / "empty")
    for name in ("lock_waiting.svg", "waiting.folded"):
        (again / name).write_text("of a report before")
    make_report(again)
    assert not (again / "lock_waiting.svg").exists() and not (again / "waiting.folded").exists()
    assert "no lock was waited on" in (again / "report.txt").read_text()


@pytest.mark.usefixtures("words_only")
def test_sampled_spinning_has_a_root_of_its_own(tmp_path: Path) -> None:
    spec = Spec(
        lock_wait=[{"bin_ns": START_NS, "lock_id": 1, "spin_ns": 7_000, "stack_id": 1}],
        stack=[{"stack_id": i, "frames": [f"mutex_spin_on_owner+0x{i}", "f+0x1", "g+0x1"]} for i in (1, 2)],
        lock_sample=[
            {"bin_ns": START_NS + b * BIN_NS, "stack_id": 2, "doing": "spin_unseen", "count": 2}
            for b in (0, 1)
        ],
    )
    path = spec.write(tmp_path / "r")
    make_report(path)
    found = lines((path / "spinning.folded").read_bytes())
    seen = {stack: us for stack, us in found.items() if not stack.startswith("[unseen")}
    assert seen == {"g;f;mutex:f()+0x1": 7}
    assert sum(us for stack, us in found.items() if stack not in seen) == 4_000
    assert "~4.00 ms" in section((path / "report.txt").read_text(), "LOCK SPINNING (SAMPLED)")


@pytest.mark.usefixtures("words_only")
def test_lockmeters_columns_where_holds_were_asked_for(tmp_path: Path) -> None:
    wait = {"bin_ns": START_NS, "kind": "mutex", "sleep_ns": 6_000_000, "count": 2, "max_ns": 5_000_000}
    hold = {"bin_ns": START_NS, "kind": "mutex", "lock_id": 1, "in_workload": 1}
    spec = Spec(
        lock_wait=[{**wait, "lock_id": 1}, {**wait, "lock_id": 2, "kind": "spinlock"}],
        lock=[{"lock_id": 1, "kind": "mutex", "name": "journal_s.j_barrier", "named_by": "slab"}],
        hold=[
            {**hold, "acquired": 7, "holds": 7, "hold_ns": 700_000_000, "max_hold_ns": 400_000_000},
            {
                **hold,
                "acquired": 1,
                "try_failed": 2,
                "holds": 1,
                "hold_ns": 100_000_000,
                "max_hold_ns": 100_000_000,
            },
        ],
    )
    path = spec.write(tmp_path / "r")
    make_report(path)
    found = section((path / "report.txt").read_text(), "LOCK HOLD TIMES")
    cells = " ".join(found.split("[")[0].split())
    for cell in ("8.0", "25.0", "100 ms (400 ms)", "3.00 ms (5.00 ms)", "10", "60.0", "20.0"):
        assert f" {cell} " in f" {cells} ", (cell, cells)
    assert "1 classes of spinlock" in re.sub(r"\s+", " ", found)
    spec.hold = None
    again = spec.write(tmp_path / "s")
    make_report(again)
    assert "LOCK HOLD TIMES" not in (again / "report.txt").read_text()  # holds were not asked for
    spec.run["collect"] = ["locks", "holds"]
    asked = spec.write(tmp_path / "t")
    make_report(asked)
    assert "not available: " in section((asked / "report.txt").read_text(), "LOCK HOLD TIMES")


def test_lock_colour_is_independent_of_cost() -> None:
    """Eight of each run's locks are drawn: all differ, and most are as in any other run."""
    locks = [("mutex", f"struct_{i}.lock") for i in range(len(style.LOCKS))]
    colors = style.lock_colors(locks)
    assert colors == style.lock_colors(reversed(locks))
    assert set(colors.values()) == set(style.LOCKS)
    alone = [style.lock_colors([lock])[lock] == colors[lock] for lock in locks]
    assert sum(alone) >= len(locks) // 2
    # More than there are colours: none is left without.
    assert set(style.lock_colors(("mutex", str(i)) for i in range(30)).values()) <= set(style.LOCKS)
