# SPDX-License-Identifier: BSD-2-Clause
"""Sections of a study: its tables in the source's shapes, agreement, evidence, and the closing paragraph."""
