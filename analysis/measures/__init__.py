# SPDX-License-Identifier: BSD-2-Clause
"""Measures: results computed from the tables, a folder an area."""
