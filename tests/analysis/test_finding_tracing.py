# SPDX-License-Identifier: BSD-2-Clause
"""The cost of recording is estimated from timed windows, and from CPU time that the recorder had."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from analysis.causes.roles import RECORDER
from analysis.findings import tracing
from analysis.measures.critical_path.sums import NOT_LOGGED
from tests.analysis.cpu_cases import case_of, on_cpu, path_of, ready, share, spec_of, times
from tests.analysis.synthetic import WINDOWS_NS, Spec, bpf_sums, bpf_windows, collector


def _spec(calls_share: float, rest_share: float) -> Spec:
    """BPF programs take these shares of both CPUs, those of the calls in the workload's threads."""
    spec = spec_of(on_cpu(1, 9000), times(1, "runnable", 0.5, by="recorder"), on_cpu(5, 300, 200))

    def sums(share_of_all: float) -> dict[str, Any]:
        times_ns = [
            round(2 * wall * share_of_all * (0.9 + 0.2 * (i % 2))) for i, wall in enumerate(WINDOWS_NS)
        ]
        return {"programs": 2, "recursion_misses": 0, **bpf_sums(WINDOWS_NS, times_ns, 1000)}

    whole = [round(2 * wall * (calls_share + rest_share)) for wall in WINDOWS_NS]
    spec.losses = {
        "collectors": {
            "block": collector(0, bpf=sums(rest_share)),
            "calls": collector(0, bpf=sums(calls_share)),
        },
        "recorder": {
            "cpu_ns": 500_000_000,
            "start_cpu_ns": 0,
            "bpf": bpf_windows(WINDOWS_NS, whole, 3000),
        },
        "complete": True,
    }
    return spec


SHARES = [share(9.5), ready(0.5, RECORDER, NOT_LOGGED)]


def test_calls_programs_and_the_recorder(tmp_path: Path) -> None:
    (finding,) = tracing.find(case_of(tmp_path / "r", _spec(0.05, 0.05), path_of(SHARES)))
    # of 2 CPUs for 10.1 s: 1.01 s in calls; as much elsewhere, at most all of it on the path
    assert finding.cost.low_s == pytest.approx(0.5 + 1.01, rel=0.1)
    assert 1.51 < finding.cost.value_s <= 0.5 + 2.02
    assert finding.cost.high_s == pytest.approx(0.5 + 2.02, rel=0.1)
    assert finding.remedy is not None and finding.remedy.words == {"COLLECT": "none"}
    assert finding.because[1].startswith("The recorder had a CPU for 0.50 s")


def test_cheap_recording_is_none(tmp_path: Path) -> None:
    path = path_of([share(9.96), ready(0.04, RECORDER, NOT_LOGGED)])
    assert not tracing.find(case_of(tmp_path / "r", _spec(0.001, 0.001), path))


def test_without_timed_windows_nothing_is_said(tmp_path: Path) -> None:
    spec = _spec(0.05, 0.05)
    assert spec.losses is not None
    del spec.losses["recorder"]["bpf"]
    assert not tracing.find(case_of(tmp_path / "r", spec, path_of(SHARES)))
