# SPDX-License-Identifier: BSD-2-Clause
"""What emulated disks did, by their own record."""
