# SPDX-License-Identifier: BSD-2-Clause
"""WITH=: scripts of bpftrace and tools of bcc that run beside the workload."""
