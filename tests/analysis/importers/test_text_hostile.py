# SPDX-License-Identifier: BSD-2-Clause
"""No text makes the translator crash, hang, or take memory without bound; the reader reads what it writes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.analysis.importers.test_blktrace_hostile import HOSTILE, survives
from tests.analysis.importers.test_text_formats import snoop_rows
from tests.analysis.importers.text_seeds import EVENTS

PLAIN = Path(__file__).resolve().parents[3] / "build" / "text-to-blktrace"
SEEDS = [
    EVENTS.encode(),
    snoop_rows("libbpf-tools", True, 12)[0].encode(),
    snoop_rows("bcc -P", False, 12)[0].encode(),
]
HUGE = [
    b"0",
    b"1",
    b"4294967295",
    b"4294967296",
    b"9223372036854775808",
    b"18446744073709551615",
    b"9" * 40,
    b"-1",
    b".5",
]


def translates(translator: Path, reader: Path, folder: Path, text: bytes) -> None:
    """Ends by itself with one of its exit codes; what it made is a stream without a byte that is no event."""
    stream = folder / "translated"
    done = subprocess.run([translator, stream], input=text, capture_output=True, timeout=60, check=False)
    assert done.returncode in (0, 2), done.stderr
    if done.returncode:
        assert done.stderr.startswith(b"seekmeter: the trace: ") and done.stderr.count(b"\n") == 1
        return
    said = json.loads(done.stdout)
    assert said["bytes"] == len(text)
    read = survives(reader, folder, stream.read_bytes())
    if read.returncode == 0:
        notes = json.loads((folder / "losses.json").read_text())["collectors"]["block"]["notes"]
        assert "bytes that are no event" not in notes and "bytes cut off by the end of a file" not in notes


@HOSTILE
@given(st.binary(max_size=2000))
def test_random_bytes_end_in_order(translator: Path, reader: Path, tmp_path: Path, data: bytes) -> None:
    translates(translator, reader, tmp_path, data)


@HOSTILE
@given(st.data())
def test_changed_lines_end_in_order(
    translator: Path, reader: Path, tmp_path: Path, data: st.DataObject
) -> None:
    """Words replaced by huge numbers or other words, bytes changed, lines mixed, the end cut off."""
    lines = [line for seed in SEEDS for line in seed.split(b"\n")]
    chosen = data.draw(st.lists(st.sampled_from(lines), min_size=1, max_size=40))
    words = sorted({word for line in lines for word in line.split()})
    for at in data.draw(st.lists(st.integers(0, len(chosen) - 1), max_size=20)):
        parts = chosen[at].split(b" ")
        place = data.draw(st.integers(0, len(parts) - 1))
        parts[place] = data.draw(st.sampled_from(HUGE + words))
        chosen[at] = b" ".join(parts)
    text = bytearray(b"\n".join(chosen))
    for at, value in data.draw(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), max_size=10)):
        if text:
            text[at % len(text)] = value
    translates(translator, reader, tmp_path, bytes(text[: len(text) - data.draw(st.integers(0, 60))]))


@pytest.mark.parametrize(
    "what",
    [
        "one line",
        "threads",
        *(pytest.param(what, marks=pytest.mark.long) for what in ("lines", "disks", "zeros")),
    ],
)
def test_memory_of_the_translator_is_bounded(tmp_path: Path, what: str) -> None:
    """Some 60 MB of what could fill a table or a buffer."""
    path = tmp_path / "text"
    event = " dd-77 [000] 5.000001: block_rq_issue: 8,0 R 4096 () 0 + 8 [dd]\n"
    with path.open("w") as file:
        if what == "lines":
            file.write(event * 900_000)
        elif what == "one line":
            file.write("x" * 60_000_000 + "\n" + event)
        elif what == "zeros":
            file.write(event)
            file.truncate(60_000_000)
        elif what == "disks":
            file.write("TIME(s) COMM PID DISK T SECTOR BYTES LAT(ms)\n")
            file.writelines(f"1.0 dd 1 disk{number} R 8 4096 0.10\n" for number in range(1_000_000))
        else:
            file.writelines(
                f" dd-{number} [000] 5.000001: block_rq_issue: 8,0 R 4096 () 0 + 8 [t{number}]\n"
                for number in range(800_000)
            )
    code = (
        "import resource, subprocess, sys;"
        "done = subprocess.run(sys.argv[1:], stdin=sys.stdin, stdout=subprocess.DEVNULL, timeout=600);"
        "print(done.returncode, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    with path.open("rb") as file:
        words: list[str | Path] = [sys.executable, "-c", code, PLAIN, "/dev/null"]
        done = subprocess.run(words, stdin=file, capture_output=True, text=True, check=True)
    path.unlink()
    status, peak_kib = map(int, done.stdout.split())
    assert status == 0 and peak_kib < 16 << 10
