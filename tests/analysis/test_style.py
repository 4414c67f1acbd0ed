# SPDX-License-Identifier: BSD-2-Clause
"""Colours of the classes: apart for colour-blind readers, and in greyscale by lightness or hatch."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import numpy.typing as npt
import pytest
from matplotlib.colors import to_rgb

from analysis.figures import style
from analysis.tables.block import CLASSES

F64 = npt.NDArray[np.float64]
# Machado, Oliveira and Fernandes 2009, severity 1.0: linear RGB as each kind of reader sees it
READERS = {
    "normal": np.eye(3),
    "protan": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "deutan": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
    "tritan": np.array(
        [
            [1.255528, -0.076749, -0.178779],
            [-0.078411, 0.930809, 0.147602],
            [0.004733, 0.691367, 0.303900],
        ]
    ),
}
XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
WHITE = np.array([0.9505, 1.0, 1.089])


def lab(color: str, reader: str) -> F64:
    """CIE L*a*b* (D65) of a colour."""
    rgb = np.array(to_rgb(color))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    xyz = XYZ @ np.clip(READERS[reader] @ linear, 0, 1) / WHITE
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("reader", READERS)
def test_classes_are_apart_for_every_reader(reader: str) -> None:
    for one, other in combinations(style.CLASS.values(), 2):
        assert np.linalg.norm(lab(one, reader) - lab(other, reader)) >= 15, (one, other)


def test_classes_are_apart_in_greyscale() -> None:
    grey = {class_: lab(color, "normal")[0] for class_, color in style.CLASS.items()}
    for one, other in combinations(grey, 2):
        apart = abs(grey[one] - grey[other])
        assert apart >= 5, (one, other, apart)
        if style.HATCH.get(one) == style.HATCH.get(other):  # neither has a mark of its own
            assert apart >= 6, (one, other, apart)


def test_ramps_darken_with_more_bytes() -> None:
    assert style.CLASS.keys() == style.CLASS_RAMP.keys()
    for ramp in style.CLASS_RAMP.values():
        few, some, many = (lab(color, "normal")[0] for color in ramp)
        assert few > some > many


def test_every_class_has_a_colour() -> None:
    assert set(CLASSES) <= style.CLASS.keys()
    assert len(set(style.HATCH.values())) == len(style.HATCH) and style.HATCH.keys() == style.HATCH_INK.keys()


def test_lines_of_disks_are_apart_in_greyscale_or_by_dash() -> None:
    for (one, dash), (other, other_dash) in combinations(style.DISKS, 2):
        assert dash != other_dash or abs(lab(one, "normal")[0] - lab(other, "normal")[0]) >= 20


def test_areas_of_stacks_are_apart_for_every_reader_or_hatched() -> None:
    stacks = (
        (style.THREADS, style.THREADS_HATCH),
        (style.PATH, style.PATH_HATCH),
        (style.DISK_STATE, style.DISK_STATE_HATCH),
    )
    for colors, hatches in stacks:
        for one, other in combinations(colors, 2):
            if hatches.get(one) != hatches.get(other):
                continue
            for reader in READERS:
                apart = np.linalg.norm(lab(colors[one], reader) - lab(colors[other], reader))
                assert apart >= 8, (one, other, reader, apart)


def test_path_and_threads_share_no_colour_of_different_meaning() -> None:
    same = {("own CPU", "user"), ("fs CPU", "kernel"), ("ready", "ready"), ("unknown", "other")}
    for end, color in style.PATH.items():
        for key, other in style.THREADS.items():
            assert color != other or (end, key) in same, (end, key)


def test_states_of_a_disk_are_apart_in_greyscale() -> None:
    grey = [lab(color, "normal")[0] for color in style.DISK_STATE.values()]
    assert grey == sorted(grey)  # from seeking, the darkest, to idle
    assert all(next_ - one >= 7 for one, next_ in pairwise(grey))
