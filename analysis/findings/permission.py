# SPDX-License-Identifier: BSD-2-Clause
"""Another program's permission: a scanner that looks at each file before it may be opened (fanotify)."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.findings.finding import Finding
from analysis.findings.rule import Case, Rule
from analysis.findings.sleeping import (
    accounts,
    call_names,
    certainty_of,
    cost_of,
    ends_text,
    where_of,
)
from analysis.findings.wording import seconds
from analysis.measures.waits.explained import PLAIN
from analysis.measures.waits.wakers import NOT_LOGGED, wakers_of
from analysis.units import counted

KEY = "permission"
MOST = 3  # programs that are named
HOW = {"fanotify_handle_event": "fanotify", "seccomp_do_user_notification": "seccomp"}


def find(case: Case) -> Sequence[Finding]:
    """At most one finding: all waits for such permissions."""
    if case.sleeps is None:
        return []
    sleeps = case.sleeps.of(PLAIN, KEY)
    cost = cost_of(case, sleeps.total_ns, sleeps.total_weak_ns)
    if not case.counts(cost.value_s):
        return []
    givers = [one for one in wakers_of(case.results.path, sleeps, case.tables) if one[0] != NOT_LOGGED]
    who = givers[0][0] if givers else "another program"
    place = sleeps.by(sleeps.place)[0][0]
    how = f" ({HOW.get(place, place)})" if place else ""
    calls = call_names(sleeps) or "calls"
    each = seconds(sleeps.total_ns / max(sleeps.count, 1) / 1e9)
    because = [f"{counted(sleeps.count, 'sleep')} in {calls}, {each} each (mean)."]
    if givers:
        because.append(f"Given by: {', '.join(f'{name} {count:,} times' for name, count in givers[:MOST])}.")
    because += [text for text in (ends_text(case, KEY),) if text]
    certainty, doubt = certainty_of(
        case, sleeps, [] if givers else ["who gave it was not recorded"], ("sched", "threads")
    )
    return [
        Finding(
            kind=KEY,
            what=f"The workload waited for the permission of {who}{how}: {case.of_wall(cost.value_s)}.",
            because=because,
            where=where_of(case, sleeps),
            cost=cost,
            evidence=accounts(case, sleeps),
            certainty=certainty,
            doubt=doubt,
            no_remedy="other programs are not the run's to end",
            test=f"without {who if givers else 'it'}: {case.command()}",
            lines=frozenset({KEY}),
        )
    ]


RULES = (Rule(key=KEY, order=17, sought="another program's permission", collectors=("threads",), find=find),)
