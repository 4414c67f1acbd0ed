# SPDX-License-Identifier: BSD-2-Clause
"""Scaling: throughput against threads, CPUs or tasks, and what grows with them."""
