# SPDX-License-Identifier: BSD-2-Clause
"""WITH=: bpftrace scripts and bcc tools that run as long as the workload."""
