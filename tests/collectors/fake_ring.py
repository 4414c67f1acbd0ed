# SPDX-License-Identifier: BSD-2-Clause
"""A stand-in for a recorder with --ring, which needs no kernel: it fires at SIGUSR2, or as FAKE_RING says.

Each segment has the table block with one row, the number of the segment; its losses are one event more.
FAKE_RING=auto:SECONDS fires by itself every so many seconds.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import struct
import sys
import time
from pathlib import Path
from types import FrameType
from typing import Any

HEADER = json.dumps(
    {
        "table": "number",
        "byte_order": "little",
        "record_bytes": 8,
        "fields": [{"name": "number", "offset": 0, "bytes": 8, "type": "u64"}],
    }
).encode()


def rec(numbers: list[int], more: bytes = b"") -> bytes:
    """A file of the table number."""
    head = b"SKMREC01" + struct.pack("<II", len(HEADER), 0) + HEADER
    return head + b"\0" * (-len(head) % 8) + b"".join(struct.pack("<Q", n) for n in numbers) + more


class Fake:
    """The ring."""

    def __init__(self, arguments: list[str]) -> None:
        def value(name: str, default: str = "") -> str:
            return arguments[arguments.index(name) + 1] if name in arguments else default

        self.out = Path(value("--out"))
        self.keep_ns, self.after_ns = int(value("--ring")), int(value("--after-ns"))
        self.times = int(value("--times"))
        self.collect = value("--collect").split(",")
        self.shown = value("--trigger").partition("=")[2]
        self.number = 0
        self.starts: list[int] = []
        self.fired: list[int] = []
        self.kept: list[int] = []
        self.is_asked = False
        (self.out / "whole").mkdir()
        (self.out / "whole/stack.jsonl").write_text('{"id":1}\n{"id":2,"to')  # as it is being written

    def losses(self, seen: int) -> dict[str, Any]:
        return {
            name: {"seen": seen, "recorded": seen - seen // 3, "lost": {"full": seen // 3}}
            for name in self.collect
        }

    def tell(self, **line: Any) -> None:
        with (self.out / "flight.jsonl").open("a") as file:
            file.write(json.dumps(line) + "\n")

    def open_segment(self, now_ns: int) -> None:
        self.number += 1
        self.starts.append(now_ns)
        folder = self.out / f"segment-{self.number:06d}"
        folder.mkdir()
        (folder / "number.rec").write_bytes(rec([self.number]))

    def close_segment(self, now_ns: int) -> None:
        stated = {
            "start_ns": self.starts[-1],
            "end_ns": now_ns,
            "losses_start": self.losses(3 * self.number - 3),
            "losses": self.losses(3 * self.number),
        }
        (self.out / f"segment-{self.number:06d}/segment.json").write_text(json.dumps(stated))
        with (self.out / "second.rec").open("ab") as file:
            file.write(rec([self.number]) if self.number == 1 else struct.pack("<Q", self.number))
        whole = {
            name: {"state": "on", "why": "", "remedy": "", **self.losses(3 * self.number)[name], "notes": {}}
            for name in self.collect
        }
        text = {"collectors": whole, "recorder": {"until_ns": now_ns, "cpu_ns": 5}, "complete": False}
        (self.out / "losses.json").write_text(json.dumps(text))

    def keep(self, now_ns: int) -> None:
        """Cut the ring, and offer the window of the last trigger."""
        self.close_segment(now_ns)
        count = 6
        names = [f"segment-{n:06d}" for n in range(max(1, self.number - count + 1), self.number + 1)]
        from_ns = self.starts[int(names[0][8:]) - 1]
        number = len(self.fired)
        self.kept.append(number)
        self.tell(
            kept=number, from_ns=from_ns, to_ns=now_ns, segments=names, asked_ns=self.keep_ns, why_short=""
        )
        self.open_segment(now_ns)

    def run(self) -> None:
        start_ns = time.monotonic_ns()
        self.open_segment(start_ns)
        on = {name: {"state": "on", "why": "", "remedy": ""} for name in self.collect}
        print(json.dumps({"ready": True, "collectors": on, "monotonic_ns": start_ns}), flush=True)
        self.tell(armed_ns=start_ns)
        every_s = float(os.environ.get("FAKE_RING", "").removeprefix("auto:") or 0)
        while not select.select([sys.stdin], [], [], 0.02)[0]:
            now_ns = time.monotonic_ns()
            is_pending = len(self.kept) < len(self.fired)
            if every_s and now_ns - (self.fired or [start_ns])[-1] > every_s * 1e9:
                self.is_asked = True
            if self.is_asked and not is_pending:
                self.is_asked = False
                self.fired.append(now_ns)
                self.tell(
                    fired=len(self.fired), ns=now_ns, trigger=self.shown, kind="signal", value=0, detail=""
                )
            elif is_pending and now_ns - self.fired[-1] > self.after_ns:
                self.keep(now_ns)
                if len(self.kept) == self.times:
                    break
            elif now_ns - self.starts[-1] > self.keep_ns // 6:
                self.close_segment(now_ns)
                self.open_segment(now_ns)
            self.forget()
        now_ns = time.monotonic_ns()
        if len(self.kept) < len(self.fired):
            self.keep(now_ns)
        self.close_segment(now_ns)
        losses = json.loads((self.out / "losses.json").read_text())
        (self.out / "losses.json").write_text(json.dumps({**losses, "complete": True}))
        self.tell(stopped_ns=now_ns)
        print(json.dumps({"stopped": True, "monotonic_ns": now_ns}), flush=True)

    def forget(self) -> None:
        """Remove old segments, if no window that was offered needs them."""
        held = any(not (self.out / f"claimed-{number}").exists() for number in self.kept)
        for number in range(1, self.number - 8) if not held else ():
            shutil.rmtree(self.out / f"segment-{number:06d}", ignore_errors=True)


if __name__ == "__main__":
    fake = Fake(sys.argv[1:])

    def fire(number: int, frame: FrameType | None) -> None:
        fake.is_asked = True

    signal.signal(signal.SIGUSR2, fire)
    fake.run()
