# SPDX-License-Identifier: BSD-2-Clause
"""Every rule of the folder stands any run: without tables, with random ones, with none of what it expects."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.findings.rule import find_rules
from tests.analysis.cpu_cases import case_of
from tests.analysis.synthetic import Spec, decaying_ext3, run_json
from tests.analysis.thread_tables import random_spec

RULES = {rule.key: rule for rule in find_rules()}
NOTHING = Spec(run=run_json(0.1) | {"words": [], "workload": None, "machine": {"cpus": "many"}, "timing": 7})
SPECS = {
    "nothing": NOTHING,
    "requests": decaying_ext3(3, 200),
    "threads": random_spec(1),
    "others": random_spec(2),
}


@pytest.mark.parametrize("name", SPECS)
def test_rules_stand_any_run(tmp_path: Path, name: str) -> None:
    case = case_of(tmp_path / "r", SPECS[name])
    for key, rule in RULES.items():
        for finding in rule.find(case):
            assert finding.kind == key
            cost = finding.cost
            assert 0 <= cost.low_s <= cost.value_s <= cost.high_s <= case.ledger.wall_s + 1e-9
