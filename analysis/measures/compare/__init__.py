# SPDX-License-Identifier: BSD-2-Clause
"""Measures of several runs side by side."""
