# SPDX-License-Identifier: BSD-2-Clause
"""Why the workload waited at its disk: the critical path's time at requests, split by what made it long."""
