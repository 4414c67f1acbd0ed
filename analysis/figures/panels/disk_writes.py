# SPDX-License-Identifier: BSD-2-Clause
"""Disk offset of writes and discards over time, by class."""

from analysis.figures.disk_offset import make_panel

PANEL = make_panel("disk_writes", 10, "write", is_first=True)
