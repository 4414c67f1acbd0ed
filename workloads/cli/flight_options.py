# SPDX-License-Identifier: BSD-2-Clause
"""Parse UNTIL= and the words that go with it: make watch as a flight recorder, which keeps the time before.

UNTIL='request > 500ms or stall > 2s or lock > 50ms or call fsync > 1s or depth > 200 or
       psi io full > 10% or log "blocked for more" or signal or exit'

Each condition becomes the recorder's --trigger text (collectors/recorder/triggers.h): times in ns, the share
of a pressure as stalled us in a window of 2 s. `exit` is its signal: the session, which runs CMD=, sends it.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from workloads.system.errors import OptionError, nearest

KINDS = ("request", "stall", "lock", "call", "depth", "psi", "log", "signal", "exit")
WORDS = ("UNTIL", "KEEP", "AFTER", "TIMES", "GAP", "RAM", "DISKMAX")  # of watch; all but UNTIL need it
_NOT_WITH_UNTIL = {
    "SECS": "lasts until TIMES= triggers, or ^C",
    "EVERY": "has no windows of a length",
    "WITH": "keeps the output of no other program",
    "ROOM": "is bounded by RAM= and DISKMAX=",
    "MAX": "is bounded by RAM= and DISKMAX=",
}
# Collector that a condition needs.
_NEEDS = {"request": "block", "stall": "block", "depth": "block", "lock": "locks", "call": "calls"}
KEEP_S, AFTER_S, GAP_S, TIMES = 60.0, 10.0, 60.0, 3
RAM_BYTES, DISK_MOST_BYTES = 256 << 20, 2 << 30
_MOST_CONDITIONS = 16
_LOG_LETTERS = 80
_PSI_WINDOW_US = 2_000_000  # others need CAP_SYS_RESOURCE, which containers lack
_UNITS_NS = {"us": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "min": 60 * 10**9, "h": 3600 * 10**9}
_TOKEN = re.compile(r"\"([^\"]*)\"|'([^']*)'|(>=?)|([^\s>\"']+)")
_EXAMPLES = {
    "request": "request > 500ms",
    "stall": "stall > 2s",
    "lock": "lock > 50ms",
    "call": "call fsync > 1s",
    "depth": "depth > 200",
    "psi": "psi io full > 10%",
    "log": 'log "blocked for more"',
    "signal": "signal",
    "exit": "exit",
}


@dataclass(frozen=True)
class Condition:
    """One condition of UNTIL=."""

    kind: str
    shown: str  # as the user wrote it, with one blank between words
    spec: str  # the recorder's --trigger; of exit: signal


@dataclass(frozen=True)
class _Token:
    text: str
    is_quoted: bool


def parse_until(text: str) -> dict[str, object]:
    """Return the field until of Options. Raises OptionError."""
    conditions: list[Condition] = []
    for tokens in _alternatives(text):
        condition = _condition(text, tokens)
        if any(other.spec == condition.spec and other.kind == condition.kind for other in conditions):
            raise OptionError(f"UNTIL={text} has {condition.shown!r} twice: leave one out")
        conditions.append(condition)
    if len(conditions) > _MOST_CONDITIONS:
        raise OptionError(f"UNTIL has {len(conditions)} conditions: at most {_MOST_CONDITIONS}")
    return {"until": tuple(conditions)}


def parse_duration(variable: str, text: str, least_s: float, most_s: float) -> float:
    """Return the seconds of a duration such as 60s, 500ms or 2min. Raises OptionError."""
    value_ns = _duration_ns(text.strip())
    if value_ns is None:
        raise OptionError(f"{variable}={text} is not a duration: write it like 60s, 500ms or 2min")
    if not least_s <= value_ns / 1e9 <= most_s:
        raise OptionError(f"{variable}={text} is out of range: from {least_s:g}s to {most_s:g}s")
    return value_ns / 1e9


def check_watch(given: Mapping[str, str], until: Sequence[Condition], collect: Sequence[str]) -> None:
    """Refuse words of watch that make no sense together. Raises OptionError."""
    if "UNTIL" not in given:
        for name in (*WORDS[1:], "ON", "CMD"):
            if name in given:
                raise OptionError(
                    f"{name} of watch goes with UNTIL=, what to wait for: add UNTIL='request > 500ms'"
                )
        return
    for name, why in _NOT_WITH_UNTIL.items():
        if name in given:
            raise OptionError(f"{name} contradicts UNTIL, which {why}: drop one")
    for condition in until:
        collector = _NEEDS.get(condition.kind)
        if collector is not None and collector not in collect:
            raise OptionError(f"UNTIL={condition.shown} needs the collector {collector}: add it to COLLECT")
    has_exit = any(condition.kind == "exit" for condition in until)
    if has_exit and "CMD" not in given:
        raise OptionError("UNTIL=exit waits for a command that fails: add CMD='COMMAND'")
    if "CMD" in given and not has_exit:
        raise OptionError("CMD of watch goes with UNTIL=exit, its end with another status than 0: add exit")


def _alternatives(text: str) -> list[list[_Token]]:
    """Split at `or` into the tokens of each condition. Raises OptionError."""
    tokens, end = list[_Token](), 0
    for match in _TOKEN.finditer(text):
        if text[end : match.start()].strip():
            break
        end = match.end()
        quoted = match[1] if match[1] is not None else match[2]
        tokens.append(_Token(quoted if quoted is not None else match[0], quoted is not None))
    if text[end:].strip():
        raise OptionError(f'UNTIL={text}: a quote has no end: write log "TEXT"')
    found: list[list[_Token]] = [[]]
    for token in tokens:
        if token.text.lower() == "or" and not token.is_quoted:
            found.append([])
        else:
            found[-1].append(token)
    if not all(found):
        raise OptionError(f"UNTIL={text}: a condition is missing beside `or`: {_list()}")
    return found


def _condition(text: str, tokens: list[_Token]) -> Condition:
    kind = tokens[0].text.lower()
    if kind not in KINDS or tokens[0].is_quoted:
        raise OptionError(f"UNTIL={text}: no condition {tokens[0].text!r}: {nearest(kind, KINDS)}")
    spec = _MAKERS[kind](tokens[1:])
    if spec is None:
        said = _shown(tokens)
        raise OptionError(f"UNTIL={text}: {said!r} cannot be understood: write it like {_EXAMPLES[kind]}")
    return Condition(kind, _shown(tokens), spec)


def _shown(tokens: list[_Token]) -> str:
    return " ".join(f'"{token.text}"' if token.is_quoted else token.text for token in tokens)


def _list() -> str:
    return "write them like " + " or ".join(_EXAMPLES[kind] for kind in ("request", "stall", "depth"))


def _duration_ns(text: str) -> int | None:
    match = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?)(us|ms|s|min|m|h)", text, re.ASCII)
    return round(float(match[1]) * _UNITS_NS[match[2]]) if match is not None else None


def _limit(tokens: list[_Token]) -> str | None:
    """Return the value in `> VALUE`, which may be written in two words: > 500 ms."""
    if len(tokens) < 2 or tokens[0].text not in (">", ">=") or any(token.is_quoted for token in tokens):
        return None
    return "".join(token.text for token in tokens[1:])


def _duration_limit(tokens: list[_Token]) -> int | None:
    value_ns = _duration_ns(_limit(tokens) or "")
    return value_ns if value_ns else None


def _of_duration(kind: str) -> Callable[[list[_Token]], str | None]:
    def make(tokens: list[_Token]) -> str | None:
        limit_ns = _duration_limit(tokens)
        return f"{kind}:{limit_ns}" if limit_ns else None

    return make


def _call(tokens: list[_Token]) -> str | None:
    """`call fsync > 1s`; `call > 1s` is any call."""
    name, rest = ("any", tokens) if tokens and tokens[0].text == ">" else ("", tokens[1:])
    name = name or (tokens[0].text.lower() if tokens else "")
    limit_ns = _duration_limit(rest)
    return f"call:{name}:{limit_ns}" if limit_ns and re.fullmatch(r"[a-z0-9_]{1,32}", name) else None


def _depth(tokens: list[_Token]) -> str | None:
    limit = _limit(tokens) or ""
    return f"depth:{int(limit)}" if re.fullmatch(r"[1-9]\d{0,6}", limit, re.ASCII) else None


def _psi(tokens: list[_Token]) -> str | None:
    """`psi io full > 10%`: stalled for 0.2 s within 2 s. The kernel counts no `cpu full` of the machine."""
    if len(tokens) < 4 or tokens[0].text not in ("io", "memory", "cpu"):
        return None
    if tokens[1].text not in (("some",) if tokens[0].text == "cpu" else ("some", "full")):
        return None
    match = re.fullmatch(r"(\d{1,3}(?:\.\d{1,3})?)%", _limit(tokens[2:]) or "", re.ASCII)
    share = float(match[1]) / 100 if match is not None else 0.0
    if not 0.001 <= share < 1:
        return None
    return f"psi:{tokens[0].text}:{tokens[1].text}:{round(share * _PSI_WINDOW_US)}:{_PSI_WINDOW_US}"


def _log(tokens: list[_Token]) -> str | None:
    words = " ".join(token.text for token in tokens).strip()
    if len(tokens) != 1 or not words.isprintable() or not 3 <= len(words) <= _LOG_LETTERS:
        return None
    return "log:" + words.replace("%", "%25").replace("=", "%3D")


def _signal(tokens: list[_Token]) -> str | None:
    return "signal" if not tokens else None


_MAKERS: dict[str, Callable[[list[_Token]], str | None]] = {
    **{kind: _of_duration(kind) for kind in ("request", "stall", "lock")},
    "call": _call,
    "depth": _depth,
    "psi": _psi,
    "log": _log,
    "signal": _signal,
    "exit": _signal,
}
