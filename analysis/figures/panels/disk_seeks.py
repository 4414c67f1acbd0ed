# SPDX-License-Identifier: BSD-2-Clause
"""Seeks per second of each disk, for a run on several disks."""

from analysis.figures.device_lines import make_panel

PANEL = make_panel("disk_seeks", 45, "Seeks per second", 0.75, lambda disk: disk.seeks_per_s)
