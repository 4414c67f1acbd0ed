# SPDX-License-Identifier: BSD-2-Clause
"""What DuckDB computes from a run's tables for a window: the figures that the page's tables must show.

Each query groups by some of a table's labels; rows of the page that agree in these are added up before they
are compared. A query's columns have the names of the page's columns. $start and $end are the window, $low
and $high the page's whole time, in ns of the run's clock. A row of a table with bins counts in the window
that has its last moment, or, outside the page's time, in the page's first or last bin.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb

from tests.analysis.page.live import Shown

PERCENTS = ("50", "90", "99", "99.9")


@dataclass(frozen=True)
class Query:
    """labels: columns that tell rows apart. largest: figures that are the largest of rows, not the sum."""

    labels: Sequence[str]
    sql: str
    largest: Sequence[str] = ()
    is_part: bool = False  # the page has rows that the query leaves out


# Requests by their number: of equal times the first in the table comes first.
NUMBERED = """(
    select file_row_number as rowid_, * from read_parquet('$tables/block.parquet', file_row_number=true)
)"""
REQUESTS = """
    with moved as (
        select rowid_, sector - lag(sector + (bytes + 511) // 512)
            over (partition by dev order by issue_ns, rowid_) as distance
        from $block
        where op in ('read', 'write') and issue_ns >= $low and issue_ns < $high
    )
    select op, class, why, count(*) as requests, sum(bytes) as bytes, count(*) filter (timed) as timed,
        count(*) filter (abs(distance) > 128) as seeks,
        coalesce(sum(complete_ns - queue_ns) filter (timed), 0) as "Q2C",
        coalesce(sum(issue_ns - queue_ns) filter (timed), 0) as "Q2D",
        coalesce(sum(complete_ns - issue_ns) filter (timed), 0) as "D2C"
    from (
        select *, coalesce(queue_ns <= issue_ns and issue_ns <= complete_ns, false) as timed
        from $block
    ) left join moved using (rowid_)
    where issue_ns >= $start and issue_ns < $end group by all
"""
CALLS = """
    select call, target as "on", sum(count) as count, sum(bytes) as bytes, sum(errors) as errors,
        sum(total_ns) as total, max(max_ns) as longest
    from (
        select *, greatest($low, least($high - 1, bin_ns + length_ns - 1)) as last from '$tables/call.parquet'
    )
    where last >= $start and last < $end group by all
"""
THREADS = """
    select case when thread = 0 then 'all other threads' else comm || ' (' || tid || ')' end as thread,
        role, state,
        sum((case when last < $end then ns else ns::hugeint * ($end - bin_ns) // length_ns end)
            - (case when first >= $start then 0 else ns::hugeint * ($start - bin_ns) // length_ns end)
        ) as time,
        sum(count) filter (last >= $start and last < $end) as count,
        max(max_ns) filter (last >= $start and last < $end) as longest
    from (
        select *, greatest($low, least($high - 1, bin_ns)) as first,
            greatest($low, least($high - 1, bin_ns + length_ns - 1)) as last
        from '$tables/thread_time.parquet'
    )
    where last >= $start and first < $end group by all
"""
EVENTS = """
    select kind, why, count(*) filter (begin_ >= $start and begin_ < $end) as count,
        sum(greatest(least(end_, $end) - greatest(begin_, $start), 0)) as time,
        coalesce(sum(bytes) filter (begin_ >= $start and begin_ < $end), 0) as bytes
    from (
        select *, greatest($low, least($high, start_ns)) as begin_,
            case when is_open then greatest($low, least($high, start_ns))
                else greatest($low, least($high, end_ns)) end as end_
        from '$tables/event.parquet' where kind not in ('', 'none')
    )
    where end_ >= $start and begin_ < $end group by all
"""
# The waits of the workload on locks with a name: others are known by their callers, and scaled from samples.
LOCKS = """
    select concat(kind, case when kind not in ('rwsem', 'rwlock') then ''
            when mode = 'read' then ':R' else ':W' end, ' ', name) as lock, 'workload' as waiter,
        sum(spin_ns + sleep_ns) as time, sum(count) as waits, sum(spin_ns) as spinning,
        sum(sleep_ns) as sleeping, max(max_ns) as longest
    from (
        select *, greatest($low, least($high - 1, bin_ns + length_ns - 1)) as last
        from '$tables/lock_wait.parquet'
    ) join (select lock_id, name from '$tables/lock.parquet') using (lock_id)
    where last >= $start and last < $end and name <> '' and waiter = 'workload' and waiter_name = ''
    group by all
"""
SUBMITTERS = """
    select comm as thread, op, count(*) as requests, sum(bytes) as bytes
    from '$tables/block.parquet' where issue_ns >= $start and issue_ns < $end group by all
"""
FILES = """
    select op, class, count(*) as requests, sum(bytes) as bytes
    from '$tables/block.parquet' where issue_ns >= $start and issue_ns < $end group by all
"""
QUERIES: Mapping[str, Query] = {
    "requests": Query(("op", "class", "why"), REQUESTS),
    "calls": Query(("call", "on"), CALLS, ("longest",)),
    "threads": Query(("thread", "role", "state"), THREADS, ("longest",)),
    "events": Query(("kind", "why"), EVENTS),
    "locks": Query(("lock", "waiter"), LOCKS, ("longest",), is_part=True),
    "submitters": Query(("thread", "op"), SUBMITTERS),
    "files": Query(("op", "class"), FILES),
}


class Truth:
    """The tables of one run, asked by DuckDB."""

    def __init__(self, run: Path, low_ns: int, high_ns: int) -> None:
        self._tables = run / "tables"
        self._bounds = (low_ns, high_ns)
        clock = json.loads((run / "run.json").read_text())["clock"]
        self.zero_ns = int(clock.get("workload_start_ns", clock["record_start_ns"]))

    def ask(self, sql: str, start_ns: int, end_ns: int) -> list[dict[str, Any]]:
        """Rows of a query as dictionaries. The window is since the page's zero."""
        names = {"start": start_ns, "end": end_ns, "low": self._bounds[0], "high": self._bounds[1]}
        names["zero"] = 0
        for name, ns in names.items():
            sql = sql.replace(f"${name}", str(self.zero_ns + ns))
        answer = duckdb.sql(sql.replace("$block", NUMBERED).replace("$tables", str(self._tables)))
        assert answer is not None
        return [dict(zip(answer.columns, row, strict=True)) for row in answer.fetchall()]

    def figures(self, key: str, start_ns: int, end_ns: int) -> dict[tuple[str, ...], dict[str, int]]:
        """What a table of the page must show, by its labels; rows of zeros left out."""
        query = QUERIES[key]
        found = {}
        for row in self.ask(query.sql, start_ns, end_ns):
            labels = tuple(str(row.pop(label)) for label in query.labels)
            if any(row.values()):
                found[labels] = {name: int(value or 0) for name, value in row.items()}
        return found

    def percentiles(self, start_ns: int, end_ns: int) -> dict[tuple[str, str], list[int]]:
        """Of each operation and class: number, percentiles by nearest rank, and longest of Q2C."""
        rows = self.ask(
            """select op, class, list(complete_ns - queue_ns order by complete_ns - queue_ns) as times
            from '$tables/block.parquet' where issue_ns >= $start and issue_ns < $end
            and queue_ns <= issue_ns and issue_ns <= complete_ns group by all""",
            start_ns,
            end_ns,
        )
        return {(row["op"], row["class"]): _ranked(row["times"]) for row in rows}

    def slowest(self, start_ns: int, end_ns: int) -> list[tuple[int, int, int]]:
        """Microsecond of issue, bytes and Q2C of the requests, those with the longest Q2C first."""
        rows = self.ask(
            """select (issue_ns - $zero) // 1000 as t_us, bytes,
                case when complete_ns is null then -1 else complete_ns - queue_ns end as q2c
            from '$tables/block.parquet' where issue_ns >= $start and issue_ns < $end
            order by q2c desc, t_us""",
            start_ns,
            end_ns,
        )
        return [(row["t_us"], row["bytes"], row["q2c"]) for row in rows]


def _ranked(times: Sequence[int]) -> list[int]:
    ranks = [-(-Fraction(percent) * len(times) // 100) for percent in PERCENTS]
    return [len(times), *(times[max(int(rank), 1) - 1] for rank in ranks), times[-1]]


def added_up(shown: Shown, query: Query) -> dict[tuple[str, ...], dict[str, int]]:
    """The rows of a table of the page, those added up that agree in the query's labels."""
    places = [shown.labels.index(label) for label in query.labels]
    found: dict[tuple[str, ...], dict[str, int]] = {}
    for row in shown.rows:
        sums = found.setdefault(tuple(row[place] for place in places), {})
        for name, text in zip(shown.figures, row[len(shown.labels) :], strict=True):
            if "." in text or not text.lstrip("-").isdigit():
                continue  # a ratio, or none
            value = int(text)
            sums[name] = max(sums.get(name, 0), value) if name in query.largest else sums.get(name, 0) + value
    return found
