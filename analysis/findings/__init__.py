# SPDX-License-Identifier: BSD-2-Clause
"""Findings: what explains slow parts of a run, one rule a module. Empty but for the types; see README.md."""
