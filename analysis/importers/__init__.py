# SPDX-License-Identifier: BSD-2-Clause
"""Convert block traces of other tools to run directories."""
