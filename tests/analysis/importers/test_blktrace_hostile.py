# SPDX-License-Identifier: BSD-2-Clause
"""No file makes the reader crash, hang, or take memory without bound."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.analysis.importers.blktrace_files import ACTIONS, FLUSH, READ, WRITE, Event, dev, remap_pdu
from tests.analysis.importers.blktrace_requests import Requests
from tests.bench.big_trace import EVENT
from tests.collectors.recording import read_table

PLAIN = Path(__file__).resolve().parents[3] / "build" / "import-blktrace"
PIECES_BYTES = 240 << 20  # a million bios and requests at once, a quarter of them of a volume, and what else
HOSTILE = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def survives(reader: Path, folder: Path, *contents: bytes) -> subprocess.CompletedProcess[str]:
    """Run the reader with memory checked; it must end by itself, with one of its own exit codes."""
    paths = [folder / f"trace{i}" for i in range(len(contents))]
    for path, content in zip(paths, contents, strict=True):
        path.write_bytes(content)
    done = subprocess.run([reader, folder, *paths], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode in (0, 2), done.stderr
    if done.returncode:
        assert done.stderr.startswith("seekmeter: ") and done.stderr.count("\n") == 1
    return done


SEED = b"".join(event.pack("<") for event in Requests(1, dev(8, 0), count=12).events)


@HOSTILE
@given(st.binary(max_size=300))
def test_random_bytes_after_the_magic_end_in_order(reader: Path, tmp_path: Path, data: bytes) -> None:
    survives(reader, tmp_path, b"\x07tae" + data)


@HOSTILE
@given(
    st.lists(st.tuples(st.integers(0, len(SEED) - 1), st.integers(0, 255)), max_size=40), st.integers(0, 99)
)
def test_trace_with_changed_bytes_ends_in_order(
    reader: Path, tmp_path: Path, changes: list[tuple[int, int]], cut: int
) -> None:
    data = bytearray(SEED)
    for at, value in changes:
        data[at] = value
    data[:4] = SEED[:4]
    survives(reader, tmp_path, bytes(data[: len(data) - cut]), SEED)


NUMBERS = st.sampled_from([0, 1, 8, 511, 512, 4096, 2**31, 2**32 - 512, 2**32 - 1])
LARGE = st.sampled_from([0, 1, 8, 16, 2**32, 2**53 - 1, 2**53, 2**63, 2**64 - 1])
VOLUMES = st.sampled_from([dev(253, 0), dev(253, 1), dev(8, 0)])
REMAPS = st.builds(remap_pdu, VOLUMES, VOLUMES, LARGE)
EVENTS = st.builds(
    Event,
    t_ns=st.one_of(st.integers(0, 50), LARGE),
    action=st.one_of(st.sampled_from(sorted(ACTIONS)), st.integers(0, 2**32 - 1)),
    sector=LARGE,
    bytes=NUMBERS,
    categories=st.integers(0, 2**16 - 1).map(lambda bits: bits << 16),
    pid=NUMBERS,
    device=st.one_of(st.just(dev(8, 0)), VOLUMES, NUMBERS),
    cpu=NUMBERS,
    error=st.integers(0, 2**16 - 1),
    pdu=st.one_of(st.binary(max_size=24), REMAPS),
    sequence=NUMBERS,
)


@HOSTILE
@given(st.lists(EVENTS, max_size=60), st.sampled_from("<>"))
def test_random_events_end_in_order(
    reader: Path, tmp_path: Path, events: Sequence[Event], order: str
) -> None:
    survives(reader, tmp_path, b"".join(event.pack(order) for event in events))


STACKED = st.builds(
    Event,
    t_ns=st.integers(1, 99),
    action=st.sampled_from("QQAAXGMDCC"),
    sector=st.sampled_from([0, 8, 16, 24]),
    bytes=st.sampled_from([0, 4096, 8192, 16_384]),
    categories=st.sampled_from([READ, WRITE, WRITE | FLUSH]),
    pid=st.sampled_from([50, 60]),
    device=VOLUMES,
    pdu=st.tuples(VOLUMES, st.sampled_from([0, 8, 16])).map(
        lambda said: remap_pdu(said[0], said[0], said[1])
    ),
)


@settings(HOSTILE, max_examples=25)
@given(st.lists(STACKED, max_size=120))
def test_random_stacks_end_in_order(reader: Path, tmp_path: Path, events: Sequence[Event]) -> None:
    """No order of a few devices' events is too strange, and no row has an origin that is no row."""
    data = b"".join(event.pack("<") for event in sorted(events, key=lambda event: event.t_ns))
    if not survives(reader, tmp_path, data).returncode:
        _, requests = read_table(tmp_path / "block.rec")
        assert set(requests["origin_dev"].tolist()) <= {0, dev(253, 0), dev(253, 1), dev(8, 0)}
        assert ((requests["origin"] == 0) == (requests["origin_dev"] == 0)).all()


def test_control_characters_in_file_names_are_escaped(reader: Path, tmp_path: Path) -> None:
    file = tmp_path / "\x1b]0;OWNED\x07 \x9b \x7f Größe"
    file.write_bytes(b"no trace")
    done = subprocess.run([reader, tmp_path, file], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert f"{tmp_path}/\\x1b]0;OWNED\\x07 \\x9b \\x7f Größe: " in done.stderr


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "it holds no event"),
        (b"CPU:0 [LOST 5 EVENTS]\n", "it holds no event"),
        (b"\x08tae" + bytes(60), "another version"),
        (b"  8,0    1        1     0.000000000   100  Q   R 8 + 8 [fio]\n", "does not begin as"),
        (b"\x07t", "does not begin as"),
    ],
)
def test_file_that_is_no_trace_is_refused(reader: Path, tmp_path: Path, data: bytes, says: str) -> None:
    done = survives(reader, tmp_path, data)
    assert done.returncode == 2 and says in done.stderr


def events_of(count: int, **fields: object) -> npt.NDArray[np.void]:
    """Very many events at once."""
    events = np.zeros(count, dtype=EVENT)
    events["magic"] = 0x65617407
    events["time"] = 10**12 + np.arange(count, dtype=np.int64)
    events["device"] = dev(8, 0)
    events["bytes"] = 4096
    for name, value in fields.items():
        events[name] = value
    return events


def run_plain(folder: Path, events: npt.NDArray[np.void]) -> int:
    """Run the reader as it is built for users. Returns its largest memory in bytes."""
    path = folder / "trace"
    events.tofile(path)
    code = (
        "import resource, subprocess, sys;"
        "done = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, timeout=600);"
        "print(done.returncode, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    words: list[str | Path] = [sys.executable, "-c", code, PLAIN, folder, path]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    path.unlink()
    status, peak_kib = map(int, done.stdout.split())
    assert status == 0
    return peak_kib * 1024


QUEUE_READ = ACTIONS["Q"] | 1 << 16


def of_one_hash() -> npt.NDArray[np.uint64]:
    """Some thousand sectors that pieces.c puts into one chain: bits 32-51 of their products are 0."""
    products = np.random.default_rng(1).integers(0, 1 << 64, 12_000_000, dtype=np.uint64)
    products &= ~np.uint64(((1 << 20) - 1) << 32)
    sectors = products * np.uint64(pow(0x9E3779B97F4A7C15, -1, 1 << 64))
    chosen: npt.NDArray[np.uint64] = sectors[sectors < 1 << 52]
    assert chosen.size > 1000
    return chosen


@pytest.mark.parametrize(
    "what",
    [
        "elsewhere",
        "of one hash",
        *(
            pytest.param(what, marks=pytest.mark.long)
            for what in ("of a volume", "at one place", "many pids", "backwards")
        ),
    ],
)
def test_memory_of_open_bios_is_bounded(tmp_path: Path, what: str) -> None:
    """Two million bios that are never issued, in the ways that could fill a table or make a chain long."""
    count = 2_000_000
    events = events_of(count, action=QUEUE_READ)
    if what == "elsewhere":
        events["sector"] = np.arange(count) * 8
    elif what == "of one hash":
        events["sector"] = np.resize(of_one_hash(), count)
        events["device"] = 0
    elif what == "of a volume":  # of all sizes at one place and one after another, and a disk's beside them
        events["sector"] = np.where(np.arange(count) % 2, np.arange(count) * 8, 800)
        events["bytes"] = 512 << np.arange(count) % 22
        events[-4:] = events_of(4, action=[QUEUE_READ, QUEUE_READ, ACTIONS["D"], ACTIONS["C"]], device=0)
        events["time"] = 10**12 + np.arange(count)
    elif what == "many pids":
        events["action"] = 1 << 26  # process notes
        events["pid"] = np.arange(count)
        events[-1:] = events_of(1, action=QUEUE_READ)
    elif what == "backwards":
        events["time"] = 10**12 + np.arange(count)[::-1]
    assert run_plain(tmp_path, events) < PIECES_BYTES


def test_memory_does_not_grow_with_the_trace(tmp_path: Path) -> None:
    """The same kind of trace ten times as long takes no more."""
    peaks = []
    for count in (200_000, 2_000_000):
        events = events_of(count)
        events["sector"] = np.arange(count) // 4 * 8
        steps = [QUEUE_READ, ACTIONS["G"] | 1 << 16, ACTIONS["D"] | 1 << 16, ACTIONS["C"] | 1 << 16]
        events["action"] = np.resize(np.array(steps, dtype=np.uint32), count)
        peaks.append(run_plain(tmp_path, events))
    assert peaks[1] < peaks[0] * 1.1 + (1 << 20)
    assert peaks[1] < resource.getpagesize() * 16384
