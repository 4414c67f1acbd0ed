# SPDX-License-Identifier: BSD-2-Clause
"""run.json of a recording that was made without a session, from its alone.json and losses.json."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from analysis.errors import MachineError, OptionError, TableError
from analysis.importers.recorder_alone.changes import changes_of
from analysis.rundir.files import parse_json
from analysis.rundir.run import as_float, as_int, clean, dig

SCHEMA = 1  # ALONE_SCHEMA of collectors/alone/version.h
_MOST_ENTRIES, _MOST_LETTERS, _DEEPEST = 4096, 2000, 6
_MOST_NS = 1 << 62
_MOST_TEXTS = 64
_KILLED = "the recorder was killed before its end; what it recorded up to then is here"


def read_object(trace: Path, name: str, data: bytes) -> dict[str, Any]:
    """A JSON object with plain values: cleaned texts, numbers, lists and objects of these."""
    try:
        value = parse_json(data.decode("utf-8", "backslashreplace").encode("utf-8", "replace"), name)
    except TableError as error:
        raise OptionError(f"TRACE={clean(trace)}: {error}; record again") from None
    if not isinstance(value, dict):
        raise OptionError(f"TRACE={clean(trace)}: {name} holds no object; record again")
    return dict(_plain(value, _DEEPEST))


def _plain(value: Any, deepest: int) -> Any:
    if isinstance(value, str):
        return clean(value, _MOST_LETTERS)
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return value if as_int(value) is not None else None
    if isinstance(value, float):
        return as_float(value)
    if deepest == 0:
        return None
    if isinstance(value, dict):
        entries = list(value.items())[:_MOST_ENTRIES]
        return {clean(key, 80): _plain(each, deepest - 1) for key, each in entries}
    return [_plain(each, deepest - 1) for each in value[:_MOST_ENTRIES]]


def check_schema(trace: Path, alone: Mapping[str, Any]) -> None:
    """Raise MachineError if a newer recorder wrote the recording, OptionError if it states no schema."""
    schema = as_int(alone.get("schema"))
    if schema is None or schema < 1:
        raise OptionError(f"TRACE={clean(trace)}: alone.json states no schema; record again")
    if schema > SCHEMA:
        raise MachineError(
            f"TRACE={clean(trace)} was recorded by recorder {clean(alone.get('recorder'), 40)} with schema"
            f" {schema}, and this program reads schema {SCHEMA}; update Seekmeter here, or record with its"
            " recorder"
        )


def _clock(trace: Path, alone: Mapping[str, Any], losses: Mapping[str, Any]) -> dict[str, Any]:
    """The clock as `watch` writes it; the recorded time is the run's only phase."""
    start, end = as_int(dig(alone, "clock", "record_start_ns")), as_int(dig(alone, "clock", "record_end_ns"))
    end = end or as_int(dig(losses, "recorder", "until_ns")) or 0
    if start is None or not 0 < start < _MOST_NS:
        raise OptionError(f"TRACE={clean(trace)}: alone.json states no start of the recording; record again")
    end = max(end, start + 1) if end < _MOST_NS else start + 1
    return {
        "name": "CLOCK_MONOTONIC",
        "realtime_offset_ns": as_int(dig(alone, "clock", "realtime_offset_ns")),
        "record_start_ns": start,
        "record_end_ns": end,
        "workload_start_ns": start,
        "workload_end_ns": end,
    }


def _started(clock: Mapping[str, Any]) -> dict[str, Any]:
    seconds = (clock["record_start_ns"] + (clock["realtime_offset_ns"] or 0)) / 1e9
    if not 0 < seconds < 1 << 32:
        return {}
    return {"start_realtime": datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")}


def _texts(value: Any, letters: int) -> list[str]:
    texts = value[:_MOST_TEXTS] if isinstance(value, list) else []
    return [clean(text, letters) for text in texts if isinstance(text, str)]


def _objects(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _geometry(alone: Mapping[str, Any], warnings: list[str]) -> dict[str, Any]:
    """What is known of the layout: where journals lie. The recorder alone reads no more."""
    journals = _objects(alone.get("journals"))
    for journal in journals:
        if not isinstance(journal.get("extents"), list):
            device = clean(journal.get("device"), 40)
            warnings.append(
                f"journal writes are counted as metadata: the journal's location on {device} is unknown"
            )
    known = [journal for journal in journals if isinstance(journal.get("extents"), list)]
    extents = sorted(
        [start, end]
        for journal in known
        for pair in journal["extents"]
        if isinstance(pair, list) and len(pair) == 2
        for start, end in [map(as_int, pair)]
        if start is not None and end is not None and 0 <= start < end
    )
    if all(journal.get("dev") == dig(alone, "device", "dev") for journal in known):
        return {"journal": extents}
    areas = [
        {"name": "journal", "kind": "journal", "dev": journal.get("dev"), "extents": journal["extents"]}
        for journal in known
    ]
    return {"journal": extents, "areas": areas, "spans": _spans(alone)}


def _spans(alone: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Of a root with a file system its whole, whose places besides the journal are not known."""
    stack = _mapping(alone.get("stack"))
    roots = {str(root.get("dev")) for root in _objects(stack.get("roots"))}
    return [
        {
            "dev": node.get("dev"),
            "start_sector": 0,
            "end_sector": (as_int(node.get("size_bytes")) or 0) // 512,
            "rest": "elsewhere",
            "rest_kind": "mixed",
        }
        for node in _objects(stack.get("nodes"))
        if str(node.get("dev")) in roots
    ]


def _stack(alone: Mapping[str, Any]) -> dict[str, Any]:
    stated = _mapping(alone.get("stack"))
    before, after = _mapping(stated.get("states_at_start")), _mapping(stated.get("states_at_end"))
    states: dict[str, dict[str, Any]] = {}
    for at, devices in (("at_start", before), ("at_end", after)):
        for name, device in devices.items():
            if state := _mapping(dig(_mapping(device), "state")):
                states.setdefault(name, {})[at] = state
    stack = {key: _objects(stated.get(key)) for key in ("roots", "nodes", "parts")}
    counters = {key: _mapping(stated.get(key)) for key in ("at_start", "at_end")}
    _drop_uncounted(stack["nodes"], counters)
    return {**stack, **counters, "states": states, "changes": changes_of(before, after) if after else []}


def _drop_uncounted(nodes: list[dict[str, Any]], counters: Mapping[str, dict[str, Any]]) -> None:
    """Drop the counters of volumes that the kernel did not count: they stay 0 (NVMe heads in 6.1)."""
    start, end = counters["at_start"], counters["at_end"]
    moved = any(
        start.get(str(node.get("name"))) != end.get(str(node.get("name")))
        for node in nodes
        if node.get("recorded") == "requests"
    )
    for node in nodes:
        name = str(node.get("name"))
        now = end.get(name)
        is_zero = isinstance(now, dict) and not any(now.values())
        if moved and is_zero and node.get("recorded") == "bios" and node.get("kind") == "nvme-head":
            start.pop(name, None)
            end.pop(name, None)
            node["uncounted"] = True


def facts_of(trace: Path, alone: Mapping[str, Any], losses: Mapping[str, Any]) -> dict[str, Any]:
    """run.json's facts, as those of a `watch` of the same device. Raises OptionError."""
    clock = _clock(trace, alone, losses)
    dev, secs = clean(alone.get("dev") or "", 80), as_float(alone.get("secs")) or 0
    warnings = _texts(alone.get("warnings"), 300)
    mounts = _objects(alone.get("mounts"))
    words = {"DEV": dev, **({"SECS": f"{secs:g}"} if secs else {})}
    ended = clean(alone.get("ended") or "", 20)
    return {
        "command": " ".join(["make watch", *(f"{key}={shlex.quote(text)}" for key, text in words.items())]),
        "words": words,
        "collect": _texts(alone.get("collect"), 40),
        **_started(clock),
        "clock": clock,
        "kernel": _mapping(alone.get("kernel")),
        "machine": _mapping(alone.get("machine")),
        "tools": {"seekmeter": clean(alone.get("recorder"), 40)},
        "device": {**_mapping(alone.get("device")), "kind": "watch"},
        "workload": {"name": "watch", "argv": [], "source": "the live system"},
        "stack": _stack(alone),
        "filesystem": {
            "numbers": [mount.get("dev") for mount in mounts],
            "mounts": mounts,
            "synced_before": False,
            "geometry": _geometry(alone, warnings),
        },
        "own_files": _mapping(alone.get("own_files")),
        "alone": {
            "schema": SCHEMA,
            "recorder": clean(alone.get("recorder"), 40),
            "ended": ended,
            "max_bytes": as_int(alone.get("max_bytes")) or 0,
        },
        "exit_status": 0 if alone.get("state") == "complete" else None,
        "warnings": warnings,
    }


def losses_of(alone: Mapping[str, Any], losses: Mapping[str, Any]) -> dict[str, Any]:
    """losses.json as a session writes it: of a recorder that was killed, its collectors ended early."""
    is_complete = losses.get("complete") is True and alone.get("state") == "complete"
    collectors = _mapping(losses.get("collectors"))
    return {
        **losses,
        "complete": is_complete,
        "collectors": {
            name: {**entry, "ended_early": not is_complete}
            for name, entry in collectors.items()
            if isinstance(entry, dict)
        },
    }


def why_interrupted(alone: Mapping[str, Any], losses: Mapping[str, Any]) -> str:
    """Why the recording has no end of its own; empty: it has."""
    return "" if alone.get("state") == "complete" and losses.get("complete") is True else _KILLED
