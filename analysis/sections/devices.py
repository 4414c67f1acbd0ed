# SPDX-License-Identifier: BSD-2-Clause
"""Devices: requests, bytes, seeks, depth and latency of each of several devices."""

from __future__ import annotations

from analysis import units
from analysis.measures.block import latency
from analysis.measures.device import by_device
from analysis.measures.results import Results
from analysis.render.document import Section, Table
from analysis.rundir.run import Run
from analysis.sections.spec import DEVICE, SectionSpec
from analysis.tables.load import Tables


def build_devices(run: Run, tables: Tables, results: Results) -> list[Section]:
    """One row a device; no section for a single device."""
    if not results.device.rows:
        return []
    section = Section()
    rows = []
    for r in results.device.rows:
        d2c = [units.ns(v) for v in r.device_latency.at_ns] if r.device_latency else ["-"] * 5
        rows.append(
            (
                r.label,
                units.count(r.requests),
                units.bytes_(r.read_bytes),
                units.bytes_(r.write_bytes),
                units.count(r.seeks.seeks),
                f"{units.figures(r.depth_mean)}/{r.depth_highest:,}",
                d2c[latency.PERCENTS.index(50.0)],
                d2c[latency.PERCENTS.index(99.0)],
            )
        )
    heads = ("<device", "requests", "read", "written", "seeks", "depth mean/max", "D2C p50", "p99")
    section.tables.append(Table(heads, rows))
    section.definition = by_device.DEFINITION
    return [section]


SECTIONS = (
    SectionSpec(
        "devices", "Devices", 800, build_devices, collectors=("block",), of_disks=True, explains=(DEVICE,)
    ),
)
