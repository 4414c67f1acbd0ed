# SPDX-License-Identifier: BSD-2-Clause
"""The recorder's own losses.json (raw/recorder/), rewritten every second, so a killed session has it too."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from collectors.host.json_file import read_json

_MOST_BYTES = 4 << 20


def read(raw: Path, states: Mapping[str, Mapping[str, str]], whole: bool) -> dict[str, Any]:
    """Return the recorder's losses, {"collectors": {NAME: entry, ...}, "complete": bool, ...}.

    states: of the collectors, written without counts if there is no such file. whole: the recorder ended
    well; if not, every collector is marked as ended early.
    """
    try:
        losses = read_checked(raw)
    except (OSError, ValueError, RecursionError):
        losses = {"collectors": {name: dict(state) for name, state in states.items()}}
        whole = False
    losses["complete"] = bool(losses.get("complete")) and whole
    for entry in losses["collectors"].values():
        entry["ended_early"] = not losses["complete"]
    return losses


def read_checked(raw: Path) -> dict[str, Any]:
    """Read the file, which a hostile guest may have written. Raises OSError, ValueError, RecursionError."""
    recordings = os.open(raw / "recorder", os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        losses = read_json(recordings, "losses.json", _MOST_BYTES)
    finally:
        os.close(recordings)
    collectors = losses.get("collectors", {}) if isinstance(losses, dict) else None
    if not isinstance(collectors, dict) or not all(isinstance(entry, dict) for entry in collectors.values()):
        raise ValueError("losses.json: not an object of collectors")
    return {**losses, "collectors": collectors}
