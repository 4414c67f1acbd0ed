# SPDX-License-Identifier: BSD-2-Clause
"""Which phases were searched for dips of throughput, what was found, and how small a dip would be seen."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.measures.dips.finder import CANDIDATE_P, DEPTH_LEAST, DIP_P, Dip
from analysis.measures.dips.progress import rate_text, tracks_of
from analysis.measures.dips.results import measure_dips
from analysis.measures.dips.stops import find_stops
from analysis.measures.dips.tracks import Track
from analysis.measures.results import Results
from analysis.render.document import Section, Table
from analysis.rundir.run import Run
from analysis.sections.spec import TIME, SectionSpec
from analysis.tables import thread_time
from analysis.tables.load import Tables
from analysis.units import percent, seconds

DEFINITION = (
    "stops: time in which no call on the file system returned, 0.25 s or more at once. dips: windows that lie"
    f" lower than what is beside them, p at most {DIP_P:g} over all phases searched,"
    f" {100 * DEPTH_LEAST:.0f} % deep or more; candidates: p at most {CANDIDATE_P:g}, or not so deep: no"
    " findings. likely seen: of dips as deep as this over 5 % of the bins, 8 in 10 are found, by the model of"
    " this series; -: not even a stop."
)


def build_dips(run: Run, tables: Tables, results: Results) -> list[Section]:
    """One row a phase; one a dip or candidate."""
    tracks = tracks_of(tables, results)
    if not tracks:
        return []
    section = Section(definition=DEFINITION)
    times = tables.get(thread_time.TABLE)
    rows, places = [], []
    for one, whole in zip(
        measure_dips(tracks, results.path, times, tables.block, tables.counter), tracks, strict=True
    ):
        stops = find_stops(whole)
        search = one.search
        name = whole.phase or "(all)"
        rows.append(
            (
                name,
                rate_text(float(whole.progress.sum()) / max(whole.seconds, 1e-9), whole),
                f"{len(stops)}",
                seconds(sum(stop.seconds for stop in stops)),
                f"{search.bins:,}",
                "-" if search.why_not else str(len(search.dips)),
                "-" if search.why_not else str(len(search.candidates)),
                "-" if search.visible is None else f"{100 * search.visible:.0f} %",
            )
        )
        if search.why_not:
            section.notes.append(f"{name}: no verdict on dips, {search.why_not}")
        places += [_row(name, "dip", dip, one.track, results) for dip in search.dips]
        places += [_row(name, "candidate", dip, one.track, results) for dip in search.candidates]
    heads = ("<phase", "mean rate", "stops", "s", "bins", "dips", "candidates", "likely seen")
    section.tables.append(Table(heads, rows))
    if places:
        section.tables.append(Table(("<phase", "<", "from s", "until s", "deep %", "p"), places))
    return [section]


def _row(name: str, kind: str, dip: Dip, track: Track, results: Results) -> Sequence[str]:
    zero = results.window.work_start_ns
    return (
        name,
        kind,
        seconds((int(track.start_ns[dip.first]) - zero) / 1e9),
        seconds((int(track.end_ns[dip.last - 1]) - zero) / 1e9),
        percent(dip.depth),
        f"{dip.p:.4f}",
    )


SECTIONS = (
    SectionSpec(
        "dips",
        "Stops and dips of throughput",
        2990,
        build_dips,
        collectors=("calls",),
        explains=(TIME,),
    ),
)
