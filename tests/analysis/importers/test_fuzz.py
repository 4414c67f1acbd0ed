# SPDX-License-Identifier: BSD-2-Clause
"""libFuzzer on the trace readers in C: no crash, no wrong access, no hang, no unbounded memory."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.analysis.importers.blktrace_files import dev, message_note, numbered, process_note, timestamp_note
from tests.analysis.importers.blktrace_requests import Requests
from tests.analysis.importers.test_blktrace_stacks import (
    START_NS,
    multipath_events,
    raid5_events,
    stripe_events,
)
from tests.analysis.importers.test_text_formats import snoop_rows
from tests.analysis.importers.text_seeds import EVENTS

SECONDS = [2, pytest.param(15, marks=pytest.mark.long)]
MEMORY_MB = 1024  # the checks alone take some hundred
TREE = Path(__file__).resolve().parents[3]
SOURCES = TREE / "analysis/importers"


def fuzzer(folder: Path, reader: Path, *flags: str) -> Path:
    """A fuzzer of the reader whose source is in a folder."""
    program = folder / "fuzzer"
    sources = [path for path in sorted(reader.glob("*.c")) if path.name != "main.c"]
    words: list[str | Path] = [
        "clang", "-std=gnu11", "-O1", "-g", "-D_GNU_SOURCE", "-fsanitize=fuzzer,address,undefined",
        "-fno-sanitize-recover=all", "-Wno-backend-plugin", *flags, "-I", TREE / "bpf", "-I", reader,
        f'-DREADER="{reader / "main.c"}"', Path(__file__).with_name("fuzz_reader.c"), *sources,
        "-o", program,
    ]  # fmt: skip
    subprocess.run(words, check=True)
    return program


def assert_no_fault_found(program: Path, folder: Path, seeds: list[bytes], seconds: int) -> None:
    corpus = folder / "corpus"
    corpus.mkdir()
    for number, seed in enumerate(seeds):
        (corpus / str(number)).write_bytes(seed)
    # Of a process of its own: ru_maxrss, which the limit is about, outlives exec() and would be pytest's.
    done = subprocess.run(
        ["sh", "-c", '"$0" "$@"; exit $?', program, f"-max_total_time={seconds}", "-seed=1", "-timeout=20",
         f"-rss_limit_mb={MEMORY_MB}", "-max_len=8192", "-close_fd_mask=1", f"-artifact_prefix={folder}/",
         corpus],
        env=os.environ | {"FUZZ_OUT": str(folder)}, cwd=folder, stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, timeout=300, check=False,
    )  # fmt: skip
    said = "\n".join(
        line
        for line in done.stderr.decode(errors="replace").splitlines()
        if not line.startswith("seekmeter: ")
    )
    found = {path.name: path.read_bytes().hex() for path in folder.glob("*-*") if path != program}
    assert done.returncode == 0, (said[-4000:], found)
    assert "DONE" in said
    print(said.splitlines()[-1])


@pytest.mark.parametrize("seconds", SECONDS)
def test_blktrace_reader_survives_fuzzing(tmp_path: Path, seconds: int) -> None:
    notes = [process_note(1, 100, "a name"), timestamp_note(2, 1, 2, "<"), message_note(3, b"words")]
    seeds = []
    for seed, order in ((1, "<"), (2, ">"), (3, "<")):
        events = [*notes, *numbered(Requests(seed, dev(8, seed), count=6).events)]
        seeds.append(b"".join(event.pack(order) for event in events))
    for stacked in (stripe_events(START_NS, True), raid5_events(START_NS), multipath_events(START_NS)):
        seeds.append(b"".join(event.pack("<") for event in numbered(stacked)))
    seeds.append(b"CPU:1 [LOST 5 EVENTS]\n" + seeds[0][:500] + b"CPU:0 [LOST EVENTS]\n" + seeds[0][500:-3])
    program = fuzzer(tmp_path, SOURCES / "blktrace_reader", "-DOF_FILE")
    assert_no_fault_found(program, tmp_path, seeds, seconds)


@pytest.mark.parametrize("seconds", SECONDS)
def test_text_reader_survives_fuzzing(tmp_path: Path, seconds: int) -> None:
    snoops = [
        snoop_rows(kind, queued, 5)[0] for kind in ("bcc -P", "libbpf-tools") for queued in (False, True)
    ]
    seeds = [text.encode() for text in [EVENTS, *snoops]]
    assert_no_fault_found(fuzzer(tmp_path, SOURCES / "text_reader"), tmp_path, seeds, seconds)


def test_fuzzer_detects_a_removed_check(tmp_path: Path) -> None:
    """With one check of the reader removed, the tests above fail."""
    source = (SOURCES / "text_reader/payload.c").read_text()
    check = "i < COMM_BYTES && i < text_left(text)"
    assert check in source
    folder = tmp_path / "text_reader"
    folder.mkdir()
    for path in (SOURCES / "text_reader").iterdir():
        (folder / path.name).write_text(path.read_text())
    (folder / "payload.c").write_text(source.replace(check, "i < text_left(text)"))
    with pytest.raises(AssertionError, match="crash-"):
        assert_no_fault_found(
            fuzzer(tmp_path, folder), tmp_path, [b" dd-1 [0] 1.000: block_plug: [" + b"]" * 300 + b"\n"], 2
        )
