# SPDX-License-Identifier: BSD-2-Clause
"""Findings of a run that a stranger made: names harm neither terminal nor page, and numbers no rule."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from analysis import report
from analysis.findings.rule import find_all, find_rules
from tests.analysis import waiting_runs
from tests.analysis.page_html import Parsed, runs_one_script
from tests.analysis.synthetic import BIN_NS, ENUMS, TABLES, THREAD_TIME, Spec, request, run_json
from tests.analysis.test_finding_waits import FIVE, HANDLE, NAMES, OPEN, RWSEM, THROTTLE, levels, waits
from tests.analysis.waiting_runs import APP, BEGIN, JBD2, MS, OTHER, SYSCALL, Sleep, case_of, event

EVIL = "<script>x</script>\x1b[31m\x9b2J\r\x00\u202e\ud800{{7*7}}%s"
SHOWN = "<script>x</script>\\x1b[31m\\x9b2J\\r"  # its escape
PLACES = ("terminal", "answer.txt", "report.txt", "detail.txt", "findings.json", "report.html")


def evil_facts() -> dict[str, Any]:
    """run.json with names that move a cursor wherever the answer states one."""
    facts = run_json(1.1)
    facts["filesystem"] |= {"name": EVIL, "mount_point": f"/mnt/{EVIL}"}
    facts["workload"] |= {"name": EVIL, "argv": [EVIL], "cpus": EVIL, "threads": 1}
    facts["words"] = {"FS": EVIL, "WL": EVIL, EVIL: EVIL, "MKFS": EVIL}
    facts["command"] = f"make {EVIL} FS={EVIL}"
    facts["device"] |= {"name": EVIL, "model": EVIL, "scheduler": EVIL, "kind": "disk"}
    facts["kernel"]["release"] = EVIL
    facts["warnings"] = [EVIL]
    programs = [{"comm": EVIL, "cpu_ns": 900 * MS}]
    facts["others"] = {"cpu_ns": 900 * MS, "workload_cpu_ns": 1, "programs": programs}
    return facts


@pytest.fixture(scope="module")
def evil(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What a report of such a run shows, by place. Threads, functions, locks and files are named alike."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(report, "_outputs", lambda: [])  # pictures have tests of their own
        for number, role in ((APP, "workload"), (JBD2, "kernel"), (OTHER, "other")):
            patch.setitem(waiting_runs.THREADS, number, (EVIL, role))
        run = tmp_path_factory.mktemp("evil") / "r"
        work = ("schedule_timeout+0x1", "__flush_work+0x86", f"{EVIL}+0x1", *OPEN)
        frames = [THROTTLE, RWSEM, HANDLE, work, (f"{EVIL}+0x1", *SYSCALL)]
        case_of(
            run,
            [Sleep(t, t + 80, frames[i], waker=OTHER) for i, t in enumerate(FIVE)],
            run=evil_facts(),
            lock_wait=[waits(90 * MS, waiter_name=EVIL.encode("utf-8", "replace")[:24])],
            lock=[NAMES[0] | {"name": EVIL, "type": EVIL}],
            paths=[{"ino": 77, "dev": "7:3", "path": EVIL, "born_ns": None}],
            counter=levels(4 << 20),
            event=[event("jbd2_commit", "fsync", 100, 500, tid=1000 + JBD2, asker_tid=1000 + OTHER)],
            block=[
                request(BEGIN + 400 * MS, 800, 1 << 20, complete_ns=BEGIN + 410 * MS) | {"comm": b"\x1b[2J"}
            ],
            phases=[
                {"name": f"{EVIL}{i}", "start_ns": BEGIN + i * 500 * MS, "end_ns": BEGIN + (i + 1) * 500 * MS}
                for i in range(2)
            ],
        )
        report.make_report(run)
        first = json.loads((run / "findings.json").read_text())["findings"][0]
        found = {"kind": first["kind"], "what": first["what"], "verdict": EVIL, "text": EVIL}
        (run / "verify").mkdir()
        (run / "verify/1.json").write_text(json.dumps(found))
        terminal = report.make_report(run)
    return {place: (run / place).read_text() if "." in place else terminal for place in PLACES}


@pytest.mark.parametrize("place", PLACES)
def test_names_of_a_run_are_escaped_wherever_findings_stand(evil: dict[str, str], place: str) -> None:
    text = evil[place]
    assert all(letter.isprintable() or letter == "\n" for letter in text)
    if place == "report.html":
        page = Parsed(text)
        assert runs_one_script(page) and SHOWN in page.text and "{{7*7}}" in page.text
    elif place == "findings.json":
        tree = json.loads(text)
        assert tree["failed"] == [] and len(tree["findings"]) >= 4
    else:
        assert SHOWN in text


def test_screen_of_hostile_names_keeps_its_size(evil: dict[str, str]) -> None:
    lines = evil["answer.txt"].splitlines()
    assert len(lines) <= 40 and max(map(len, lines)) <= 80
    assert any(line.strip().startswith("verified: ") for line in lines)


EXTREME = (0, 1, 1 << 31, (1 << 32) - 1, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)
BITS = {"b": 7, "B": 8, "h": 15, "H": 16, "i": 31, "I": 32, "q": 63, "Q": 64}


LAYOUTS = {**TABLES, "thread_time": THREAD_TIME}


def spoil(rows: list[dict[str, Any]], table: str, share: float, draw: random.Random) -> None:
    """Replace a share of a table's numbers by extreme ones, and of its words by numbers without a word."""
    layout = {name: (letter, enum) for name, letter, _, size, enum in LAYOUTS[table] if size == 1}
    for row in rows:
        for name in sorted(set(row) & set(layout)):  # drawn in the same order each time
            letter, enum = layout[name]
            if letter in BITS and draw.random() < share:
                most = (1 << BITS[letter]) - 1
                row[name] = draw.randrange(256) if enum in ENUMS else min(draw.choice(EXTREME), most)


@pytest.mark.parametrize("seed", range(8))
def test_no_rule_fails_on_extreme_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    draw = random.Random(seed)
    share = (0.02, 0.1, 0.3, 0.7)[seed % 4]
    written = Spec.write

    def write(spec: Spec, path: Path) -> Path:
        for table in LAYOUTS:
            spoil(getattr(spec, table) or [], table, share, draw)
        return written(spec, path)

    monkeypatch.setattr(Spec, "write", write)
    frames = [THROTTLE, RWSEM, HANDLE, (*RWSEM[:1], *SYSCALL)]
    sleeps = [Sleep(t, t + 8, frames[t // 10 % 4], waker=t // 10 % 2 + 2) for t in range(10, 900, 10)]
    rows = [
        request(
            BEGIN + t * MS,
            8 * t,
            8192,
            op=("read", "write", "flush")[t % 3],
            complete_ns=BEGIN + (t + 3) * MS,
        )
        for t in range(0, 900, 3)
    ]
    case = case_of(
        tmp_path / "r",
        sleeps,
        block=rows,
        lock_wait=[waits(MS, bin_ns=BEGIN + t * MS) for t in range(0, 900, 100)],
        lock=[dict(NAMES[0])],
        thread_time=[
            {"bin_ns": BEGIN + i * BIN_NS, "ns": BIN_NS // 2, "thread": APP, "state": state, "stack_id": 1}
            | {"samples": 50, "samples_spin": 20}
            for i in range(9)
            for state in ("running", "blocked")
        ],
        counter=levels(4 << 20),
        call=[
            {"bin_ns": BEGIN + t * MS, "count": 9, "bytes": 1 << 20, "total_ns": MS}
            for t in range(0, 900, 100)
        ],
        event=[
            event(kind, "fsync", t, t + 30, asker_tid=7)
            for t in range(0, 900, 50)
            for kind in ("jbd2_commit", "direct_reclaim")
        ],
    )
    found = find_all(find_rules(), case)
    assert found.failed == []
    for finding in found.findings:
        assert 0 <= finding.cost.value_s <= case.ledger.wall_s * (1 + 1e-9)


def test_more_words_than_a_byte_counts_are_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """States, and roles of threads that leave a CPU, by 256 numbers; roles of those that come by 3."""
    written = Spec.write

    def write(spec: Spec, path: Path) -> Path:
        for number, row in enumerate(spec.switch or []):
            row["prev_role"], row["next_role"] = number % 256, number % 3
            row["state"] = (number * 5) % 256
        return written(spec, path)

    monkeypatch.setattr(Spec, "write", write)
    case = case_of(tmp_path / "r", [Sleep(t, t + 1, HANDLE, waker=OTHER) for t in range(10, 900, 3)])
    assert find_all(find_rules(), case).failed == []
