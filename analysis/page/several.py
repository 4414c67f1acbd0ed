# SPDX-License-Identifier: BSD-2-Clause
"""Several runs in one page: each has a tag and a note on its share; a name has one colour in all of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from analysis.figures import style
from analysis.page.colors import both
from analysis.page.packed import PackedRun, share
from analysis.rundir.run import clean

Colors = tuple[str, str]  # on white, on black


def side_by_side(packed: Sequence[PackedRun], tags: Sequence[str]) -> list[PackedRun]:
    """The runs as one page shows them. tags: a word or two that tells each from the others."""
    most_mb = share(len(packed)).bytes * 4 / 3 / 1e6  # as base64
    note = (
        f"{len(packed)} runs share this page: each takes at most {most_mb:.1f} MB of it."
        " A run's own report.html may have finer bins and more single requests."
    )
    colors = _colors_of_all([run.header for run in packed])
    return [
        PackedRun(
            {
                **run.header,
                "tag": clean(tag),
                "notes": [note, *run.header["notes"]],
                "panels": [_colored(panel, colors) for panel in run.header["panels"]],
            },
            run.parts,
        )
        for run, tag in zip(packed, tags, strict=True)
    ]


def _subject(panel: Mapping[str, Any], series: Mapping[str, Any]) -> str:
    """Where a name means one thing: the cube, which several panels may show, else the panel."""
    return str(series["source"].get("cube") or panel["key"])


def _series(header: Mapping[str, Any]) -> Iterator[tuple[tuple[str, str], Colors]]:
    """Subject and name of each series of a run, and its colours."""
    for panel in header["panels"]:
        for one in panel["series"]:
            yield (_subject(panel, one), one["name"]), (one["light"], one["dark"])


def _colors_of_all(headers: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], Colors]:
    """One colour for each name of a subject: that of the first run which has it.

    If another name has this colour already, it is the next free one of those that locks and events take.
    """
    found: dict[tuple[str, str], Colors] = {}
    for header in headers:
        own = dict(_series(header))
        for (subject, name), color in own.items():
            if (subject, name) in found:
                continue
            # names that share a colour in this run are told apart by their dashes
            taken = {c for key, c in found.items() if key[0] == subject and own.get(key) != color}
            all_taken = {c for key, c in (*found.items(), *own.items()) if key[0] == subject}
            free = [spare for spare in map(both, style.LOCKS) if spare not in all_taken]
            found[subject, name] = free[0] if color in taken and free else color
    return found


def _colored(panel: Mapping[str, Any], colors: Mapping[tuple[str, str], Colors]) -> Mapping[str, Any]:
    """The panel with its series in these colours."""
    series = []
    for one in panel["series"]:
        light, dark = colors[_subject(panel, one), one["name"]]
        series.append({**one, "light": light, "dark": dark})
    return {**panel, "series": series}
