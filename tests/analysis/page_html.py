# SPDX-License-Identifier: BSD-2-Clause
"""What a browser would run of a page: the scripts in it, and those that its policy (CSP) allows."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser

DATA_TYPES = ("application/json", "text/plain")  # a browser runs nothing of these


class Parsed(HTMLParser):
    """The elements of a page: tags, links, text outside scripts, and scripts by whether they are run."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []  # all that a browser could fetch
        self.handlers: list[str] = []  # attributes that are scripts
        self.text = ""
        self.run: list[str] = []
        self.data: dict[str, str] = {}  # by id
        self.policy = ""
        self._script: tuple[str, str] | None = None  # type and id of the script that is open
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.tags.append(tag)
        self.links += [values[name] for name in ("src", "href", "data", "action") if name in values]
        self.handlers += [name for name in values if name.startswith("on")]
        if values.get("http-equiv") == "Content-Security-Policy":
            self.policy = values["content"]
        if tag == "script":
            self._script = values.get("type", ""), values.get("id", "")

    def handle_endtag(self, tag: str) -> None:
        if tag == "script":
            self._script = None

    def handle_data(self, data: str) -> None:
        if self._script is None:
            self.text += data
        elif self._script[0] in DATA_TYPES:
            self.data[self._script[1]] = self.data.get(self._script[1], "") + data
        else:
            self.run.append(data)


def runs_one_script(page: Parsed) -> bool:
    """Whether the page has one script that a browser runs, ours, and its policy allows that one alone."""
    found = re.findall(r"'sha256-([^']+)'", page.policy)
    digests = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in page.run]
    ours = len(page.run) == 1 and page.run[0].startswith(
        '(() => {\n"use strict";\n// SPDX-License-Identifier'
    )
    strict = "default-src 'none'" in page.policy and "script-src 'unsafe" not in page.policy
    return (
        ours
        and strict
        and found == digests
        and not page.handlers
        and bool(json.loads(page.data["page-data"])["runs"])
    )
