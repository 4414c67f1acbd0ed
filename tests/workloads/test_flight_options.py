# SPDX-License-Identifier: BSD-2-Clause
"""UNTIL= and its words: what each condition tells the recorder, and what is refused, with what text."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.collector import choices
from workloads.cli import flight_options
from workloads.cli import parse as parser
from workloads.cli.options import Options
from workloads.system.errors import OptionError

DEV = sorted(path.name for path in Path("/sys/class/block").iterdir())[0]


def parse(**given: str) -> Options:
    env = {f"SEEKMETER_{name}": text for name, text in {"DEV": DEV, **given}.items()}
    return parser.parse({**env, "SEEKMETER_WORDS": " ".join(["DEV", *given])}, "watch", choices())


@pytest.mark.parametrize(
    ("text", "spec", "shown"),
    [
        ("request > 500ms", "request:500000000", "request > 500ms"),
        ("request>500ms", "request:500000000", "request > 500ms"),
        ("request  >=  1.5 s", "request:1500000000", "request >= 1.5 s"),
        ("Stall > 2s", "stall:2000000000", "Stall > 2s"),
        ("lock > 50us", "lock:50000", "lock > 50us"),
        ("call fsync > 1s", "call:fsync:1000000000", "call fsync > 1s"),
        ("call > 2min", "call:any:120000000000", "call > 2min"),
        ("depth > 200", "depth:200", "depth > 200"),
        ("psi io full > 10%", "psi:io:full:200000:2000000", "psi io full > 10%"),
        ("psi cpu some > 12.5 %", "psi:cpu:some:250000:2000000", "psi cpu some > 12.5 %"),
        ('log "blocked for more"', "log:blocked for more", 'log "blocked for more"'),
        ("log 'a or b = 5%'", "log:a or b %3D 5%25", 'log "a or b = 5%"'),
        ("log nvme", "log:nvme", "log nvme"),
        ("signal", "signal", "signal"),
    ],
)
def test_condition_becomes_a_trigger_of_the_recorder(text: str, spec: str, shown: str) -> None:
    (condition,) = parse(UNTIL=text).until
    assert (condition.spec, condition.shown) == (spec, shown)


def test_conditions_are_joined_by_or() -> None:
    until = parse(UNTIL='request > 500ms or log "x or y" OR exit', CMD="false").until
    assert [condition.kind for condition in until] == ["request", "log", "exit"]
    assert until[2].spec == "signal"  # the session sends it


def test_words_have_defaults() -> None:
    options = parse(UNTIL="signal")
    assert (options.keep_s, options.after_s, options.times, options.gap_s) == (60, 10, 3, 60)
    assert (options.ram_bytes, options.disk_most_bytes, options.on_trigger) == (256 << 20, 2 << 30, None)
    options = parse(
        UNTIL="signal", KEEP="5min", AFTER="500ms", TIMES="1", GAP="0s", RAM="64M", DISKMAX="1G", ON="mail me"
    )
    assert (options.keep_s, options.after_s, options.times, options.gap_s) == (300, 0.5, 1, 0)
    assert (options.ram_bytes, options.disk_most_bytes, options.on_trigger) == (64 << 20, 1 << 30, "mail me")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"UNTIL": "reqest > 5s"}, "no condition 'reqest': did you mean request?"),
        ({"UNTIL": "latency > 5s"}, "no condition 'latency': choose from request, stall"),
        ({"UNTIL": "request > 5"}, "'request > 5' cannot be understood: write it like request > 500ms"),
        ({"UNTIL": "request < 5s"}, "write it like request > 500ms"),
        ({"UNTIL": "request > 0s"}, "write it like request > 500ms"),
        ({"UNTIL": "depth > 1s"}, "write it like depth > 200"),
        ({"UNTIL": "psi io > 10%"}, "write it like psi io full > 10%"),
        ({"UNTIL": "psi cpu full > 10%"}, "write it like psi io full > 10%"),
        ({"UNTIL": "psi io full > 100%"}, "write it like psi io full > 10%"),
        ({"UNTIL": "log"}, 'write it like log "blocked for more"'),
        ({"UNTIL": 'log "no end'}, "a quote has no end"),
        ({"UNTIL": "signal or"}, "a condition is missing beside `or`"),
        ({"UNTIL": "signal or signal"}, "has 'signal' twice"),
        ({"UNTIL": " or ".join(f"depth > {n}" for n in range(1, 18))}, "has 17 conditions: at most 16"),
        ({"UNTIL": "signal", "SECS": "0"}, "SECS contradicts UNTIL"),
        ({"UNTIL": "signal", "EVERY": "5"}, "EVERY contradicts UNTIL"),
        ({"UNTIL": "signal", "ROOM": "1G"}, "ROOM contradicts UNTIL, which is bounded by RAM= and DISKMAX="),
        ({"UNTIL": "lock > 1s", "COLLECT": "block"}, "needs the collector locks: add it to COLLECT"),
        ({"UNTIL": "exit"}, "add CMD='COMMAND'"),
        ({"UNTIL": "signal", "CMD": "true"}, "CMD of watch goes with UNTIL=exit"),
        ({"KEEP": "5s"}, "KEEP of watch goes with UNTIL="),
        ({"ON": "true"}, "ON of watch goes with UNTIL="),
        ({"UNTIL": "signal", "KEEP": "5"}, "KEEP=5 is not a duration: write it like 60s, 500ms or 2min"),
        ({"UNTIL": "signal", "KEEP": "2h"}, "KEEP=2h is out of range: from 1s to 3600s"),
        ({"UNTIL": "signal", "RAM": "1M"}, "RAM=1M is too small: at least 8M"),
        ({"UNTIL": "signal", "TIMES": "0"}, "TIMES=0 is not a whole number from 1 to 1000"),
    ],
)
def test_wrong_words_are_refused(given: dict[str, str], says: str) -> None:
    with pytest.raises(OptionError) as raised:
        parse(**given)
    assert says in raised.value.message


@given(st.text(max_size=60))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    try:
        parsed = flight_options.parse_until(text)["until"]
    except OptionError:
        return
    assert parsed
