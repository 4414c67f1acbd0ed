# SPDX-License-Identifier: BSD-2-Clause
"""What of the difference between runs is which cause: sums, work, basis, intervals, and the first screen."""

from __future__ import annotations

import contextlib
import copy
import io
import json
import math
import random
import re
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import stats

from analysis.__main__ import main
from analysis.answer.compared import page
from analysis.answer.compared import text as answer_text
from analysis.answer.compared.answer import CompareAnswer, make_answer
from analysis.answer.compared.compare_json import answer_facts
from analysis.answer.compared.found import KindsFound
from analysis.findings.finding import Certainty, Cost, Evidence, Finding, Where
from analysis.measures.app.calls import CallRow
from analysis.measures.compare.compared_run import (
    EMULATED,
    INSIDE_AND_OUTSIDE,
    LETTERS,
    Compared,
    load_compared,
)
from analysis.measures.compare.time_apart import (
    DIFFERS,
    NO_TIME,
    NOISE,
    OPEN,
    SAME,
    TimeApart,
    measure_time_apart,
)
from analysis.measures.compare.verdicts import judge
from analysis.measures.compare.verdicts_of_runs import pairs_of_runs
from analysis.measures.critical_path.results import NoPath
from analysis.measures.ledger import LAST
from analysis.measures.threads.parts import Part
from analysis.sections.compare.shown import shown_rows
from tests.analysis.cpu_cases import on_cpu, path_of, share, spec_of, times

CPU, LOST = "on a CPU", "not recorded"
DONE = {"read": 0, "write": 1_000_000}


@dataclass(frozen=True)
class Made:
    """A run: seconds of its path by cause (None: no path), of its threads, its work, and its run.json."""

    path: Mapping[str, float] | None
    threads: Mapping[str, float] | None = None
    bytes: Mapping[str, int] | None = None
    calls: Mapping[str, int] | None = None
    facts: Mapping[str, Any] | None = None


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Compared:
    folder = tmp_path_factory.mktemp("base") / "run"
    return load_compared("A", spec_of(on_cpu(1, 500), times(1, "blocked", 9.0, stack_id=0)).write(folder))


def call_row(name: str, count: int, nbytes: int = 0) -> CallRow:
    return CallRow(name, "target", count, nbytes, 0, count * 1000, None, None, 1000)


def compared(base: Compared, letter: str, made: Made) -> Compared:
    """The run that is described."""
    seconds = made.path if made.path is not None else made.threads or {}
    wall_ns = round(sum(seconds.values()) * 1e9)
    window = replace(base.results.window, work_end_ns=base.results.window.work_start_ns + wall_ns)
    threads = None
    if made.threads is not None and base.results.threads is not None:
        parts = [Part("workload", kind, "", round(s * 1e9), 1, 1) for kind, s in made.threads.items()]
        threads = replace(base.results.threads, parts=parts, workload_threads=1)
    moved = dict(DONE if made.bytes is None else made.bytes)
    rows = [call_row(name, 200, nbytes) for name, nbytes in moved.items()]
    app = replace(
        base.results.app,
        bytes=moved or None,
        absent="",
        uncounted=(),
        calls=[*rows, *(call_row(name, count) for name, count in (made.calls or {}).items())],
    )
    results = replace(
        base.results,
        window=window,
        path=path_of([share(s, own=cause) for cause, s in made.path.items()]) if made.path else NoPath(""),
        threads=threads,
        app=app,
    )
    facts = copy.deepcopy(base.run.facts)
    for key, value in (made.facts or {}).items():
        facts[key] = {**facts[key], **value} if isinstance(facts.get(key), dict) else value
    return replace(base, letter=letter, run=replace(base.run, facts=facts), results=results)


def several(base: Compared, *made: Made) -> list[Compared]:
    return [compared(base, letter, one) for letter, one in zip(LETTERS, made, strict=False)]


def on(fs: str, **more: Any) -> dict[str, Any]:
    return {"words": {"FS": fs, "WL": "compilebench"}, "filesystem": {"name": fs}, **more}


EXT3 = Made({"log_space": 13.0, CPU: 27.2, "device_read": 1.5, "unknown": 0.1}, facts=on("ext3"))
XFS = Made({"commit": 1.1, CPU: 29.4, "device_read": 1.5, "unknown": 0.5}, facts=on("xfs"))


def answer_of(runs: Sequence[Compared], found: Sequence[KindsFound] | None = None) -> CompareAnswer:
    found = found or [KindsFound({}, {}, frozenset(), [], [])] * len(runs)
    return make_answer(runs, found, [], judge(pairs_of_runs(runs)))


def screen_of(runs: Sequence[Compared], found: Sequence[KindsFound] | None = None) -> str:
    return answer_text.render(answer_of(runs, found))


def only(time: TimeApart, key: str, k: int = 1) -> float:
    return time.apart[key, k].value_s


# --- sums ------------------------------------------------------------------------------------------


def test_difference_is_told_by_cause(base: Compared) -> None:
    runs = several(base, EXT3, XFS)
    time = measure_time_apart(runs)
    assert (time.basis, time.is_compared, time.unit, time.left_out) == ("path", True, "", [])
    assert only(time, "log_space") == pytest.approx(-13.0)
    assert only(time, "commit") == pytest.approx(1.1)
    assert only(time, "cpu") == pytest.approx(2.2)
    assert only(time, "unknown") == pytest.approx(0.4)
    assert [cause.key for cause in time.causes][:3] == ["log_space", "cpu", "commit"]
    assert time.causes[-1].key == "unknown"
    whole = time.whole[1]
    assert whole.value_s == pytest.approx(32.5 - 41.8) and whole.interval is None and whole.verdict == ""
    said = " ".join(screen_of(runs).split())
    assert (
        "xfs (B) is 9.3 s faster than ext3 (A): journal or log space -13.0, on a CPU +2.2, journal or log"
        " commit +1.1, not explained +0.4" in said
    )
    assert "single runs: no interval, and a pair may differ by chance" in said
    assert "make sweep FS='ext3 xfs' WL=compilebench REPS=5" in said


SECONDS = st.dictionaries(
    st.sampled_from([CPU, "log_space", "commit", "device_read", "lock", "throttle", "reclaim", "unknown"]),
    st.floats(1e-6, 1000),
    min_size=1,
)


@given(first=SECONDS, other=SECONDS, most=st.integers(0, 9))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_lines_sum_to_the_difference(
    base: Compared, first: dict[str, float], other: dict[str, float], most: int
) -> None:
    time = measure_time_apart(several(base, Made(first, facts=on("ext3")), Made(other, facts=on("xfs"))))
    parts = math.fsum(time.apart[cause.key, 1].value_s for cause in time.causes)
    assert parts == pytest.approx(time.whole[1].value_s, abs=1e-6)
    for k, seconds in enumerate((first, other)):
        assert math.fsum(cause.mean_s(k) for cause in time.causes) == pytest.approx(
            math.fsum(seconds.values()), abs=1e-6
        )
    shown = shown_rows(time, most)  # rounded, they still sum
    for k in (0, 1):
        assert sum(row.units[k] for row in shown.rows) == shown.total[k]
        for row in shown.rows:
            if row.cause is not None:
                assert abs(row.units[k] - row.cause.mean_s(k) * 10**shown.decimals) < 1
    assert all(row.cause is None or row.cause.key in LAST for row in shown.rows[most + 1 :])


def test_parts_of_a_wait_are_named(base: Compared) -> None:
    runs = several(base, EXT3, XFS)
    cause = next(one for one in measure_time_apart(runs).causes if one.key == "log_space")
    assert sum(cause.parts_s[0].values()) == pytest.approx(13.0)
    assert sum(cause.parts_s[1].values()) == 0


# --- the basis -------------------------------------------------------------------------------------


def test_all_go_by_threads_where_one_has_no_path(base: Compared) -> None:
    first = replace(EXT3, threads={"log_space": 12.9, "user": 20.0, "kernel": 8.9})
    other = Made(None, threads={"commit": 2.5, "user": 20.0, "kernel": 10.0}, facts=on("xfs"))
    time = measure_time_apart(several(base, first, other))
    assert (time.basis, time.why_threads) == ("threads", "B has no path")
    assert only(time, "log_space") == pytest.approx(-12.9)  # not 13.0: both by their threads
    assert math.fsum(one.value_s for one in time.apart.values()) == pytest.approx(32.5 - 41.8)
    said = screen_of(several(base, first, other))
    assert "by the threads' time, not the critical path: B has no path" in said


def test_pauses_count_where_no_thread_did_anything_else(base: Compared) -> None:
    """Else the workload's other time would be scaled up to its wall time."""
    first = Made(None, threads={"kernel": 0.1, "device_write": 0.1}, facts=on("ext4"))
    other = Made(None, threads={"kernel": 0.1, "device_write": 0.1, "sleep": 5.0}, facts=on("xfs"))
    time = measure_time_apart(several(base, first, other))
    assert only(time, "sleep") == pytest.approx(5.0) and only(time, "device_write") == pytest.approx(0.0)
    busy = {"kernel": 6.0, "sleep": 6.0}  # of two threads, one after the other idle: no time without work
    window = Made({CPU: 6.0}, threads=busy, facts=on("ext4"))
    time = measure_time_apart(several(base, window, replace(window, path=None, facts=on("xfs"))))
    assert [cause.key for cause in time.causes if cause.mean_s(0)] == ["cpu"]


def test_run_without_any_times_is_not_compared(base: Compared) -> None:
    runs = several(base, EXT3, Made(None, facts=on("xfs")), replace(XFS, facts=on("btrfs")))
    time = measure_time_apart(runs)
    assert time.basis == "path" and time.known == [0, 2] and time.left_out == [(1, NO_TIME)]
    runs = several(base, replace(EXT3, threads={CPU: 41.8}), Made(None, facts=on("xfs")))
    time = measure_time_apart(runs)
    assert not time.is_compared and time.left_out == [(1, NO_TIME)]
    assert f"xfs (B) is not compared in seconds: {NO_TIME}" in " ".join(screen_of(runs).split())


# --- the work --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"bytes": {"read": 0, "write": 300_000}, "calls": {"open": 1000}}, "another mix"),
        ({"bytes": {"read": 900_000, "write": 100_000}, "calls": {"open": 1000}}, "other work"),
        (
            {"bytes": {"read": 0, "write": 100_000}, "calls": {"open": 900}},
            "another mix: 1.00 MB against 100 kB written, but 1,000 against 900 open calls",
        ),
        ({"calls": {"open": 1000, "mkdir": 500}}, "other work: 0 against 500 mkdir calls"),
        ({"facts": on("xfs", workload={"name": "filemark"})}, "other work: compilebench against filemark"),
        ({"facts": on("xfs", workload={"exit_status": 1})}, "its workload failed"),
        ({"facts": on("xfs", state="interrupted")}, "its state is interrupted, not complete"),
        ({"facts": on("xfs", workload={"name": "watch"})}, "it had no workload"),
        ({"facts": on("xfs", machine={"vm": {"accel": "kvm"}})}, INSIDE_AND_OUTSIDE),
    ],
)
def test_other_work_is_refused_in_words(base: Compared, changed: dict[str, Any], why: str) -> None:
    first = replace(EXT3, calls={"open": 1000})
    other = replace(XFS, **({"calls": {"open": 1000}} | changed))
    runs = several(base, first, other)
    time = measure_time_apart(runs)
    assert not time.is_compared and time.apart == {} and time.whole == {}
    assert time.left_out[0][0] == 1 and why in time.left_out[0][1]
    said = " ".join(screen_of(runs).split())
    assert "(B) is not compared in seconds: " in said and "faster" not in said and "slower" not in said
    assert "WHERE THE TIME WENT" in said and "differ" not in said.split("FINDINGS")[0].split("WENT")[1]


def test_syncs_are_no_work_but_said(base: Compared) -> None:
    runs = several(base, replace(EXT3, calls={"fsync": 5000}), XFS)
    time = measure_time_apart(runs)
    assert time.is_compared and time.unit == ""
    assert "syncs: 5,000 / 0" in screen_of(runs)


def test_another_amount_of_the_same_mix_is_by_unit_of_work(base: Compared) -> None:
    first = replace(EXT3, bytes={"read": 0, "write": 6 * 10**9}, calls={"open": 60_000})
    seconds = {CPU: 10.0, "commit": 2.0}
    other = Made(seconds, bytes={"read": 0, "write": 3 * 10**9}, calls={"open": 30_000}, facts=on("xfs"))
    runs = several(base, first, other)
    time = measure_time_apart(runs)
    assert time.is_compared and time.unit == "1 GB of its calls"
    assert only(time, "log_space") == pytest.approx(-13.0 / 6)
    assert only(time, "commit") == pytest.approx(2.0 / 3)
    assert time.whole[1].value_s == pytest.approx(12 / 3 - 41.8 / 6)
    assert math.fsum(one.value_s for one in time.apart.values()) == pytest.approx(time.whole[1].value_s)
    said = " ".join(screen_of(runs).split())
    assert "the same mix of another amount (6.00 GB against 3.00 GB written)" in said
    assert "s by 1 GB of its calls faster than ext3 (A)" in said
    assert answer_facts(answer_of(runs))["time"]["unit"] == "s / 1 GB of its calls"


def test_small_and_rare_differences_are_the_same_work(base: Compared) -> None:
    first = replace(EXT3, bytes={"read": 10_000, "write": 1_000_000}, calls={"open": 1000, "stat": 20})
    other = replace(XFS, bytes={"read": 0, "write": 1_010_000}, calls={"open": 1020, "stat": 5})
    assert measure_time_apart(several(base, first, other)).is_compared


def test_unrecorded_work_counts_as_run_json_states_it(base: Compared) -> None:
    first, other = replace(EXT3, bytes={}), replace(XFS, bytes={})
    runs = several(base, first, other)
    assert measure_time_apart(runs).is_compared
    assert "what was done was not recorded (calls)" in " ".join(screen_of(runs).split())
    other = replace(other, facts=on("xfs", workload={"scale": "quick"}))
    time = measure_time_apart(several(base, first, other))
    assert not time.is_compared and "run.json states other work" in time.left_out[0][1]


def test_one_emulated_run_is_not_compared(base: Compared) -> None:
    tcg = {"vm": {"by": "virtme-ng", "accel": "tcg"}, "virtualization": "qemu"}
    kvm = {"vm": {"by": "virtme-ng", "accel": "kvm"}, "virtualization": "kvm"}
    runs = several(
        base, replace(EXT3, facts=on("ext3", machine=kvm)), replace(XFS, facts=on("xfs", machine=tcg))
    )
    assert measure_time_apart(runs).left_out == [(1, EMULATED)]


# --- repetitions -----------------------------------------------------------------------------------

SPACE, COMMIT = [13.0, 13.4, 12.7], [0.9, 1.6, 1.2]


def repeated(base: Compared) -> list[Compared]:
    first = [Made({"log_space": s, CPU: 27 + s / 100, "lock": 0.5}, facts=on("ext3")) for s in SPACE]
    other = [Made({"commit": s, CPU: 27.2 - s / 100, "lock": 0.5}, facts=on("xfs")) for s in COMMIT]
    return several(base, *first, *other)


def test_repetitions_have_welchs_intervals(base: Compared) -> None:
    runs = repeated(base)
    time = measure_time_apart(runs)
    assert time.sides == [[0, 1, 2], [3, 4, 5]]
    one = time.apart["cpu", 1]
    first, other = [27 + s / 100 for s in SPACE], [27.2 - s / 100 for s in COMMIT]
    interval = stats.ttest_ind(other, first, equal_var=False).confidence_interval(0.95)
    assert one.interval is not None
    assert (one.interval.low, one.interval.high) == pytest.approx((interval.low, interval.high), rel=1e-6)
    assert one.value_s == pytest.approx(np.mean(other) - np.mean(first))
    assert math.fsum(each.value_s for each in time.apart.values()) == pytest.approx(time.whole[1].value_s)
    assert time.apart["log_space", 1].verdict == DIFFERS
    assert time.apart["lock", 1].verdict in (SAME, NOISE)  # no run differs, but for the last bit
    said = screen_of(runs)
    assert "(n = 3)" in said and "+-" in said and "single runs" not in said and "REPS=5" not in said


def test_noise_is_called_noise(base: Compared) -> None:
    """Of many A/A comparisons few have a line that is said to differ."""
    random_of = random.Random(7)
    keys = ["log_space", "commit", "lock", "throttle", "device_read", "device_write", "reclaim", CPU]
    wrong = noise = 0
    for _ in range(60):
        made = [
            Made({key: random_of.gauss(10, 1) for key in keys}, facts=on(fs))
            for fs in ("ext3",) * 4 + ("xfs",) * 4
        ]
        time = measure_time_apart(several(base, *made))
        verdicts = [one.verdict for one in time.apart.values()]
        wrong += DIFFERS in verdicts
        noise += sum(verdict in (NOISE, OPEN) for verdict in verdicts)
        assert len(verdicts) == len(keys)
    assert wrong <= 6 and noise > 450  # 5 % of the comparisons, not of the lines


def test_repetitions_alone_have_nothing_to_compare(base: Compared) -> None:
    runs = repeated(base)[:3]
    time = measure_time_apart(runs)
    assert not time.is_compared and len(time.sides) == 1
    said = screen_of(runs)
    assert "all runs are repetitions, there is nothing to compare" in said and "WHERE THE TIME WENT" in said


def test_three_sides_are_each_compared_with_the_first(base: Compared) -> None:
    btrfs = Made({CPU: 35.0, "lock": 10.0}, facts=on("btrfs"))
    runs = several(base, EXT3, XFS, btrfs)
    time = measure_time_apart(runs)
    for k in (1, 2):
        parts = math.fsum(time.apart[cause.key, k].value_s for cause in time.causes)
        assert parts == pytest.approx(time.whole[k].value_s)
    said = " ".join(screen_of(runs).split())
    assert "xfs (B) is 9.3 s faster than ext3 (A)" in said and "btrfs (C) is 3.2 s slower" in said
    assert "make sweep FS='ext3 xfs btrfs' WL=compilebench REPS=5" in said


# --- findings --------------------------------------------------------------------------------------


def finding(kind: str, seconds: float, what: str = "") -> Finding:
    cost = Cost(seconds, seconds, seconds)
    evidence = [Evidence("block", {}, "requests", "", 5.0, None)]
    sentence = what or f"{kind} took {seconds} s."
    return Finding(kind, sentence, [], Where(0, 1), cost, evidence, Certainty.SURE, "", test="make report")


def kinds(*found: Finding, untold: Sequence[str] = ()) -> KindsFound:
    return KindsFound(
        {one.kind: one.cost.value_s for one in found},
        {one.kind: one for one in found},
        frozenset(untold),
        [],
        [],
    )


def test_findings_of_one_side_have_both_figures(base: Compared) -> None:
    runs = several(base, EXT3, XFS)
    first = kinds(finding("log_space", 13.0), finding("cpu_kernel", 27.0), finding("lock", 1.0))
    other = kinds(finding("cpu_kernel", 27.1), finding("commit", 1.1), untold=["lock"])
    said = screen_of(runs, [first, other]).split("FINDINGS THAT DIFFER")[1]
    lines = [line.split() for line in said.splitlines()]
    assert ["log_space", "13.0", "none", "log_space", "took", "13.0", "s."] in lines
    assert ["commit", "none", "1.10", "commit", "took", "1.1", "s."] in lines
    assert not any(line[:1] == ["lock"] for line in lines)  # not told in B: no difference is known
    assert not any(line[:1] == ["cpu_kernel"] for line in lines)  # 0.1 s of 41.8
    facts = answer_facts(answer_of(runs, [first, other]))
    assert facts["findings"][0] == {
        "kind": "log_space", "sides": [0, 1], "seconds": [13.0, 0.0], "runs": [1, 0],
        "what": "log_space took 13.0 s.",
    }  # fmt: skip


# --- the screen ------------------------------------------------------------------------------------

LETTERS_OF = string.ascii_letters + "<&>\x1b\u202e "


@pytest.mark.parametrize(("longest_s", "columns"), [(10.0, 6), (9_876.5, 6), (98_765.4, 5), (987_654.3, 4)])
def test_columns_of_large_seconds_are_fewer_and_whole(base: Compared, longest_s: float, columns: int) -> None:
    """No figure is cut, and none is in another's column."""
    seconds = [longest_s * (1 - n / 20) for n in range(8)]
    runs = several(
        base, *(Made({"log_space": s, CPU: s / 2}, facts=on(f"fs{n}")) for n, s in enumerate(seconds))
    )
    lines = screen_of(runs).splitlines()
    assert max(map(len, lines)) <= 80
    at = next(n for n, line in enumerate(lines) if re.fullmatch(r" +fs0( +fs\d)+", line))
    ends = [found.end() for found in re.finditer(r"\S+", lines[at])]
    rows = [line for line in lines[at + 1 :] if line.startswith("  wall time")]
    assert [found.end() for found in re.finditer(r"\S+", rows[0])][2:] == ends
    assert len(ends) == columns


@given(data=st.data())
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_screen_fits_whatever_the_runs_are(base: Compared, data: st.DataObject) -> None:
    causes = ["log_space", "commit", "lock", "throttle", "device_read", "reclaim", CPU, "unknown", "handle"]
    causes += ["flush", "queue", "async_io", "page_io", "fault"]
    made, found = [], []
    for _ in range(data.draw(st.integers(2, 16))):
        fs = data.draw(st.sampled_from(["ext3", "xfs", "btrfs", "bcachefs", "nilfs2", "ext4", "jfs"]))
        name = data.draw(st.text(LETTERS_OF, max_size=90))
        facts = on(fs, name=name, workload={"exit_status": data.draw(st.sampled_from([0, 0, 0, 1]))})
        seconds = {one: data.draw(st.floats(1e-5, 1e5)) for one in causes}
        calls = {"open": data.draw(st.sampled_from([1000, 1000, 5]))}
        made.append(Made(seconds, calls=calls, facts=facts))
        sentence = data.draw(st.text(LETTERS_OF, max_size=300)) + " 1"
        each = [finding(f"kind_{n}", float(n + 1), sentence) for n in range(data.draw(st.integers(0, 20)))]
        caveats = ["The workload ran 1 s: too short to tell."] * data.draw(st.integers(0, 2))
        found.append(replace(kinds(*each), caveats=caveats, not_asked=[("a lock " * 30, "locks")]))
    runs = several(base, *made)
    answer = answer_of(runs, found)
    lines = answer_text.render(answer).splitlines()
    assert len(lines) <= 40, "\n".join(lines)
    assert max(map(len, lines)) <= 80
    assert "\x1b" not in "".join(lines)
    shown = page.render(answer)
    assert "\x1b" not in shown and "<&" not in shown
    json.dumps(answer_facts(answer), allow_nan=False)


def compare(*words: object) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(["compare", *map(str, words)])
    return code, out.getvalue(), err.getvalue()


BROKEN: tuple[dict[str, Any], ...] = (
    {"clock": {"workload_start_ns": -(2**63), "workload_end_ns": 2**63}},
    {"words": [1, 2], "workload": {"name": {"a": 1}, "exit_status": "0", "metrics": 5}},
    {
        "filesystem": {"name": "<script>alert(1)</script>\x1b[31m"},
        "words": {"FS": "$(reboot)", "WL": None},
    },
)


def test_hostile_directories_do_no_harm(tmp_path: Path) -> None:
    """Broken facts, times without end, texts that are code: words, or one line that says why."""
    paths = []
    for n, spoilt in enumerate(BROKEN):
        spec = spec_of(on_cpu(1, 500), times(1, "blocked", 9.0, stack_id=0))
        for key, value in spoilt.items():
            spec.run[key] = {**spec.run[key], **value} if isinstance(value, dict) else value
        paths.append(spec.write(tmp_path / f"r{n}"))
    code, said, error = compare(f"--out={tmp_path / 'out'}", *paths)
    assert (code, error) == (0, "")
    screen = (tmp_path / "out/answer.txt").read_text("utf-8")
    assert "is not compared in seconds" in screen and "\x1b" not in said
    assert "<script>alert" not in (tmp_path / "out/compare.html").read_text("utf-8")
    json.loads((tmp_path / "out/compare.json").read_text())
    empty = tmp_path / "empty"
    empty.mkdir()
    code, said, error = compare(f"--out={tmp_path / 'out2'}", paths[0], empty)
    assert code == 1 and not said and error.count("\n") == 1 and "not a run directory" in error
