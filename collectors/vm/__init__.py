# SPDX-License-Identifier: BSD-2-Clause
"""Runs in a virtual machine (VM=1), the host's side: boot, staged directory, doctor on other kernels."""
