# SPDX-License-Identifier: BSD-2-Clause
"""Throughput dipped: by more than chance makes it, with the seconds lost and what they went to."""

from __future__ import annotations

from collections.abc import Sequence

from analysis import units
from analysis.findings.finding import Certainty, Cost, Evidence, Finding, Where
from analysis.findings.rule import Case, Rule
from analysis.measures.dips.accounting import FEWER_THREADS, Account, Line
from analysis.measures.dips.progress import causes_text, line_text, rate_text, table_of, tracks_of
from analysis.measures.dips.results import DipsOfTrack, ExplainedDip, measure_dips
from analysis.tables import thread_time

KEY = "dip"
MOVES_SHOWN = 2
ENDS_SHOWN = 3
NEARLY_ZERO = 0.05  # share of the loss
LEAST_END_S = 0.005  # of an end that is named
Known = tuple[ExplainedDip, Account]


def find(case: Case) -> Sequence[Finding]:
    """One finding for each phase and first cause; none of dips whose loss cannot be accounted for."""
    found = []
    for of_track in measured(case):
        groups: dict[str, list[Known]] = {}
        for dip in of_track.dips:
            if dip.account is not None:
                named = dip.account.named()
                groups.setdefault(named[0].key if named else "", []).append((dip, dip.account))
        for key, dips in groups.items():
            if case.counts(sum(_lost_s(account) for _, account in dips)):
                found.append(_finding(case, of_track, key, dips))
    return found


def why_not(case: Case) -> str:
    """Why nothing can be said on dips; empty: at least one phase was searched."""
    tracks = measured(case)
    if not tracks:
        return "no throughput is known"
    longest = max(tracks, key=lambda one: one.track.seconds)
    return longest.search.why_not if all(one.search.why_not for one in tracks) else ""


def measured(case: Case) -> list[DipsOfTrack]:
    """The search of each phase."""
    tables = case.tables
    times = tables.get(thread_time.TABLE)
    tracks = tracks_of(tables, case.results)
    return measure_dips(tracks, case.results.path, times, tables.block, tables.counter)


def _lost_s(account: Account) -> float:
    """The loss without what other calls would have taken outside, too."""
    return account.loss_s - (0.0 if account.is_matched else max(account.mix_s, 0.0))


def _line(account: Account, key: str) -> Line:
    return next(line for line in account.lines if line.key == key)


def _text(of_track: DipsOfTrack, key: str) -> str:
    return line_text(of_track.spent, key)


def _finding(case: Case, of_track: DipsOfTrack, key: str, dips: list[Known]) -> Finding:
    track, window = of_track.track, case.results.window
    lost_s = sum(_lost_s(account) for _, account in dips)
    mix_s = sum(account.loss_s - _lost_s(account) for _, account in dips)
    seconds = sum(account.seconds for _, account in dips)
    rate_in = sum(account.rate_in * account.seconds for _, account in dips) / seconds
    rate_out = sum(account.rate_out * account.seconds for _, account in dips) / seconds
    start, end = min(dip.start_ns for dip, _ in dips), max(dip.end_ns for dip, _ in dips)
    row = {"phase": track.phase, "from_ns": start, "until_ns": end}
    evidence = [_rate_evidence(of_track, row, rate_in, rate_out)]
    if key and of_track.spent is not None:
        inside = sum(_line(account, key).inside_s for _, account in dips)
        expected = sum(_line(account, key).expected_s for _, account in dips)
        evidence.append(
            Evidence(
                table_of(of_track.spent), {"cause": key, **row}, _text(of_track, key), "s", inside, expected
            )
        )
    own = {_text(of_track, one) for one in (of_track.spent.keys if of_track.spent is not None else ())}
    others = [move for move in of_track.moves if move.name not in own][:MOVES_SHOWN]
    for move in others:
        table = "counter" if "pages" in move.name else "block"
        evidence.append(Evidence(table, row, move.name, move.unit, move.inside, move.outside))
    certainty, doubt = _certainty(of_track, key, dips, lost_s)
    number = "1 dip" if len(dips) == 1 else f"{len(dips)} dips"
    where = f" in {track.phase}" if track.phase and track.seconds < 0.9 * window.work_s else ""
    at = f" from {units.seconds((start - window.work_start_ns) / 1e9)} s on" if len(dips) == 1 else ""
    what = (
        f"{number}{where}{at}: {rate_text(rate_in, track)} instead of {rate_text(rate_out, track)} for"
        f" {units.seconds(seconds)} s; lost: {case.of_wall(lost_s)}"
    )
    first_s = sum(_line(account, key).excess_s for _, account in dips) if key else 0.0
    what += f", {units.seconds(first_s)} s of it: {_text(of_track, key)}." if key else ", to no one cause."
    low_s = sum(account.low_s - (account.loss_s - _lost_s(account)) for _, account in dips)
    high_s = sum(account.high_s for _, account in dips)
    because = [causes_text([account for _, account in dips], of_track.spent), _ended(of_track, key, dips)]
    if mix_s > 0:
        because.append(f"The calls were others: {units.seconds(mix_s)} s more, not counted, are of them.")
    elif others:
        because.append(
            f"The {others[0].name} moves with it (p {others[0].p:.3f} over all series; no proof of a cause)."
        )
    because.append(
        f"Chance makes such a dip in {max(dip.p for dip, _ in dips):.3f} of series with this rhythm."
    )
    return Finding(
        kind=KEY,
        what=what,
        because=[text for text in because if text],
        where=Where(start, end, (track.phase,) if track.phase else ()),
        cost=Cost(lost_s, max(min(low_s, lost_s), 0.0), max(min(high_s, case.ledger.wall_s), lost_s)),
        evidence=evidence,
        certainty=certainty,
        doubt=doubt,
        no_remedy="what takes its cause away is with the finding on the cause",
        test=f"does it dip at the same progress again? {case.command()}",
        lines=frozenset({key} if key and key != FEWER_THREADS else ()),
    )


def _rate_evidence(of_track: DipsOfTrack, row: dict[str, object], inside: float, outside: float) -> Evidence:
    if of_track.track.unit == "bytes":
        return Evidence("call", row, "bytes moved", "MB/s", inside / 1e6, outside / 1e6)
    return Evidence("call", row, "calls returned", "1/s", inside, outside)


def _ended(of_track: DipsOfTrack, key: str, dips: list[Known]) -> str:
    """What the time with the first cause ended in."""
    ends: dict[str, float] = {}
    for dip, account in dips:
        for end, ns in dip.ends.get(key, []):
            ends[end] = ends.get(end, 0.0) + ns / 1e9 / account.threads_in
    largest = sorted(ends.items(), key=lambda one: (-one[1], one[0]))[:ENDS_SHOWN]
    largest = [(end, seconds) for end, seconds in largest if seconds >= LEAST_END_S]
    if not largest or (len(ends) == 1 and largest[0][0] == key):
        return ""
    named = "; ".join(f"{end}, {units.seconds(seconds)} s" for end, seconds in largest)
    return f"In the end that cause was: {named}."


def _certainty(of_track: DipsOfTrack, key: str, dips: list[Known], lost_s: float) -> tuple[Certainty, str]:
    """Sure only where the account and the series agree on the cause."""
    if any(account.low_s <= NEARLY_ZERO * account.loss_s for _, account in dips):
        return Certainty.POSSIBLE, "the interval of the loss reaches nearly 0"
    if not key:
        unknown_s = sum(account.unknown_s for _, account in dips)
        why = (
            f"{units.seconds(unknown_s)} s of the loss are not explained"
            if unknown_s > 0.2 * lost_s
            else "no cause has a tenth of it"
        )
        return Certainty.POSSIBLE, why
    if any(not account.is_matched for _, account in dips):
        return Certainty.LIKELY, "the calls inside are others than outside"
    if any(not account.is_interval for _, account in dips):
        return Certainty.LIKELY, "the time outside is too short for an interval: low and high are its range"
    if _text(of_track, key) not in {move.name for move in of_track.moves}:
        return Certainty.LIKELY, "the account names it; its series alone does not move with the dips"
    return Certainty.SURE, ""


RULES = (
    Rule(
        key=KEY,
        order=91,
        sought="a dip of throughput",
        collectors=("calls",),
        find=find,
        why_not=why_not,
    ),
)
