# SPDX-License-Identifier: BSD-2-Clause
"""Workloads and what they run on: options, plan, file systems, disks, machines, cgroups, cleanup.

Standard library only: setup runs workloads.packages with the system's python3 before .venv exists.
"""
