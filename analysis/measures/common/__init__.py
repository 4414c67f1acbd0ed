# SPDX-License-Identifier: BSD-2-Clause
"""Shared by all measures: time axis, window, statistics, cost of tracing."""
