# SPDX-License-Identifier: BSD-2-Clause
"""Root for what needs it, and what root must not do to files that others may write."""
