# SPDX-License-Identifier: BSD-2-Clause
"""Disk offset of reads over time, by class."""

from analysis.figures.disk_offset import make_panel

PANEL = make_panel("disk_reads", 20, "read", is_first=False)
