# SPDX-License-Identifier: BSD-2-Clause
"""Sections of the report, one module a heading: results as text, tables and notes."""
