# SPDX-License-Identifier: BSD-2-Clause
"""The recorder's source `locks`: contended locks of the kernel."""
