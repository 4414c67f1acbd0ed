# SPDX-License-Identifier: BSD-2-Clause
"""make watch with SECS=0: one window after the other, and the first screen of each."""
