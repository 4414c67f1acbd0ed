# SPDX-License-Identifier: BSD-2-Clause
"""make bundle: one archive that records on a machine without compilers, packages or network."""
