# SPDX-License-Identifier: BSD-2-Clause
"""The recorder's collector `block`: every request to the disk."""
