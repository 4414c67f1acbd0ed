# SPDX-License-Identifier: BSD-2-Clause
"""Traces of other tools as run directories: one file a format, and what all of them need."""
