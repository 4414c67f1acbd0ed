# SPDX-License-Identifier: BSD-2-Clause
"""COLLECT=perf: samples of all CPUs by perf record, read back as a table."""
