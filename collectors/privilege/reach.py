# SPDX-License-Identifier: BSD-2-Clause
"""Check that the user behind sudo can use the files of this tree that their run needs.

In root's home (0700) they cannot. Checked with that user's rights, before anything is installed, built or
formatted, and again after the build: the workload runs as the user, not as root. Standard library only.
"""

import os
from collections.abc import Iterable
from pathlib import Path

from collectors.privilege.ownership import may
from collectors.privilege.sudo import TREE, Owner, owner
from workloads import catalog
from workloads.cli.options import Options
from workloads.system.errors import MachineError
from workloads.system.guest import GUEST

_READ, _RUN = os.R_OK, os.X_OK
_ENTER = os.R_OK | os.X_OK
# Programs that a command of the user (CMD=) finds in its PATH.
_HELPERS = ("phase", "remount")


def check(options: Options) -> None:
    """Raise MachineError if the user cannot use a program or file of the tree that the workload needs."""
    user = _user()
    if user is None:
        return
    needed: list[tuple[Path, int]] = []
    what = "VM=1" if options.vm else f"WL={options.wl}"
    if options.vm:  # runs without root: everything is read as the user
        needed += [(TREE / name, _ENTER) for name in ("collectors", "workloads", "analysis", "build")]
    if options.wl is not None and catalog.load(options.wl, options.wl_variant).generator is not None:
        needed += _of_workloads()
    bar = _bar(user, needed)
    if bar is not None:
        raise MachineError(
            f"{_refused(bar, user)}, whom {what} runs as: {_remedy(bar, user)}, or run this as root itself, "
            f"not behind sudo (env -u SUDO_UID make …)"
        )


def warnings(options: Options) -> list[str]:
    """Return warnings of what will not work in a run of CMD= or a watch, which is recorded all the same."""
    user = _user()
    if user is None or options.vm:
        return []
    helpers = [(TREE / "build/generators" / name, _RUN) for name in _HELPERS]
    bars = {
        "phase and remount fail in it": _bar(user, helpers) if options.cmd is not None else None,
        "its report is refused": _bar(user, [(TREE / "analysis", _ENTER)]),
    }
    bar = next((bar for bar in bars.values() if bar is not None), None)
    if bar is None:
        return []
    missed = " and ".join(text for text, path in bars.items() if path is not None)
    return [
        f"{_refused(bar, user)}, who will own this run: it is recorded, but {missed}; {_remedy(bar, user)}"
    ]


def _user() -> Owner | None:
    """Return the user, if not the process's own; None in a virtual machine, as the host has checked."""
    if os.geteuid() != 0 or GUEST in os.environ:
        return None
    user = owner()
    return user if user.uid != 0 else None


def _of_workloads() -> list[tuple[Path, int]]:
    """Return every generator and data set: any generator may start another one, and read any data set."""
    programs = [(path, _RUN) for path in sorted((TREE / "build/generators").glob("*"))]
    return [*programs, *((path, _READ) for path in (TREE / "workloads/datasets").iterdir())]


def _bar(user: Owner, needed: Iterable[tuple[Path, int]]) -> Path | None:
    """Return the first path that the user cannot use; files that are not built yet are skipped."""
    for path, how in needed:
        existing = path
        while not existing.exists():
            existing, how = existing.parent, _RUN
        if not may(user, existing, how):
            above = (parent for parent in reversed(existing.parents) if not may(user, parent, _RUN))
            return next(above, existing)
    return None


def _refused(bar: Path, user: Owner) -> str:
    return f"{bar} cannot be {'entered' if bar.is_dir() else 'used'} by {user.name}"


def _remedy(bar: Path, user: Owner) -> str:
    if bar in TREE.parents:
        return f"move the tree ({TREE}) to where {user.name} may enter it, such as /srv"
    # without runs/, which other users must not read
    return f"run chmod a+rx {TREE}, and in it chmod -R a+rX analysis build collectors workloads"
