# SPDX-License-Identifier: BSD-2-Clause
"""Dips and stops of application throughput: found, and accounted for in seconds by cause. See README.md."""
