# SPDX-License-Identifier: BSD-2-Clause
"""Errors that are told to the user in one line.

The caller prints "seekmeter: MESSAGE" and exits with exit_code.
"""


class UserError(Exception):
    """Something the user can do something about. The message names the subject first, then the remedy."""

    exit_code = 1

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class RunError(UserError):
    """The run was started and failed (exit 1)."""

    exit_code = 1


class OptionError(UserError):
    """A variable of the command line is unknown, wrong, or does not fit the others (exit 2)."""

    exit_code = 2


class MachineError(UserError):
    """This machine or kernel cannot do what was asked (exit 3)."""

    exit_code = 3
