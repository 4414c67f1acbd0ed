# SPDX-License-Identifier: BSD-2-Clause
"""Errors that a user may see. Messages are lower case: subject, fact, remedy.

Exit codes: 1 the job failed, 2 a wrong option, 3 the machine lacks something.
"""

from __future__ import annotations


class ReportError(Exception):
    """The report can't be made."""

    exit_code = 1


class OptionError(ReportError):
    """An option or argument is wrong."""

    exit_code = 2


class MachineError(ReportError):
    """The machine, or this user, lacks something the job needs."""

    exit_code = 3


class TableError(Exception):
    """A file of the run is missing or unreadable; the report goes on, and Run.missing states it."""
