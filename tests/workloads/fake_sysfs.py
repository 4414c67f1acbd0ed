# SPDX-License-Identifier: BSD-2-Clause
"""A synthetic /sys with block devices: directories, links and files as the kernel makes them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from workloads.system import device_graph, dm_tables
from workloads.system.device_graph import Graph

GIB = 1 << 21  # sectors


class FakeSysfs:
    """Devices below a root directory; add() makes the device's directory and the links of its slaves."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.devices = root / "sys/devices/virtual/block"
        self.names = root / "sys/class/block"
        self.names.mkdir(parents=True)

    def add(
        self,
        name: str,
        dev: str = "",
        slaves: Iterable[str] = (),
        *,
        queue: bool = False,
        sectors: int = GIB,
        files: Mapping[str, str] | None = None,
    ) -> FakeSysfs:
        """Make a whole device. dev: "" for a hidden one; files: content by path below its directory."""
        place = self.devices / name
        self._make(place, name, dev, sectors)
        if queue:
            (place / "mq/0").mkdir(parents=True)
        (place / "slaves").mkdir()
        for slave in slaves:
            below = (self.names / slave).resolve()
            (place / "slaves" / slave).symlink_to(below)
            (below / "holders" / name).symlink_to(place)
        for file, text in (files or {}).items():
            (place / file).parent.mkdir(parents=True, exist_ok=True)
            (place / file).write_text(text)
        return self

    def part(self, name: str, disk: str, dev: str, start: int, sectors: int = GIB) -> FakeSysfs:
        """Make a partition of a disk."""
        place = (self.names / disk).resolve() / name
        self._make(place, name, dev, sectors)
        (place / "partition").write_text("1\n")
        (place / "start").write_text(f"{start}\n")
        return self

    def dm(self, name: str, dev: str, dm_name: str, uuid: str, slaves: Iterable[str] = ()) -> FakeSysfs:
        """Make a device-mapper volume."""
        files = {"dm/name": f"{dm_name}\n", "dm/uuid": f"{uuid}\n", "dm/suspended": "0\n"}
        return self.add(name, dev, slaves, files=files)

    def _make(self, place: Path, name: str, dev: str, sectors: int) -> None:
        place.mkdir(parents=True)
        (place / "holders").mkdir()
        (place / "size").write_text(f"{sectors}\n")
        if dev:
            (place / "dev").write_text(f"{dev}\n")
        os.symlink(os.path.relpath(place, self.names), self.names / name)


def graph_of(sysfs: FakeSysfs, targets: dict[str, str] | None = None, status: str = "") -> Graph:
    """Return the graph; targets: type of the only target by device number; status: of each."""

    def table(major: int, minor: int) -> dm_tables.Table | None:
        kind = (targets or {}).get(f"{major}:{minor}")
        return dm_tables.Table((kind,), (status,)) if kind else None

    return device_graph.read(sysfs.root, table)
