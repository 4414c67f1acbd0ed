# SPDX-License-Identifier: BSD-2-Clause
"""Figures as the sentences of findings have them."""

from __future__ import annotations


def seconds(value: float) -> str:
    """Seconds: 11.5 s, 0.53 s, 4.1 ms."""
    if 0 < value < 0.01:
        return f"{value * 1e3:.1f} ms"
    return f"{value:.1f} s" if value >= 10 else f"{value:.2f} s"
