# SPDX-License-Identifier: BSD-2-Clause
"""Virtual machines: their kernel (kernels.py), KVM or emulation (kvm.py), and QEMU itself (qemu.py)."""

DEFAULT_MEMORY_BYTES = 2 << 30
