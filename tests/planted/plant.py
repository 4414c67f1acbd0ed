# SPDX-License-Identifier: BSD-2-Clause
"""The type of a plant: one cause of slowness that can be there or not; and all of plants/."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass

from tests.planted import plants as folder
from tests.planted.site import Site

Words = Mapping[str, str]  # variables of make trace, without OUT


@dataclass(frozen=True)
class Plant:
    """One cause. run(site, is_planted) sets up a disk, a file system and the cause, and yields the words.

    Both kinds of run do the same work, so the difference of their wall times is what the cause costs.
    """

    name: str
    cause: str  # what is planted
    kinds: frozenset[str]  # keys of the rules that name this cause
    filesystems: tuple[str, ...]  # where it applies
    run: Callable[[Site, bool], AbstractContextManager[Words]]
    is_graded: bool = (
        False  # the run without has the same cause in smaller measure, so a finding there is right
    )


def find_plants() -> dict[str, Plant]:
    """The plants of all modules of the folder plants/, by name."""
    modules = (
        importlib.import_module(f"{folder.__name__}.{m.name}") for m in pkgutil.iter_modules(folder.__path__)
    )
    found: dict[str, Plant] = {module.PLANT.name: module.PLANT for module in modules}
    return dict(sorted(found.items()))
