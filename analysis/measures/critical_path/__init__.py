# SPDX-License-Identifier: BSD-2-Clause
"""The critical path: what the workload's progress waited for at each instant, from switches and wake-ups."""
