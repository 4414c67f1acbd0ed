# SPDX-License-Identifier: BSD-2-Clause
"""What the running machine says of itself: kernel, block devices, mounts, signals, the terminal."""
