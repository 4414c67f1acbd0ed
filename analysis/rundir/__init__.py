# SPDX-License-Identifier: BSD-2-Clause
"""A run directory as input, whoever made it: opened once, read within limits, with its owner's rights."""
