# SPDX-License-Identifier: BSD-2-Clause
"""Measures of a watch with UNTIL=: what was normal, and the window that was kept."""
