# SPDX-License-Identifier: BSD-2-Clause
"""Colours of the page: those of figures/style.py on white, and those of the same hue on black.

Greys change places on black: what is pale on white is dull there, and black ink is white.
"""

from __future__ import annotations

import colorsys

DARK_LEAST = 0.45  # lightness on black
GREY_LEAST = 0.16
GREY = 0.12  # between the greatest and the least part of a colour that is called grey


def on_dark(color: str) -> str:
    """The colour (#rrggbb) for a black ground: dark ones become lighter, in their order."""
    red, green, blue = (int(color[at : at + 2], 16) / 255 for at in (1, 3, 5))
    hue, lightness, saturation = colorsys.rgb_to_hls(red, green, blue)
    if max(red, green, blue) - min(red, green, blue) < GREY:
        lighter = GREY_LEAST + (1 - lightness) * 0.8
    else:
        lighter = DARK_LEAST + lightness * (1 - DARK_LEAST) * 0.9
    parts = colorsys.hls_to_rgb(hue, lighter, saturation)
    return "#" + "".join(f"{round(255 * part):02X}" for part in parts)


def both(color: str) -> tuple[str, str]:
    """The colour on white and on black."""
    return color, on_dark(color)
