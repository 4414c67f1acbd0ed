# SPDX-License-Identifier: BSD-2-Clause
"""Traces in text whose requests are known: biosnoop's columns, other kernels' formats, losses, broken lines.

biosnoop needs kprobes or fentry, which lockdown forbids: its rows are written here as its source prints them.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.analysis.importers.text_traces import read_text

MS = 1_000_000
SHIFT_NS = 1000 * 10**9
NAMES = ["dd", "jbd2/sda1-8", "a b", "12 34", "kworker/u4:1"]


def snoop_rows(kind: str, queued: bool, count: int = 200) -> tuple[str, list[tuple[object, ...]]]:
    """biosnoop's output, and its (disk, op, sector, bytes, issue, complete, queue, pid, comm)."""
    pick = random.Random(1)
    rows: list[tuple[object, ...]] = []
    lines = []
    heads = {
        "bcc": "TIME(s)     COMM           PID     DISK      T SECTOR     BYTES  ",
        "bcc 2016": "TIME(s)     COMM           PID    DISK    T SECTOR     BYTES  ",
        "bcc -P": "TIME(s)     COMM           PID     DISK      T SECTOR     BYTES  P ",
        "libbpf-tools": "TIME(s)     COMM           PID     DISK    T    SECTOR     BYTES   ",
    }
    lines.append(heads[kind] + ("QUE(ms) " if queued else "") + "LAT(ms)")
    t_us = 0
    for number in range(count):
        write, name = pick.random() < 0.5, pick.choice(NAMES)
        disk, sector, size = pick.choice(["sda", "nvme0n1"]), number * 4096, 512 * pick.randrange(1, 512)
        digits = 3 if kind == "libbpf-tools" else 2
        unit = 10 ** (6 - digits)  # of a latency, in ns
        latency, waited = unit * pick.randrange(1, 50000), unit * pick.randrange(0, 500)
        rwbs = ("WS" if kind == "libbpf-tools" else "W") if write else "R"
        cells = [f"{t_us / 1e6:<11.6f}", f"{name:<14.14s}", f"{number + 100:<7d}", f"{disk:<7s}",
                 f"{rwbs:<4s}", f"{sector:<10d}", f"{size:<7d}"]  # fmt: skip
        if kind == "bcc -P":
            cells.append(pick.choice("SR?"))
        if queued:
            cells.append(f"{waited / MS:7.{digits}f}")
        lines.append(" ".join([*cells, f"{latency / MS:7.{digits}f}"]))
        end = SHIFT_NS + t_us * 1000
        queue = end - latency - (waited if queued else 0)
        op = "write" if write else "read"
        rows.append((disk, op, sector, size, end - latency, end, queue, number + 100, name))
        t_us += pick.randrange(1, 100000)
    return "\n".join(lines) + "\n", rows


@pytest.mark.parametrize("queued", [False, True])
@pytest.mark.parametrize("kind", ["bcc", "bcc 2016", "bcc -P", "libbpf-tools"])
def test_biosnoop_rows_become_requests(
    translator: Path, reader: Path, tmp_path: Path, kind: str, queued: bool
) -> None:
    text, expected = snoop_rows(kind, queued)
    got = read_text(translator, reader, tmp_path, text)
    assert got.said["format"] == "biosnoop"
    assert [got.said[key] for key in ("unreadable", "strange", "cut")] == [0, 0, 0]
    assert got.said["latency_digits"] == (3 if kind == "libbpf-tools" else 2)
    disks = {about["dev"]: about["name"] for about in got.said["disks"]}
    mine = [
        (
            disks[f"{row['dev'] >> 20}:{row['dev'] & 0xFFFFF}"], row["op"], row["sector"], row["bytes"],
            row["issue_ns"], row["complete_ns"], row["queue_ns"], row["pid"], row["comm"].rstrip("\0"),
        )
        for row in got.imported.rows
    ]  # fmt: skip
    assert sorted(mine, key=str) == sorted(expected, key=str)
    inserted = [row["insert_ns"] for row in got.imported.rows]
    if queued and kind == "libbpf-tools":  # it measures from the insertion
        assert inserted == [row["queue_ns"] for row in got.imported.rows]
    else:
        assert not any(inserted)
    assert got.imported.lost == {}


def test_biosnoop_edge_cases_become_requests(translator: Path, reader: Path, tmp_path: Path) -> None:
    """Never inserted, nobody known, a flush, begun before the first; two headers; a cut last row."""
    text = (
        "Tracing block device I/O... Hit Ctrl-C to end.\n"
        "TIME(s)     COMM           PID     DISK    T    SECTOR     BYTES   QUE(ms) LAT(ms)\n"
        "0.000000    dd             1       sda     R    8          4096     -1.000   0.500\n"
        "0.000000    ?              0       Unknown W    16         4096      0.000 900.000\n"
        "0.001000    sync           2       sda     FF   0          0         0.100   0.200\n"
        "0.002000    dd             1       sda     R    nothing    4096     -1.000   0.500\n"
        "TIME(s)     COMM           PID     DISK    T SECTOR     BYTES   LAT(ms)\n"
        "0.003000    dd             1       sda     W 24         8192       1.25\n"
        "0.004000    dd             1       sda     W 32         8192       1.2"
    )
    got = read_text(translator, reader, tmp_path, text)
    assert (got.said["unreadable"], got.said["strange"], got.said["cut"]) == (1, 1, 1)
    rows = {(row["op"], row["sector"]): row for row in got.imported.rows}
    assert set(rows) == {("read", 8), ("write", 16), ("flush", 0), ("write", 24)}
    assert rows["read", 8]["insert_ns"] == 0
    assert rows["write", 16]["issue_ns"] == SHIFT_NS - 900 * MS
    assert rows["write", 16]["comm"].rstrip("\0") == ""
    assert rows["write", 24]["complete_ns"] - rows["write", 24]["issue_ns"] == 1_250_000


OF_KERNELS = {
    "6.18": ("W 4096 () 800 + 8 be,0,4 [dd]", "W () 800 + 8 be,0,4 [-5]"),
    "6.18, by perf": ("W 4096 () 800 + 8 0x2,0,4 [dd]", "W () 800 + 8 0x2,0,4 [-5]"),
    "6.1": ("W 4096 () 800 + 8 [dd]", "W () 800 + 8 [-5]"),
    "3.10": ("W 0 () 800 + 8 [dd]", "W () 800 + 8 [-5]"),
}
HEADS = [
    "  dd-77      [001] d..1.  {t}: block_rq_{what}: 8,16 ",
    "  dd-77      [001] d..1   {t}: block_rq_{what}: 8,16 ",
    "  dd-77      (     70) [001] ....   {t}: block_rq_{what}: 8,16 ",
    "  dd-77      (-------) [001]   {t}: block_rq_{what}: 8,16 ",
    "  my dd-2-77      [001]   {t}: block_rq_{what}:   8,16 ",
    "  <...>-77 [001] {t}: block_rq_{what}: 8,16 ",
    "dd    77 [001] {t}: block:block_rq_{what}: 8,16 ",
    "my dd 1   77 [001] {t}:   1 block:block_rq_{what}: 8,16 ",
    "dd   70/77   [001] {t}: block:block_rq_{what}: 8,16 ",
    "dd    77 {t}: block:block_rq_{what}: 8,16 ",
]


@pytest.mark.parametrize("kernel", OF_KERNELS)
@pytest.mark.parametrize("head", HEADS)
def test_line_formats_of_tools_and_kernels_are_equal(
    translator: Path, reader: Path, tmp_path: Path, head: str, kernel: str
) -> None:
    issue, complete = OF_KERNELS[kernel]
    text = head.format(t="12.000001", what="issue") + issue + "\r\n"
    text += head.format(t="12.000301", what="complete") + complete + "\n"
    got = read_text(translator, reader, tmp_path, text)
    (row,) = got.imported.rows
    assert (row["op"], row["sector"], row["bytes"], row["pid"], row["error"]) == ("write", 800, 4096, 77, 5)
    assert (row["issue_ns"], row["complete_ns"]) == (12_000_001_000, 12_000_301_000)
    assert row["comm"].rstrip("\0") == "dd" and row["dev"] == 8 << 20 | 16
    assert got.said["strange"] == 0


def lines(*events: str) -> str:
    return "".join(f" dd-77 [000] 5.{number:09d}: block_{event}\n" for number, event in enumerate(events))


@pytest.mark.parametrize(
    ("rwbs", "sectors", "op", "flags"),
    [
        ("R", 8, "read", 0), ("RSM", 8, "read", 3), ("RA", 8, "read", 16), ("WS", 8, "write", 1),
        ("WFS", 8, "write", 5), ("FWFS", 8, "write", 13), ("D", 64, "discard", 0), ("DE", 64, "discard", 0),
        ("FF", 0, "flush", 8), ("FN", 0, "flush", 8), ("NS", 8, "write", 1), ("ZA", 8, "write", 16),
    ],
)  # fmt: skip
def test_rwbs_letters_become_op_and_flags(
    translator: Path, reader: Path, tmp_path: Path, rwbs: str, sectors: int, op: str, flags: int
) -> None:
    """As blktrace's own categories would have it: 1 sync, 2 meta, 4 FUA, 8 preflush, 16 ahead."""
    text = lines(
        f"rq_issue: 8,0 {rwbs} {sectors * 512} () 64 + {sectors} [dd]",
        f"rq_complete: 8,0 {rwbs} () 64 + {sectors} [0]",
    )
    (row,) = read_text(translator, reader, tmp_path, text).imported.rows
    assert (row["op"], row["bytes"], row["flags"]) == (op, sectors * 512, flags)


def test_driver_command_has_no_sector(translator: Path, reader: Path, tmp_path: Path) -> None:
    """It has no place: 6.x gives it the sector -1 when it ends; old kernels print its bytes."""
    text = lines(
        "rq_issue: 8,0 N 512 () 0 + 0 [smartd]",
        "rq_complete: 8,0 N () 18446744073709551615 + 1 [0]",
        "rq_issue: 8,0 R 252 (12 00 00 00 fc 00) 0 + 0 [smartd]",
        "rq_complete: 8,0 R (12 00 00 00 fc 00) 0 + 0 [0]",
    )
    got = read_text(translator, reader, tmp_path, text).imported
    assert [(row["op"], row["sector"], row["bytes"], row["error"]) for row in got.rows] == [
        ("driver", 0, 512, 0), ("driver", 0, 0, 0),
    ]  # fmt: skip
    assert got.lost == {}


def test_splits_remaps_merges_and_plugs_are_read(translator: Path, reader: Path, tmp_path: Path) -> None:
    text = lines(
        "bio_remap: 8,0 W 2148 + 16 <- (8,1) 100",
        "bio_queue: 8,0 W 2148 + 16 [dd]",
        "split: 8,0 W 2148 / 2156 [dd]",
        "getrq: 8,0 W 2148 + 8 [dd]",
        "plug: [dd]",
        "bio_queue: 8,0 W 2164 + 8 [dd]",
        "bio_backmerge: 8,0 W 2164 + 8 [dd]",
        "unplug: [dd] 2",
        "rq_insert: 8,0 W 4096 () 2148 + 8 [dd]",
        "rq_issue: 8,0 W 4096 () 2148 + 8 [dd]",
        "rq_issue: 8,0 W 8192 () 2156 + 16 [dd]",
        "rq_requeue: 8,0 W () 2148 + 8 [0]",
        "rq_issue: 8,0 W 4096 () 2148 + 8 [dd]",
        "rq_complete: 8,0 W () 2148 + 8 [0]",
        "rq_complete: 8,0 W () 2156 + 16 [0]",
        "touch_buffer: 8,0 sector=1 size=4096",
    )
    got = read_text(translator, reader, tmp_path, text)
    rows = sorted(got.imported.rows, key=lambda row: row["sector"])
    times = ("queue_ns", "insert_ns", "issue_ns", "complete_ns")
    picked = [
        (row["sector"], row["bytes"], *(row[name] % 100 for name in times), row["merges"], row["requeues"])
        for row in rows
    ]
    assert picked == [(2148, 4096, 1, 8, 12, 13, 0, 1), (2156, 8192, 1, 0, 10, 14, 1, 0)]
    assert got.imported.facts["remaps"] == [{"from": "8:1", "to": "8:0", "count": 1, "first_sector": 2048}]
    assert {"P": 1, "U": 1, "X": 1}.items() <= got.imported.facts["actions"].items()
    assert got.said["other_events"] == 1


def test_losses_and_strange_lines_are_counted(translator: Path, reader: Path, tmp_path: Path) -> None:
    good = lines("rq_issue: 8,0 R 4096 () 0 + 8 [dd]", "rq_complete: 8,0 R () 0 + 8 [0]")
    text = (
        "# tracer: nop\n#\n\ncpus=2\nCPU 1 is empty\n"
        + good
        + "CPU:1 [LOST 5 EVENTS]\nCPU:0 [7 EVENTS DROPPED]\nCPU:0 [EVENTS DROPPED]\nCPU:1 [LOST EVENTS]\n"
        + "    swapper     0 [001]  6.000001: PERF_RECORD_LOST lost 11\n"
        + " dd-77 [000] 6.000002: <stack trace>\n => submit_bio\n\tffffffff81af1cd9 submit_bio+0x1 ([k])\n"
        + " dd-77 [000] 6.000003: sched_switch: prev_comm=dd\n"
        + "hello\n"
        + " dd-77 [000] 6.000004: block_rq_issue: 8,0 R 4096 () 0 + [dd]\n"
        + " dd-77 [000] 123456: block_rq_issue: 8,0 R 4096 () 0 + 8 [dd]\n"
        + "x" * 100_000
        + "\n dd-77 [000] 6.000005: block_bio_remap: 8,0 R 8 + 8 <- (8,1) 12"
    )
    got = read_text(translator, reader, tmp_path, text)
    assert got.imported.lost["events lost, by the kernel's marks"] == 5 + 7 + 1 + 1 + 11
    assert len(got.imported.rows) == 1
    names = ("strange", "unreadable", "untimed", "cut")
    assert {name: got.said[name] for name in names} == {"strange": 2, "unreadable": 1, "untimed": 1, "cut": 1}
