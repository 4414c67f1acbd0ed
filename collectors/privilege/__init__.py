# SPDX-License-Identifier: BSD-2-Clause
"""Becoming root through sudo, and root's care with files that other users may write."""
