# SPDX-License-Identifier: BSD-2-Clause
"""The main figures of detail.txt once more, from a run's tables by pyarrow and numpy; no code of analysis/.

What the report prints is read back from its lines. Counts must be the same; figures with a unit or a point as
exact as their three digits; percents to a tenth.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq
import pytest

UNITS = {"B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9, "ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}
FIGURE = re.compile(r"(?<![\w.])([+-]?[\d,]*\.?\d+|<0\.1|-)(?: (B|kB|MB|GB|ns|us|ms|s)(?![\w/]))?(?![\w.])")
NEAR_SECTORS = 128
PERCENTS = (50, 90, 99, 99.9, 100)
SHORTEST_RATE_S = 0.01
Rows = npt.NDArray[np.bool_]
Columns = dict[str, npt.NDArray[Any]]


class Percent(float):
    """A share in percent: printed with one digit behind the point."""


def columns(run: Path, table: str) -> Columns:
    """A table's columns; a null number is 0, words are strings."""
    found: Columns = {}
    for name, column in zip(*_read(run / f"tables/{table}.parquet"), strict=True):
        found[name] = np.array([0 if v is None else v for v in column.to_pylist()])
    return found


def left_out(run: Path, table: str) -> int:
    """Rows of the recording that the table says it leaves out."""
    said = pq.ParquetFile(run / f"tables/{table}.parquet").metadata.metadata[b"seekmeter_left_out"]
    counts: dict[str, int] = json.loads(said)
    return sum(counts.values())


def _read(path: Path) -> tuple[list[str], list[Any]]:
    table = pq.read_table(path)
    names = [name for name in table.column_names if name not in ("hist", "frames")]
    return names, [table[name] for name in names]


def section(text: str, title: str) -> list[str]:
    """The lines of a section, below its heading."""
    lines = text.splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith((f"{title} ---", f"{title} * ---")))
    rest = lines[at + 1 :]
    end = next((i for i, line in enumerate(rest) if line.endswith("-----")), len(rest))
    return rest[:end]


def figures_behind(lines: list[str], label: str) -> list[str | float]:
    """The figures of the first line that begins with this label (words with blanks of any width between)."""
    words = r"\s+".join(re.escape(word) for word in label.split())
    line = next(line for line in lines if re.match(rf"\s+{words}\s", line))
    match = re.match(rf"\s+{words}\s", line)
    assert match is not None
    found: list[str | float] = []
    for number, unit in FIGURE.findall(line[match.end() :]):
        plain = number.replace(",", "")
        found.append(plain if plain in ("-", "<0.1") else float(plain) * UNITS.get(unit, 1))
    return found


def assert_same(printed: Sequence[str | float], exact: Sequence[float | None], what: str) -> None:
    """Each printed figure is the exact one, as far as its digits go. None: there is none."""
    assert len(printed) >= len(exact), (what, printed, exact)
    for shown, true in zip(printed, exact, strict=False):
        if true is None:
            assert shown == "-", (what, printed, exact)
        elif shown == "<0.1":
            assert isinstance(true, Percent) and 0 < true < 0.1, (what, printed, exact)
        elif isinstance(true, int):
            assert shown == true, (what, printed, exact)
        else:
            slack = 0.0501 if isinstance(true, Percent) else 0.0051 * abs(true)
            assert isinstance(shown, float) and abs(shown - true) <= slack, (what, printed, exact)


def percentile(values: npt.NDArray[Any], percent: float) -> float:
    """Nearest rank."""
    ordered = np.sort(values)
    return float(ordered[max(int(np.ceil(percent / 100 * ordered.size - 1e-9)), 1) - 1])


class Recomputed:
    """A run's tables and its report's words; each check is one section."""

    def __init__(self, run: Path) -> None:
        self.run = run
        self.text = (run / "detail.txt").read_text()
        self.facts = json.loads((run / "run.json").read_text())
        self.losses = json.loads((run / "losses.json").read_text())["collectors"]
        clock = self.facts["clock"]
        self.start_ns, self.end_ns = clock["record_start_ns"], clock["record_end_ns"]
        self.elapsed_s = (self.end_ns - self.start_ns) / 1e9
        self.block, self.call = columns(run, "block"), columns(run, "call")
        self.left_out = left_out(run, "block")
        self.phase = columns(run, "phase")
        b = self.block
        self.end_ns_of = np.maximum(
            np.where(b["complete_ns"] > 0, b["complete_ns"], b["end_by_ns"]), b["issue_ns"]
        )
        self.moves = np.isin(b["op"], ("read", "write")) & (b["bytes"] > 0)
        self.seen = b["complete_ns"] > 0

    def check(self) -> None:
        """All of it."""
        self.check_throughput()
        self.check_seeks()
        self.check_latency()
        self.check_depth()
        self.check_phases()
        self.check_threads()
        self.check_calls()
        self.check_losses()

    def check_throughput(self) -> None:
        """By op and class; the application's own bytes; the metadata share."""
        b, lines = self.block, section(self.text, "THROUGHPUT")
        for op, class_ in sorted(set(zip(b["op"], b["class"], strict=True))):
            rows = (b["op"] == op) & (b["class"] == class_)
            size, many = int(b["bytes"][rows].sum()), int(rows.sum())
            exact = [
                many, float(size), size / 1e6 / self.elapsed_s, many / self.elapsed_s, size / many,
                Percent(100 * b["in_workload"][rows].mean()), int((b["error"][rows] != 0).sum()),
            ]  # fmt: skip
            label = f"{op} {class_ if size else ''}"
            printed = figures_behind(lines, label)
            assert_same(printed[0 if size else 1 :], exact, label)
        meta = np.isin(b["class"], ("metadata", "journal")) & self.moves
        known = meta | (b["class"] == "data") & self.moves
        share = Percent(100 * b["bytes"][meta].sum() / b["bytes"][known].sum())
        assert_same(figures_behind(lines, "- metadata share:"), [share], "metadata share")
        for op in ("read", "write"):
            moved = float(self.call["bytes"][self.calls_that(op)].sum())
            assert_same(figures_behind(lines, f"application {op}"), [moved, moved / 1e6 / self.elapsed_s], op)

    def calls_that(self, op: str) -> Rows:
        """Rows of calls that read, or write, on the file system under test."""
        named = np.char.find(self.call["call"], op) >= 0
        return np.asarray(named & (self.call["target"] == "target"))

    def check_seeks(self) -> None:
        """Of all, of an op, of a class: one device, in issue order."""
        b = self.block
        rows = np.flatnonzero(self.moves)
        rows = rows[np.argsort(b["issue_ns"][rows], kind="stable")]
        ends = b["sector"][rows] + -(-b["bytes"][rows] // 512)
        distance = b["sector"][rows][1:] - ends[:-1]
        lines = section(self.text, "SEEKS")
        of: dict[str, Rows] = {"all": np.ones(rows.size, dtype=np.bool_)}
        of |= {op: b["op"][rows] == op for op in ("read", "write")}
        of |= {class_: b["class"][rows] == class_ for class_ in np.unique(b["class"][rows])}
        for label, among in of.items():
            way = distance[among[1:]]
            if not way.size:
                continue
            is_near = np.abs(way) <= NEAR_SECTORS
            ahead, back = int((is_near & (way > 0)).sum()), int((is_near & (way < 0)).sum())
            seeks, sequential = int((~is_near).sum()), int((way == 0).sum())
            shares = [Percent(100 * n / way.size) for n in (seeks, sequential, ahead, back)]
            exact = [int(among.sum()), seeks, seeks / self.elapsed_s, *shares]
            assert_same(figures_behind(lines, label), exact, f"seeks, {label}")
        self.seek_ns = b["issue_ns"][rows][1:][np.abs(distance) > NEAR_SECTORS]

    def check_latency(self) -> None:
        """Q2D, D2C and Q2C of each op."""
        b, lines = self.block, section(self.text, "REQUEST LATENCY")
        times = {"Q": b["queue_ns"], "D": b["issue_ns"], "C": b["complete_ns"]}
        for op in np.unique(b["op"]):
            rows = (b["op"] == op) & self.seen
            at = next(i for i, line in enumerate(lines) if re.match(rf"  {op} ", line))
            for line, stage in zip(lines[at : at + 3], ("Q2D", "D2C", "Q2C"), strict=True):
                took = (times[stage[2]] - times[stage[0]])[rows]
                count: list[float | None] = [int(rows.sum())] if stage == "Q2D" else []
                exact = [*count, *(percentile(took, p) for p in PERCENTS)]
                assert_same(figures_behind([f"  {line[line.index(stage) :]}"], stage), exact, f"{op} {stage}")

    def check_depth(self) -> None:
        """Mean and highest depth at the device, and how much of the time it was at work."""
        issue, end = self.block["issue_ns"], self.end_ns_of
        known = self.seen | (self.block["end_by_ns"] > 0)
        issue, end = issue[known], end[known]
        moments = np.concatenate((issue, end))
        order = np.lexsort((np.repeat([1, 0], issue.size), moments))
        depth = np.cumsum(np.repeat([1, -1], issue.size)[order])
        mean = (np.minimum(end, self.end_ns) - np.maximum(issue, self.start_ns)).sum() / 1e9 / self.elapsed_s
        exact = [float(mean), int(depth.max())]
        assert_same(figures_behind(section(self.text, "QUEUE DEPTH"), "at the device mean"), exact, "depth")
        active_ns = np.diff(moments[order])[depth[:-1] > 0].sum()
        lines = section(self.text, "DEVICE UTILIZATION")
        line = next(line for line in lines if " active " in line)
        printed = figures_behind([f"  {line[line.index('active') :]}"], "active")
        assert_same(printed, [Percent(100 * active_ns / 1e9 / self.elapsed_s)], "active")

    def check_phases(self) -> None:
        """Time, operations, the device's bytes and seeks of each phase's name."""
        b, lines = self.block, section(self.text, "TIME BY PHASE")
        for name in dict.fromkeys(self.phase["name"]):
            mine = np.flatnonzero(self.phase["name"] == name)
            spans = [(int(self.phase["start_ns"][i]), int(self.phase["end_ns"][i])) for i in mine]
            elapsed_s = sum(end - start for start, end in spans) / 1e9
            inside = np.zeros(self.moves.size, dtype=np.bool_)
            for a, z in spans:
                inside |= self.moves & (self.end_ns_of >= a) & (self.end_ns_of < z)
            seeks = sum(int(((self.seek_ns >= a) & (self.seek_ns < z)).sum()) for a, z in spans)
            printed = figures_behind(lines, str(name))
            rate_of = None if elapsed_s < SHORTEST_RATE_S else elapsed_s
            ops = int(self.phase["ops"][mine].sum())
            own = int(self.phase["bytes"][mine].sum())
            rates = [v / rate_of if rate_of and v else None for v in (ops, own / 1e6)]
            assert_same(printed[:1], [len(spans)], f"phase {name}")
            assert abs(float(printed[1]) - elapsed_s) <= 0.0051 * max(elapsed_s, 1), (name, printed)
            assert_same(printed[2:4], rates, f"phase {name}")
            if rate_of:
                device = float(b["bytes"][inside].sum()) / 1e6 / rate_of
                assert_same([printed[5], printed[7]], [device, seeks / rate_of], f"phase {name}")

    def check_calls(self) -> None:
        """The kinds of calls that are shown: count, bytes, errors and time."""
        lines = [line for line in section(self.text, "FILE-SYSTEM CALLS") if not line.startswith("  - ")]
        shown = [
            line.split()[:2] for line in lines[1:] if re.match(r"  \w+ +(target|elsewhere|unknown) ", line)
        ]
        assert shown
        for call, target in shown:
            rows = (self.call["call"] == call) & (self.call["target"] == target)
            count, errors = (int(self.call[name][rows].sum()) for name in ("count", "errors"))
            size, total_ns = (float(self.call[name][rows].sum()) for name in ("bytes", "total_ns"))
            assert_same(figures_behind(lines, f"{call} {target}"), [count, size, errors, total_ns], call)

    def check_threads(self) -> None:
        """CPU time of all threads by role, and the share of blocked time whose cause is not known."""
        if not (self.run / "tables/thread_time.parquet").exists():
            return
        t = columns(self.run, "thread_time")
        words = " ".join(" ".join(section(self.text, "WHERE THE THREADS' TIME WENT")).split())
        ran = np.isin(t["state"], ("user", "kernel", "irq", "spin", "running"))
        said = re.search(
            r"CPU time of all threads: ([\d,.]+) s of ([\d,.]+) s \(([\d.]+) %\): (.*?) - ", words
        )
        assert said is not None
        cpu_s, all_s = t["ns"][ran].sum() / 1e9, self.facts["machine"]["cpus"] * self.elapsed_s
        assert [float(said[i].replace(",", "")) for i in (1, 2, 3)] == pytest.approx(
            [cpu_s, all_s, cpu_s / all_s * 100], rel=0.005, abs=0.06
        )
        of_disk = re.search(r"disk's machinery ([\d.]+)", said[4])
        exact = t["ns"][ran & (t["role"] == "disk")].sum() / 1e9
        assert float(of_disk[1] if of_disk else 0) == pytest.approx(exact, abs=0.06)
        own_will = ("idle", "child", "sleep", "ipc", "stopped")
        mine = np.isin(t["role"], ("workload", "filesystem")) & ~ran & (t["state"] != "runnable")
        blocked = mine & ~np.isin(t["cause"], own_will)
        unknown = t["ns"][mine & np.isin(t["cause"], ("unknown", "no_stack"))].sum()
        said = re.search(r"cause not known: ([<\d.]+) %", words)
        assert said is not None
        assert float(said[1].lstrip("<")) == pytest.approx(unknown / t["ns"][blocked].sum() * 100, abs=0.11)

    def check_losses(self) -> None:
        """What was recorded is in the table, or left out; what was seen is that and what was lost."""
        lines = section(self.text, "LOST EVENTS AND OVERHEAD")
        assert self.losses["block"]["recorded"] == self.block["issue_ns"].size + self.left_out
        ended = self.block["complete_ns"][self.seen]
        assert ((ended >= self.start_ns) & (ended <= self.end_ns)).all()
        for name, loss in self.losses.items():
            if loss["state"] == "on":
                lost = sum(loss["lost"].values())
                assert loss["seen"] >= loss["recorded"] + lost, (name, loss)
                printed = figures_behind(lines, f"{name} {loss['state']}")
                assert_same(printed, [loss["seen"], loss["recorded"], lost], name)
