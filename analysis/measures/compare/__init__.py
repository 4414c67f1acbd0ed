# SPDX-License-Identifier: BSD-2-Clause
"""Measures that compare several runs."""
