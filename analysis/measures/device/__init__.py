# SPDX-License-Identifier: BSD-2-Clause
"""Devices as a whole: utilization and queue depth."""
