# SPDX-License-Identifier: BSD-2-Clause
"""The recorder's source `holds`: lock hold times."""
