# SPDX-License-Identifier: BSD-2-Clause
"""The recorder's collector `calls`: file-system calls."""
