# SPDX-License-Identifier: BSD-2-Clause
"""Measures of CPU time, by perf samples."""
