# SPDX-License-Identifier: BSD-2-Clause
"""The recorder's collector `holds`: lock hold times."""
