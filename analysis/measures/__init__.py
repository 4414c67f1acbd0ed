# SPDX-License-Identifier: BSD-2-Clause
"""Figures computed from the tables: one file, one question."""
