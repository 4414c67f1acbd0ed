# SPDX-License-Identifier: BSD-2-Clause
"""Emulated spinning disks: the drives as TOML files, and the programs in C that act as one."""
