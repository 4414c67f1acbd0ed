# SPDX-License-Identifier: BSD-2-Clause
"""Too few CPUs are found by who had them: the workload's own, the file system's and kernel threads."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.causes.roles import DISK, FILESYSTEM, OTHER, WORKLOAD
from analysis.findings import cpu_contended
from analysis.measures.cpu.ran_on import LEAST_SWITCHES
from analysis.measures.critical_path.sums import NOT_LOGGED
from tests.analysis.cpu_cases import FIRST, case_of, on_cpu, path_of, ready, share, spec_of, times

SHARES = [
    share(6.0),
    ready(2.0, WORKLOAD, "app"),
    ready(1.0, FILESYSTEM, "jbd2/loop3-8"),
    ready(0.5, OTHER, "ksoftirqd/0"),
    ready(0.5, DISK, "loop3"),
]


def test_own_threads_and_the_file_systems(tmp_path: Path) -> None:
    spec = spec_of(on_cpu(1, 6000), times(1, "runnable", 2.0, by="workload"))
    (finding,) = cpu_contended.find(case_of(tmp_path / "r", spec, path_of(SHARES)))
    assert finding.cost.value_s == pytest.approx(3.5)
    assert "2 CPUs" in finding.what
    who = (
        "threads of the workload itself 2.00 s, the file system's threads 1.00 s, other kernel threads 0.50 s"
    )
    assert who in finding.because[0]
    assert finding.remedy is None and finding.test.startswith("on a machine of more than 2 CPUs")


def test_limit_on_cpus_has_a_remedy(tmp_path: Path) -> None:
    spec = spec_of(on_cpu(1, 6000), times(1, "runnable", 2.0, by="workload"))
    spec.run["words"]["CPUS"] = "1"
    (finding,) = cpu_contended.find(case_of(tmp_path / "r", spec, path_of(SHARES)))
    assert finding.remedy is not None and finding.remedy.words == {"CPUS": ""}
    assert "the CPUs 1 of 2" in finding.what


@pytest.mark.parametrize(("host", "text"), [(8, "all 8 CPUs"), (2, "")])
def test_virtual_machine_can_have_the_host_s_cpus(tmp_path: Path, host: int, text: str) -> None:
    spec = spec_of(on_cpu(1, 6000), times(1, "runnable", 2.0, by="workload"))
    spec.run["words"]["CPUS"] = "2"
    spec.run["machine"] |= {"cpus": 2, "vm": {"host_cpus": host}}
    (finding,) = cpu_contended.find(case_of(tmp_path / "r", spec, path_of(SHARES)))
    assert (finding.remedy.text if finding.remedy else "") == text
    assert "while what belongs to it had 2 CPUs" in finding.what


def test_other_programs_are_not_its_own(tmp_path: Path) -> None:
    shares = [share(6.0), ready(3.95, OTHER, NOT_LOGGED), ready(0.05, WORKLOAD, "app")]
    spec = spec_of(on_cpu(1, 6000), times(1, "runnable", 3.95, by="other"))
    assert not cpu_contended.find(case_of(tmp_path / "r", spec, path_of(shares)))


@pytest.mark.parametrize("switches", [10, 60])
def test_threads_that_only_ever_ran_on_one_cpu_are_bound_to_it(tmp_path: Path, switches: int) -> None:
    spec = spec_of(on_cpu(1, 6000), times(1, "runnable", 2.0, by="workload"))
    row = {"prev": 0, "prev_role": "idle", "next": 1, "next_role": WORKLOAD, "cpu": 1}
    spec.switch = [row | {"t_ns": FIRST + i, "state": "sleeping"} for i in range(switches)]
    (finding,) = cpu_contended.find(case_of(tmp_path / "r", spec, path_of(SHARES)))
    is_told = switches > LEAST_SWITCHES
    assert ("had CPU 1 of 2." in finding.what) == is_told
    assert ("taskset" in finding.test) == is_told
    assert ("it is bound to these" in finding.because[0]) == is_told
