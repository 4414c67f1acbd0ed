# SPDX-License-Identifier: BSD-2-Clause
"""Banners of a comparison: what is stated before any number, a letter for each run."""

from __future__ import annotations

from analysis.measures.compare.verdicts_of_runs import other_machines
from analysis.sections import banners
from analysis.sections.compare.spec import Runs
from analysis.sections.compare.table import LITTLE
from analysis.sections.owner_labels import owner_banners


def make_banners(runs: Runs) -> list[str]:
    """The banners of all runs, each with its run's letter."""
    sentences = []
    emulated = [one.letter for one in runs if one.emulated]
    if emulated:
        sentences.append(
            f"{', '.join(emulated)} ran on emulated CPUs (QEMU TCG): their times and rates, and ratios of"
            f" them, mean little (columns marked {LITTLE}); counts, bytes, seeks and shares of these may be"
            " compared"
        )
    strange = other_machines(runs)
    if strange:
        sentences.append(
            f"{', '.join(strange)} ran on another machine than {runs[0].letter}: any difference may be the"
            " machine's"
        )
    for one in runs:
        own = [*owner_banners(one.results), *banners.make_banners(one.run, one.truncated_bytes)]
        # the sentence above covers emulation for all runs
        sentences += [
            f"{one.letter}: {sentence}" for sentence in own if not sentence.startswith(banners.EMULATED)
        ]
    return sentences
