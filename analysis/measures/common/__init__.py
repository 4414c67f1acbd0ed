# SPDX-License-Identifier: BSD-2-Clause
"""What all measures share: the time axis, the window, statistics."""
