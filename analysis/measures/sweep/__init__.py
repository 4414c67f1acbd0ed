# SPDX-License-Identifier: BSD-2-Clause
"""Figures of a sweep's runs, and what their repetitions say."""
