# SPDX-License-Identifier: BSD-2-Clause
"""Columns that no recorder writes: conversion computes them from the other fields of each record."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from analysis.rundir.run import Run
from analysis.tables.rec import Recording
from analysis.tables.row_time import Chunk


@dataclass(frozen=True)
class Derived:
    """A column of kind category. labels: words by code; `codes` may add some while it computes."""

    labels: Mapping[int, str]
    codes: Callable[[Chunk], npt.NDArray[np.unsignedinteger[Any]]]


# The columns by name, for one recording; without a column the recording is too old for it.
Derive = Callable[[Recording, Run], Mapping[str, Derived]]
