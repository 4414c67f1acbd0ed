# SPDX-License-Identifier: BSD-2-Clause
"""Read a finished run and its findings, for make verify: run.json and findings.json of RUN=.

make verify runs the words that stand there, as root. So the run must be the user's own, and each value is
checked as if it were typed. The files are read with the user's rights. Standard library only.
"""

import math
import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from collectors.host.json_file import read_json
from collectors.privilege import ownership
from collectors.privilege.sudo import Owner
from collectors.trace import sysinfo
from workloads import catalog
from workloads.sweep.from_finding import Recorded
from workloads.system import front
from workloads.system.errors import MachineError, OptionError
from workloads.system.visible import one_line

FINDINGS = "findings.json"
SCHEMA = 1
RUN_SCHEMA = 1
_BYTES_MOST = 64 << 20
_LETTERS_MOST = 1000
# Steps of a run (run.json "timing") that are the recorder's, or take no time when nothing is recorded.
_OF_RECORDING = ("attach_s", "stop_s", "perf_s", "paths_s", "geometry_s")
# Facts of run.json "machine" by which the same words take another time.
_MACHINE = {"cpus": "CPUs", "cpu_model": "CPU model", "memory_bytes": "bytes of memory"}


def read_recorded(run: str, number: int, user: Owner) -> Recorded:
    """Return the run RUN= and its finding FINDING=. Raises OptionError, MachineError."""
    path = Path(os.path.realpath(run))
    try:
        with ownership.as_user(user):
            directory = ownership.open_directory(path)
            try:
                owner_id = os.fstat(directory).st_uid
                facts = read_json(directory, "run.json", _BYTES_MOST)
                found = _read_findings(directory, run)
            finally:
                os.close(directory)
    except (OSError, ValueError, RecursionError) as error:
        why = error.strerror.lower() if isinstance(error, OSError) and error.strerror else str(error)
        raise OptionError(
            f"RUN={run} is not a finished run's directory (run.json: {why}): "
            f"name one of {front.command('trace')}"
        ) from None
    if owner_id not in (user.uid, 0):
        raise MachineError(
            f"RUN={run} belongs to the user with the number {owner_id}, and its commands are run for its "
            f"owner alone: record it yourself by {front.command('trace')}"
        )
    if not isinstance(facts, dict):
        raise OptionError(f"RUN={run} is not a finished run's directory (run.json holds no object)")
    if not ownership.may(user, path, os.W_OK | os.X_OK):
        raise MachineError(
            f"RUN={run} is not yours to write, and the result is kept there: copy it for yourself"
        )
    words = _words(facts, run)
    _check_machine(facts, words, run)
    _check_end(facts, words, run)
    return _recorded(facts, words, found, run, str(path), number)


def _read_findings(directory: int, run: str) -> Mapping[str, Any]:
    """Return findings.json. Raises OptionError."""
    again = f"{front.command(f'report RUN={shlex.quote(run)}')} writes it"
    try:
        value = read_json(directory, FINDINGS, _BYTES_MOST)
    except FileNotFoundError:
        raise OptionError(f"RUN={run} has no {FINDINGS}: {again}") from None
    except (OSError, ValueError, RecursionError) as error:
        raise OptionError(f"RUN={run}: {FINDINGS} cannot be read ({error}): {again} anew") from None
    if (
        not isinstance(value, dict)
        or value.get("schema") != SCHEMA
        or not isinstance(value.get("findings"), list)
    ):
        raise OptionError(f"RUN={run}: {FINDINGS} is not of schema {SCHEMA}: {again} anew")
    return value


def _words(facts: Mapping[str, Any], run: str) -> dict[str, str]:
    """Return the variables that the run was made with, if it can be repeated. Raises OptionError."""
    words = facts.get("words")
    if facts.get("schema", RUN_SCHEMA) != RUN_SCHEMA:
        raise OptionError(
            f"RUN={run} is of schema {str(facts['schema'])[:20]}, and this version repeats {RUN_SCHEMA}: "
            f"use the version that made it"
        )
    if facts.get("imported") is not None:
        raise OptionError(
            f"RUN={run} is an imported trace, which has no command to repeat: "
            f"verify one of {front.command('trace')}"
        )
    if not isinstance(words, dict) or not all(_is_typed(text) for text in (*words, *words.values())):
        raise OptionError(f"RUN={run} does not say how it was made, so it can't be repeated")
    if "DIR" in words:
        raise OptionError(
            f"RUN={run} ran in a directory of its user (DIR=), whose files are not as they were when it "
            f"began: verify a run on a file system of its own (FS=)"
        )
    if "FS" not in words:
        raise OptionError(
            f"RUN={run} watched what others did (DEV=), which can't be repeated: "
            f"verify a run of {front.command('trace')}"
        )
    if facts.get("state") != "complete" or facts.get("exit_status") != 0:
        raise OptionError(
            f"RUN={run} did not end in order, so its seconds are not those of the whole workload: "
            f"record it anew"
        )
    return {str(name): str(text) for name, text in words.items()}


def _check_machine(facts: Mapping[str, Any], words: Mapping[str, str], run: str) -> None:
    """Raise MachineError if the run was made on another machine or kernel: its prediction is about those.

    A virtual machine is made of the words, of its kernel too; what is below it is the same if its host is.
    """
    kernel, machine = _object(facts, "kernel"), _object(facts, "machine")
    pairs: list[tuple[str, object, object]]
    virtual = machine.get("vm")
    if isinstance(virtual, dict):
        pairs = [
            ("kernel of the host", virtual.get("host_kernel"), os.uname().release),
            ("CPUs of the host", virtual.get("host_cpus"), os.cpu_count()),
        ]
    else:
        here = sysinfo.machine_info()
        pairs = [("kernel", kernel.get("release"), os.uname().release)]
        pairs += [(text, machine.get(name), here[name]) for name, text in _MACHINE.items()]
    for text, then, now in pairs:
        if then is not None and then != now:
            raise MachineError(
                f"RUN={run} was made on another machine or kernel ({text}: {str(then)[:60]}, here {now}), "
                f"and its prediction is about that one: record it here by {front.command('trace')}"
            )


def _object(facts: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return an object among the facts, empty if it is none."""
    value = facts.get(name)
    return value if isinstance(value, dict) else {}


def _check_end(facts: Mapping[str, Any], words: Mapping[str, str], run: str) -> None:
    """Raise OptionError if not its work ends the workload: it may take as long with the cause and without."""
    argv = _object(facts, "workload").get("argv")
    typed = [str(word) for word in argv] if isinstance(argv, list) else []
    is_timed = any("time_based" in word for word in typed) or "dbench" in map(os.path.basename, typed[:1])
    if is_timed or _is_timed(words.get("WL", "")):
        raise OptionError(
            f"RUN={run}: a clock or its own results end its workload, so that it takes as long with the "
            f"cause and without: compare what it does in that time, by {front.command('sweep')}"
        )


def _is_timed(name: str) -> bool:
    """Return whether the catalog says so of WL=; what it does not have is refused later."""
    workload, _, variant = name.partition(":")
    try:
        return workload in catalog.names() and catalog.load(workload, variant).timed
    except OptionError:
        return False


def _recorded(
    facts: Mapping[str, Any],
    words: Mapping[str, str],
    found: Mapping[str, Any],
    run: str,
    path: str,
    number: int,
) -> Recorded:
    """Return the run with the finding of this number. Raises OptionError."""
    findings = [each for each in found["findings"] if isinstance(each, dict)]
    finding = next((each for each in findings if each.get("number") == number), None)
    if finding is None:
        has = f"the findings 1 to {len(findings)}" if findings else "no findings"
        raise OptionError(f"FINDING={number}: RUN={run} has {has}: see its report")
    again = f"RUN={run}: {FINDINGS} states finding {number} wrongly"
    anew = f"{front.command(f'report RUN={shlex.quote(run)}')} writes it anew"
    remedy = finding.get("remedy")
    if remedy is None:
        why, test = finding.get("no_remedy"), finding.get("test")
        reason = f": {one_line(why[:_LETTERS_MOST])}" if isinstance(why, str) and why else ""
        other = (
            f". Test it by hand: {one_line(test[:_LETTERS_MOST])}" if isinstance(test, str) and test else ""
        )
        raise OptionError(f"FINDING={number} has no remedy that a run could be made with{reason}{other}")
    if not isinstance(remedy, dict) or not isinstance(remedy.get("words"), dict):
        raise OptionError(f"{again} (remedy): {anew}")
    remedy_words = remedy["words"]
    texts = (
        finding.get("kind"),
        finding.get("what"),
        remedy.get("text"),
        *remedy_words,
        *remedy_words.values(),
    )
    if not all(isinstance(text, str) and len(text) <= _LETTERS_MOST for text in texts):
        raise OptionError(f"{again} (texts): {anew}")
    if not all(text.isprintable() for text in (*remedy_words, *remedy_words.values())):
        raise OptionError(f"{again} (words): {anew}")
    cost_s, predicted_s = _interval(finding.get("cost_s")), _interval(remedy.get("saved_s"))
    if cost_s is None or predicted_s is None or cost_s[1] <= 0:
        raise OptionError(f"{again} (seconds): {anew}")
    clock = facts.get("clock")
    wall = _wall_s(clock) if isinstance(clock, dict) else None
    return Recorded(
        run=path,
        words=words,
        seconds=_seconds(facts.get("timing")),
        wall_s=wall,
        number=number,
        kind=str(finding["kind"]),
        what=str(finding["what"]),
        cost_s=cost_s,
        remedy_words={str(name): str(text) for name, text in remedy_words.items()},
        remedy_text=str(remedy["text"]),
        predicted_s=predicted_s,
    )


def _is_typed(value: object) -> bool:
    """Whether a value is a text that a command line can have: JSON's may have a NUL or half a character."""
    if not isinstance(value, str) or "\0" in value:
        return False
    try:
        os.fsencode(value)
    except UnicodeEncodeError:
        return False
    return True


def _interval(value: object) -> tuple[float, float, float] | None:
    """Return low, value and high; None if they are none."""
    if not isinstance(value, list) or len(value) != 3:
        return None
    numbers = [number for number in value if isinstance(number, int | float) and not isinstance(number, bool)]
    if len(numbers) != 3 or not all(abs(number) < 1e9 and math.isfinite(number) for number in numbers):
        return None
    low, middle, high = map(float, numbers)
    return (low, middle, high) if low <= middle <= high else None


def _seconds(timing: object) -> float | None:
    """Return the seconds of all steps that a run has, too, when nothing is recorded."""
    if not isinstance(timing, dict):
        return None
    steps = {name: number for name, number in timing.items() if name not in _OF_RECORDING}
    numbers = [number for number in steps.values() if isinstance(number, int | float) and 0 <= number < 1e9]
    return sum(numbers) if numbers else None


def _wall_s(clock: Mapping[str, Any]) -> float | None:
    """Return the seconds that the workload took."""
    start, end = clock.get("workload_start_ns"), clock.get("workload_end_ns")
    if not isinstance(start, int) or not isinstance(end, int) or not 0 <= end - start < 1 << 62:
        return None
    return (end - start) / 1e9
