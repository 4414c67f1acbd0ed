# SPDX-License-Identifier: BSD-2-Clause
"""Share of time in which each disk has at least one request, for a run on several disks."""

from analysis.figures.device_lines import make_panel

PANEL = make_panel("disk_busy", 55, "Busy, % of time", 0.75, lambda disk: disk.busy_pct, top=100.0)
