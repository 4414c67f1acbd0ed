# SPDX-License-Identifier: BSD-2-Clause
"""Export one run for other tools: RUN/export/FORMAT/, or the directory that OUT= names."""

from __future__ import annotations

import difflib
import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from analysis import front
from analysis.discovery import find_parts
from analysis.errors import OptionError, ReportError, TableError
from analysis.exporters import on_request
from analysis.exporters.format import Format, Source
from analysis.exporters.readme import losses
from analysis.rundir.folder import Folder, check_free, new_or_empty_folder, open_inside
from analysis.rundir.run import Run, clean, open_run
from analysis.rundir.sweep_dir import is_sweep

FOLDER = "export"
# Formats that people ask for and that no module writes: why, and what to take instead.
NOT_WRITTEN = {
    "ctf": "no package of Python writes CTF: babeltrace2's bindings are for the system's own Python only, and"
    " barectf makes C; TO=perfetto has the same events, TO=csv has every table",
    "folded": "every report writes these: on_cpu.folded, waiting.folded, holding.folded in the run directory",
    "parquet": "the tables are Parquet already: tables/*.parquet in the run directory",
}


def formats() -> list[Format]:
    """All formats, in the order of the list."""
    return find_parts(on_request, "FORMAT", Format)


def make_list() -> str:
    """What `make export` prints without TO=."""
    lines = [f"  TO={known.key:<9} {known.about}\n" for known in formats()]
    return "".join(
        [f"{front.command('export')} RUN=runs/… TO=FORMAT writes a run for other tools:\n", *lines]
    )


def make_export(path: Path, to: str, out: Path | None) -> str:
    """Write the run in one format; returns what the terminal shows: notes, losses, and the files."""
    chosen = _format(to)
    if is_sweep(path):
        raise OptionError(f"{clean(path)} is a sweep; export one of its runs, {clean(path)}/runs/…")
    if out is not None:
        check_free(out)
    run = open_run(path)
    source = Source(run)
    folder = _folder(run, chosen.key, out)
    shown = out if out is not None else run.path / FOLDER / chosen.key
    try:
        exported = chosen.write(source, folder.open_path)
    except TableError as error:
        raise ReportError(f"{run.name} can't be exported: {error}; remove it, and it is made anew") from None
    except OSError as error:
        raise ReportError(f"{clean(shown)} can't be written: {error.strerror}; free some space") from None
    _remove_others(folder, exported.files)
    sizes = [(folder.open_path / name).stat().st_size for name in exported.files]
    lines = [*exported.notes, *losses(source)]
    lines += [
        f"{clean(shown / name)}  {size:,} bytes" for name, size in zip(exported.files, sizes, strict=True)
    ]
    return "".join(f"{line}\n" for line in lines)


def _format(to: str) -> Format:
    """The format of this name. OptionError: there is none."""
    known = {known.key: known for known in formats()}
    if to in known:
        return known[to]
    if to in NOT_WRITTEN:
        raise OptionError(f"TO={to} is not written: {NOT_WRITTEN[to]}")
    close = difflib.get_close_matches(to.lower(), known, n=2, cutoff=0.5)
    remedy = f"did you mean {' or '.join(close)}?" if close else f"choose from {', '.join(known)}"
    raise OptionError(f"TO={clean(to, 40)} is no format: {remedy}")


def _folder(run: Run, key: str, out: Path | None) -> Folder:
    try:
        if out is not None:
            return new_or_empty_folder(out)
        assert run.folder is not None
        return open_inside(run.folder, FOLDER, key)
    except OSError as error:
        where = clean(out if out is not None else run.path / FOLDER / key)
        raise ReportError(
            f"{where} can't be made or written ({error.strerror}); name another directory with OUT=DIRECTORY"
        ) from None


def _remove_others(folder: Folder, names: Sequence[str]) -> None:
    """Remove the files of an earlier export that this one has not."""
    for name in os.listdir(folder.fd):
        if name not in names and not name.startswith("."):
            with suppress(OSError):
                if stat.S_ISREG(os.stat(name, dir_fd=folder.fd, follow_symlinks=False).st_mode):
                    os.unlink(name, dir_fd=folder.fd)
