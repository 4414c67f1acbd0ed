# SPDX-License-Identifier: BSD-2-Clause
"""The first screen of a comparison of runs."""
