# SPDX-License-Identifier: BSD-2-Clause
"""Tables and report numbers of a run directory as JSON, to compare two versions of the analysis.

    PYTHONPATH=OLD_TREE python tests/analysis/older_runs.py RUN > EXPECTED.json

With an older version's tree on the path this writes what that version makes of RUN: a digest of each column
and the numbers of each section of detail.txt. tests/data/runs/README.md says which version made which file.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

HEADING = re.compile(r"^([A-Z][A-Z0-9 ,:()/&-]*[A-Z)]) -{2,}$")
NUMBER = re.compile(r"(?<![\w.])[<>~=+-]*\d[\d,.]*")


def column_digests(file: Path) -> dict[str, Any]:
    """Number of rows, and a digest of the values of each column."""
    table = pq.read_table(file)
    return {
        "rows": table.num_rows,
        "columns": {
            name: hashlib.sha256(json.dumps(table.column(name).to_pylist()).encode()).hexdigest()[:16]
            for name in table.column_names
        },
    }


def section_numbers(report: str) -> dict[str, list[str]]:
    """The numbers of each section of detail.txt by its heading, sorted; "" has those above the first."""
    sections: dict[str, list[str]] = {"": []}
    heading = ""
    for line in report.splitlines():
        if matched := HEADING.match(line):
            heading = matched[1]
        found = sections.setdefault(heading, [])
        found += [number.strip(".,") for number in NUMBER.findall(line)]
    return {heading: sorted(numbers) for heading, numbers in sections.items() if numbers}


def numbers(sections: dict[str, list[str]]) -> Counter[str]:
    """The numbers of all sections."""
    return Counter(number for found in sections.values() for number in found)


def described(run: Path) -> dict[str, Any]:
    """Tables and report numbers of a run that was reported."""
    return {
        "tables": {file.stem: column_digests(file) for file in sorted((run / "tables").glob("*.parquet"))},
        "report": section_numbers((run / "detail.txt").read_text()),
    }


if __name__ == "__main__":
    from analysis.report import make_report

    make_report(Path(sys.argv[1]))
    json.dump(described(Path(sys.argv[1])), sys.stdout, indent=1)
    sys.stdout.write("\n")
