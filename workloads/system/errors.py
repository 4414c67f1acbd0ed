# SPDX-License-Identifier: BSD-2-Clause
"""Errors that are told to the user in one line.

The caller prints "seekmeter: MESSAGE" and exits with exit_code.
"""

import difflib
from collections.abc import Iterable


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


def nearest(word: str, valid: Iterable[str]) -> str:
    """Return "did you mean X?" with the nearest valid words, or "choose from ..." with all of them."""
    choices = list(valid)
    folded = {choice.lower(): choice for choice in choices}
    close = difflib.get_close_matches(word.lower(), folded, n=3, cutoff=0.5)
    if close:
        return "did you mean " + " or ".join(folded[name] for name in close) + "?"
    return ("choose from " + ", ".join(choices)) if choices else "there is none"
