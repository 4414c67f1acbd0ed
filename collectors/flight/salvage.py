# SPDX-License-Identifier: BSD-2-Clause
"""Keep what is in the rings of watches that were killed: the next start of any recording command does.

Windows that were complete become runs as usual; the rest of the ring, up to the recorder's last sign of life,
becomes a run whose state is interrupted.
"""

import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from collectors.flight import assemble, kept_run
from collectors.flight.kept_run import Place
from collectors.flight.lines import Fired, FlightLines, Kept
from collectors.flight.ring_mount import RUN, dead_rings
from collectors.host.json_file import read_json
from collectors.recorder import losses
from collectors.trace.run_dir import STAMP
from workloads.cleanup.undo import UNSAVED, undo_process
from workloads.system import front
from workloads.system.errors import UserError

_JSON_BYTES_MOST = 64 << 20
_PATIENCE_SECONDS = 10.0
_KILLED = "the watch was killed before its end; what was in its ring is kept"


def salvage() -> Iterator[str]:
    """Keep and unmount the rings of dead watches. Yields messages."""
    if os.geteuid() != 0:
        return
    for ring in dead_rings():
        try:
            if (ring.path / UNSAVED).exists():
                yield from _salvage(ring.path / RUN)
            ring.remove()
        except (OSError, UserError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            ring.leave()
            why = error.message if isinstance(error, UserError) else str(error).lower()
            yield f"{ring.path} has a recording that could not be kept ({why}): the next start tries again"


def _salvage(watch: Path) -> Iterator[str]:
    directory = os.open(watch, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        facts = read_json(directory, "run.json", _JSON_BYTES_MOST)
    finally:
        os.close(directory)
    _end_recorder(facts)
    place = Place.of_facts(facts["place"])
    ring = watch / "raw/recorder"
    lines = FlightLines(ring)
    lines.read_new()
    for number, kept in sorted(lines.kept.items()):
        if not (ring / f"claimed-{number}").exists():
            yield _keep(watch, facts, place, kept, lines.fired.get(number), "complete")
    rest = _rest(ring, facts, lines)
    if rest is not None:
        facts["warnings"].append(_KILLED)
        yield _keep(watch, facts, place, rest, lines.fired.get(rest.number), "interrupted")


def _keep(
    watch: Path, facts: Mapping[str, Any], place: Place, kept: Kept, fired: Fired | None, state: str
) -> str:
    run = place.make(kept.number, time.strftime(STAMP))
    try:
        kept_run.fill(run, watch, facts, kept, fired, state)
    except BaseException:
        kept_run.discard(run)
        raise
    run.finish()
    ring = watch / "raw/recorder"
    (ring / f"claimed-{kept.number}").mkdir(exist_ok=True)
    what = "a window" if state == "complete" else "the last"
    seconds = (kept.to_ns - kept.from_ns) / 1e9
    return (
        f"a watch that was killed had {what} {seconds:.0f} s in memory: kept as {run.path} "
        f"({front.command(f'report RUN={run.path}')} shows it)"
    )


def _rest(ring: Path, facts: Mapping[str, Any], lines: FlightLines) -> Kept | None:
    """Return a window of all that is in the ring, unless the last trigger's has it already."""
    names = assemble.segments_of(ring)
    segments = [assemble.read_segment(ring, name) for name in names]
    done = {name for kept in lines.kept.values() for name in kept.segments}
    if not names or names[-1] in done:
        return None
    record_start_ns = int(facts["clock"]["record_start_ns"])
    try:
        until_ns = int(losses.read_checked(ring.parent)["recorder"]["until_ns"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        until_ns = 0
    ends_ns = [segment.end_ns for segment in segments if segment.end_ns is not None]
    from_ns = segments[0].start_ns or record_start_ns
    to_ns = max(until_ns, *ends_ns, from_ns + 1)
    last = max(lines.fired, default=0)
    is_pending = last > 0 and last not in lines.kept
    return Kept(
        last if is_pending else last + 1,
        from_ns,
        to_ns,
        tuple(names),
        int(facts.get("flight", {}).get("keep_ns") or 0),
        "killed",
    )


def _end_recorder(facts: Mapping[str, Any]) -> None:
    """Wait until the recorder has ended, as it does when its watch is dead; end it if it does not."""
    pid, started = (int(number) for number in facts["recorder_process"])
    entry = {"pid": pid, "start_time": started}
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while time.monotonic() < deadline and _is_there(pid, started):
        time.sleep(0.05)
    undo_process(entry)


def _is_there(pid: int, started: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return False
    return stat[0] not in "ZX" and int(stat[19]) == started
