# SPDX-License-Identifier: BSD-2-Clause
"""Measures of devices: counters, utilization, queue depth."""
