# SPDX-License-Identifier: BSD-2-Clause
"""The plants, one a module: each has a PLANT (plant.py)."""
