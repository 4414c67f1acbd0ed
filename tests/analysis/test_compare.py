# SPDX-License-Identifier: BSD-2-Clause
"""Comparisons: what they say is the same, different, judged and not judged; the ratios; the shared axes."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shutil
import subprocess
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.__main__ import main
from analysis.figures import save, style
from analysis.figures.compare import iographs
from analysis.figures.disk_panel import joined_ranges
from analysis.measures.common.statistics import Mean, differ
from analysis.measures.compare.compared_run import Compared, load_compared
from analysis.render import text
from analysis.render.document import Section, Table
from analysis.rundir.run import open_run
from analysis.sections.compare.brief import FULL
from analysis.sections.compare.document import make_document
from analysis.sections.compare.facts import plain, same_and_different, tags
from analysis.sections.compare.table import show_ratio, without_repeats
from tests.analysis.page_html import Parsed, runs_one_script
from tests.analysis.synthetic import BIN_NS, START_NS, Spec, collector, decaying_ext3, request, run_json
from tests.analysis.test_report import Done, folded, visible_texts

ROOT = Path(__file__).parents[2]
FILES = (
    *("answer.txt", "compare.txt", "compare.html", "compare.csv", "compare.json"),
    *("compare.png", "compare.svg"),
)
HEATMAP = ("locks_heatmap.png", "locks_heatmap.svg")
VERDICTS = ("verdicts.png", "verdicts.svg")
SECOND = 1_000_000_000
TCG = {"by": "virtme-ng 1.42", "accel": "tcg", "qemu": "QEMU emulator version 7.2.22"}


@pytest.fixture(autouse=True, scope="module")
def coarse_pictures() -> Iterator[None]:
    """Small pictures: what is in them does not depend on their resolution, the time to pack them does."""
    before = save.DPI
    save.DPI = 40
    yield
    save.DPI = before


def compare(*words: object) -> Done:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(["compare", *map(str, words)])
    return Done(code, out.getvalue(), err.getvalue())


def good_compare(out: Path, *runs: Path) -> str:
    done = compare(f"--out={out}", *runs)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    there = sorted(p.name for p in out.iterdir())
    there = [name for name in there if name not in (FULL, *VERDICTS)]  # of repetitions alone
    assert there in (sorted(FILES), sorted([*FILES, *HEATMAP]))
    found = (out / "compare.txt").read_text("utf-8")
    assert max(len(line) for line in found.splitlines()) <= 80
    ET.fromstring((out / "compare.svg").read_bytes())
    return found


def simple(name: str, seconds: float = 10.0, **facts: Any) -> Spec:
    """A run of a few known requests and phases."""
    spec = Spec(run=run_json(seconds))
    spec.run["filesystem"]["name"] = name
    for key, value in facts.items():
        spec.run[key] = {**spec.run[key], **value} if isinstance(value, dict) else value
    return spec


def section(found: str, title: str) -> str:
    """One section of the text."""
    parts = re.split(r"^([A-Z][A-Z0-9() ]+?)(?: \*)? -{5,}$", found, flags=re.MULTILINE)
    return parts[parts.index(title) + 1]


def row(found: str, *names: str) -> list[str]:
    """The cells of the row that begins so (the first of them)."""
    line = re.search(r"^ +" + r" +".join(map(re.escape, names)) + r" +(.*)$", found, re.MULTILINE)
    assert line is not None, names
    return re.split(r" {1,}", re.sub(r"(\d) ([kMG]?B|[num]?s)\b", r"\1_\2", line[1].strip()))


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A comparison of two runs whose figures can be worked out by hand, and its text."""
    folder = tmp_path_factory.mktemp("runs")
    t0 = START_NS + SECOND
    for name, factor in (("ext3", 1), ("xfs", 2)):
        spec = simple(name)
        # xfs: twice the requests, each twice as slow, and every one of them sequential
        spec.block = [
            request(t, i * (8 if factor == 2 else 100_000), complete_ns=t + factor * 500_000)
            for i, t in enumerate(range(t0, t0 + 100_000_000 * factor, 1_000_000))
        ]
        spec.block.append(request(t0 + 5 * SECOND, 7, 512, **{"class": "metadata"}, op="read"))
        spec.call = [{"bin_ns": START_NS + i * BIN_NS, "bytes": 1_000_000 * factor} for i in range(100)]
        spec.lock_wait = [
            {
                "bin_ns": START_NS,
                "lock_id": 64,
                "kind": "mutex",
                "count": 3 * factor,
                "spin_ns": 10,
                "sleep_ns": 40 * factor,
            },
            {"bin_ns": START_NS, "lock_id": 128, "kind": "mutex", "count": 1, "spin_ns": 5, "sleep_ns": 0},
            {
                "bin_ns": START_NS,
                "lock_id": 192,
                "kind": "spinlock",
                "count": 2,
                "spin_ns": SECOND // 5 * factor,
            },
        ]
        spec.phases = [
            {"name": "create", "start_ns": t0 + i * SECOND, "end_ns": t0 + (i + 1) * SECOND, "ops": 5,
             "bytes": (100 + i) * 1_000_000 * factor}
            for i in range(4)
        ]  # fmt: skip
        spec.phases.append({"name": "sync", "start_ns": t0 + 5 * SECOND, "end_ns": t0 + 6 * SECOND})
        spec.write(folder / name)
    return folder / "out", good_compare(folder / "out", folder / "ext3", folder / "xfs")


def test_ratios_equal_those_by_hand(two: tuple[Path, str]) -> None:
    times = section(two[1], "TIME BY PHASE")
    assert row(times, "create", "s") == ["4.00", "4.00", "1.00"]
    # 100, 101, 102, 103 MB a second: s = 1.29, and t(0.975, 3) = 3.182, so +-2.1; xfs twice that
    assert row(times, "workload MB/s, mean") == ["102", "+-2.1", "203", "+-4.1", "2.00!"]
    assert row(times, "app MB/s") == ["10.0", "20.0", "2.00"]
    assert row(times, "dev MB/s") == ["0.102", "0.205", "2.00"]
    assert row(times, "seeks/s") == ["24.8", "0", "0"]  # 99 in 4 s, and none
    moved = section(two[1], "THROUGHPUT")
    assert row(moved, "application write", "bytes") == ["100_MB", "200_MB", "2.00"]
    assert row(moved, "application write", "MB/s") == ["10.0", "20.0", "2.00"]
    assert row(moved, "device write, data", "requests") == ["100", "200", "2.00"]
    assert row(moved, "device read, metadata", "requests") == ["1", "1", "1.00"]
    assert row(moved, "metadata share, %") == ["0.1", "<0.1"]
    seeks = section(two[1], "SEEKS")
    # ext3: 99 seeks of the writes, 1 of the read; xfs: the read alone
    assert row(seeks, "all", "seeks") == ["100", "1", "0.0100"]
    assert row(seeks, "write", "seeks") == ["99", "0", "0"]
    assert row(seeks, "seeks/s") == ["10.0", "0.100", "0.0100"]
    assert row(section(two[1], "REQUEST LATENCY"), "D2C", "p50") == ["500_us", "1.00_ms", "2.00"]
    locks = section(two[1], "LOCK WAITS")
    assert row(locks, "mutex") == ["4", "7", "1.75"]
    assert row(locks, "mutex", "spin") == ["15_ns", "15_ns", "1.00"]
    slept = locks[locks.index(" mutex  ", locks.index("time in")) :]
    assert row(slept, "sleep") == [
        "40_ns",
        "80_ns",
        "2.00",
    ]
    assert row(locks, "spin share, %") == ["1.0", "2.0"]  # 0.2 s spun of 10 s on 2 CPUs
    assert row(section(two[1], "LOST EVENTS AND OVERHEAD"), "block", "recorded") == ["101", "201"]


def test_same_and_different_facts_are_listed(two: tuple[Path, str]) -> None:
    out, found = two
    head = folded(found.split("DIFFERENCES")[0])
    assert re.search(r"file system A ext3 B xfs", head)
    assert "same: workload compilebench; kernel 6.18.1; machine kvm; threads 1" in head
    assert "seed 1" in head and "scale default" in head and "mkfs mkfs.ext3 -q DISK" in head
    about = json.loads((out / "compare.json").read_text())
    assert about["schema"] == 3 and about["kind"] == "compare"
    assert [(r["letter"], r["name"], Path(r["path"]).is_absolute()) for r in about["runs"]] == [
        ("A", "ext3", True),
        ("B", "xfs", True),
    ]
    assert (
        "create: workload MB/s 102 +-2.1 in A (n=4), 203 +-4.1 in B (n=4), ratio 2.00: they differ"
        in folded(found)
    )
    assert "single observations" in folded(found)


def test_compare_page_fetches_nothing_and_runs_one_script(two: tuple[Path, str]) -> None:
    page = Parsed((two[0] / "compare.html").read_text("utf-8"))
    assert page.tags.count("img") == 2 and runs_one_script(page)
    assert all(link.startswith(("#", "data:image/svg+xml;base64,")) for link in page.links)


@given(st.tuples(st.floats(1, 100), st.floats(0, 30)), st.tuples(st.floats(1, 100), st.floats(0, 30)))
def test_difference_follows_the_rule(a: tuple[float, float], b: tuple[float, float]) -> None:
    overlap = max(a[0] - a[1], b[0] - b[1]) <= min(a[0] + a[1], b[0] + b[1])
    expected = not overlap and abs(b[0] / a[0] - 1) >= 0.1
    if abs(abs(b[0] / a[0] - 1) - 0.1) > 1e-9 and abs(abs(a[0] - b[0]) - a[1] - b[1]) > 1e-9:
        assert differ(Mean(*a, 5), Mean(*b, 5)) is expected
    assert differ(Mean(a[0], None, 1), Mean(*b, 5)) is None


def test_difference_rule_holds_at_its_edges() -> None:
    assert differ(Mean(100, 4, 5), Mean(110, 4, 5)) is True  # 10 % exactly, 104 < 106
    assert differ(Mean(100, 5, 5), Mean(110, 5, 5)) is False  # the intervals touch
    assert differ(Mean(100, 0.1, 5), Mean(109, 0.1, 5)) is False  # clear, and too small to matter


@pytest.mark.parametrize(
    ("a", "b", "judged", "shown"),
    [
        (2.0, 3.0, True, "1.50"),
        (0.0, 3.0, True, "-"),
        (None, 3.0, True, "-"),
        (3.0, None, True, "-"),
        (3.0, 0.0, True, "0"),
        (1.0, 5e6, True, "5.00 M"),
        (Mean(100, 1, 9), Mean(200, 1, 9), True, "2.00!"),
        (Mean(100, 1, 9), Mean(200, 1, 9), False, "2.00"),
        (Mean(100, 1, 9), Mean(101, 1, 9), True, "1.01"),
        (Mean(100, 1, 9), Mean(200, None, 1), True, "2.00"),
    ],
)
def test_ratio_carries_the_mark_of_a_difference(a: Any, b: Any, judged: bool, shown: str) -> None:
    assert show_ratio(a, b, judged) == shown


@pytest.mark.usefixtures("words_only")
def test_emulated_runs_are_marked_and_not_judged(tmp_path: Path) -> None:
    phases: list[dict[str, Any]] = [
        {
            "name": "p",
            "start_ns": START_NS + i * SECOND,
            "end_ns": START_NS + (i + 1) * SECOND,
            "bytes": 10**8,
        }
        for i in range(3)
    ]
    for i, factor in enumerate((1, 5, 5)):
        spec = simple("ext4", machine={"vm": TCG} if i == 1 else {}, words={"ARGS": str(i)})  # no repetitions
        spec.block = [request(START_NS + j * 1_000_000, 8 * j) for j in range(20)]
        spec.phases = [{**phase, "bytes": phase["bytes"] // factor} for phase in phases]
        spec.write(tmp_path / f"r{i}")
    found = good_compare(tmp_path / "out", *(tmp_path / f"r{i}" for i in range(3)))
    above = found[: found.index("WHAT IS")].split("\n\n\n")[1]
    assert folded(above).count("emulated") == 1
    assert found.splitlines()[1].startswith("!! B ran on emulated CPUs")
    assert above.splitlines()[2].startswith("!! B ran on emulated CPUs")
    heads = [line.split() for line in found.splitlines() if re.search(r"B/A~?", line)]
    marked = [head for head in heads if any("~" in word for word in head)]
    for head in marked:  # B and its ratio, never C and A
        assert {word for word in head if "~" in word} == {"emulated~", "B/A~"}, head
        assert "C/A" in head
    # times: phases, throughput, seeks/s, latency, locks; counts: phases, bytes, seeks
    assert len(marked) >= 4 and len(heads) - len(marked) >= 3
    assert "in B (n=3), ratio 0.20: not judged, CPUs were emulated" in folded(found)
    assert "in C (n=3), ratio 0.20: they differ" in folded(found)
    own = row(section(found, "TIME BY PHASE"), "workload MB/s, mean")
    assert own.count("0.20!") == 1 and own.count("0.20") == 1


@pytest.mark.usefixtures("words_only")
def test_two_runs_on_kvm_are_not_called_emulated(tmp_path: Path) -> None:
    for name in ("a", "b"):
        simple("ext4", machine={"vm": {**TCG, "accel": "kvm"}, "virtualization": "qemu"}).write(
            tmp_path / name
        )
    found = good_compare(tmp_path / "out", tmp_path / "a", tmp_path / "b")
    assert "mean little" not in found and "~" not in found


@pytest.mark.usefixtures("words_only")
def test_lossy_run_is_marked_in_its_column(tmp_path: Path) -> None:
    for name in ("a", "b"):
        spec = simple(name)
        spec.block = [request(START_NS + i, 8 * i) for i in range(9)]
        if name == "b":
            spec.losses = {
                "collectors": {
                    "block": collector(9, lost={"ring full": 2}),
                    "locks": collector(),
                    "calls": collector(),
                },
                "complete": True,
            }
        spec.write(tmp_path / name)
    found = good_compare(tmp_path / "out", tmp_path / "a", tmp_path / "b")
    assert "B: block: 2 lost of 9 seen" in folded(found)
    assert "SEEKS * -" in found and "LOCK WAITS -" in found
    assert re.search(r"^ +of +A a +B b\* +B/A$", found, re.MULTILINE)
    assert row(section(found, "LOST EVENTS AND OVERHEAD"), "lost") == ["0", "2"]


@pytest.mark.usefixtures("words_only")
def test_names_unique_to_each_run_do_not_differ(tmp_path: Path) -> None:
    for name, number in (("a", 3), ("b", 31)):
        spec = simple("ext4")
        disk, mnt = f"/dev/loop{number}", f"/run/seekmeter/{number}-9/mnt"
        spec.run["device"] |= {"name": f"loop{number}", "dev": f"7:{number}"}
        spec.run["journal_device"] = {"name": f"loop{number}0", "dev": f"7:{number}0"}
        spec.run["filesystem"] |= {
            "mkfs": f"mkfs.ext4 -J device=/dev/loop{number}0 {disk}",
            "mount": f"mount -t ext4 {disk} {mnt}",
            "proc_mounts": f"{disk} {mnt} ext4 rw 0 0",
        }
        spec.run["workload"]["argv"] = [f"/tree{number}/x", "-D", mnt, mnt + "x"]
        spec.run["command"] = f"make trace FS=ext4 OUT=/tmp/{number} SEED=1"
        spec.write(tmp_path / name)
    run = open_run(tmp_path / "a")
    assert plain(run, run.text("filesystem", "mkfs")) == "mkfs.ext4 -J device=JOURNAL DISK"
    assert plain(run, " ".join(run.str_list("workload", "argv"))) == "/tree3/x -D MNT /run/seekmeter/3-9/mntx"
    runs = [load_compared(letter, tmp_path / name) for letter, name in (("A", "a"), ("B", "b"))]
    same, different = same_and_different(runs)
    assert [name for name, _ in different] == ["argv"]  # for that last word
    assert ("mount", "mount -t ext4 DISK MNT") in same
    assert ("command", "make trace FS=ext4 SEED=1") in same
    assert dict(different)["argv"][0] == "x -D MNT /run/seekmeter/3-9/mntx"


def loaded(folder: Path, *changes: dict[str, Any]) -> list[Compared]:
    runs = []
    for letter, change in zip("ABCDEFGH", changes, strict=False):
        path = simple("ext4", **change).write(folder / letter)
        runs.append(load_compared(letter, path))
    return runs


@pytest.mark.usefixtures("words_only")
def test_tags_tell_runs_apart(tmp_path: Path) -> None:
    kernels = [{"kernel": {"release": release}} for release in ("6.1.0-50-amd64", "6.18.44-fc-v595")]
    assert tags(loaded(tmp_path / "k", *kernels)) == ["6.1.0", "6.18.44"]
    watched = {"filesystem": {"name": ""}, "workload": {"name": "watch"}}
    assert tags(loaded(tmp_path / "w", {}, watched, {"filesystem": {"name": "xfs"}})) == [
        "ext4",
        "watch",
        "xfs",
    ]
    flavours = [{"kernel": {"release": release}} for release in ("6.1.0-a", "6.1.0-b")]
    assert tags(loaded(tmp_path / "f", *flavours)) == ["6.1.0-a", "6.1.0-b"]
    systems = [
        {"filesystem": {"name": n}, "kernel": {"release": k}} for n in ("jfs", "xfs") for k in ("6.1", "6.2")
    ]
    assert tags(loaded(tmp_path / "s", *systems)) == ["jfs 6.1", "jfs 6.2", "xfs 6.1", "xfs 6.2"]
    assert tags(loaded(tmp_path / "n", {}, {})) == ["", ""]
    machines: list[dict[str, Any]] = [{}, {"machine": {"vm": TCG}}]
    assert tags(loaded(tmp_path / "m", *machines)) == ["host", "emulated"]


@pytest.mark.usefixtures("words_only")
def test_differing_kernel_config_is_named(tmp_path: Path) -> None:
    configs: list[dict[str, Any]] = [
        {"kernel": {"config": {"CONFIG_HZ": "250", "CONFIG_SMP": "y", "CONFIG_X": "y"}}},
        {"kernel": {"config": {"CONFIG_HZ": "100", "CONFIG_SMP": "y"}}},
    ]
    different = dict(same_and_different(loaded(tmp_path / "a", *configs))[1])
    assert different == {"CONFIG_HZ": ["250", "100"], "CONFIG_X": ["y", "not set"]}
    configs[1]["kernel"]["config"] = {}  # not known is no difference
    assert same_and_different(loaded(tmp_path / "b", *configs))[1] == []


def test_terminal_gets_main_results_and_the_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        simple(name).write(tmp_path / name)
    monkeypatch.chdir(tmp_path)
    places = []
    for _ in range(2):  # twice within a second: two directories
        done = compare("a", "b")
        assert (done.returncode, done.stderr) == (0, "")
        found = re.findall(r"^(runs/compare-\d{8}-\d{6}\S*)/(\S+)$", done.stdout, re.MULTILINE)
        assert [name for _, name in found] == list(FILES)
        places.append(found[0][0])
    assert len(set(places)) == 2
    screen = Path(places[-1], "answer.txt").read_text("utf-8")
    assert done.stdout.endswith(f"\n\n{screen}\nverdict: {done.stdout.splitlines()[-1][9:]}\n")
    assert Path(places[-1], "compare.txt").read_text("utf-8").startswith(screen)


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        ([], 2, "0 run directories were named; name 2 to 16"),
        (["a"], 2, "1 run directories were named"),
        (["a"] * 17, 2, "17 run directories were named"),
        (["a", "./a"], 2, "are the same run"),
        (["a", "missing"], 2, "missing is not a directory"),
        (["a", "empty"], 1, "empty is not a run directory"),
        (["--out=a", "a", "b"], 2, "a is there already"),
        (["--out=a/run.json/x", "a", "b"], 1, "can't be made"),
        (["--uot=x", "a", "b"], 2, "--uot=x is not a directory"),
    ],
)
def test_compare_refuses_wrong_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], code: int, says: str
) -> None:
    for name in ("a", "b"):
        simple(name).write(tmp_path / name)
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path)
    done = compare(*words)
    assert done.returncode == code and done.stdout == ""
    assert done.stderr.startswith("seekmeter: ") and says in done.stderr and done.stderr.count("\n") == 1
    assert not (tmp_path / "runs").exists()  # nothing is left of a comparison that could not be made


def test_broken_runs_are_compared_with_their_gaps_stated(tmp_path: Path) -> None:
    decaying_ext3(3, 100).write(tmp_path / "a")
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    (tmp_path / "b" / "raw" / "recorder" / "block.rec").write_bytes(b"nonsense")
    (tmp_path / "b" / "losses.json").unlink()
    facts = json.loads((tmp_path / "b" / "run.json").read_text())
    facts |= {"state": "interrupted", "warnings": ["the guest hung"], "machine": {}, "kernel": 5}
    (tmp_path / "b" / "run.json").write_text(json.dumps(facts))
    Spec(run={}).write(tmp_path / "c")
    found = folded(good_compare(tmp_path / "out", *(tmp_path / name for name in "abc")))
    assert "B: this run's state is 'interrupted'" in found and "B: the guest hung" in found
    assert "B: no block table: block.rec is not a seekmeter recording" in found
    assert re.search(r"device write, data requests [\d,]+ - - 0 0", found)


def test_strings_of_a_run_are_escaped(tmp_path: Path) -> None:
    evil = "<script>alert(1)</script>&$x^{\x1b[31m\x00\u202e"
    for name in ("a", "b"):
        spec = decaying_ext3(2, 50)
        spec.run["filesystem"]["name"] = evil + name
        spec.run["kernel"] = {"release": evil + name, "config": {evil: name}}
        spec.run["command"] = evil + name
        spec.phases[0]["name"] = evil
        spec.write(tmp_path / name)
    found = good_compare(tmp_path / "out", tmp_path / "a", tmp_path / "b")
    assert "\x1b" not in found
    page = (tmp_path / "out" / "compare.html").read_text("utf-8")
    assert "<script>alert" not in page and "&lt;script&gt;" in page


def test_eight_runs_fit_and_each_has_its_letter(tmp_path: Path) -> None:
    paths = []
    for i in range(8):
        spec = decaying_ext3(2, 60, seed=i)
        spec.run["filesystem"]["name"] = f"filesystem{i}"
        paths.append(spec.write(tmp_path / f"r{i}"))
    found = good_compare(tmp_path / "out", *paths)
    latency = found.split("REQUEST LATENCY")[1].split("REQUEST STAGES (Q2C)")[0]
    heads = [line.split() for line in latency.splitlines() if line.split()[:3] == ["op", "stage", "at"]]
    assert len(heads) > 1  # too wide for one table
    # each run once, its ratio beside it, and every part with the names again
    assert [w for head in heads for w in head[3:]] == ["A", *(w for x in "BCDEFGH" for w in (x, f"{x}/A"))]


def test_wide_table_is_continued_with_its_names() -> None:
    heads = ("<name", *(f"{'&' if i % 2 else ''}column{i}" for i in range(20)))
    rows = [[f"row{r}", *(f"{r}-{i}" for i in range(20))] for r in range(3)]
    lines = text.table_lines(Table(heads, rows))
    assert max(map(len, lines)) <= 80
    parts = "\n".join(lines).split("\n\n")
    assert len(parts) > 1
    seen = []
    for part in parts:
        head, *body = (line.split() for line in part.splitlines())
        assert head[0] == "name" and [cells[0] for cells in body] == ["row0", "row1", "row2"]
        seen += head[1:]
        assert int(head[1].removeprefix("column")) % 2 == 0  # a column that belongs to another is beside it
        for r, cells in enumerate(body):
            assert cells[1:] == [f"{r}-{word.removeprefix('column')}" for word in head[1:]]
    assert seen == [f"column{i}" for i in range(20)]


def test_repeated_names_are_shown_once() -> None:
    rows = [["a", "x", "1"], ["a", "y", "2"], ["b", "y", "3"], ["b", "y", "4"]]
    assert without_repeats(rows, 2) == [["a", "x", "1"], ["", "y", "2"], ["b", "y", "3"], ["", "y", "4"]]


def drawn(runs: list[Compared]) -> tuple[Any, list[Any]]:
    with mpl.rc_context(style.RC):  # type: ignore[arg-type]
        maps = iographs.disk_maps(runs)
        names = [(f"{one.letter}  a rather long name of a run", "Linux 6.1", "12 s") for one in runs]
        figure = iographs.draw(runs, maps, "a title", names, ["a banner " * 30] * 5)
        figure.canvas.draw()
    return figure, maps


def cut(figure: Any) -> list[str]:
    """The words that end outside the picture."""
    frame = figure.bbox
    boxes = [(words.get_text(), words.get_window_extent()) for words in visible_texts(figure)]
    return [
        words
        for words, box in boxes
        if words and (box.x0 < frame.x0 or box.x1 > frame.x1 or box.y0 < frame.y0 or box.y1 > frame.y1)
    ]


def test_picture_has_the_same_axes_for_all_runs(tmp_path: Path) -> None:
    runs = []
    for letter, seconds, rate in (("A", 3, 100), ("B", 5, 900), ("C", 4, 10)):
        runs.append(load_compared(letter, decaying_ext3(seconds, rate, seed=rate).write(tmp_path / letter)))
    figure, maps = drawn(runs)
    rows: dict[float, list[Any]] = {}
    for ax in figure.axes:
        if ax.axison:  # not the strips of phases
            rows.setdefault(round(ax.get_position().y0, 4), []).append(ax)
    assert len(rows) == 5 and all(len(axes) == 3 for axes in rows.values())
    for axes in rows.values():
        assert len({ax.get_ylim() for ax in axes}) == 1 and len({ax.get_xlim() for ax in axes}) == 1
        assert len({tuple(ax.get_yticks()) for ax in axes}) == 1
    assert all(one is not None and one.axis is maps[0].axis for one in maps)
    for run, one in zip(runs, maps, strict=True):
        # all bytes of the run are on the shared map
        of = {(c.op, c.class_): c.bytes for c in run.results.device_totals if c.bytes}
        assert {(op, c): int(v.sum()) for op in one.maps for c, v in one.maps[op].items()} == of
    assert not cut(figure)


def test_colour_depth_means_the_same_bytes_in_every_run(tmp_path: Path) -> None:
    runs = []
    for letter, size in (("A", 4096), ("B", 1 << 20)):
        spec = simple("ext4")
        spec.block = [request(START_NS + i * SECOND // 10, i * 5000, size) for i in range(90)]
        runs.append(load_compared(letter, spec.write(tmp_path / letter)))
    maps = iographs.disk_maps(runs)
    ranges = joined_ranges(disk.ranges() for disk in maps if disk is not None)
    one, other = maps
    assert one is not None and other is not None
    low, high = ranges["write", "data"]
    cells = [m.maps["write"]["data"] for m in (one, other)]
    assert low == min(float(c[c > 0].min()) for c in cells) < high == max(float(c.max()) for c in cells)


def test_much_longer_run_gets_its_own_time_axis(tmp_path: Path) -> None:
    runs = []
    for letter, seconds in (("A", 3), ("B", 40)):
        runs.append(load_compared(letter, decaying_ext3(seconds, 40).write(tmp_path / letter)))
    figure, _ = drawn(runs)
    assert not cut(figure)
    limits = {tuple(np.round(ax.get_xlim(), 3)) for ax in figure.axes if ax.axison}
    assert len(limits) == 2
    said = [words.get_text() for words in figure.texts]
    assert any(words.startswith("SCALES DIFFER") for words in said)
    assert "seconds since the workload started, each run on its own scale" in said
    titles = {ax.get_title(loc="left"): ax for ax in figure.axes}
    own = [title for title in titles if title.endswith(", each run on its own scale")]
    assert [title.split(",")[0] for title in own] == ["Throughput", "Requests and seeks per second"]
    latency = next(ax for title, ax in titles.items() if title.startswith("Request latency"))
    beside = [ax for ax in figure.axes if ax.get_position().y0 == latency.get_position().y0]
    assert len(beside) == 2 and len({ax.get_ylim() for ax in beside}) == 1


def test_devices_are_matched_by_purpose(tmp_path: Path) -> None:
    """The journal's device of one run is never drawn in the band of another run's disk."""
    runs = []
    for letter, disk, journal in (("A", 3, 4), ("B", 4, 3), ("C", 5, None)):
        spec = simple("ext4", device={"name": f"loop{disk}", "dev": f"7:{disk}", "size_bytes": 1 << 30})
        spec.block = [request(START_NS + i * 1000, 1000 + i * 8, dev=7 << 20 | disk) for i in range(10)]
        if journal is not None:
            spec.run["journal_device"] = {"name": f"loop{journal}", "dev": f"7:{journal}"}
            spec.block += [request(START_NS + i * 1000, i * 8, 512, dev=7 << 20 | journal) for i in range(10)]
        runs.append(load_compared(letter, spec.write(tmp_path / letter)))
    maps = iographs.disk_maps(runs)
    for one, expected in zip(maps, ({0: 40960, 1: 5120}, {0: 40960, 1: 5120}, {0: 40960, 1: 0}), strict=True):
        assert one is not None and one.names == ["disk", "journal"]
        total = sum(values.sum(axis=1) for values in one.maps["write"].values())
        of_row = np.repeat(one.axis.device, np.diff(one.axis.starts))
        assert {i: float(total[of_row == i].sum()) for i in (0, 1)} == expected


def test_unnamed_disk_is_the_main_disk(tmp_path: Path) -> None:
    """A foreign run's only disk shares the band, and the axis, of the other run's disk."""
    spec = simple("ext4")
    spec.block = [request(START_NS + i * 1000, i * 8) for i in range(10)]
    spec.write(tmp_path / "A")
    spec.run = {"schema": 1}
    spec.write(tmp_path / "B")
    maps = iographs.disk_maps([load_compared(letter, tmp_path / letter) for letter in "AB"])
    assert [one is not None and one.names for one in maps] == [["disk"], ["disk"]]


def test_picture_says_when_a_run_has_no_requests(tmp_path: Path) -> None:
    runs = [load_compared(letter, simple("ext4").write(tmp_path / letter)) for letter in "AB"]
    figure, maps = drawn(runs)
    assert maps == [None, None]
    assert {t.get_text() for ax in figure.axes for t in ax.texts} >= {"no requests"}
    sections = {s.title: s for s in make_document(runs).sections}
    assert isinstance(sections["Seeks"], Section) and sections["Seeks"].absent


def test_unbalanced_quotes_in_runs_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "--runs=a 'b"]) == 2
    assert "RUNS=a 'b cannot be split into names: no closing quotation" in capsys.readouterr().err


def test_make_compare_passes_names_unchanged(tmp_path: Path) -> None:
    """The Makefile's line: names with any character arrive as they are, in quotes those with blanks."""
    for name in ("a*", "b  $x"):
        simple("ext4").write(tmp_path / name)
    done = subprocess.run(
        [
            "make",
            "-C",
            str(ROOT),
            "compare",
            f"RUNS={tmp_path}/a* '{tmp_path}/b  $x'",
            f"OUT={tmp_path}/the out",
        ],
        env={k: v for k, v in os.environ.items() if not k.startswith(("SEEKMETER_", "MAKE"))},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert f"{tmp_path}/the out/compare.html" in done.stdout
