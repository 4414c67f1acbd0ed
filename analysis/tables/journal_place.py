# SPDX-License-Identifier: BSD-2-Clause
"""Where the journals of a run are: extents on a device, or whole devices, from run.json."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from analysis.rundir.device_number import device_number, journal_device
from analysis.rundir.run import Run, as_int, dig
from analysis.rundir.stack import Stack, journal_roots, read_stack

MOST_EXTENTS = 200_000


@dataclass(frozen=True)
class JournalPlace:
    """Sectors [starts, ends) of one device, sorted. Without extents the whole device is the journal's.

    dev: None where the run has one device, whose number older runs do not always state.
    """

    dev: int | None
    starts: npt.NDArray[np.uint64]
    ends: npt.NDArray[np.uint64]

    @property
    def is_whole_device(self) -> bool:
        """Whether the device holds nothing but the journal."""
        return not self.starts.size


def journal_places(run: Run) -> list[JournalPlace]:
    """All journals of the run; malformed extents are left out.

    filesystem.geometry.journal has the extents on the first device. With several devices, or volumes, the
    areas of the layout tell on which device each journal is.
    """
    stack = read_stack(run)
    whole = journal_roots(run, stack)
    main = device_number(dig(run.facts, "device", "dev"))
    extents = _extents(dig(run.facts, "filesystem", "geometry", "journal"))
    if not _has_several(run, stack, whole):
        return [_place(None, extents)] if extents else []
    by_device = _stated_areas(run)
    if not by_device and extents:
        by_device = {-1 if main is None else main: extents}
    outside = device_number(dig(run.facts, "filesystem", "geometry", "journal_dev"))
    part = _extents([dig(run.facts, "filesystem", "geometry", "journal_dev_sectors")])
    if outside is not None and part:  # a partition: the rest of its disk is no journal
        by_device[outside] = part
        whole = [dev for dev in whole if dev != outside]
        return [_place(dev, found) for dev, found in by_device.items()] + [_place(dev, []) for dev in whole]
    # a session that states the stack formatted the device of journal_dev; another one may hold more
    stated_whole = outside if stack.is_stated else journal_device(run)
    places = [_place(dev, found) for dev, found in by_device.items() if dev != stated_whole]
    places += [_place(dev, []) for dev in whole if dev == stated_whole or dev not in by_device]
    return places


def _has_several(run: Run, stack: Stack, whole: list[int]) -> bool:
    """Whether sectors of more than one device were recorded."""
    return bool(whole or dig(run.facts, "more_devices") or stack.volumes or len(stack.leaves) > 1)


def _stated_areas(run: Run) -> dict[int, list[tuple[int, int]]]:
    """The journals' extents by device, from the layout's areas and spans (an external journal is a span)."""
    geometry = dig(run.facts, "filesystem", "geometry")
    by_device: dict[int, list[tuple[int, int]]] = {}
    for area in _entries(geometry, "areas"):
        dev = device_number(area.get("dev"))
        if area.get("kind") == "journal" and dev is not None:
            by_device.setdefault(dev, []).extend(_extents(area.get("extents")))
    for span in _entries(geometry, "spans"):
        dev = device_number(span.get("dev"))
        if span.get("rest_kind") == "journal" and dev is not None:
            by_device.setdefault(dev, []).extend(
                _extents([[span.get("start_sector"), span.get("end_sector")]])
            )
    return {dev: sorted(found) for dev, found in by_device.items() if found}


def _entries(geometry: object, key: str) -> list[Mapping[str, Any]]:
    stated = geometry.get(key) if isinstance(geometry, Mapping) else None
    return [entry for entry in stated if isinstance(entry, Mapping)] if isinstance(stated, list) else []


def _extents(stated: object) -> list[tuple[int, int]]:
    """Extents [start, end) in sectors, sorted."""
    extents = []
    for extent in stated[:MOST_EXTENTS] if isinstance(stated, list) else []:
        if isinstance(extent, list) and len(extent) == 2:
            start, end = as_int(extent[0]), as_int(extent[1])
            if start is not None and end is not None and 0 <= start < end:
                extents.append((start, end))
    return sorted(extents)


def _place(dev: int | None, extents: list[tuple[int, int]]) -> JournalPlace:
    return JournalPlace(
        dev,
        np.array([start for start, _ in extents], dtype=np.uint64),
        np.array([end for _, end in extents], dtype=np.uint64),
    )
