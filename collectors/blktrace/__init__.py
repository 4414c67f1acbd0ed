# SPDX-License-Identifier: BSD-2-Clause
"""COLLECT=blktrace: block traces in the format of blktrace(8), by its program or the kernel's blk tracer."""
