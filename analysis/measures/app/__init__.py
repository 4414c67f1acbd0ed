# SPDX-License-Identifier: BSD-2-Clause
"""Measures of the application: calls, bytes, phases, its own results, correlations with them."""
