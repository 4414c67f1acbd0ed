# SPDX-License-Identifier: BSD-2-Clause
"""Whole reports: what they say, in which form, and that no run directory, however hostile, breaks them."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import xml.etree.ElementTree as ET
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text

from analysis.__main__ import main
from analysis.figures import save, style
from analysis.figures.run import iograph
from analysis.measures.results import measure
from analysis.render.text import render
from analysis.render.titles import run_title
from analysis.rundir.run import open_run
from analysis.sections.banners import make_banners
from analysis.sections.document import make_document
from analysis.sections.outcome import how_it_ended
from analysis.tables.load import load_tables
from tests.analysis.page_html import Parsed, runs_one_script
from tests.analysis.synthetic import START_NS, Spec, collector, decaying_ext3, request, run_json

ROOT = Path(__file__).parents[2]
FILES = ("report.txt", "report.html", "iograph.png", "iograph.svg")


@dataclass(frozen=True)
class Done:
    """What a command left: exit code, stdout, stderr."""

    returncode: int
    stdout: str
    stderr: str


@pytest.fixture(autouse=True, scope="module")
def coarse_pictures() -> Iterator[None]:
    """Small pictures: what is in them does not depend on their resolution, the time to pack them does."""
    before = save.DPI
    save.DPI = 50
    yield
    save.DPI = before


def report(path: Path) -> Done:
    """The command, in this process (a process of its own costs a second of imports, see the test below)."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(["report", str(path)])
    return Done(code, out.getvalue(), err.getvalue())


def good_report(path: Path) -> str:
    done = report(path)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    for name in FILES:
        assert (path / name).stat().st_size > 0
    text = (path / "report.txt").read_text("utf-8")
    assert max(len(line) for line in text.splitlines()) <= 80
    ET.fromstring((path / "iograph.svg").read_bytes())  # well-formed XML
    return text


def folded(text: str) -> str:
    """The text without its line breaks."""
    return " ".join(text.replace("!!", " ").split())


@pytest.fixture(scope="module")
def whole_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = decaying_ext3(13, 400).write(tmp_path_factory.mktemp("runs") / "20261121-ext3-compilebench")
    good_report(path)
    return path


def test_text_says_what_was_run_and_measured(whole_run: Path) -> None:
    text = folded((whole_run / "report.txt").read_text())
    for words in (
        "make trace FS=ext3 WL=compilebench",
        "mkfs.ext3 -q /dev/loop3",
        "mount -t ext3 -o data=writeback,barrier=1 /dev/loop3",
        "6.18.1, x86_64, lockdown integrity",
        "scheduler none",
        "create 20",
        "MB = 10^6 bytes",
        "more than 128 sectors",
        "mutex ext4_orphan_add()+0x9b",
        "rwsem:W path_openat()+0x311",
        "spinlock jbd2_journal_stop()+0x61",
        "Association, not cause",
        "Spin share: time spinning / (CPUs x elapsed)",
    ):
        assert words in text, words
    assert " *" not in re.sub(r"\(.*?\)", "", text.split("WARNINGS")[0]) or "!!" not in text
    # 13 s make 129 bins of 0.1 s, and each correlation says so
    assert re.search(r"seeks/s [+-]\d\.\d\d .* (yes|no) +129 ", text)


@pytest.mark.usefixtures("words_only")
def test_totals_in_the_text_are_those_recorded(tmp_path: Path) -> None:
    spec = Spec(run=run_json(10))
    spec.block = [request(START_NS + i * 1_000_000, i * 8) for i in range(1234)]
    spec.block += [request(START_NS + 2_000_000_000 + i, i * 99_999, 8192, op="read") for i in range(77)]
    text = good_report(spec.write(tmp_path / "r"))
    assert re.search(r"write +data +1,234 +5\.05 MB +0\.505 +123 +4\.10 kB", text)
    assert re.search(r"read +data +77 +631 kB", text)
    # 1233 sequential writes; the first read is far from the last write, and all reads are apart
    assert re.search(r"all +1,311 +77 +7\.70", text)


def test_report_runs_as_a_command_from_any_directory(whole_run: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "analysis", "report", str(whole_run)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "HOME": str(tmp_path), "TERM": "dumb", "LC_ALL": "C"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert str(whole_run / "report.html") in done.stdout


def test_stdout_has_main_results_and_file_names(whole_run: Path) -> None:
    done = report(whole_run)
    assert "WHERE THE TIME WENT" in done.stdout and "FINDINGS" in done.stdout
    for name in FILES:
        assert str(whole_run / name) in done.stdout
    assert len(done.stdout.splitlines()) <= 45


def test_report_page_fetches_nothing_and_runs_its_script(whole_run: Path) -> None:
    page = Parsed((whole_run / "report.html").read_text("utf-8"))
    assert runs_one_script(page) and "link" not in page.tags and "iframe" not in page.tags
    assert all(link.startswith(("#", "data:image/svg+xml;base64,")) for link in page.links)
    assert page.tags.count("img") == 2  # the IO graph and the distributions
    assert (whole_run / "report.html").stat().st_size < 2_000_000
    assert (whole_run / "iograph.svg").stat().st_size < 1_500_000


EVIL = "<script>alert(1)</script>\"'&$x^{$\\frac\x1b[31m\x00\u202e\ud800{{7*7}}%s"


def test_strings_of_a_run_are_escaped_in_the_report(tmp_path: Path) -> None:
    spec = decaying_ext3(3, 100)
    spec.run["command"] = EVIL
    spec.run["filesystem"]["name"] = EVIL
    spec.run["workload"]["name"] = EVIL
    spec.run["workload"]["argv"] = [EVIL, {"a": 1}, None]
    spec.run["warnings"] = [EVIL]
    spec.run["device"]["name"] = EVIL
    spec.phases[0]["name"] = EVIL
    spec.stack[0]["frames"] = [EVIL, EVIL]
    spec.lock[1]["name"] = EVIL
    for row in spec.block[:50]:
        row["comm"] = b"<i>$x^{$\x1b\xff\x00zzzz"
    text = good_report(spec.write(tmp_path / "r"))
    assert "\x1b" not in text
    page = (tmp_path / "r" / "report.html").read_text("utf-8")
    assert page.count("<script>") == 1 and "&lt;script&gt;" in page  # ours
    assert "{{7*7}}" in page and "49%s" not in page
    assert runs_one_script(Parsed(page))


@pytest.mark.usefixtures("words_only")
def test_interrupted_run_says_so_on_top(tmp_path: Path) -> None:
    spec = decaying_ext3(3, 100)
    spec.run = {"schema": 1, "state": "interrupted", "command": "make trace"}
    path = spec.write(tmp_path / "r")
    text = good_report(path)
    assert "state is 'interrupted'" in text.splitlines()[1]
    assert "taken from the tables" in text


@pytest.mark.parametrize(
    ("state", "workload", "words"),
    [
        ("complete", {"exit_status": 0, "interrupted": False}, "exit status 0"),
        ("complete", {"exit_status": 7, "interrupted": False}, "exit status 7"),
        ("complete", {"exit_status": -11, "interrupted": False}, "signal 11 (SIGSEGV)"),
        ("complete", {"exit_status": -15, "interrupted": False}, "signal 15 (SIGTERM)"),
        ("interrupted", {"exit_status": -15, "interrupted": True}, "interrupted"),
        ("interrupted", {"exit_status": 3, "interrupted": True}, "interrupted"),
        # an older run: its session ended the workload
        ("interrupted", {"exit_status": -15}, "interrupted"),
        ("interrupted", {"exit_status": 3}, "exit status 3"),  # and here it was ended after that
        ("complete", {"exit_status": -999}, "signal 999"),
        ("interrupted", {}, ""),
    ],
)
def test_report_says_how_the_workload_ended(
    tmp_path: Path, state: str, workload: dict[str, Any], words: str
) -> None:
    facts = run_json(1)
    del facts["workload"]["exit_status"]
    facts["state"] = state
    facts["workload"] |= workload
    (tmp_path / "run.json").write_text(json.dumps(facts))
    run = open_run(tmp_path)
    assert how_it_ended(run) == words
    said = [line for line in make_banners(run, {}) if line.startswith("the workload")]
    if words in ("", "exit status 0"):
        assert said == []
    elif words == "interrupted":
        assert said == ["the workload was interrupted (^C or a signal) before its end"]
    else:
        assert said == [f"the workload failed with {words}"]


@pytest.mark.usefixtures("words_only")
def test_emulated_run_says_so_on_top(tmp_path: Path) -> None:
    spec = decaying_ext3(3, 100)
    spec.run["machine"]["virtualization"] = "qemu (TCG)"
    text = good_report(spec.write(tmp_path / "r"))
    assert "emulated" in text.splitlines()[1]


VM = {
    "by": "virtme-ng 1.42",
    "accel": "tcg",
    "qemu": "QEMU emulator version 7.2.22",
    "kernel_image": "/boot/vmlinuz-6.1.0-50-amd64",
    "host_kernel": "6.18.44-fc",
    "host_cpus": 4,
    "command": "qemu-system-x86_64 -smp 2 -m 2G",
}


@pytest.mark.usefixtures("words_only")
def test_emulated_machine_is_named_in_every_output(tmp_path: Path) -> None:
    spec = decaying_ext3(3, 100)
    spec.run["machine"] |= {"vm": VM, "virtualization": "guest"}
    spec.run["kernel"]["build_id"] = "0123456789abcdef"
    text = good_report(spec.write(tmp_path / "r"))
    assert text.splitlines()[1].startswith("!! emulated CPUs (QEMU TCG): times and rates mean little")
    words = folded(text)
    for fact in (*(str(VM[key]) for key in VM if key != "accel"), "build id 0123456789abcdef", "host CPUs 4"):
        assert fact in words, fact
    page = (tmp_path / "r" / "report.html").read_text("utf-8")
    banner = page.index('class="banner">emulated CPUs')
    assert banner < page.index("<img")
    run = open_run(tmp_path / "r")
    tables = load_tables(run)
    m = measure(run, tables)
    document = make_document(run, tables, m)
    with mpl.rc_context(style.RC):  # type: ignore[arg-type]
        figure = iograph.draw(run, tables, m, "t", "s", document.banners)
    said = [words.get_text() for words in figure.texts]
    assert any(s.startswith("! emulated CPUs") and s.endswith("order are valid") for s in said)


@pytest.mark.usefixtures("words_only")
def test_machine_with_kvm_is_not_called_emulated(tmp_path: Path) -> None:
    spec = decaying_ext3(3, 100)
    spec.run["machine"] |= {"vm": {**VM, "accel": "kvm"}, "virtualization": "qemu"}
    text = good_report(spec.write(tmp_path / "r"))
    assert "emulated CPUs" not in text and "CPUs by KVM" in text


@pytest.mark.parametrize("vm", [5, [], "tcg", {}, {"accel": None}, {"accel": {"a": 1}, "by": [1]}])
@pytest.mark.usefixtures("words_only")
def test_malformed_machine_facts_are_no_emulation(tmp_path: Path, vm: object) -> None:
    spec = decaying_ext3(3, 100)
    spec.run["machine"]["vm"] = vm
    assert "emulated CPUs" not in good_report(spec.write(tmp_path / "r"))


@pytest.mark.usefixtures("words_only")
def test_reason_of_a_guests_end_heads_the_report(tmp_path: Path) -> None:
    spec = decaying_ext3(3, 100)
    spec.run |= {"state": "interrupted", "warnings": ["the guest panicked: see its console"]}
    path = spec.write(tmp_path / "r")
    good_report(path)
    assert "console.log" not in (path / "report.html").read_text()
    (path / "raw" / "console.log").write_text("Kernel panic - not syncing")
    text = good_report(path)
    assert "!! the guest panicked: see its console" in text.split("WHAT WAS RUN")[0]
    assert "raw/console.log" in (path / "report.html").read_text("utf-8").split("<h2>Files")[1]
    assert str(path / "raw" / "console.log") in report(path).stdout


@pytest.mark.usefixtures("words_only")
def test_names_of_facts_are_escaped(tmp_path: Path) -> None:
    spec = decaying_ext3(3, 100)
    spec.run["device"]["queue"] = {"a\x1b[31m": 1}
    spec.run["tools"] = {"b\x1b[31m\u202e": 2}
    spec.run["timing"] = {"c\x1b[31m_s": 3.0}
    text = good_report(spec.write(tmp_path / "r"))
    assert "\x1b" not in text and text.count("\\x1b[31m") == 3


@pytest.mark.usefixtures("words_only")
def test_losses_mark_every_result_of_their_source(tmp_path: Path) -> None:
    spec = decaying_ext3(3, 100)
    spec.losses = {
        "collectors": {
            "block": collector(300, lost={"ring full": 12}),
            "locks": collector(10),
            "calls": collector(10),
            "counters": collector(10, bpf={}),
        },
        "complete": True,
    }
    text = good_report(spec.write(tmp_path / "r"))
    assert "block: 12 lost of 300 seen" in text
    for title in ("TIME BY PHASE *", "THROUGHPUT *", "SEEKS *", "REQUEST LATENCY *", "QUEUE DEPTH *"):
        assert title in text
    assert "LOCK WAITS -" in text
    assert "block lost 12: ring full" in text


@pytest.mark.usefixtures("words_only")
def test_collector_that_was_off_is_named_with_its_remedy(tmp_path: Path) -> None:
    spec = decaying_ext3(3, 100)
    path = spec.write(tmp_path / "r")
    losses = json.loads((path / "losses.json").read_text())
    losses["collectors"]["locks"] = {
        "state": "off",
        "why": "no tracepoint",
        "remedy": "a newer kernel",
    }
    (path / "losses.json").write_text(json.dumps(losses))
    (path / "raw" / "recorder" / "lock_wait.rec").unlink()
    text = folded(good_report(path))
    assert "not available: no tracepoint (remedy: a newer kernel)" in text
    assert "lock wait: no coefficient, its collector has nothing" in text
    assert "no lock_wait table" not in text


@pytest.mark.usefixtures("words_only")
def test_command_is_shown_as_typed(tmp_path: Path) -> None:
    """Somebody pastes it back: \xfc for a letter is another command."""
    spec = decaying_ext3(3, 100)
    spec.run["command"] = "make trace CMD='cp /srv/Bücher/Ж…'"
    path = spec.write(tmp_path / "r")
    assert "CMD='cp /srv/Bücher/Ж…'" in good_report(path)
    words = [sys.executable, "-m", "analysis", "report", str(path)]
    plain = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(words, env=plain, capture_output=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr  # a terminal without these letters
    text = (path / "report.txt").read_bytes()
    assert "Bücher/Ж…".encode() in text
    assert b"\\xfc" not in text and b"\\u" not in text


@pytest.mark.usefixtures("words_only")
def test_submitters_of_zeroed_ranges_are_named(tmp_path: Path) -> None:
    rows = [request(START_NS + i * 1_000_000, i * 8) for i in range(20)]
    lazy = {"op": "write_zeroes", "comm": b"ext4lazyinit"}
    rows += [request(START_NS + (30 + i) * 1_000_000, 8000 + i * 4096, 2 << 20, **lazy) for i in range(3)]
    rows.append(request(START_NS + 40_000_000, 99_000, 4096, op="write_zeroes", comm=b"fallocate"))
    text = folded(good_report(Spec(block=rows).write(tmp_path / "r")))
    assert (
        "write_zeroes by ext4lazyinit 6.29 MB in 3 requests (ext4's lazy initialisation: inode tables that"
        " mkfs left unwritten); fallocate 4.10 kB in 1 requests" in text
    )
    assert "write_zeroes: sets a range of the device to zero without sending data" in text
    without = folded(good_report(Spec(block=rows[:20]).write(tmp_path / "without")))
    assert "write_zeroes" not in without


def test_a_flush_only_run_is_reported(tmp_path: Path) -> None:
    """iowatcher crashes on it."""
    spec = Spec(block=[request(START_NS + i * 1_000_000, 0, 0, op="flush") for i in range(20)])
    text = folded(good_report(spec.write(tmp_path / "r")))
    assert "no seeks" in text
    assert "flush - 20 0 B" in text


def test_an_empty_run_is_reported(tmp_path: Path) -> None:
    text = folded(good_report(Spec().write(tmp_path / "r")))
    assert "too few bins" in text or "no coefficient" in text


def test_a_run_of_one_request_is_reported(tmp_path: Path) -> None:
    good_report(Spec(block=[request(START_NS + 5, 2**40, 512)], run={"schema": 1}).write(tmp_path / "r"))


@pytest.mark.usefixtures("words_only")
def test_short_runs_have_too_few_bins_to_correlate(tmp_path: Path) -> None:
    spec = decaying_ext3(2, 200)
    assert "too few bins (19, at least 30 are needed)" in folded(good_report(spec.write(tmp_path / "r")))


@pytest.mark.parametrize(
    "name",
    [
        "run.json",
        "losses.json",
        "raw/phases.jsonl",
        *(f"raw/recorder/{t}" for t in ("block.rec", "call.rec")),
    ],
)
@pytest.mark.parametrize("how", ["missing", "empty", "binary", "cut", "directory", "fifo", "link", "array"])
def test_broken_file_is_survived(tmp_path: Path, whole_run: Path, name: str, how: str) -> None:
    path = tmp_path / "r"
    shutil.copytree(whole_run, path, ignore=shutil.ignore_patterns("tables", *FILES))
    victim = path / name
    data = victim.read_bytes()
    victim.unlink()
    if how == "empty":
        victim.write_bytes(b"")
    elif how == "binary":
        victim.write_bytes(bytes(range(256)) * 20)
    elif how == "cut":
        victim.write_bytes(data[: len(data) // 3])
    elif how == "directory":
        victim.mkdir()
    elif how == "fifo":
        os.mkfifo(victim)
    elif how == "link":
        victim.symlink_to("/etc/passwd")
    elif how == "array":
        victim.write_bytes(b"[1, 2, NaN]")
    # the words only: the pictures of gaps are drawn by other tests
    run = open_run(path)
    tables = load_tables(run)
    text = render(make_document(run, tables, measure(run, tables)))
    assert "root:x" not in text
    assert max(len(line) for line in text.splitlines()) <= 80
    if how in ("missing", "directory", "fifo", "link"):
        assert any(victim.name in gap for gap in run.missing)


@pytest.mark.parametrize(
    "facts",
    [
        {"schema": 99, "state": 5, "clock": [], "device": "x", "kernel": None, "machine": {"cpus": "two"}},
        {"schema": 1, "clock": {"record_start_ns": 1e308, "record_end_ns": -5}, "machine": {"cpus": 0}},
        {"schema": 1, "clock": {"record_start_ns": START_NS, "record_end_ns": 2**63 - 1}},
        {"schema": 1, "clock": {"record_start_ns": 1, "record_end_ns": 2}, "warnings": "all"},
        {"schema": 1, "device": {"size_bytes": -1}, "timing": {"setup_s": "x"}, "tools": [1]},
    ],
)
def test_malformed_fact_is_survived(tmp_path: Path, facts: dict[str, Any]) -> None:
    spec = decaying_ext3(3, 100)
    spec.run = facts
    good_report(spec.write(tmp_path / "r"))


def test_absurd_times_and_sizes_are_survived(tmp_path: Path) -> None:
    big = 2**64 - 1
    spec = Spec(run=run_json(3))
    spec.block = [request(START_NS + i * 1_000_000, i * 8) for i in range(50)]
    spec.block.append({"queue_ns": big, "issue_ns": 0, "complete_ns": big, "sector": big, "bytes": 2**32 - 1})
    spec.block.append({"queue_ns": 1, "issue_ns": 2**63 - 1, "complete_ns": 2**63 - 1, "sector": 2**62})
    spec.lock_wait = [{"bin_ns": big, "lock_id": big, "spin_ns": big, "sleep_ns": big, "count": big}]
    spec.call = [{"bin_ns": big, "count": big, "bytes": big, "hist": [2**32 - 1] * 256}]
    spec.counter = [{"t_ns": big, "name": "mem.dirty_bytes", "value": -(2**63)}]
    spec.phases = [
        {"name": 5},
        {"name": "x", "start_ns": -1, "end_ns": 5},
        {"name": "y" * 5000, "start_ns": 1, "end_ns": 2**63 - 1, "ops": 10**30, "bytes": "many"},
    ]
    text = folded(good_report(spec.write(tmp_path / "r")))
    assert "block: 2 rows of table block left out (not lost): completed after it ended" in text


def test_result_files_replace_links(tmp_path: Path) -> None:
    path = decaying_ext3(2, 50).write(tmp_path / "r")
    outside = tmp_path / "outside"
    outside.write_text("precious")
    for name in FILES:
        (path / name).symlink_to(outside)
    good_report(path)
    assert outside.read_text() == "precious"
    assert not any((path / name).is_symlink() for name in FILES)


def test_tables_folder_that_is_a_link_is_refused(tmp_path: Path) -> None:
    path = decaying_ext3(2, 50).write(tmp_path / "r")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (path / "tables").symlink_to(elsewhere)
    done = report(path)
    assert done.returncode == 1 and done.stderr.startswith("seekmeter: ") and "symbolic link" in done.stderr
    assert list(elsewhere.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        ([], 2, "usage:"),
        (["report"], 2, "usage:"),
        (["reprot", "x"], 2, "usage:"),
        (["report", "/no/such/run"], 2, "is not a directory"),
        (["report", "a\0b"], 2, "is not a directory"),
        (["report", "/proc/self/fd"], 1, "is not a run directory"),
        (["report", __file__], 2, "is not a directory"),
    ],
)
def test_report_refuses_wrong_options(
    words: list[str], code: int, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == code
    err = capsys.readouterr().err
    assert err.startswith("seekmeter: ") and says in err and err.count("\n") == 1


def test_report_leaves_no_temporary_files(whole_run: Path) -> None:
    left = {p.name for p in whole_run.rglob(".*")}
    assert left == set()


def png_size(path: Path) -> tuple[int, int]:
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    assert zlib.crc32(data[12:29]) == struct.unpack(">I", data[29:33])[0]
    width, height = struct.unpack(">II", data[16:24])
    return int(width), int(height)


def test_picture_keeps_its_shape_whatever_is_missing(whole_run: Path, tmp_path: Path) -> None:
    """A panel without data says so in its place, so the picture is about as tall."""
    empty = Spec().write(tmp_path / "r")
    good_report(empty)
    full = png_size(whole_run / "iograph.png")
    bare = png_size(empty / "iograph.png")
    assert full[0] == bare[0] == int(iograph.WIDTH_IN * save.DPI)
    assert bare[1] > full[1] * 0.55


def test_many_phases_and_long_names_fit(tmp_path: Path) -> None:
    spec = decaying_ext3(3, 100)
    spec.phases = [
        {
            "name": f"phase with a rather long name {i % 70}",
            "start_ns": START_NS + i * 10_000_000,
            "end_ns": START_NS + i * 10_000_000 + 9_000_000,
            "ops": 10**9,
            "bytes": 10**12,
        }
        for i in range(250)
    ]
    good_report(spec.write(tmp_path / "r"))


def visible_texts(figure: Figure) -> list[Text]:
    """All words drawn: tick labels outside an axis's limits are made, but not drawn."""
    found = []
    for axes in figure.axes:
        hidden = {
            id(label)
            for axis in (axes.xaxis, axes.yaxis)
            for tick in axis.get_major_ticks() + axis.get_minor_ticks()
            for label in (tick.label1, tick.label2)
            if not min(axis.get_view_interval()) <= tick.get_loc() <= max(axis.get_view_interval())
        }
        found += [t for t in axes.findobj(Text) if isinstance(t, Text) and id(t) not in hidden]
    found += figure.texts
    return [text for text in found if text.get_visible()]


def test_text_inside_the_picture_is_not_cut(whole_run: Path) -> None:
    """No label may end outside the picture: seekwatcher and iowatcher cut theirs."""
    run = open_run(whole_run)
    tables = load_tables(run)
    m = measure(run, tables)
    with mpl.rc_context(style.RC):  # type: ignore[arg-type]
        figure = iograph.draw(run, tables, m, run_title(run), iograph.make_subtitle(run, m), ["a banner"])
        figure.canvas.draw()
        frame = figure.bbox
        for text in visible_texts(figure):
            if text.get_text():
                box = text.get_window_extent()
                assert box.x0 >= frame.x0 and box.x1 <= frame.x1, text.get_text()
                assert box.y0 >= frame.y0 and box.y1 <= frame.y1, text.get_text()
