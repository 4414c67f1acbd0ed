# SPDX-License-Identifier: BSD-2-Clause
"""Measures of a study: cells of its tables, agreement with the published figures, evidence beside them."""
