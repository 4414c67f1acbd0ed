# SPDX-License-Identifier: BSD-2-Clause
"""Measures of a stack of devices: volumes, and the disks below them."""
