# SPDX-License-Identifier: BSD-2-Clause
"""Measures of locks: waits, waiters, holders, hold times."""
