# SPDX-License-Identifier: BSD-2-Clause
"""The recorder's source `block`: every request to the disk."""
