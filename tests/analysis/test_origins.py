# SPDX-License-Identifier: BSD-2-Clause
"""Why a request was sent: the rules, against a reference that tries them one by one."""

from __future__ import annotations

import random
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

from analysis.origins import rules
from analysis.origins.rules import load_rules, make_rule
from analysis.rundir.run import open_run
from analysis.tables.load import load_tables
from tests.analysis import synthetic
from tests.analysis.synthetic import START_NS, Spec, bio, request

FUNCTIONS = [
    "wb_workfn",
    "xlog_cil_push_work",
    "journal_end_buffer_io_sync",
    "ext4_end_bio",
    "[unknown]",
    "end_buffer_write_sync",
    "xlog_bio_end_io",
]
DEV = 7 << 20 | 3


def sent(why: str, **more: Any) -> dict[str, Any]:
    """A request of the workload's own task, unless told, and why it was sent."""
    row = {"why": why, "submitter": "workload", "event_kind": "none", **more}
    for key, number in (("work", "work_id"), ("end_io", "end_io_id")):
        if key in row:
            row[number] = FUNCTIONS.index(row.pop(key)) + 1
    return row


def whys(path: Path, rows: list[dict[str, Any]], events: list[dict[str, Any]] | None = None) -> list[str]:
    """The column `why` of these requests."""
    block = [request(START_NS + 1_000_000 * (i + 1), 8 * i, **row) for i, row in enumerate(rows)]
    spec = Spec(block=block, event=events, function=FUNCTIONS)
    block_table = load_tables(open_run(spec.write(path))).block
    assert block_table is not None
    column = block_table.read_categorical("why")
    assert column is not None
    return [column.labels[code] for code in column.codes]


def test_each_request_is_charged_to_what_sent_it(tmp_path: Path) -> None:
    thread = {"submitter": "kernel_thread", "in_workload": 0}
    rows = [
        sent("fsync()", call="fsync"),
        sent("read()", call="read", op="read", flags=16),
        sent("read()", call="read", op="read", flags=16, event_kind="readahead", event_id=5),
        sent("read()", call="read", op="read", event_kind="jbd2_checkpoint", event_id=7),
        sent("readahead", call="read", op="read", flags=16, event_kind="readahead", event_id=6),
        sent("commit, timer", **thread, comm=b"jbd2/loop3-8", event_kind="jbd2_commit", event_id=1),
        sent("commit, fsync", **thread, comm=b"jbd2/loop3-8", event_kind="jbd2_commit", event_id=2),
        sent("commit, unknown", **thread, comm=b"jbd2/loop3-8", event_kind="jbd2_commit", event_id=99),
        sent("commit", **thread, comm=b"jbd2/loop3-8"),
        sent("journal superblock", **thread, comm=b"jbd2/loop3-8", end_io="end_buffer_write_sync"),
        sent("checkpoint", call="mkdir", event_kind="jbd2_checkpoint", event_id=3),
        sent("writeback, background", **thread, work="wb_workfn", event_kind="writeback_inode", event_id=4),
        sent("writeback, unknown", **thread, work="wb_workfn"),
        sent("log write", **thread, work="xlog_cil_push_work"),
        sent("AIL push", **thread, comm=b"xfsaild/loop3"),
        sent("recorder", submitter="recorder", **{"class": "data"}),
        sent("session's sync, umount", submitter="recorder", **{"class": "metadata"}, comm=b"python"),
        sent("mount", submitter="recorder", op="read", **{"class": "journal"}, comm=b"mount"),
        sent("other process", submitter="other"),
        sent("discard", op="discard", call="unlink"),
        sent("exit", call="close", call_state="exit"),
        sent("close()", call="close", call_state="over"),
        sent("flush for several", **thread, op="flush", comm=b"kworker/1:1H"),
        sent("task, no call"),
        sent("task, call unknown", call_state="unknown"),
        sent("unknown", **thread, comm=b"a_new_thread"),
    ]
    events = [
        {"event_id": 1, "kind": "jbd2_commit", "why": "timer"},
        {"event_id": 2, "kind": "jbd2_commit", "why": "fsync"},
        {"event_id": 3, "kind": "jbd2_checkpoint", "why": "none"},
        {"event_id": 4, "kind": "writeback_inode", "why": "background"},
        {"event_id": 5, "kind": "readahead", "why": "miss"},
        {"event_id": 6, "kind": "readahead", "why": "ahead"},
    ]
    assert whys(tmp_path / "r", rows, events) == [row["why"] for row in rows]


def test_requests_of_a_btrfs_commit_are_found_by_thread_and_time(tmp_path: Path) -> None:
    """whys() queues request i 10 us before START_NS + (i + 1) ms."""
    thread: dict[str, Any] = {"submitter": "kernel_thread", "in_workload": 0, "comm": b"btrfs-transacti"}
    rows = [
        sent("commit", **thread, pid=50),
        sent("commit, timer", **thread, pid=50),
        sent("commit", **thread, pid=51),
        sent("commit, timer", **thread, pid=50),
        sent("commit", **thread, pid=50),
    ]
    begin, end = START_NS + 1_500_000, START_NS + 4_500_000
    event = {
        "event_id": 77,
        "kind": "btrfs_commit",
        "why": "timer",
        "tid": 50,
        "start_ns": begin,
        "end_ns": end,
    }
    earlier = {**event, "event_id": 3, "why": "sync", "tid": 52, "start_ns": begin - 1000, "end_ns": begin}
    assert whys(tmp_path / "r", rows, [event, earlier]) == [row["why"] for row in rows]


def test_log_writes_of_xfs_belong_to_the_force_that_asked(tmp_path: Path) -> None:
    """Thread 50 forces the log at 0.9 ms; requests are sent at 1, 2, ... ms."""
    worker: dict[str, Any] = {
        "submitter": "kernel_thread",
        "work": "xlog_cil_push_work",
        "end_io": "xlog_bio_end_io",
        "pid": 60,
    }
    log: dict[str, Any] = {"call": "fsync", "end_io": "xlog_bio_end_io"}
    rows = [
        sent("log force, fsync", **log, pid=50, sb_dev=DEV),
        sent("log force, fsync", **worker, sb_dev=DEV),
        sent("fsync()", **log, pid=51, sb_dev=DEV),  # another thread's, which forced nothing
        sent("log write", **worker, sb_dev=DEV + 1),  # of another file system
        sent("fsync()", call="fsync", pid=50, sb_dev=DEV),  # no log
        *[sent("log force, fsync", **worker, sb_dev=DEV)] * 5,
        sent("log write", **worker, sb_dev=DEV),  # later than 10 ms: for the log's size
    ]
    at = START_NS + 900_000
    force = {"event_id": 9, "kind": "xfs_log_force", "why": "fsync", "tid": 50, "dev": DEV}
    event = force | {"start_ns": at, "end_ns": at}
    assert whys(tmp_path / "r", rows, [event]) == [row["why"] for row in rows]


def test_bios_to_volumes_are_charged_like_requests(tmp_path: Path) -> None:
    rows = [
        sent("fsync()", call="fsync"),
        sent("commit, timer", comm=b"jbd2/dm-0-8", event_kind="jbd2_commit", event_id=1),
        sent("other process", submitter="other", comm=b"x"),
    ]
    volume = [bio(START_NS + 1_000_000 * (i + 1), 8 * i, **row) for i, row in enumerate(rows)]
    spec = Spec(volume=volume, event=[{"event_id": 1, "why": "timer"}], function=FUNCTIONS)
    table = load_tables(open_run(spec.write(tmp_path / "r"))).volume
    assert table is not None
    column = table.read_categorical("why")
    assert column is not None
    assert [column.labels[code] for code in column.codes] == [row["why"] for row in rows]


def test_reads_ahead_are_found_by_thread_inode_and_time(tmp_path: Path) -> None:
    ahead: dict[str, Any] = {"call": "read", "op": "read", "flags": 16, "pid": 50, "ino": 7}
    rows = [
        sent("readahead", **ahead),
        sent("readahead", **ahead),
        sent("read()", **{**ahead, "flags": 0}),
        sent("read()", **{**ahead, "ino": 8}),
        sent("read()", **{**ahead, "pid": 51}),
        sent("read()", **ahead),  # of the next event, a miss
    ]
    windows = [(0.9, "ahead", 50, 7), (5.9, "miss", 50, 7), (4.5, "miss", 51, 7)]
    events = [
        {"event_id": i, "kind": "readahead", "why": why, "tid": tid, "ino": ino, "start_ns": at, "end_ns": at}
        for i, (ms, why, tid, ino) in enumerate(windows, 1)
        for at in [START_NS + int(ms * 1_000_000)]
    ]
    assert whys(tmp_path / "r", rows, events) == [row["why"] for row in rows]


def charged_one_by_one(row: dict[str, Any], event_whys: dict[int, str]) -> str:
    """The first rule that fits, each of its keys compared on its own."""

    def word(value: Any) -> str:
        return "" if value in (None, 0, "none") else str(value)

    values = {
        "op": row["op"],
        "class": row["class"],
        "submitter": row["submitter"],
        "waited": word(row["waited"]),
        "call": word(row["call"]),
        "call_state": word(row["call_state"]),
        "event": word(row["event_kind"]),
        "event_why": word(event_whys.get(row["event_id"])),
        "work": FUNCTIONS[row["work_id"] - 1] if row["work_id"] else "",
        "end_io": FUNCTIONS[row["end_io_id"] - 1] if row["end_io_id"] else "",
        "comm": row["comm"].decode(),
    }
    flags = {word for bit, word in synthetic.ENUMS["block_flag"].items() if row["flags"] & bit}
    for rule in load_rules():
        if (
            all(any(fnmatchcase(values[key], p) for p in patterns) for key, patterns in rule.patterns.items())
            and set(rule.flags) <= flags
            and not set(rule.without_flags) & flags
            and all(bool(row[key]) == wanted for key, wanted in rule.switches.items())
        ):
            why = values["event_why"] or "unknown"
            return rule.why.replace("{call}", values["call"]).replace("{why}", why)
    return "unknown"


def test_rules_give_what_trying_them_one_by_one_gives(tmp_path: Path) -> None:
    rng = random.Random(3)
    enums = synthetic.ENUMS
    comms = [b"worker", b"jbd2/loop3-8", b"xfsaild/loop3", b"kswapd0", b"kworker/u4:1", b"btrfs-transacti"]
    events: list[dict[str, Any]] = [
        {"event_id": i, "kind": "writeback", "why": rng.choice(list(enums["event_why"].values()))}
        for i in range(1, 40)
    ]
    rng.shuffle(events)
    rows = []
    for _ in range(3000):
        kinds = list(enums["event_kind"].values())
        rows.append(
            {
                "op": rng.choice(["read", "write", "discard"]),
                "class": rng.choice(list(enums["block_class"].values())),
                "submitter": rng.choice(list(enums["block_submitter"].values())),
                "waited": rng.choice(list(enums["block_waited"].values())),
                "call": rng.choice(["none"] * 9 + list(enums["call_name"].values())),
                "call_state": rng.choice(list(enums["block_call_state"].values())),
                "event_kind": rng.choice(["none"] * 20 + kinds),
                "event_id": rng.randrange(50),
                "work_id": rng.choice([0, 0, 1, 2, 3, 4, 5]),
                "end_io_id": rng.choice([0, 0, 1, 2, 3, 4, 5]),
                "comm": rng.choice(comms),
                "flags": rng.randrange(64),
                "in_transaction": rng.randrange(2),
                "in_workload": rng.randrange(2),
            }
        )
    reasons = {int(event["event_id"]): str(event["why"]) for event in events}
    expected = [charged_one_by_one(row, reasons) for row in rows]
    assert whys(tmp_path / "r", rows, events) == expected
    assert len(set(expected)) > 30


def test_older_recording_has_no_cause(tmp_path: Path) -> None:
    spec = Spec(block=[request(START_NS + 1_000_000, 8)])
    block = load_tables(open_run(spec.write(tmp_path / "r"))).block
    assert block is not None
    column = block.read_categorical("why")
    assert column is not None and column.labels == (rules.UNKNOWN,)


@pytest.mark.parametrize(
    ("entry", "fault"),
    [
        ({"call": ["fsync"]}, "has no why"),
        ({"why": "x", "calls": ["fsync"]}, "no key calls"),
        ({"why": "x", "call": "fsync"}, "not a list"),
        ({"why": "x", "in_transaction": 1}, "neither true nor false"),
    ],
)
def test_wrong_rule_names_its_fault(entry: dict[str, Any], fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        make_rule(entry, "file.toml")


def test_rules_name_words_that_a_recorder_knows() -> None:
    """A misspelt word of an enum would never fit."""
    enums = {
        "op": "block_op",
        "class": "block_class",
        "submitter": "block_submitter",
        "waited": "block_waited",
        "call_state": "block_call_state",
        "event": "event_kind",
        "event_why": "event_why",
    }
    for rule in load_rules():
        for key, patterns in rule.patterns.items():
            if key in enums:
                known = synthetic.ENUMS[enums[key]].values()
                assert all(any(fnmatchcase(word, p) for word in known) for p in patterns), (rule.why, key)
