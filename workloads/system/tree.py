# SPDX-License-Identifier: BSD-2-Clause
"""The directory that Seekmeter's programs and data lie in: the source tree, or the directory of a bundle.

A bundle (make bundle) has all Python code in one file, session.pyz. Programs (build/) and data (workloads/,
bpf/scripts) are plain files beside it, at the same places as in the source tree.
"""

import zipfile
from pathlib import Path

_CODE = Path(__file__).resolve().parents[2]  # the source tree, or session.pyz
BUNDLED = not _CODE.is_dir()  # the code is in a bundle, which has no analysis/
TREE = _CODE.parent if BUNDLED else _CODE
# Runs a module with the code that lies here, whatever the directory is: python -P START MODULE ARGUMENT…
START = _CODE if BUNDLED else TREE / "collectors/front/start.py"


def code_files(pattern: str) -> list[Path]:
    """Return the paths of source files that match, relative to the tree, sorted."""
    if not BUNDLED:
        return sorted(path.relative_to(TREE) for path in TREE.glob(pattern))
    with zipfile.ZipFile(_CODE) as session:
        return sorted(path for path in map(Path, session.namelist()) if path.match(pattern))
