# SPDX-License-Identifier: BSD-2-Clause
"""The recorder's source `calls`: file-system calls."""
