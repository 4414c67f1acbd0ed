# SPDX-License-Identifier: BSD-2-Clause
"""The answers to the questions of analysis/queries, computed row by row in Python from a run's Parquet files.

Each function has the name of a question and returns its rows, in any order.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

Row = dict[str, Any]
COMMITS = ("jbd2_commit", "jbd2_fast_commit", "xfs_log_force", "btrfs_commit")


class Recorded:
    """A run's tables as rows, its clock (ns) and the window in seconds from the workload's start."""

    def __init__(self, run: Path, clock: dict[str, int], window: tuple[float, float] | None) -> None:
        self.run = run
        self.clock = clock
        self.start_ns = clock["workload_start_ns"]
        self.window = window
        self._rows: dict[str, list[Row]] = {}

    def rows(self, table: str) -> list[Row]:
        """All rows of a table."""
        folder = self.run if table == "critical_path" else self.run / "tables"
        file = folder / f"{table}.parquet"
        if table not in self._rows:
            self._rows[table] = pq.read_table(file).to_pylist() if file.exists() else []
        return self._rows[table]

    def inside(self, rows: Iterable[Row], column: str) -> Iterator[Row]:
        """The rows whose time is in the window."""
        for row in rows:
            if self.window is None or self.window[0] <= (row[column] - self.start_ns) / 1e9 < self.window[1]:
                yield row

    def seconds(self, time_ns: int) -> float:
        """Seconds from the workload's start."""
        return (time_ns - self.start_ns) / 1e9

    def recorded_part_s(self, second: int) -> float:
        """Length of the recorded part of a second of the workload."""
        first, last = self.seconds(self.clock["record_start_ns"]), self.seconds(self.clock["record_end_ns"])
        return min(second + 1, last) - max(second, first)


def grouped(rows: Iterable[Row], key: Callable[[Row], tuple[Any, ...]]) -> dict[tuple[Any, ...], list[Row]]:
    """Rows by key."""
    groups: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in rows:
        groups[key(row)].append(row)
    return groups


def total(rows: Iterable[Row], column: str) -> int:
    """Sum of a column."""
    return sum(row[column] for row in rows)


def device(dev: int) -> str:
    """major:minor."""
    return f"{dev // 2**20}:{dev % 2**20}"


def path_text(frames: list[str] | None) -> str | None:
    """A call path as one text."""
    return None if frames is None else " < ".join(frame.split("+0x")[0] for frame in frames)


def at_rank(values: list[int], share: float) -> int | None:
    """The smallest value that at least this share of the values does not exceed."""
    return sorted(values)[math.ceil(share * len(values)) - 1] if values else None


def ms(time_ns: int | None) -> float | None:
    """Nanoseconds as milliseconds."""
    return None if time_ns is None else time_ns / 1e6


def slowest_requests(recorded: Recorded) -> list[Row]:
    comms = {row["thread"]: row["comm"] for row in recorded.rows("thread")}
    wakes = [row for row in recorded.rows("wake") if row["cause"] == "request"]
    done = [
        row for row in recorded.inside(recorded.rows("block"), "queue_ns") if row["complete_ns"] is not None
    ]
    done.sort(key=lambda row: (row["queue_ns"] - row["complete_ns"], row["issue_ns"], row["sector"]))
    return [
        {
            "from_s": recorded.seconds(row["queue_ns"]),
            "q2c_ms": (row["complete_ns"] - row["queue_ns"]) / 1e6,
            "q2d_ms": (row["issue_ns"] - row["queue_ns"]) / 1e6,
            "d2c_ms": (row["complete_ns"] - row["issue_ns"]) / 1e6,
            **{name: row[name] for name in ("op", "class", "sector", "bytes", "why")},
            "sent_by": row["comm"],
            "waited": row["waited"],
            "woken": ", ".join(
                sorted(
                    {
                        comms[wake["wakee"]]
                        for wake in wakes
                        if (wake["dev"], wake["sector"]) == (row["dev"], row["sector"])
                        and 0 <= wake["t_ns"] - row["complete_ns"] <= 1_000_000
                    }
                )
            )
            or None,
        }
        for row in done[:10]
    ]


def bytes_by_file(recorded: Recorded) -> list[Row]:
    names: dict[tuple[str, int], str] = {}
    for row in recorded.rows("path"):
        key = (row["dev"], row["ino"])
        names[key] = min(names.get(key, row["path"]), row["path"])
    rows = recorded.inside(recorded.rows("block"), "issue_ns")

    def key_of(row: Row) -> tuple[Any, ...]:
        path = None if row["sb_dev"] is None else names.get((device(row["sb_dev"]), row["ino"]))
        return path, row["ino"], row["class"], row["op"]

    answer = [
        {
            **dict(zip(("path", "ino", "class", "op"), key, strict=True)),
            "requests": len(group),
            "bytes": total(group, "bytes"),
            "waited_requests": sum(row["waited"] != "no" for row in group),
        }
        for key, group in grouped(rows, key_of).items()
    ]
    answer.sort(
        key=lambda row: (-row["bytes"], -row["requests"], row["path"] or "~", row["class"], row["op"])
    )
    return answer[:40]


def _lock_waits(recorded: Recorded) -> Iterator[Row]:
    names = {row["lock_id"]: row["name"] or None for row in recorded.rows("lock")}
    for row in recorded.inside(recorded.rows("lock_wait"), "bin_ns"):
        if row["in_workload"]:
            yield {**row, "lock": names.get(row["lock_id"])}


def lock_waits_by_path(recorded: Recorded) -> list[Row]:
    paths = {row["stack_id"]: path_text(row["frames"]) for row in recorded.rows("stack")}
    groups = grouped(
        _lock_waits(recorded), lambda row: (row["lock"], row["kind"], row["mode"], paths.get(row["stack_id"]))
    )
    answer = [
        {
            **dict(zip(("lock", "kind", "mode", "call_path"), key, strict=True)),
            "waits": total(group, "count"),
            "slept_ms": total(group, "sleep_ns") / 1e6,
            "spun_ms": total(group, "spin_ns") / 1e6,
            "longest_ms": max(row["max_ns"] for row in group) / 1e6,
        }
        for key, group in groups.items()
    ]
    return sorted(answer, key=lambda row: -(row["slept_ms"] + row["spun_ms"]))[:20]


def lock_holders(recorded: Recorded) -> list[Row]:
    paths = {row["stack_id"]: path_text(row["frames"][:4]) for row in recorded.rows("stack")}
    groups = grouped(
        _lock_waits(recorded),
        lambda row: (
            row["lock"],
            row["holder_comm"] or None,
            row["holder_state"],
            paths.get(row["holder_stack_id"]),
        ),
    )
    answer = [
        {
            **dict(zip(("lock", "holder", "holder_state", "holds_at"), key, strict=True)),
            "waits": total(group, "count"),
            "waited_ms": (total(group, "sleep_ns") + total(group, "spin_ns")) / 1e6,
        }
        for key, group in groups.items()
    ]
    return sorted(answer, key=lambda row: -row["waited_ms"])[:20]


def latency_percentiles(recorded: Recorded) -> list[Row]:
    answer = []
    rows = recorded.inside(recorded.rows("block"), "queue_ns")
    for (op, kind), group in grouped(rows, lambda row: (row["op"], row["class"])).items():
        done = [row for row in group if row["complete_ns"] is not None]
        q2c = [row["complete_ns"] - row["queue_ns"] for row in done]
        d2c = [row["complete_ns"] - row["issue_ns"] for row in done]
        answer.append(
            {
                "op": op,
                "class": kind,
                "requests": len(group),
                "not_seen": len(group) - len(done),
                "q2c_p50_ms": ms(at_rank(q2c, 0.5)),
                "q2c_p90_ms": ms(at_rank(q2c, 0.9)),
                "q2c_p99_ms": ms(at_rank(q2c, 0.99)),
                "q2c_most_ms": ms(at_rank(q2c, 1)),
                "d2c_p50_ms": ms(at_rank(d2c, 0.5)),
                "d2c_p99_ms": ms(at_rank(d2c, 0.99)),
                "d2c_most_ms": ms(at_rank(d2c, 1)),
            }
        )
    return answer


def units(recorded: Recorded) -> list[Row]:
    names = {row["cgroup"]: row for row in recorded.rows("cgroup")}
    nobody = {"kind": "unknown", "name": "not known", "pod": ""}
    groups = grouped(
        recorded.inside(recorded.rows("block"), "issue_ns"),
        lambda row: tuple(names.get(row["cgroup"], nobody)[key] for key in ("kind", "name", "pod")),
    )
    answer = []
    for (kind, name, pod), group in groups.items():
        q2c = [row["complete_ns"] - row["queue_ns"] for row in group if row["complete_ns"] is not None]
        written = [row for row in group if row["op"] == "write"]
        answer.append(
            {
                "kind": kind,
                "unit": name,
                "pod": pod,
                "requests": len(group),
                "read_bytes": total((row for row in group if row["op"] == "read"), "bytes"),
                "written_bytes": total(written, "bytes"),
                "written_back_bytes": total(
                    (row for row in written if row["submitter"] == "kernel_thread"), "bytes"
                ),
                "p50_ms": ms(at_rank(q2c, 0.5)),
                "p99_ms": ms(at_rank(q2c, 0.99)),
            }
        )
    return answer


def seeks_per_second(recorded: Recorded) -> list[Row]:
    ends: dict[int, int] = {}
    moves = [row for row in recorded.rows("block") if row["op"] in ("read", "write")]
    for row in sorted(moves, key=lambda row: (row["issue_ns"], row["complete_ns"])):
        before = ends.get(row["dev"])
        row["is_seek"] = before is not None and abs(row["sector"] - before) > 128
        ends[row["dev"]] = row["sector"] + math.ceil(row["bytes"] / 512)
    groups = grouped(
        recorded.inside(moves, "issue_ns"),
        lambda row: (device(row["dev"]), math.floor(recorded.seconds(row["issue_ns"]))),
    )
    return [
        {
            "device": name,
            "second": second,
            "requests": len(group),
            "seeks": total(group, "is_seek"),
            "seeks_per_s": total(group, "is_seek") / recorded.recorded_part_s(second),
        }
        for (name, second), group in groups.items()
    ]


def queue_depth(recorded: Recorded) -> list[Row]:
    answer = []
    done = [row for row in recorded.rows("block") if row["complete_ns"] is not None]
    for (dev,), group in grouped(done, lambda row: (row["dev"],)).items():
        spans = [(recorded.seconds(row["issue_ns"]), recorded.seconds(row["complete_ns"])) for row in group]
        for second in range(-3, math.ceil(max(until for _, until in spans)) + 1):
            here = [span for span in spans if span[0] < second + 1 and span[1] >= second]
            begin_ns = recorded.start_ns + second * 1_000_000_000
            if not here or not list(recorded.inside([{"t": begin_ns}], "t")):
                continue
            moments = [second, *(start for start, _ in here if start >= second)]
            answer.append(
                {
                    "device": device(dev),
                    "second": second,
                    "requests": len(here),
                    "mean_depth": sum(min(b, second + 1) - max(a, second) for a, b in here)
                    / recorded.recorded_part_s(second),
                    "deepest": max(sum(a <= moment < b for a, b in here) for moment in moments),
                }
            )
    return answer


def who_wrote(recorded: Recorded) -> list[Row]:
    rows = [
        row
        for row in recorded.inside(recorded.rows("block"), "issue_ns")
        if row["op"] in ("write", "write_zeroes")
    ]
    return [
        {
            "why": why,
            "sent_by": comm,
            "class": kind,
            "requests": len(group),
            "bytes": total(group, "bytes"),
            "waited_bytes": total((row for row in group if row["waited"] != "no"), "bytes"),
            "share_pct": 100 * total(group, "bytes") / total(rows, "bytes"),
        }
        for (why, comm, kind), group in grouped(rows, lambda r: (r["why"], r["comm"], r["class"])).items()
    ]


def thread_time(recorded: Recorded) -> list[Row]:
    rows = [
        row for row in recorded.inside(recorded.rows("thread_time"), "bin_ns") if row["role"] == "workload"
    ]
    return [
        {
            "role": "workload",
            "state": state,
            "cause": cause,
            "threads": len({row["thread"] for row in group}),
            "time_s": total(group, "ns") / 1e9,
            "intervals": total(group, "count"),
            "longest_ms": max(row["max_ns"] for row in group) / 1e6,
            "share_pct": 100 * total(group, "ns") / total(rows, "ns"),
        }
        for (state, cause), group in grouped(rows, lambda row: (row["state"], row["cause"])).items()
    ]


def _bucket_start_ns(bucket: int) -> int:
    """The first ns whose bucket this is, by the definition in docs/TABLES.md."""

    def bucket_of(ns: int) -> int:
        exponent = ns.bit_length() - 1
        return ns if ns < 8 else (exponent - 2) * 8 + ((ns >> (exponent - 3)) & 7)

    low, high = 0, 1 << 40
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if bucket_of(middle) >= bucket else (middle + 1, high)
    return low


def call_latencies(recorded: Recorded) -> list[Row]:
    answer = []
    rows = [row for row in recorded.inside(recorded.rows("call"), "bin_ns") if row["target"] == "target"]
    for (call,), group in grouped(rows, lambda row: (row["call"],)).items():
        below = np.cumsum(np.sum([row["hist"] for row in group], axis=0))
        calls = total(group, "count")
        assert below[-1] == calls
        answer.append(
            {
                "call": call,
                "calls": calls,
                "failed": total(group, "errors"),
                "bytes": total(group, "bytes"),
                "total_s": total(group, "total_ns") / 1e9,
                "mean_us": total(group, "total_ns") / calls / 1e3,
                **{
                    f"p{percent}_us": _bucket_start_ns(int(np.argmax(below * 100 >= percent * calls))) / 1e3
                    for percent in (50, 90, 99)
                },
                "most_us": max(row["max_ns"] for row in group) / 1e3,
            }
        )
    return answer


def commits(recorded: Recorded) -> list[Row]:
    threads = recorded.rows("thread")
    answer = []
    for row in recorded.inside(recorded.rows("event"), "start_ns"):
        if row["kind"] not in COMMITS:
            continue
        comms = [
            thread["comm"]
            for thread in threads
            if thread["tid"] == row["asker_tid"]
            and thread["start_ns"] <= row["end_ns"]
            and (thread["end_ns"] is None or thread["end_ns"] >= row["start_ns"])
        ]
        is_jbd2 = row["kind"] == "jbd2_commit"
        answer += [
            {
                "from_s": recorded.seconds(row["start_ns"]),
                "kind": row["kind"],
                "length_ms": (row["end_ns"] - row["start_ns"]) / 1e6,
                "why": row["why"],
                "asked_by": comm,
                "call": row["asker_call"],
                "handles": row["count"],
                "bytes": row["bytes"],
                "locked_ms": ms(row["p3_ns"]) if is_jbd2 else None,
                "flushing_ms": ms(row["p4_ns"]) if is_jbd2 else None,
                "logging_ms": ms(row["p5_ns"]) if is_jbd2 else None,
            }
            for comm in comms or [None]
        ]
    return answer


def events(recorded: Recorded) -> list[Row]:
    groups = grouped(
        recorded.inside(recorded.rows("event"), "start_ns"),
        lambda row: (row["kind"], row["why"], row["asker_call"]),
    )
    return [
        {
            **dict(zip(("kind", "why", "call"), key, strict=True)),
            "events": len(group),
            "total_ms": sum(row["end_ns"] - row["start_ns"] for row in group) / 1e6,
            "longest_ms": max(row["end_ns"] - row["start_ns"] for row in group) / 1e6,
            "pages": total(group, "pages"),
            "bytes": total(group, "bytes"),
        }
        for key, group in groups.items()
    ]


def requests_beside_lock_waits(recorded: Recorded) -> list[Row]:
    block = recorded.rows("block")
    waits = sorted(
        _lock_waits(recorded),
        key=lambda row: (-row["max_ns"], row["bin_ns"], row["lock_id"], row["stack_id"]),
    )
    answer = []
    for row in waits[:10]:
        from_ns, until_ns = row["bin_ns"] - row["max_ns"], row["bin_ns"] + row["length_ns"]
        here = [
            request
            for request in block
            if request["issue_ns"] < until_ns and (request["complete_ns"] or request["issue_ns"]) >= from_ns
        ]
        lengths = [r["complete_ns"] - r["issue_ns"] for r in here if r["complete_ns"] is not None]
        answer.append(
            {
                "until_s": recorded.seconds(until_ns),
                "lock": row["lock"],
                "waited_ms": row["max_ns"] / 1e6,
                "holder": row["holder_comm"] or None,
                "holder_state": row["holder_state"],
                "requests": len(here),
                "reads": sum(request["op"] == "read" for request in here),
                "writes": sum(request["op"] in ("write", "write_zeroes") for request in here),
                "flushes": sum(request["op"] == "flush" for request in here),
                "bytes": total(here, "bytes"),
                "longest_ms": ms(max(lengths, default=None)),
            }
        )
    return answer


def dips(recorded: Recorded, share: float = 0.5) -> list[Row]:
    """share: of the usual bytes, below which a tenth is in the answer; infinite: all are."""
    work_ns = recorded.clock["workload_end_ns"] - recorded.start_ns
    count = math.ceil(work_ns / 1e8)
    app, disk = np.zeros(count), np.zeros(count)

    def tenth(time_ns: int) -> int:
        return math.floor((time_ns - recorded.start_ns) / 1e8)

    for row in recorded.rows("call"):
        at = tenth(row["bin_ns"] + row["length_ns"] // 2)
        if row["target"] == "target" and 0 <= at < count:
            app[at] += row["bytes"]
    for row in recorded.rows("block"):
        if row["complete_ns"] is not None and 0 <= tenth(row["complete_ns"]) < count:
            disk[tenth(row["complete_ns"])] += row["bytes"]
    event = recorded.rows("event")

    def under_way(at: int, kinds: tuple[str, ...]) -> int:
        return sum(
            row["kind"] in kinds and tenth(row["start_ns"]) <= at <= tenth(row["end_ns"]) for row in event
        )

    usual = float(np.median(app))
    return [
        {
            "from_s": at / 10,
            "app_bytes": int(app[at]),
            "usual_bytes": usual,
            "disk_bytes": int(disk[at]),
            "commits": under_way(at, COMMITS),
            "throttled": under_way(at, ("dirty_throttle",)),
        }
        for at in range(count)
        if (math.isinf(share) or app[at] < share * usual)
        and list(recorded.inside([{"t": recorded.start_ns + at * 100_000_000}], "t"))
    ]


def critical_path(recorded: Recorded) -> list[Row]:
    rows = list(recorded.inside(recorded.rows("critical_path"), "start_ns"))
    length_ns = total(rows, "end_ns") - total(rows, "start_ns")
    groups = grouped(rows, lambda row: (row["kind"], row["own_cause"], row["request"]))
    return [
        {
            **dict(zip(("kind", "waited_as", "request"), key, strict=True)),
            "pieces": len(group),
            "time_s": (total(group, "end_ns") - total(group, "start_ns")) / 1e9,
            "share_pct": 100 * (total(group, "end_ns") - total(group, "start_ns")) / length_ns,
        }
        for key, group in groups.items()
    ]


def throughput(recorded: Recorded) -> list[Row]:
    seconds: dict[int, Row] = defaultdict(
        lambda: dict.fromkeys(
            ("app_read_bytes", "app_written_bytes", "disk_read_bytes", "disk_written_bytes"), 0
        )
    )
    words = {"read": "read", "write": "written"}
    for row in recorded.inside(recorded.rows("call"), "bin_ns"):
        if row["target"] == "target" and row["call"] in words and row["bytes"]:
            second = math.floor(recorded.seconds(row["bin_ns"] + row["length_ns"] // 2))
            seconds[second][f"app_{words[row['call']]}_bytes"] += row["bytes"]
    done = (row for row in recorded.rows("block") if row["complete_ns"] is not None)
    for row in recorded.inside(done, "complete_ns"):
        if row["op"] in words and row["bytes"]:
            second = math.floor(recorded.seconds(row["complete_ns"]))
            seconds[second][f"disk_{words[row['op']]}_bytes"] += row["bytes"]
    return [{"second": second, **row} for second, row in seconds.items()]


def phases(recorded: Recorded) -> list[Row]:
    block, answer = recorded.rows("block"), []
    for row in recorded.inside(recorded.rows("phase"), "start_ns"):
        here = [request for request in block if row["start_ns"] <= request["issue_ns"] < row["end_ns"]]
        length_s = (row["end_ns"] - row["start_ns"]) / 1e9
        answer.append(
            {
                "phase": row["name"],
                "from_s": recorded.seconds(row["start_ns"]),
                "length_s": length_s,
                "ops": row["ops"],
                "ops_per_s": row["ops"] / length_s,
                "requests": len(here),
                "bytes_read": total((request for request in here if request["op"] == "read"), "bytes"),
                "bytes_written": total((request for request in here if request["op"] == "write"), "bytes"),
                "flushes": sum(request["op"] == "flush" for request in here),
            }
        )
    return answer


def wakers(recorded: Recorded) -> list[Row]:
    comms = {row["thread"]: row["comm"] for row in recorded.rows("thread")}
    rows = (row for row in recorded.rows("wake") if row["wakee_role"] == "workload")
    groups = grouped(
        recorded.inside(rows, "t_ns"),
        lambda row: (
            comms[row["wakee"]],
            comms.get(row["waker"]) if row["waker"] else None,
            row["context"],
            row["cause"],
        ),
    )
    return [
        {
            **dict(zip(("woken", "woken_by", "context", "cause"), key, strict=True)),
            "wakes": len(group),
            "not_sure": sum(not row["sure"] and row["cause"] != "none" for row in group),
        }
        for key, group in groups.items()
    ]


def cpu_functions(recorded: Recorded) -> list[Row]:
    functions = {row["stack_id"]: row["frames"][0] for row in recorded.rows("cpu_stack") if row["frames"]}
    rows = [row for row in recorded.inside(recorded.rows("cpu_sample"), "t_ns") if row["in_workload"]]
    answer = [
        {
            "mode": mode,
            "function": function,
            "samples": len(group),
            "cpu_ms": total(group, "period_ns") / 1e6,
            "share_pct": 100 * total(group, "period_ns") / total(rows, "period_ns"),
        }
        for (mode, function), group in grouped(
            rows, lambda row: (row["mode"], functions.get(row["stack_id"]))
        ).items()
    ]
    return sorted(answer, key=lambda row: (-row["samples"], row["mode"], row["function"] or "~"))[:30]


def request_sizes(recorded: Recorded) -> list[Row]:
    rows = [row for row in recorded.inside(recorded.rows("block"), "issue_ns") if row["bytes"] > 0]
    of_op = grouped(rows, lambda row: (row["op"],))
    groups = grouped(rows, lambda row: (row["op"], row["class"], 1 << (row["bytes"].bit_length() - 1)))
    return [
        {
            **dict(zip(("op", "class", "at_least_bytes"), key, strict=True)),
            "requests": len(group),
            "bytes": total(group, "bytes"),
            "merges": total(group, "merges"),
            "share_pct": 100 * len(group) / len(of_op[(key[0],)]),
        }
        for key, group in groups.items()
    ]


REFERENCES: dict[str, Callable[[Recorded], list[Row]]] = {
    reference.__name__: reference
    for reference in (
        *(slowest_requests, bytes_by_file, lock_waits_by_path, lock_holders, latency_percentiles),
        *(seeks_per_second, queue_depth, who_wrote, thread_time, call_latencies, commits, events),
        *(requests_beside_lock_waits, dips, critical_path, throughput, phases, wakers, cpu_functions),
        *(request_sizes, units),
    )
}
