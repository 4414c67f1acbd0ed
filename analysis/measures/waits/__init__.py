# SPDX-License-Identifier: BSD-2-Clause
"""What the workload waited for, sleep by sleep, and what explains each: shared by the rules of findings."""
