# SPDX-License-Identifier: BSD-2-Clause
"""The SQL macros that questions use beside DuckDB's own functions; docs/RECIPES.md lists them."""

from __future__ import annotations

from collections.abc import Mapping

from analysis.measures.common.window import Window
from analysis.sql.quote import literal
from analysis.sql.times import Seconds

# Name with parameters: meaning.
MEANINGS = {
    "seconds(run, t_ns)": "a time in seconds from the workload's start",
    "in_window(run, t_ns)": "whether a time is in WINDOW=; without WINDOW= always true",
    "window_s(run)": "length of WINDOW= in seconds, up to the recording's end; else of the recording",
    "device(dev)": "major:minor of a device number, as path.dev has it",
    "call_path(frames)": "a call path as one text, innermost function first, without offsets",
    "bucket_ns(bucket)": "the shortest latency, in ns, of a bucket (0 to 255) of call.hist",
}
_FOR_ALL_RUNS = {
    "device(dev)": "(dev >> 20) || ':' || (dev & 1048575)",
    "call_path(frames)": (
        r"array_to_string(list_transform(frames, lambda frame: regexp_replace(frame, '\+0x.*$', '')), ' < ')"
    ),
    "bucket_ns(bucket)": (
        "CASE WHEN bucket < 8 THEN CAST(bucket AS BIGINT)"
        " ELSE CAST(8 + (bucket & 7) AS BIGINT) << CAST((bucket >> 3) - 1 AS INTEGER) END"
    ),
}


def statements(times: Mapping[str, Window], window: Seconds | None) -> list[str]:
    """The CREATE MACRO statements for these runs, by the names that their rows have in the column run."""

    def by_run(value_ns: Mapping[str, int]) -> str:
        cases = " ".join(f"WHEN {literal(name)} THEN {ns}" for name, ns in value_ns.items())
        return f"CASE run {cases} END"

    start = by_run({name: time.work_start_ns for name, time in times.items()})
    first, last = (
        by_run({n: t.start_ns for n, t in times.items()}),
        by_run({n: t.end_ns for n, t in times.items()}),
    )
    is_inside = "true"
    if window is not None:
        bounds = {name: _bounds_ns(time, window) for name, time in times.items()}
        first, last = (
            by_run({n: b[0] for n, b in bounds.items()}),
            by_run({n: b[1] for n, b in bounds.items()}),
        )
        is_inside = f"t_ns >= {first} AND t_ns < {last}"
    macros = {
        "seconds(run, t_ns)": f"(t_ns - {start}) / 1e9",
        "in_window(run, t_ns)": is_inside,
        "window_s(run)": f"greatest(0, {last} - {first}) / 1e9",
        **_FOR_ALL_RUNS,
    }
    return [f"CREATE MACRO {name} AS ({definition})" for name, definition in macros.items()]


def _bounds_ns(time: Window, window: Seconds) -> tuple[int, int]:
    """Begin and end of the window in this run, no later than the end of its recording."""
    first_ns = time.work_start_ns + round(window.from_s * 1e9)
    return first_ns, min(time.work_start_ns + round(window.until_s * 1e9), time.end_ns)
