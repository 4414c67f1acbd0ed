# SPDX-License-Identifier: BSD-2-Clause
"""The flight recorder: make watch with UNTIL= keeps what was before and after a trigger."""
