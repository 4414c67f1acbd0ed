# SPDX-License-Identifier: BSD-2-Clause
"""A real A/A sweep: twenty runs of one configuration, split into two sides that are alike."""

import subprocess
from pathlib import Path

import numpy as np
import pytest

from analysis.measures.statistics.differences import compare
from analysis.measures.statistics.holm import holm
from analysis.measures.sweep.figures import load_figures
from analysis.rundir.sweep_dir import open_sweep
from tests.marks import needs_root

TREE = Path(__file__).parents[2]
WORDS = ("FS=ext4", "WL=createdelete", "SCALE=quick", "ARGS=-n 2000 -o 2000", "COLLECT=none", "REPS=20")
SPLITS = 200


@pytest.mark.long
@needs_root
def test_sides_of_one_workload_rarely_differ(tmp_path: Path) -> None:
    """Ten pairs, the runs in turn; then random halves: at most 5 % of figures, and of tables by Welch's p."""
    command = ["make", "--no-print-directory", "sweep", *WORDS, f"OUT={tmp_path / 'sweep'}"]
    subprocess.run(command, cwd=TREE, check=True, capture_output=True, timeout=900)
    figures = load_figures(open_sweep(tmp_path / "sweep"))
    table = figures[~figures.anchor].pivot(index="block", columns="measure", values="value").sort_index()
    table = table.loc[:, table.notna().all() & (table.std() > 0)]
    values = table.to_numpy()
    assert values.shape[0] == 20 and values.shape[1] > 15

    def differences(first: list[int], other: list[int]) -> tuple[float, bool]:
        """Share of figures that differ by the rule; whether any does by Welch's p, corrected by Holm."""
        found = [compare(column[first], column[other]) for column in values.T]
        ps = [p for p in holm([one.welch_p if one else None for one in found]) if p is not None]
        return float(np.mean([one is not None and one.rule is True for one in found])), min(ps) < 0.05

    share, any_p = differences(list(range(0, 20, 2)), list(range(1, 20, 2)))
    print(f"in turn: {100 * share:.1f} % of {values.shape[1]} figures differ; by Welch and Holm: {any_p}")
    assert share <= 0.05
    rng = np.random.default_rng(1)
    for n in (3, 5, 10):
        halves = [rng.permutation(20) for _ in range(SPLITS)]
        found = [differences(list(half[:n]), list(half[n : 2 * n])) for half in halves]
        shares = [float(np.mean([share for share, _ in found])), float(np.mean([p for _, p in found]))]
        print(
            f"{n} runs a side: {100 * shares[0]:.2f} % of figures differ;"
            f" by Welch and Holm {100 * shares[1]:.1f} % of tables"
        )
        assert shares[0] <= 0.05 and shares[1] <= 0.05
