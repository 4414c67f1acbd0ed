# SPDX-License-Identifier: BSD-2-Clause
"""Shapes of a study's tables: one module each, named as `shape` of the TOML, with SHAPE."""
