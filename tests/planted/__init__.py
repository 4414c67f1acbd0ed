# SPDX-License-Identifier: BSD-2-Clause
"""Planted causes: runs with a known cause of slowness, and without it, that the findings are judged by."""
