# SPDX-License-Identifier: BSD-2-Clause
"""Make the recording of one window from the ring: its segments in order, and the tables that are whole.

A .rec file of the window is the header of its first segment's file and the rest of every one: records of a
file follow its header, in blocks (SKMREC02) or bare (SKMREC01), so they are valid after one header together.
Tables of lines (.jsonl), and the table second, are of the whole watch.
"""

import json
import os
import shutil
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from collectors.flight.lines import is_segment

_HEADER_BYTES = 16
_HEADER_MOST_BYTES = 1 << 20
_COPY_BYTES = 1 << 20
_JSON_BYTES_MOST = 4 << 20
_PACKED = b"SKMREC02"
SECOND = "second.rec"
WHOLE = "whole"


@dataclass(frozen=True)
class Segment:
    """One closed or open segment of the ring."""

    path: Path
    start_ns: int | None  # None: it is open, or its recorder was killed
    end_ns: int | None
    losses_start: Mapping[str, Any]
    losses: Mapping[str, Any]


def segments_of(ring: Path) -> list[str]:
    """Return the names of all segments that are in the ring, in order."""
    return sorted(name for name in os.listdir(ring) if is_segment(name))


def read_segment(ring: Path, name: str) -> Segment:
    """Read what a segment states of itself."""
    path = ring / name
    try:
        with (path / "segment.json").open("rb") as file:
            stated = json.loads(file.read(_JSON_BYTES_MOST))
        start_ns, end_ns = int(stated["start_ns"]), int(stated["end_ns"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return Segment(path, None, None, {}, {})
    return Segment(path, start_ns, end_ns, _object(stated, "losses_start"), _object(stated, "losses"))


def _object(stated: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = stated.get(key)
    return value if isinstance(value, dict) else {}


def size_bytes(ring: Path, names: Sequence[str], number: int) -> int:
    """Return how large the recording of a window will be."""
    folders = [ring / WHOLE, ring / f"kept-{number}", *(ring / name for name in names)]
    files = [file for folder in folders if folder.is_dir() for file in folder.iterdir()]
    return sum(file.stat().st_size for file in [*files, ring / SECOND] if file.exists())


def assemble(ring: Path, names: Sequence[str], number: int, out: Path) -> None:
    """Write the recording of a window into a directory. Raises OSError.

    number: of the trigger; kept-NUMBER has rows of what was still going on at the window's end.
    """
    ends = ring / f"kept-{number}"
    parts = [ring / name for name in names] + ([ends] if ends.is_dir() else [])
    tables = {file.name for part in parts for file in part.glob("*.rec")}
    for table in sorted(tables):
        _join_records([part / table for part in parts], out / table)
    whole = ring / WHOLE
    for file in sorted(whole.iterdir()) if whole.is_dir() else []:
        if file.suffix == ".rec" and file.name in tables:
            continue
        _join_lines([file, ends / file.name], out / file.name)
    if (ring / SECOND).exists():
        _copy_whole_blocks(ring / SECOND, out / SECOND)


def _join_records(files: Sequence[Path], out: Path) -> None:
    """Write the header of the first file that has one, and the records of all that have the same."""
    header = b""
    with out.open("xb") as written:
        for file in files:
            try:
                source = file.open("rb")
            except FileNotFoundError:
                continue
            with source:
                own = _header(source.read(_HEADER_BYTES + _HEADER_MOST_BYTES))
                if not own:
                    continue  # killed as it was begun
                if not header:
                    header = own
                    written.write(header)
                if own != header:
                    raise OSError(0, f"has another header than {out.name} before", str(file))
                source.seek(len(own))
                shutil.copyfileobj(source, written, _COPY_BYTES)


def _header(start: bytes) -> bytes:
    """Return the header at the start of a .rec file, with its zeros up to the first record; b"": none."""
    if len(start) < _HEADER_BYTES or start[:6] != b"SKMREC":
        return b""
    json_bytes: int = struct.unpack("<I", start[8:12])[0]
    size = (_HEADER_BYTES + json_bytes + 7) // 8 * 8
    return start[:size] if json_bytes <= _HEADER_MOST_BYTES and len(start) >= size else b""


def _join_lines(files: Sequence[Path], out: Path) -> None:
    """Write the whole lines of files that may be growing."""
    with out.open("xb") as written:
        for file in files:
            if file.is_file():
                with file.open("rb") as source:
                    shutil.copyfileobj(source, written, _COPY_BYTES)
                _cut_last_line(written)


def _cut_last_line(file: IO[bytes]) -> None:
    """Cut off what follows the last line's end, of a line that is being written."""
    end = file.tell()
    with open(f"/proc/self/fd/{file.fileno()}", "rb") as again:
        file.flush()
        start = max(0, end - _COPY_BYTES)
        tail = os.pread(again.fileno(), end - start, start)
    keep = start + tail.rfind(b"\n") + 1
    file.truncate(keep)
    file.seek(keep)


def _copy_whole_blocks(file: Path, out: Path) -> None:
    """Copy a small table that is growing, up to the end of its last whole block."""
    data = file.read_bytes()
    at = len(_header(data[: _HEADER_BYTES + _HEADER_MOST_BYTES]))
    if data[:8] == _PACKED:
        while at + 8 <= len(data):
            size: int = struct.unpack("<I", data[at : at + 4])[0]
            if at + 8 + size > len(data):
                break
            at += 8 + size
    else:
        at = len(data)
    with out.open("xb") as written:
        written.write(data[:at])


def window_losses(whole: Mapping[str, Any], segments: Sequence[Segment]) -> dict[str, Any]:
    """Return losses.json of a window: counts of the whole watch, each less what was before and after it.

    Counts of an open segment are not known: the whole watch's at its end stand for them.
    """
    closed = [segment for segment in segments if segment.end_ns is not None]
    losses: dict[str, Any] = json.loads(json.dumps(whole))
    collectors = losses.get("collectors")
    if not closed or not isinstance(collectors, dict):
        return losses
    is_open = segments[-1].end_ns is None
    for name, entry in collectors.items():
        before = closed[0].losses_start.get(name, {})
        after = entry if is_open else closed[-1].losses.get(name, entry)
        for key in ("seen", "recorded"):
            if key in entry:
                entry[key] = max(int(after.get(key, 0)) - int(before.get(key, 0)), 0)
        was, now = before.get("lost", {}), after.get("lost", {})
        if "lost" in entry:
            entry["lost"] = {
                reason: max(int(now.get(reason, 0)) - int(was.get(reason, 0)), 0)
                for reason in dict.fromkeys([*entry["lost"], *now])
            }
        entry.pop("cpu_ns", None)  # of the whole watch
    recorder = losses.get("recorder")
    if isinstance(recorder, dict):
        for key in ("cpu_ns", "start_cpu_ns"):
            recorder.pop(key, None)
        if not is_open:
            recorder["until_ns"] = closed[-1].end_ns
    if not is_open:  # the recorder, which goes on, says of itself that it has not ended in order
        losses["complete"] = True
    return losses
