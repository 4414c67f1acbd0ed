# SPDX-License-Identifier: BSD-2-Clause
"""Pictures as files: the same figure always gives the same bytes, as neither format states a time."""

from __future__ import annotations

import io
from collections.abc import Sequence

from matplotlib.figure import Figure

from analysis.render.output import Drawing, Made

DPI = 130  # dots per inch of the large pictures


def png(figure: Figure, dpi: float | None = None, compress_level: int = 6) -> bytes:
    """The figure as PNG. compress_level: of zlib; 4 takes half the time of 6 for a large picture."""
    data = io.BytesIO()
    figure.savefig(
        data,
        format="png",
        dpi=dpi or DPI,
        metadata={"Software": "Seekmeter"},
        pil_kwargs={"compress_level": compress_level},
    )
    return data.getvalue()


def svg(figure: Figure, raster_dpi: float | None = None) -> bytes:
    """The figure as SVG. raster_dpi: dots per inch of the images in it, such as disk maps."""
    data = io.BytesIO()
    metadata = {"Date": None, "Creator": "Seekmeter"}
    figure.savefig(data, format="svg", dpi=raster_dpi or "figure", metadata=metadata)
    return data.getvalue()


def made(figure: Figure | None, names: Sequence[str], caption: str) -> Made:
    """The figure as the two files of these names, PNG and SVG; nothing without a figure."""
    if figure is None:
        return Made()
    drawing = svg(figure)
    return Made(dict(zip(names, (png(figure), drawing), strict=True)), [Drawing(caption, drawing)])
