# SPDX-License-Identifier: BSD-2-Clause
"""The recorder's collector `locks`: contended locks of the kernel."""
