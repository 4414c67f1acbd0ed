# SPDX-License-Identifier: BSD-2-Clause
"""What the application did on a watched device: calls on its file systems; or not known, which is not 0."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from analysis.measures.results import Results, measure
from analysis.render.document import Document
from analysis.report import make_answer_alone
from analysis.rundir.run import open_run
from analysis.sections.document import make_document
from analysis.tables.load import load_tables
from tests.analysis.synthetic import START_NS, Spec, request, run_json

MOUNTS = [{"name": "ext4", "mount_point": "/", "dev": "254:1", "device": "vda1"}]


def watched(path: Path, targets: list[str], **filesystem: Any) -> tuple[Results, Document]:
    """A watched device, with a write of 1000 bytes on each of these targets."""
    spec = Spec(run=run_json(10))
    spec.run |= {
        "device": {"name": "vda", "dev": "254:0", "kind": "watch"},
        "filesystem": {"geometry": {}, **filesystem},
        "workload": {"name": "watch", "argv": []},
    }
    spec.block = [request(START_NS + 1_000_000_000, 8)]
    spec.call = [{"bin_ns": START_NS + 1_000_000_000, "bytes": 1000, "target": target} for target in targets]
    run = open_run(spec.write(path))
    tables = load_tables(run)
    m = measure(run, tables)
    return m, make_document(run, tables, m)


def application(of: Document) -> dict[str, str]:
    found = next(one for one in of.sections if one.title == "Throughput")
    return {name: words for name, words in found.facts if name.startswith("application")}


def test_calls_on_a_watched_device_are_the_applications(tmp_path: Path) -> None:
    m, found = watched(
        tmp_path / "r", ["target", "target", "elsewhere", "unknown"], numbers=["254:1"], mounts=MOUNTS
    )
    assert m.app.bytes == {"read": 0, "write": 2000}
    assert application(found)["application write"].startswith("2.00 kB")
    assert ("mounted", "ext4 on /, from vda1") in found.sections[0].facts
    # none is none where it was looked for
    m, _ = watched(tmp_path / "idle", ["elsewhere"], numbers=["254:1"], mounts=MOUNTS)
    assert m.app.bytes == {"read": 0, "write": 0}


@pytest.mark.parametrize(
    ("target", "got"), [("target", "1.00 kB written"), ("elsewhere", "no calls on the file system")]
)
def test_first_screen_has_calls_on_the_device_only(tmp_path: Path, target: str, got: str) -> None:
    watched(tmp_path / "r", [target], numbers=["254:1"], mounts=MOUNTS)
    lines = make_answer_alone(tmp_path / "r").splitlines()
    (line,) = [line for line in lines if line.startswith("got ")]
    assert got in line


@pytest.mark.parametrize(
    ("targets", "filesystem", "why"),
    [
        (["unknown"], {"numbers": [], "mounts": []}, "no file system was mounted from vda"),
        (["unknown"], {}, "which file systems are on the device was not looked for (an older run)"),
        ([], {"numbers": "x", "mounts": 5}, "which file systems are on the device was not looked for"),
    ],
)
def test_unknown_application_bytes_are_not_zero(
    tmp_path: Path, targets: list[str], filesystem: dict[str, Any], why: str
) -> None:
    m, found = watched(tmp_path / "r", targets, **filesystem)
    assert m.app.bytes is None and m.app.mb_s is None
    assert application(found)["application"].startswith(f"not available: {why}")
    assert m.phases is None or all(row.app_bytes is None for row in m.phases)
    assert m.correlations.absent.startswith(f"no application throughput: {why}")
