# SPDX-License-Identifier: BSD-2-Clause
"""Time of threads: by role, state and cause, by phase and thread, beside the kernel's own counts."""
