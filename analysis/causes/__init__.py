# SPDX-License-Identifier: BSD-2-Clause
"""Rules that tell what a thread waits for, and whose work it does: TOML files and their readers."""
