# SPDX-License-Identifier: BSD-2-Clause
"""Virtual machines to run in: which kernel (kernels.py), which CPUs (kvm.py), started how (qemu.py)."""

DEFAULT_MEMORY_BYTES = 2 << 30
