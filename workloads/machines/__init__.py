# SPDX-License-Identifier: BSD-2-Clause
"""Virtual machines: their kernel (kernels.py), KVM or emulation (kvm.py), and QEMU itself (qemu.py)."""

DEFAULT_MEMORY_BYTES = 2 << 30
# q35 has 32 slots on its bus; about eleven are taken (9p, serial ports, the watchdog, the chip set).
MOST_DISKS = 16
