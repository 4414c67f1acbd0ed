# SPDX-License-Identifier: BSD-2-Clause
"""A run directory as input: opened once, read within limits, as its owner. A stranger may have made it."""
