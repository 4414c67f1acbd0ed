# SPDX-License-Identifier: BSD-2-Clause
"""Power cut: what was lost, what was promised and whether it was kept, log replay's time and requests."""

from __future__ import annotations

import numpy as np

from analysis import units
from analysis.measures.results import Results
from analysis.render.document import Section
from analysis.rundir.power_cut import REPLAY, PowerCut, Promises, power_cut
from analysis.rundir.run import Run
from analysis.sections.outcome import verdict
from analysis.sections.spec import SectionSpec
from analysis.tables.load import Tables

DEFINITION = (
    "cut: the emulated disk stops; every later request fails, and its queue and its write cache are gone but"
    " for what CRASH= keeps. not on the platter: acknowledged by the disk, in its write cache at that moment."
    " What a flush had made safe is kept: the disk does so by construction; whether the file system flushed"
    " what it had to is what promises tell. replay: the mount after power came back. promise: what fsync or"
    " fdatasync of a file, or fsync of a directory, returned 0 for."
)


def build_power_cut(run: Run, tables: Tables, results: Results) -> list[Section]:
    """The section; none without CRASH_AT=."""
    cut = power_cut(run)
    if cut is None:
        return []
    section = Section(facts=[("asked", cut.asked)], definition=DEFINITION)
    if cut.cut_ns is None:
        section.facts.append(("cut", f"never: {cut.why or 'the run ended before'}"))
        return [section]
    section.facts += _losses(cut, results)
    section.facts.append(("log replay", _replay(cut, tables)))
    if said := verdict(run):
        section.facts.append(("fsck", said))
    section.facts.append(("promises", _promises(cut)))
    if cut.promises is not None:
        section.notes += [f"broken: {line}" for line in cut.promises.first_broken]
        section.notes += _loose_ends(cut.promises)
    elif not cut.why and not cut.replay_error:
        section.notes.append(
            "only the workload promises (WL=promises) logs what its syncs promised; of this one nothing but"
            " fsck's verdict is known"
        )
    return [section]


def _losses(cut: PowerCut, results: Results) -> list[tuple[str, str]]:
    """When the power went, and the write cache at that moment."""
    assert cut.cut_ns is not None
    seconds = max(cut.cut_ns - results.window.work_start_ns, 0) / 1e9
    at = f", at the disk's request {cut.at_request:,}" if cut.at_request is not None else ""
    facts = [("cut", f"{units.seconds(seconds)} s after the workload's start{at}")]
    if cut.dirty_bytes is not None:
        kept = f"{units.bytes_(cut.kept_bytes)} kept all the same" if cut.kept_bytes else "none of it kept"
        facts.append(("not on the platter", f"{units.bytes_(cut.dirty_bytes)}, {kept}"))
    if cut.lost_bytes is not None:
        facts.append(("lost", units.bytes_(cut.lost_bytes)))
    if cut.torn_sector is not None:
        facts.append(("torn", f"the write under the head, at sector {cut.torn_sector:,}"))
    return facts


def _replay(cut: PowerCut, tables: Tables) -> str:
    """Time and requests of the mount after the cut."""
    if cut.replay_error:
        return f"FAILED: {cut.replay_error}"
    text = units.ns(cut.replay_s * 1e9) if cut.replay_s is not None else "its time is not known"
    block, phases = tables.top or tables.block, tables.phases
    if block is None or phases is None or REPLAY not in phases.name:
        return text
    at = len(phases.name) - 1 - phases.name[::-1].index(REPLAY)
    start_ns, end_ns = int(phases.start_ns[at]), int(phases.end_ns[at])
    inside = (block.complete_ns >= start_ns) & (block.complete_ns < end_ns)
    moved = {
        op: units.bytes_(int(block.bytes[inside & block.op.is_in((op,))].sum())) for op in ("read", "write")
    }
    count = units.counted(int(np.count_nonzero(inside)), "request")
    return f"{text}, {count}: {moved['read']} read, {moved['write']} written"


def _promises(cut: PowerCut) -> str:
    promises = cut.promises
    if promises is None:
        return f"not checked{f': {cut.why}' if cut.why else ''}"
    late = f" ({promises.told_after_cut:,} after the cut)" if promises.told_after_cut else ""
    broken = f"{promises.broken:,} BROKEN" if promises.broken else "none broken"
    told = f"{promises.told:,} syncs returned 0{late}"
    return f"{told}; of what was promised at the cut {promises.kept:,} kept, {broken}"


def _loose_ends(promises: Promises) -> list[str]:
    if not promises.nameless:
        return []
    return [
        f"{units.counted(promises.nameless, 'synced file')} gone whose directory was never synced: fsync of a"
        " file promises its contents, and not its name"
    ]


SECTIONS = (SectionSpec("power_cut", "Power cut", 150, build_power_cut, essential=True),)
