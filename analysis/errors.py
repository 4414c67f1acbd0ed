# SPDX-License-Identifier: BSD-2-Clause
"""Errors a user may see: lower case, subject first, then the remedy.

Exit codes: 1 failed, 2 wrong words, 3 this machine lacks something.
"""

from __future__ import annotations


class ReportError(Exception):
    """The report can't be made; the message says why and what to do."""

    exit_code = 1


class OptionError(ReportError):
    """The command's words are wrong."""

    exit_code = 2


class MachineError(ReportError):
    """This machine lacks something."""

    exit_code = 3


class TableError(Exception):
    """One source of the run is missing or unreadable; the report goes on and states the gap."""
