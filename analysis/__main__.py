# SPDX-License-Identifier: BSD-2-Clause
"""Reports of finished runs.

    python -m analysis report [--locks=all] [--by=volume] [--model=FILE] RUN
                                                       all reports of a run; all: lock waits of all processes;
                                                       FILE: cost the requests on this drive;
                                                       volume: disk maps of the file system's volume
                                                       of a sweep: sweep.txt, sweep.html, ...; no options
    python -m analysis answer RUN                      the first screen of a run alone, without pictures
    python -m analysis sweep-goal SWEEP [PERCENT]      exit 0 if every configuration's headline has a 95 %
                                                       half-width of at most so much, from 10 runs on; else 1;
                                                       without PERCENT: the sweep's own GOAL
    python -m analysis verify-goal SWEEP               exit 0 if the pairs of make verify are enough; else 1
    python -m analysis verify SWEEP                    the verdict of make verify, kept in the finding's run
    python -m analysis gallery SWEEP DIR               Markdown and pictures of a study, in DIR
    python -m analysis movie [--by=volume] RUN         RUN/movie.html: the disk as a grid over time
    python -m analysis export [--to=FORMAT] [--out=DIR] RUN
                                                       RUN/export/FORMAT/: the run for other tools; without
                                                       FORMAT the list of formats
    python -m analysis compare [--gate=1] [--out=DIR] RUN RUN...
                                                       one report of several runs or sweeps
                                                       (or --runs="RUN 'with blanks'", quoted)
    python -m analysis query [--format=csv|json] [--window=1.2-3.4] [--sql=SQL] RUN...
                                                       the answer, on stdout; SQL may be @NAME of a question
                                                       in queries/; without --sql the list of these
    python -m analysis import [--out=DIR] TRACE        a run directory of a tool's trace, or of what
                                                       recorder --facts left, and its reports

Started by root, a job runs as the run's owner in a process of its own (rundir/owner.py, rundir/apart.py).

Exit codes of compare --gate=1: 0 no worse, 1 worse, 3 can't tell; also those of a job that failed.
Exit codes: 0 done, 1 the report failed, 2 a wrong option, 3 the machine lacks something, or this user may not
use the run.
"""

from __future__ import annotations

import io
import os
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from analysis.errors import OptionError, ReportError
from analysis.rundir.limits import limit_memory, memory_most
from analysis.rundir.owner import Worker, caller, owner_of, work_as
from analysis.rundir.sweep_dir import is_sweep
from analysis.visible import clean

ALL_LOCKS, BY_VOLUME, MODEL = "--locks=all", "--by=volume", "--model="
REPORT_OPTIONS = (ALL_LOCKS, BY_VOLUME)
# What a job prints, whole or in pieces, and its exit code if that may be another than 0.
Output = str | Iterator[str] | tuple[str, int]
USAGE = (
    "usage: python -m analysis report [--locks=all] [--by=volume] [--model=FILE] RUN | answer RUN"
    " | movie [--by=volume] RUN | export [--to=FORMAT] [--out=DIR] RUN"
    " | sweep-goal SWEEP [PERCENT] | verify-goal SWEEP | verify SWEEP"
    " | gallery SWEEP DIR | compare [--gate=1] [--out=DIR] RUN RUN..."
    " | query [--format=csv|json] [--window=1.2-3.4] [--sql=SQL] RUN... | import [--out=DIR] TRACE"
)


def _complain(message: str) -> None:
    print(f"seekmeter: {clean(message)}", file=sys.stderr)


def _names(text: str) -> list[str]:
    """Split names at blanks; quotes protect blanks in a name."""
    try:
        return shlex.split(text)
    except ValueError as error:
        raise OptionError(f"RUNS={text} cannot be split into names: {str(error).lower()}") from None


def _job(argv: list[str]) -> tuple[Worker | None, Callable[[], Output]]:
    """The user that the job runs as, and the job, which returns its output and imports what it needs."""
    if argv[:1] == ["report"] and len(argv) > 1:
        models = [word.removeprefix(MODEL) for word in argv[1:-1] if word.startswith(MODEL)][:1]
        words = [word for word in argv[1:-1] if not word.startswith(MODEL)]
        if words == _chosen(words, REPORT_OPTIONS) and len(words) + len(models) == len(argv) - 2:
            return owner_of([Path(argv[-1])]), lambda: _report(Path(argv[-1]), words, *map(Path, models))
    if len(argv) == 2 and argv[0] == "answer":
        return owner_of([Path(argv[1])]), lambda: _answer(Path(argv[1]))
    if argv[:1] == ["sweep-goal"] and len(argv) in (2, 3):
        return owner_of([Path(argv[1])]), lambda: _sweep_goal(Path(argv[1]), argv[2] if argv[2:] else "")
    if len(argv) == 2 and argv[0] == "verify-goal":
        return owner_of([Path(argv[1])]), lambda: _verify_goal(Path(argv[1]))
    if len(argv) == 2 and argv[0] == "verify":
        return owner_of([Path(argv[1])]), lambda: _verify(Path(argv[1]))
    if argv[:1] == ["movie"] and len(argv) > 1 and argv[1:-1] == _chosen(argv[1:-1], (BY_VOLUME,)):
        return owner_of([Path(argv[-1])]), lambda: _movie(Path(argv[-1]), argv[1:-1])
    if len(argv) == 3 and argv[0] == "gallery":
        return owner_of([Path(argv[1])]), lambda: _gallery(Path(argv[1]), Path(argv[2]))
    if argv[:1] == ["export"]:
        options, named = _options(argv[1:], ("--to", "--out"))
        if len(named) == 1:
            to, out = options["--to"], options["--out"]
            run = Path(named[0])
            return owner_of([run]) if to else None, lambda: _export(run, to, Path(out) if out else None)
    if argv[:1] == ["compare"]:
        options, chosen = _options(argv[1:], ("--gate", "--out"))
        gate, out = options["--gate"], options["--out"]
        if gate not in ("", "0", "1"):
            raise OptionError(f"GATE={gate} is neither 1 (the exit status is the verdict) nor 0")
        runs = _runs(chosen)
        return owner_of(runs), lambda: _compare(runs, Path(out) if out else None, gate == "1")
    if argv[:1] == ["query"]:
        options, chosen = _options(argv[1:], ("--format", "--window", "--sql"))
        if not options["--sql"].strip():
            return None, _questions
        runs = _runs(chosen)
        return owner_of(runs), lambda: _query(runs, options)
    if argv[:1] == ["import"] and len(argv) in (2, 3):
        if not argv[-1]:
            raise OptionError(
                "nothing to import: add TRACE=FILE, a block trace of blktrace (path/sda), perf, trace-cmd,"
                " ftrace or biosnoop, or what recorder --facts left"
            )
        out = argv[1].removeprefix("--out=") if len(argv) == 3 else ""
        if (len(argv) == 3) == (argv[1].startswith("--out=") and out != ""):
            return caller(), lambda: _import(Path(argv[-1]), Path(out) if out else None)
    raise OptionError(f"the arguments {' '.join(argv)!r} are not understood; {USAGE}")


def _runs(words: list[str]) -> list[Path]:
    """The runs that the words name, or the one word --runs=NAMES."""
    if len(words) == 1 and words[0].startswith("--runs="):
        words = _names(words[0].removeprefix("--runs="))
    return [Path(name) for name in words]


def _chosen(words: list[str], options: tuple[str, ...]) -> list[str]:
    """The options that are among the words, each once, in the options' order."""
    return [option for option in options if option in words]


def _options(words: list[str], names: tuple[str, ...]) -> tuple[dict[str, str], list[str]]:
    """The values of the options that the words begin with, empty if not given; and the other words."""
    values = dict.fromkeys(names, "")
    while words and (name := words[0].partition("=")[0]) in names and "=" in words[0]:
        values[name] = words[0].partition("=")[2]
        words = words[1:]
    return values, words


def _report(run: Path, options: list[str], model: Path | None = None) -> str:
    if is_sweep(run):
        if options or model is not None:
            raise OptionError(f"{clean(run)} is a sweep, whose report has no options; name one of its runs")
        from analysis.sweep import make_sweep_report

        return make_sweep_report(run)
    from analysis.measures.block.drive_cost import read_drive
    from analysis.report import make_report

    return make_report(
        run,
        everyones_locks=ALL_LOCKS in options,
        drive=read_drive(model) if model is not None else None,
        by_volume=BY_VOLUME in options,
    )


def _answer(run: Path) -> str:
    from analysis.report import make_answer_alone

    return make_answer_alone(run)


def _sweep_goal(sweep: Path, percent: str) -> tuple[str, int]:
    from analysis.sweep import sweep_goal

    return sweep_goal(sweep, percent)


def _verify_goal(sweep: Path) -> tuple[str, int]:
    from analysis.verify import verify_goal

    return verify_goal(sweep)


def _verify(sweep: Path) -> str:
    from analysis.report import make_report
    from analysis.verify import make_verdict

    text, run = make_verdict(sweep)
    if run is not None:
        try:
            make_report(run)
        except ReportError as error:  # the verdict is there already
            text += f"  {'no report':<12} {clean(str(error))}\n"
    return text


def _gallery(sweep: Path, out: Path) -> str:
    from analysis.gallery import make_gallery

    return make_gallery(sweep, out)


def _movie(run: Path, options: list[str]) -> str:
    from analysis.movie import make_movie

    return make_movie(run, by_volume=BY_VOLUME in options)


def _export(run: Path, to: str, out: Path | None) -> str:
    from analysis.export import make_export, make_list

    return make_export(run, to, out) if to else make_list()


def _compare(runs: list[Path], out: Path | None, gate: bool) -> tuple[str, int]:
    from analysis.compare import make_compare

    output, exit_code = make_compare(runs, out)
    return output, exit_code if gate else 0


def _questions() -> str:
    from analysis.query import list_questions

    return list_questions()


def _query(runs: list[Path], options: dict[str, str]) -> Iterator[str]:
    from analysis.query import run_query

    return run_query(runs, options["--sql"], options["--window"], options["--format"] or "text")


def _import(trace: Path, out: Path | None) -> str:
    from analysis.importers.trace import import_trace
    from analysis.report import make_report

    return make_report(import_trace(trace, out))


def _do(begin: Callable[[], None], work: Callable[[], Output]) -> int:
    begin()
    output = work()
    output, code = output if isinstance(output, tuple) else (output, 0)
    if isinstance(sys.stdout, io.TextIOWrapper):  # a terminal that lacks a character gets its number
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        for piece in (output,) if isinstance(output, str) else output:
            sys.stdout.write(piece)
        sys.stdout.flush()
    except BrokenPipeError:
        # the reader of our output has ended; the files are written
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return code


def _ended(work: Callable[[], int]) -> int:
    """Run the job; an error becomes one line on stderr and an exit code."""
    try:
        return work()
    except ReportError as error:
        _complain(str(error))
        return error.exit_code
    except KeyboardInterrupt:
        _complain("the report was interrupted; what was there before is unchanged")
        return 1
    except MemoryError:
        most = memory_most()
        more = f"needs more memory than the {most / 1e9:,.1f} GB it may take" if most else "needs more memory"
        _complain(f"the run directory {more}; report it on a machine with more, or leave out what is large")
        return 1


def main(argv: list[str]) -> int:
    """Run one job; returns its exit code."""
    if argv in (["-h"], ["--help"], ["help"]):
        print(USAGE)
        return 0

    def start() -> int:
        worker, work = _job(argv)
        return work_as(worker, lambda begin: _ended(lambda: _do(begin, work)))

    return _ended(start)


if __name__ == "__main__":
    limit_memory()
    sys.exit(main(sys.argv[1:]))
