# SPDX-License-Identifier: BSD-2-Clause
"""The recorder's collector `sched`: switches and wakes."""
