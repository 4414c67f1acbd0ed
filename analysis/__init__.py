# SPDX-License-Identifier: BSD-2-Clause
"""Analysis of finished runs: raw recordings -> tables -> measures -> figures -> reports."""
