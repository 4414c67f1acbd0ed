# SPDX-License-Identifier: BSD-2-Clause
"""Facts of the running machine: kernel, block devices, mounts; and signals and the terminal."""
