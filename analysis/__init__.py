# SPDX-License-Identifier: BSD-2-Clause
"""Reads finished runs only: raw recordings -> tables -> measures -> figures -> reports."""
