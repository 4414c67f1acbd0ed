# SPDX-License-Identifier: BSD-2-Clause
"""The section "Disks below the file system" once more, from tables and run.json; no code of analysis/."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np

from tests.analysis.recomputed import Columns, assert_same, columns, figures_behind, percentile, section

LAYERS = ("volume", "parity")


def check_stack(run: Path) -> None:
    """The tree, the amplification, the time in the layers, and the throughput that the file system got."""
    text, facts = (run / "detail.txt").read_text(), json.loads((run / "run.json").read_text())
    stack = facts["stack"]
    numbers = {
        node["name"]: int(node["dev"].split(":")[0]) << 20 | int(node["dev"].split(":")[1])
        for node in stack["nodes"]
    }
    recorded = {node["name"]: node["recorded"] for node in stack["nodes"]}
    tops = [numbers[r["name"]] for r in stack["roots"] if recorded[r["name"]] == "bios"]
    block, volume = columns(run, "block"), columns(run, "volume")
    lines = section(text, "DISKS BELOW THE FILE SYSTEM")
    for name, number in numbers.items():
        if recorded[name] != "no":
            _check_device(lines, name, volume if recorded[name] == "bios" else block, number)
    top = np.isin(volume["dev"], tops) & (volume["origin"] == 0) & ~np.isin(volume["class"], LAYERS)
    _check_bytes(lines, block, volume, top, np.isin(block["origin_dev"], tops))
    _check_times(lines, block, volume, top)
    bare = [numbers[r["name"]] for r in stack["roots"] if recorded[r["name"]] == "requests"]
    straight = np.isin(block["dev"], bare) & (block["origin"] == 0) & ~np.isin(block["class"], LAYERS)
    for op in ("read", "write"):
        for class_ in np.unique(volume["class"][top & (volume["op"] == op)]):
            asked = [
                table["bytes"][mask & (table["op"] == op) & (table["class"] == class_)]
                for table, mask in ((volume, top), (block, straight))
            ]
            many, size = sum(part.size for part in asked), sum(int(part.sum()) for part in asked)
            if size and facts["device"].get("kind") not in ("directory", "watch"):  # these have own and all
                printed = figures_behind(section(text, "THROUGHPUT"), f"{op} {class_}")
                assert_same(printed, [many, float(size)], f"{op} {class_}")


def _check_device(lines: list[str], name: str, table: Columns, number: int) -> None:
    """Count, bytes read and written, p50 and p99 of Q2C (bios) or D2C (requests)."""
    rows = table["dev"] == number
    seen = rows & (table["complete_ns"] > 0)
    begin = table["issue_ns"] if "issue_ns" in table else table["queue_ns"]
    took = (table["complete_ns"] - begin)[seen]
    sizes = [float(table["bytes"][rows & (table["op"] == op)].sum()) for op in ("read", "write")]
    line = next(line for line in lines if re.match(rf"\s+(`- )?{re.escape(name)}\s", line))
    count = re.search(r"([\d,]+) (bio|req)(?=\s|$)", line)
    if count is None:  # the name was folded: the figures are on a later line
        line = next(line for line in lines[lines.index(line) :] if re.search(r"\d (bio|req)\s", line))
        count = re.search(r"([\d,]+) (bio|req)(?=\s|$)", line)
    assert count is not None and int(count[1].replace(",", "")) == int(rows.sum()), (name, line)
    exact = [*sizes, *(percentile(took, p) if took.size else None for p in (50, 99))]
    assert_same(figures_behind([f"  of {line[count.end() :]}"], "of"), exact, name)


def _check_bytes(
    lines: list[str], block: Columns, volume: Columns, top: np.ndarray, served: np.ndarray
) -> None:
    at = next((i for i, line in enumerate(lines) if "serving  parity" in re.sub(r" {2,}", "  ", line)), None)
    for op in ("read", "write") if at is not None else ():
        on_disks = block["op"] == op
        asked = float(volume["bytes"][top & (volume["op"] == op)].sum())
        merged = np.where(block["class"] == "parity", block["bytes"], block["parity_bytes"])
        parity = float(merged[on_disks].sum())
        own = float(block["bytes"][on_disks & (block["class"] == "volume")].sum())
        serving = float((block["bytes"] - merged)[on_disks & served].sum())
        exact = [asked, serving, parity, own]
        exact += [serving / asked, (serving + parity + own) / asked] if asked else []
        if any(exact):
            assert_same(figures_behind(lines[at:], op), exact, f"bytes, {op}")


def _check_times(lines: list[str], block: Columns, volume: Columns, top: np.ndarray) -> None:
    """Means, bio by bio: Q2C, the time with a request at a disk, and the rest."""
    at = next((i for i, line in enumerate(lines) if line.strip().startswith("mean of")), None)
    spans: dict[int, list[tuple[int, int]]] = {}
    for origin, issue, complete in zip(
        block["origin"].tolist(), block["issue_ns"].tolist(), block["complete_ns"].tolist(), strict=True
    ):
        if origin and complete:
            spans.setdefault(origin, []).append((issue, complete))
    for op in ("read", "write") if at is not None else ():
        rows = np.flatnonzero(
            top & (volume["op"] == op) & (volume["complete_ns"] > 0) & (volume["bytes"] > 0)
        )
        q2c, disks, left_out = [], [], 0
        for row in rows.tolist():
            begin, end = int(volume["queue_ns"][row]), int(volume["complete_ns"][row])
            own = spans.get(int(volume["bio_id"][row]))
            if own is None:
                left_out += 1
                continue
            busy, until = 0, begin
            for a, b in sorted(own):
                a, b = max(a, until), min(b, end)
                busy, until = busy + max(b - a, 0), max(until, b)
            q2c.append(end - begin)
            disks.append(busy)
        if q2c:
            layers = np.array(q2c) - np.array(disks)
            means = [float(np.mean(values)) for values in (q2c, disks, layers)]
            exact = [len(q2c), left_out, *means, percentile(layers, 50), percentile(layers, 99)]
            assert_same(figures_behind(lines[at:], op), exact, f"time in layers, {op}")
