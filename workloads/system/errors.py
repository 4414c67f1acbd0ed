# SPDX-License-Identifier: BSD-2-Clause
"""Errors with a one-line message for the user: the subject, the fact, the remedy.

The caller prints "seekmeter: MESSAGE" and exits with exit_code.
"""

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """An error that the user can remedy. The message names the subject first and the remedy last."""

    exit_code = 1

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class RunError(UserError):
    """A run that started and failed (exit 1)."""

    exit_code = 1


class OptionError(UserError):
    """A variable of the command line that is unknown, invalid, or contradicts another (exit 2)."""

    exit_code = 2


class MachineError(UserError):
    """A limit of this machine or kernel: it cannot do what the command line asks for (exit 3)."""

    exit_code = 3


def nearest(name: str, valid: Iterable[str]) -> str:
    """Return the end of an error message: "did you mean X?", or "choose from …" if no valid name is near."""
    choices = list(valid)
    folded = {choice.lower(): choice for choice in choices}
    close = difflib.get_close_matches(name.lower(), folded, n=3, cutoff=0.5)
    if close:
        return "did you mean " + " or ".join(folded[choice] for choice in close) + "?"
    return ("choose from " + ", ".join(choices)) if choices else "there is none"
