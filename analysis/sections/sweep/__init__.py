# SPDX-License-Identifier: BSD-2-Clause
"""Sections of a sweep's report: one module, one section."""
