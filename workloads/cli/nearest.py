# SPDX-License-Identifier: BSD-2-Clause
"""The end of an error message about a wrong word: what may have been meant."""

import difflib
from collections.abc import Iterable


def nearest(word: str, valid: Iterable[str]) -> str:
    """Return "did you mean X?" with the nearest valid words, or "choose from ..." with all of them."""
    choices = list(valid)
    folded = {choice.lower(): choice for choice in choices}
    close = difflib.get_close_matches(word.lower(), folded, n=3, cutoff=0.5)
    if close:
        return "did you mean " + " or ".join(folded[name] for name in close) + "?"
    return ("choose from " + ", ".join(choices)) if choices else "there is none"
