# SPDX-License-Identifier: BSD-2-Clause
"""Sections of the comparison of several runs."""
