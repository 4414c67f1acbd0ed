# SPDX-License-Identifier: BSD-2-Clause
"""Sections of the report: each states what one area of the results says, in words and tables."""
