# SPDX-License-Identifier: BSD-2-Clause
"""What is run, and on what: words, workloads, file systems, disks, cgroups, and the undoing of it all.

Standard library only: setup asks workloads.packages with the system's python3 before .venv exists.
"""
